"""What converting large vectors holds in memory: the bytes of one vector, once."""

import struct
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pytest
from pyroaring import BitMap

import deletekit as dk
from deletekit.delta.convert_vectors import VectorJob, convert_vectors
from deletekit.delta.deletion_vector import DeletionVectorDescriptor
from deletekit.formats.content_file import DataFile, FileContent
from deletekit.rows.write_context import WriteContext
from tests.delta.handmade import HandMade

ROWS = 1 << 27  # of which every second is deleted: 16 MB of bitmap


def body() -> bytes:
    return struct.pack("<IQI", 1681511377, 1, 0) + BitMap(range(0, ROWS, 2)).serialize()


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_the_bytes_of_a_vector_are_held_once(catalog: dk.Catalog, tmp_path: Path, granularity: str) -> None:
    """Three vectors, one after the other; what CRoaring holds is not counted, but it is given parts of 1 MB."""
    properties = {"write.delete.granularity": granularity, "write.delete.target-file-size-bytes": "1"}
    table = dk.create_table(catalog, "t.x", pa.schema([("id", pa.int64())]), format_version=3, properties=properties)
    delta = HandMade(tmp_path / "delta")
    vectors = [{**raw, "cardinality": ROWS // 2} for raw in delta.vector_file(*[body()] * 3)]
    jobs = [
        VectorJob(
            descriptor=DeletionVectorDescriptor.from_json(raw),
            data_file=DataFile(
                content=FileContent.DATA,
                spec_id=0,
                partition=(),
                file_path=f"x{i}.parquet",
                file_format="PARQUET",
                record_count=ROWS,
                file_size_in_bytes=1,
            ),
            root=str(delta.path),
            version=0,
        )
        for i, raw in enumerate(vectors)
    ]
    size = vectors[0]["sizeInBytes"]
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        found = convert_vectors(WriteContext(table.io, table.metadata), jobs, "copy", str(tmp_path / "out"), "x")
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert 1.0 < peak / size < 1.2
    for file, raw in zip(found, vectors, strict=True):
        data = Path(file.file_path).read_bytes()
        assert data[file.content_offset :][: file.content_size_in_bytes][4:-4] == body()
        assert file.record_count == raw["cardinality"]
