"""What a sink refuses by name. Metadata and files of the table are the same before and after each refusal."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deletekit as dk
from tests.storage import stored_at
from tests.stream.replay import PEOPLE, opened, put, random_batches
from tests.tables import make, raises, refused

BATCHES = list(random_batches(0, batches=6, rows=8, keys=9))
Act = Callable[[dk.Table], Any]


def write(table: dk.Table, number: int, **options: Any) -> None:
    with opened(table, **options) as running:
        running.write(BATCHES[number], number)


@pytest.fixture
def table(catalog: dk.Catalog) -> dk.Table:
    """A table with the batches 0 to 2 of one sink, and a branch from before them."""
    made = make(catalog, schema=PEOPLE, format_version=3)
    dk.append(made, [{"id": 100, "name": "other", "score": 0.0}])
    dk.create_branch(made, "aside")
    with opened(made) as running:
        list(running.run(BATCHES[:3]))
    return made


def tagged_by_hand(table: dk.Table) -> None:
    dk.drop_ref(table, "deletekit-sink-people")
    dk.create_branch(table, "deletekit-sink-people")


def nothing(_: dk.Table) -> None:
    """Leave the table as it is."""


SEQUENCES: dict[str, tuple[Act, Act, type[dk.DeletekitError], str]] = {
    "a number for no data": (nothing, lambda t: opened(t).write([], 2), dk.InvalidInputError, "batch-changed"),
    "a number that is too large": (nothing, lambda t: opened(t).write([], 2**63), dk.InvalidInputError, "batch-id"),
    "another branch": (nothing, lambda t: write(t, 3, ref="aside"), dk.InvalidInputError, "branch-rewound"),
    "no branch": (nothing, lambda t: opened(t, ref="gone"), dk.NotFoundError, "ref-not-found"),
    "a tag as a branch": (nothing, lambda t: opened(t, ref="deletekit-sink-people"), dk.InvalidInputError, "ref"),
    "a branch as the sink's tag": (tagged_by_hand, lambda t: write(t, 3), dk.InvalidInputError, "ref"),
    "a table without a catalog": (
        nothing,
        lambda t: opened(dk.from_metadata(t.metadata_location)),
        dk.InvalidInputError,
        "read-only",
    ),
    "a table of ORC": (
        lambda t: dk.set_properties(t, {"write.format.default": "orc"}),
        lambda t: write(t, 3),
        dk.InvalidInputError,
        "file-format",
    ),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences_that_are_refused(table: dk.Table, name: str) -> None:
    prepare, act, error, kind = SEQUENCES[name]
    prepare(table)
    with refused(table, error, kind):
        act(table)


# --- under a live sink ------------------------------------------------------------------------------------------------


def test_a_branch_that_vanishes(table: dk.Table) -> None:
    with dk.stream.sink(table, "staged", on=["id"], ref="aside") as live:
        live.write(BATCHES[0], 0)
        dk.drop_ref(table, "aside")
        for number in (0, 1):
            with refused(table, dk.NotFoundError, "ref-not-found"):
                live.write(BATCHES[number], number)
        dk.create_branch(table, "aside")  # another one of this name, which lacks the batch
        with refused(table, dk.InvalidInputError, "branch-rewound"):
            live.write(BATCHES[1], 1)


def test_a_table_that_becomes_too_new(table: dk.Table) -> None:
    """As another program's writer would leave it: this release neither reads nor writes it."""
    file = stored_at(table.metadata_location)
    old = file.read_bytes()
    with opened(table) as live:
        file.write_bytes(json.dumps({**json.loads(old), "format-version": 4}).encode())
        try:
            with raises(dk.UnsupportedError, "format-version"):
                live.write(BATCHES[3], 3)
        finally:
            file.write_bytes(old)
        assert live.write(BATCHES[3], 3).status == "committed"


def test_a_column_of_the_key_that_is_dropped(table: dk.Table) -> None:
    with dk.stream.sink(table, "named", on=["name"]) as live:
        live.write([put(200, "n")], 0)
        dk.drop_column(table, "name")
        with refused(table, dk.InvalidInputError, "column-not-found"):
            live.write([put(200, "n")], 1)


