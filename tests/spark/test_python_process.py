"""What Spark's Python processes are spared, what they import, and how they read, without a JVM."""

from __future__ import annotations

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
    options, reader = (import_module(f"deletekit.spark.data_source.{n}") for n in ("options", "reader"))
    monkeypatch.setattr(reader, "_READ_ROWS", at_once)
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
            given = {"path": "db.t"} | ({} if where is None else {"where": where})
            known = options.SourceOptions(given, options.READ_OPTIONS)
            made_reader = reader.TableReader(table.state, known, reader.spark_schema(table.metadata, known))
            batches: list[Any] = [b for part in made_reader.partitions() for b in made_reader.read(part)]
            found = [row for batch in batches for row in batch.to_pylist()]
            left = [r for r in made if r["id"] not in (1, 2, 3, 6, 19)]
            if where is not None:
                left = [r for r in left if r["id"] > 4 and r["s"] is not None and r["s"]["word"] is not None]
            assert repr(found) == repr(left)
            assert max(map(len, batches)) <= at_once
