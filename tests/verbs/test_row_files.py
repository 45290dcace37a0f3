"""Files of rows: what a folder's name says, and what the file itself says."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from deletekit.table.types import schema_from_arrow
from deletekit.verbs.shared.row_files import open_rows

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "category": ["x", "007"]})


def test_a_folder_names_only_a_column_that_the_file_lacks(tmp_path: Path) -> None:
    schema = schema_from_arrow(ROWS.schema)
    for number, name in enumerate(("category=007", "id=7")):
        whole, part = tmp_path / name / "whole.parquet", tmp_path / name / "part.parquet"
        whole.parent.mkdir()
        pq.write_table(ROWS, whole)
        pq.write_table(ROWS.select([number]), part)
        assert open_rows(str(whole), schema).read_all() == ROWS
        found = open_rows(str(part), schema).read_all().to_pydict()
        assert found == {
            **ROWS.select([number]).to_pydict(),
            **({"category": ["007"] * 2} if not number else {"id": [7] * 2}),
        }
