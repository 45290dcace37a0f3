"""A position delete file of one data file, written while its positions are still being read.

Law: positions come in ascending pieces, and no more than a row group of them is held. A file that cannot be finished is
removed by whoever discards the context.
Spec: "Position Delete Files", https://iceberg.apache.org/spec/#position-delete-files
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from deletekit.deletes.write_context import WriteContext
from deletekit.formats.content_file import DataFile, DeleteFile, FileContent
from deletekit.formats.delete_file import position_delete_schema
from deletekit.formats.metrics import single_value_bytes
from deletekit.formats.parquet import split_offsets
from deletekit.formats.reserved_fields import FILE_PATH_ID, POS_ID

__all__ = ["write_streamed_position_deletes"]

_ROW_GROUP_ROWS = 1 << 20
Positions = npt.NDArray[np.int64]


def write_streamed_position_deletes(
    context: WriteContext,
    path: str,
    data_file: DataFile,
    pieces: Iterable[Positions],
    footer: Mapping[str, str] | None = None,
) -> DeleteFile:
    """Write the deletes of one data file.

    Parameters
    ----------
    path: where to; remembered by `context` before the first byte.
    pieces: ascending positions, at least one in all. What they raise goes through, and the file stays unfinished.
    footer: further key-values of the Parquet footer.
    """
    schema, schema_json = position_delete_schema()
    options = context.delete_parquet
    context.remember(path)
    count, lowest, highest = 0, -1, -1
    with (
        context.io.create(path) as sink,
        pq.ParquetWriter(
            sink,
            schema,
            version="2.6",
            compression=options.compression,
            compression_level=options.compression_level,
            use_dictionary=["file_path"],
            column_encoding={"pos": "DELTA_BINARY_PACKED"},
            store_schema=False,
        ) as writer,
    ):
        for positions in _row_groups(pieces):
            lowest = int(positions[0]) if lowest < 0 else lowest
            highest, count = int(positions[-1]), count + len(positions)
            names = pa.repeat(pa.scalar(data_file.file_path), len(positions))
            writer.write_table(pa.Table.from_arrays([names, pa.array(positions)], schema=schema))
        metadata = {"delete-type": "position", "iceberg.schema": json.dumps(schema_json, separators=(",", ":"))}
        writer.add_key_value_metadata({**metadata, **(footer or {})})
    bounds = {pos: single_value_bytes(pos, pa.int64()) for pos in (lowest, highest)}
    name = data_file.file_path.encode()
    with context.io.open(path) as source:
        written = pq.read_metadata(source)
    return DeleteFile(
        content=FileContent.POSITION_DELETES,
        spec_id=data_file.spec_id,
        partition=data_file.partition,
        file_path=path,
        file_format="PARQUET",
        record_count=count,
        file_size_in_bytes=context.io.size(path),
        lower_bounds={FILE_PATH_ID: name, POS_ID: bounds[lowest]},
        upper_bounds={FILE_PATH_ID: name, POS_ID: bounds[highest]},
        split_offsets=split_offsets(written),
        referenced_data_file=data_file.file_path,
    )


def _row_groups(pieces: Iterable[Positions]) -> Iterator[Positions]:
    """The same positions in pieces of about a row group; none is empty."""
    held: list[Positions] = []
    rows = 0
    for piece in pieces:
        held.append(piece)
        rows += len(piece)
        if rows >= _ROW_GROUP_ROWS:
            yield np.concatenate(held)
            held, rows = [], 0
    if rows:
        yield np.concatenate(held)
