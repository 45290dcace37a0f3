"""Write equality delete files: the keys of one partition, or of the whole table.

Spec: "Equality Delete Files", https://iceberg.apache.org/spec/#equality-delete-files; Java EqualityDeleteWriter.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema

from deletekit.formats.content_file import DeleteFile, FileContent
from deletekit.formats.delete_file import encode_equality_deletes
from deletekit.rows.write_context import WriteContext
from deletekit.table.types import schema_to_json


def write_equality_deletes(
    context: WriteContext,
    keys: pa.Table,
    equality_ids: Sequence[int],
    spec: PartitionSpec,
    partition: tuple[Any, ...],
    key_schema: Schema,
) -> list[DeleteFile]:
    """Write an equality delete file for one partition of `spec`; for no keys, write nothing.

    If `spec` is unpartitioned, the file applies to the whole table. `keys` has the columns of `key_schema`, with field
    ids.
    """
    if not len(keys):
        return []
    encoded = encode_equality_deletes(
        keys,
        equality_ids,
        schema_json=schema_to_json(key_schema),
        mode_of=context.metrics_mode,
        options=context.delete_parquet,
    )
    written = (encoded.file, encoded.metrics, encoded.record_count)
    return [
        DeleteFile(
            content=FileContent.EQUALITY_DELETES,
            equality_ids=tuple(equality_ids),
            sort_order_id=0,
            **context.write_parquet(spec, partition, "-eq-deletes.parquet", *written),
        )
    ]
