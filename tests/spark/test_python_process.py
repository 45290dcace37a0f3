"""What Spark's Python processes are spared, what they import, and how they read, without a JVM."""

import subprocess
import sys
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from tests.tables import new_catalog

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'deletekit[spark]'")

NAN = float("nan")


def test_archives_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spare_chores = import_module("deletekit.spark.python_process").spare_chores

    archive = tmp_path / "a.jar"
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("only_in_the_jar.py", "")
    monkeypatch.syspath_prepend(archive)
    with pytest.raises(ImportError):
        import_module("no_such_module")
    assert str(archive) in sys.path_importer_cache
    spare_chores()
    assert str(archive) not in sys.path_importer_cache
    import_module("only_in_the_jar")


def test_what_workers_are_forked_with_starts_no_thread_of_polars() -> None:
    code = "import deletekit.spark.python_daemon, gc, sys; print('polars' in sys.modules, gc.get_freeze_count())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "0"]


@pytest.mark.parametrize("at_once", [1, 3, 7, 1 << 18])
def test_rows_do_not_depend_on_how_many_are_decoded_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(import_module("deletekit.spark.data_source.reader"), "_READ_ROWS", at_once)
    values = [None, NAN, -0.0, 0.0, 1.5] * 4
    with new_catalog(tmp_path) as catalog:
        schema = pa.schema({"id": pa.int32(), "value": pa.float64(), "s": pa.struct({"word": pa.string()})})
        table = dk.create_table(catalog, "db.t", schema, format_version=3)
        made = [
            {"id": i, "value": v, "s": None if i % 3 == 0 else {"word": f"w{i}" if i % 2 else None}}
            for i, v in enumerate(values)
        ]
        dk.append(table, pa.Table.from_pylist(made, schema))
        dk.delete(table, "id in (2, 3, 19)", mode="deletion-vector")
        dk.delete_keys(table.refresh(), pa.table({"id": pa.array([1, 6], pa.int32())}))
        table = dk.load_table(catalog, "db.t")
        for where in (None, "id > 4 and s.word is not null"):
            made_reader = made_of(table, **({} if where is None else {"where": where}))
            batches: list[Any] = [b for part in made_reader.partitions() for b in made_reader.read(part)]
            found = [row for batch in batches for row in batch.to_pylist()]
            left = [r for r in made if r["id"] not in (1, 2, 3, 6, 19)]
            if where is not None:
                left = [r for r in left if r["id"] > 4 and r["s"] is not None and r["s"]["word"] is not None]
            assert repr(found) == repr(left)
            assert max(map(len, batches)) <= at_once


@pytest.mark.parametrize("cores", [1, 2, 3, 64])
def test_files_read_in_parts_by_several_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int) -> None:
    reader = import_module("deletekit.spark.data_source.reader")
    monkeypatch.setattr(reader, "_LEAST_SPLIT", 1)
    monkeypatch.setattr(reader.os, "cpu_count", lambda: cores)
    properties = {"write.parquet.row-group-limit": "100", "read.split.open-file-cost": "1"}
    with new_catalog(tmp_path) as catalog:
        schema = pa.schema({"id": pa.int64(), "value": pa.float64()})
        table = dk.create_table(catalog, "db.t", schema, properties=properties)
        made = [{"id": i, "value": (None, NAN, -0.0, 0.0, 1.5)[i % 5]} for i in range(1050)]
        first_row_ids = {}
        for start, stop in ((0, 550), (550, 1000), (1000, 1050)):
            dk.append(table, pa.Table.from_pylist(made[start:stop], schema))
        dk.delete(table, "id in (0, 99, 100, 549)", mode="position-delete")
        dk.upgrade_format_version(table, 3)
        dk.delete(table, "id >= 600 and id < 800 or id = 350", mode="deletion-vector")
        dk.delete_keys(table, pa.table({"id": [1, 399, 1001]}))
        for task in dk.scan(table).plan():
            first_row_ids[task.data_file.file_path] = task.data_file.first_row_id
        made_reader = made_of(table, columns="id,value,_pos,_row_id,_file")
        parts = made_reader.partitions()
        assert len(parts) == (12 if cores == 64 else cores)  # row groups: 6, 5 and 1
        found = [row for part in parts for batch in made_reader.read(part) for row in batch.to_pylist()]
        gone = {0, 1, 99, 100, 350, 399, 549, 1001, *range(600, 800)}
        left = [
            r for start, stop in ((1000, 1050), (550, 1000), (0, 550)) for r in made[start:stop] if r["id"] not in gone
        ]
        assert repr([{k: r[k] for k in ("id", "value")} for r in found]) == repr(left)  # the newest file first
        for row in found:
            assert row["_pos"] == row["id"] - max(s for s in (0, 550, 1000) if s <= row["id"])
            assert row["_row_id"] == first_row_ids[row["_file"]] + row["_pos"]
        sizes = [sum(1 for _ in part.value) for part in parts]
        assert max(sizes) - min(sizes) <= 1
        assert len(made_of(table, split_size=str(1 << 30)).partitions()) == 1
        dk.set_properties(table, {"read.split.adaptive-size.enabled": "false"})
        assert len(made_of(table).partitions()) == 1


@pytest.mark.parametrize("adapts", ["true", "false"])
def test_files_just_below_the_split_size_have_a_task_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, adapts: str
) -> None:
    monkeypatch.setattr(import_module("deletekit.spark.data_source.reader").os, "cpu_count", lambda: 4)
    with new_catalog(tmp_path) as catalog:
        table = dk.create_table(catalog, "db.t", pa.schema({"id": pa.int64()}))
        for start in range(0, 1000, 100):
            dk.append(table, pa.table({"id": range(start, start + 100)}))
        sizes = [t.data_file.file_size_in_bytes for t in dk.scan(table).plan()]
        properties = {"read.split.target-size": str(max(sizes) + 1), "read.split.open-file-cost": "1"}
        dk.set_properties(table, {**properties, "read.split.adaptive-size.enabled": adapts})
        assert [len(list(part.value)) for part in made_of(table).partitions()] == [1] * 10


def made_of(table: dk.Table, **given: str) -> Any:
    """Return the data source's reader of a table, with some options."""
    options, reader = (import_module(f"deletekit.spark.data_source.{n}") for n in ("options", "reader"))
    named = {"path": "db.t", **{k.replace("_", "-"): v for k, v in given.items()}}
    known = options.SourceOptions(named, options.READ_OPTIONS)
    return reader.TableReader(table.state, known, reader.spark_schema(table.metadata, known))
