"""The index's files on the local disk are damaged or gone: it is made again, and the rows are right."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.stream import key_columns
from deletekit.stream.key_columns import PREFIX
from tests.tables import make, unchanged

SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64())])
KEYS = [f"key-{i:03}" for i in range(60)]


def flip(path: Path) -> None:
    """Change the first byte of a key."""
    data = path.read_bytes()
    at = data.index(b"key-007")
    path.write_bytes(data[:at] + b"K" + data[at + 1 :])


def flip_row_ids(path: Path) -> None:
    data = path.read_bytes()
    at = data.index((7).to_bytes(8, "little") + (8).to_bytes(8, "little"))
    path.write_bytes(data[:at] + b"\x63" + data[at + 1 :])


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def remove(path: Path) -> None:
    path.unlink()


def remove_folder(path: Path) -> None:
    if path.parent.exists():
        shutil.rmtree(path.parent)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the folder of temporary files, where every copy is, however small."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(key_columns, "_SMALL_BYTES", 0)
    return folder


@pytest.mark.parametrize("damage", [flip, flip_row_ids, truncate, remove, remove_folder])
@pytest.mark.parametrize("foreign", [False, True], ids=["", "equality deletes of others"])
def test_an_index_that_is_damaged_is_made_again(
    catalog: dk.Catalog, temporary: Path, damage: Callable[[Path], None], *, foreign: bool
) -> None:
    table = make(catalog, schema=SCHEMA, format_version=3)
    dk.append(table, [{"id": key, "n": 0} for key in KEYS])
    dk.update(table, {"n": 1}, where="n = 0", mode="copy-on-write")  # the row ids are stored now
    before = lineage(table)
    with dk.stream.sink(table, "s", equality_fields=["id"], change_type=None) as sink:
        sink.write([{"id": KEYS[0], "n": 2}], 0)
        for path in sorted(temporary.glob(f"{PREFIX}*/*.arrow")):
            if damage not in (flip, flip_row_ids) or path.name.startswith("0"):
                damage(path)
        if foreign:
            dk.delete_keys(table, [{"id": KEYS[3]}])
        progress = sink.write([{"id": key, "n": 3} for key in KEYS[5:9]], 1)
        assert progress.hits == 4
        sink.write([{"id": KEYS[0], "n": 4}], 2)
    expected = dict.fromkeys(KEYS, 1) | dict.fromkeys(KEYS[5:9], 3) | {KEYS[0]: 4}
    if foreign:
        del expected[KEYS[3]]
        del before[KEYS[3]]
    rows = dk.scan(table).to_arrow().to_pylist()
    assert sorted((r["id"], r["n"]) for r in rows) == sorted(expected.items())
    assert lineage(table) == before
    assert list(temporary.iterdir()) == []


def lineage(table: dk.Table) -> dict[Any, int]:
    rows = dk.scan(table, columns=["id", "_row_id"]).to_arrow().to_pylist()
    return {r["id"]: r["_row_id"] for r in rows}


def test_a_disk_that_takes_nothing_is_named_and_nothing_is_written(
    catalog: dk.Catalog, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(catalog, [{"id": key, "n": 0} for key in KEYS], schema=SCHEMA, format_version=3)

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    with dk.stream.sink(table, "s", equality_fields=["id"], change_type=None) as sink:
        monkeypatch.setattr(pa, "OSFile", full)
        with unchanged(table), pytest.raises(dk.FormatError, match="No space left on device") as error:
            sink.write([{"id": KEYS[0], "n": 2}], 0)
        assert error.value.kind == "index-file"
        monkeypatch.undo()
        assert sink.write([{"id": KEYS[0], "n": 2}], 0).hits == 1
    assert len(dk.scan(table).to_arrow()) == len(KEYS)