def test_files_and_numbers_under_one_id(table: dk.Table, tmp_path: Path) -> None:
    rows = pa.Table.from_pylist([put(1)])
    pq.write_table(rows, tmp_path / "0.parquet")
    with refused(table, dk.InvalidInputError, "file-unknown"):
        list(opened(table).run_files([tmp_path / "0.parquet"]))
    with dk.stream.sink(table, "files", on=["id"]) as files:
        list(files.run_files([tmp_path / "0.parquet"]))
        with refused(table, dk.InvalidInputError, "batch-changed"):
            files.write(rows, 0)


# --- records that do not parse ----------------------------------------------------------------------------------------

RECORDS: dict[str, tuple[str, str, type[dk.DeletekitError], str]] = {
    "no JSON": ("0.jsonl", '{"_change_type":"INSERT","id":1}\n{"id":\n', dk.InvalidInputError, "rows"),
    "a word for a number": ("0.csv", "_change_type,id\nINSERT,one\n", dk.InvalidInputError, "rows"),
    "a number for a text": ("0.jsonl", '{"_change_type":"INSERT","id":1,"name":7}\n', dk.InvalidInputError, "rows"),
    "a line that is too long": ("0.csv", "_change_type,id\nINSERT,1,2\n", dk.InvalidInputError, "rows"),
    "no Parquet": ("0.parquet", "PAR1 no", dk.InvalidInputError, "rows"),
    "an unknown change": ("0.csv", "_change_type,id\nMERGE,1\n", dk.InvalidInputError, "change-type"),
    "no change": ("0.csv", "_change_type,id\n,1\n", dk.InvalidInputError, "change-type"),
    "no column of changes": ("0.csv", "id\n1\n", dk.InvalidInputError, "change-type"),
    "no key": ("0.csv", "_change_type,name\nDELETE,a\n", dk.InvalidInputError, "column-not-found"),
    "an unknown column": ("0.csv", "_change_type,id,more\nINSERT,1,2\n", dk.InvalidInputError, "column-not-found"),
}


@pytest.mark.parametrize("name", RECORDS)
def test_records_that_do_not_parse(table: dk.Table, tmp_path: Path, name: str) -> None:
    """After files that do: those stay, and the stream goes on when the file was put right."""
    file, text, error, kind = RECORDS[name]
    (tmp_path / "first.csv").write_text("_change_type,id\nINSERT,1\n", encoding="utf-8")
    (tmp_path / file).write_text(text, encoding="utf-8")
    with dk.stream.sink(table, "files", on=["id"]) as files:
        list(files.run_files([tmp_path / "first.csv"]))
        with refused(table, error, kind):
            list(files.run_files([tmp_path / "first.csv", tmp_path / file]))
        (tmp_path / file).unlink()
        (tmp_path / "0.csv").write_text("_change_type,id\nINSERT,2\n", encoding="utf-8")
        found = [p.status for p in files.run_files([tmp_path / "first.csv", tmp_path / "0.csv"])]
    assert found == ["skipped", "committed"]


def test_a_file_that_changes_while_it_is_read(table: dk.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "0.csv"
    path.write_text("_change_type,id\nINSERT,1\n", encoding="utf-8")
    from deletekit.stream import file_batches  # noqa: PLC0415  # only to be patched

    own = file_batches.read_changes_file

    def slow(*of_file: Any) -> Any:
        rows = own(*of_file)
        path.write_text("_change_type,id\nINSERT,1\nINSERT,2\n", encoding="utf-8")
        return rows

    monkeypatch.setattr(file_batches, "read_changes_file", slow)
    with dk.stream.sink(table, "files", on=["id"]) as files:
        with refused(table, dk.InvalidInputError, "file-changed"):
            list(files.run_files([path]))
        monkeypatch.undo()
        assert [p.rows for p in files.run_files([path])] == [2]
