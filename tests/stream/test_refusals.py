"""What a sink refuses by name. Metadata and files of the table are the same before and after each refusal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deletekit as dk
from tests.stream.replay import PEOPLE, Row, check, random_batches, replay
from tests.tables import make, refused, snapshots_json, stored_at

BATCHES = list(random_batches(0, batches=6, rows=8, keys=9))
Act = Callable[[dk.Table], Any]


def put(number: int, name: str = "x") -> Row:
    return {"_change_type": "INSERT", "id": number, "name": name, "score": 0.0}


def sink(table: dk.Table, **options: Any) -> dk.stream.Sink:
    return dk.stream.sink(table, "people", **{"equality_fields": ["id"], **options})


def write(table: dk.Table, number: int, batch: int | None = None, query_id: str = "", **options: Any) -> None:
    with sink(table, **options) as opened:
        opened.write(BATCHES[number if batch is None else batch], number, query_id=query_id)


@pytest.fixture
def table(catalog: dk.Catalog) -> dk.Table:
    """A table with the batches 0 to 2 of one sink, and a branch from before them."""
    made = make(catalog, schema=PEOPLE, format_version=3)
    dk.append(made, [{"id": 100, "name": "other", "score": 0.0}])
    dk.create_branch(made, "aside")
    with sink(made) as opened:
        list(opened.run(BATCHES[:3]))
    return made


def rolled_back(table: dk.Table) -> None:
    dk.rollback(table, snapshots_json(table)[-2]["snapshot-id"])


def with_skipped_batch(table: dk.Table) -> None:
    write(table, 4, allow_gaps=True)


def tagged_by_hand(table: dk.Table) -> None:
    dk.drop_ref(table, "deletekit-sink-people")
    dk.create_branch(table, "deletekit-sink-people")


def nothing(_: dk.Table) -> None:
    """Leave the table as it is."""


SEQUENCES: dict[str, tuple[Act, Act, type[dk.DeletekitError], str]] = {
    "a number for other data": (nothing, lambda t: write(t, 1, 5), dk.InvalidInputError, "batch-changed"),
    "the newest number for other data": (nothing, lambda t: write(t, 2, 5), dk.InvalidInputError, "batch-changed"),
    "a number for no data": (nothing, lambda t: sink(t).write([], 2), dk.InvalidInputError, "batch-changed"),
    "a gap": (nothing, lambda t: write(t, 4), dk.InvalidInputError, "batch-gap"),
    "a batch that was skipped": (
        with_skipped_batch,
        lambda t: write(t, 3, allow_gaps=True),
        dk.InvalidInputError,
        "batch-rewound",
    ),
    "a negative number": (nothing, lambda t: sink(t).write(BATCHES[3], -1), dk.InvalidInputError, "batch-id"),
    "a number that is too large": (nothing, lambda t: sink(t).write([], 2**63), dk.InvalidInputError, "batch-id"),
    "another query": (nothing, lambda t: write(t, 0, query_id="q"), dk.InvalidInputError, "query-changed"),
    "a branch that was rolled back": (rolled_back, lambda t: write(t, 2), dk.InvalidInputError, "branch-rewound"),
    "another key": (nothing, lambda t: sink(t, equality_fields=["name"]), dk.InvalidInputError, "key-changed"),
    "more key columns": (
        nothing,
        lambda t: sink(t, equality_fields=["id", "name"], allow_rewind=True),
        dk.InvalidInputError,
        "key-changed",
    ),
    "another branch": (nothing, lambda t: write(t, 3, ref="aside"), dk.InvalidInputError, "branch-rewound"),
    "no branch": (nothing, lambda t: sink(t, ref="gone"), dk.NotFoundError, "ref-not-found"),
    "a tag as a branch": (nothing, lambda t: sink(t, ref="deletekit-sink-people"), dk.InvalidInputError, "ref"),
    "a branch as the sink's tag": (tagged_by_hand, lambda t: write(t, 3), dk.InvalidInputError, "ref"),
    "a bad id": (
        nothing,
        lambda t: dk.stream.sink(t, "a/b", equality_fields=["id"]),
        dk.InvalidInputError,
        "sink-id",
    ),
    "a table without a catalog": (
        nothing,
        lambda t: sink(dk.from_metadata(t.metadata_location)),
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


def test_a_table_of_format_version_1(catalog: dk.Catalog) -> None:
    old = make(catalog, schema=PEOPLE, format_version=1)
    with refused(old, dk.InvalidInputError, "delete-kind"):
        sink(old)


# --- under a live sink ------------------------------------------------------------------------------------------------


def test_a_table_that_is_dropped_and_made_again(catalog: dk.Catalog, table: dk.Table) -> None:
    with sink(table) as live:
        live.write(BATCHES[3], 3)
        catalog.pyiceberg.drop_table(table.identifier)
        again = dk.create_table(catalog, table.name, PEOPLE, format_version=3)
        for number in (0, 3, 4):
            with refused(again, dk.NotFoundError, "table-not-found"):
                live.write(BATCHES[number], number)
        with refused(again, dk.NotFoundError, "sink-not-found"):
            dk.stream.reset_sink(again, "people", batch_id=3)


def test_a_branch_that_vanishes(table: dk.Table) -> None:
    with dk.stream.sink(table, "staged", equality_fields=["id"], ref="aside") as live:
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
    with sink(table) as live:
        file.write_bytes(json.dumps({**json.loads(old), "format-version": 4}).encode())
        try:
            with pytest.raises(dk.UnsupportedError) as caught:
                live.write(BATCHES[3], 3)
            assert caught.value.kind == "format-version"
        finally:
            file.write_bytes(old)
        assert live.write(BATCHES[3], 3).status == "committed"


def test_a_column_of_the_key_that_is_dropped(table: dk.Table) -> None:
    with dk.stream.sink(table, "named", equality_fields=["name"]) as live:
        live.write([put(200, "n")], 0)
        dk.drop_column(table, "name")
        with refused(table, dk.InvalidInputError, "column-not-found"):
            live.write([put(200, "n")], 1)


# --- two sinks that disagree ------------------------------------------------------------------------------------------


def test_two_processes_with_the_same_id_and_other_orders(table: dk.Table) -> None:
    """The first one to write a number decides. The other is refused, and the table holds what the first one wrote."""
    with sink(table) as one, sink(table) as two:
        assert one.write(BATCHES[3], 3).status == "committed"
        with refused(table, dk.InvalidInputError, "batch-changed"):
            two.write(BATCHES[4], 3)
        assert two.write(BATCHES[4], 4).status == "committed"
        with refused(table, dk.InvalidInputError, "batch-changed"):
            one.write(BATCHES[5], 4)
        with refused(table, dk.InvalidInputError, "query-changed"):
            one.write(BATCHES[5], 5, query_id="another")
    check(table, {**replay(BATCHES[:5]), (100,): {"id": 100, "name": "other", "score": 0.0}})


def test_two_processes_of_which_one_makes_an_order_of_its_own(table: dk.Table) -> None:
    """What `order` makes of the rows of a key is a part of the batch."""
    rows = [{**put(7, "late"), "at": 2}, {**put(7, "early"), "at": 1}]
    with sink(table, order="at") as sorting, sink(table) as trusting:
        sorting.write(rows, 3)
        with refused(table, dk.InvalidInputError, "batch-changed"):
            trusting.write([{k: v for k, v in row.items() if k != "at"} for row in rows], 3)


def test_files_and_numbers_under_one_id(table: dk.Table, tmp_path: Path) -> None:
    rows = pa.Table.from_pylist([put(1)])
    pq.write_table(rows, tmp_path / "0.parquet")
    with refused(table, dk.InvalidInputError, "file-unknown"):
        list(sink(table).run_files([tmp_path / "0.parquet"]))
    with dk.stream.sink(table, "files", equality_fields=["id"]) as files:
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
    with dk.stream.sink(table, "files", equality_fields=["id"]) as files:
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
    with dk.stream.sink(table, "files", equality_fields=["id"]) as files:
        with refused(table, dk.InvalidInputError, "file-changed"):
            list(files.run_files([path]))
        monkeypatch.undo()
        assert [p.rows for p in files.run_files([path])] == [2]


def test_logs_of_another_sink_tell_nothing(table: dk.Table, tmp_path: Path) -> None:
    """A log that lies where the sink's own was, with a checksum that is right."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.csv").write_text(f"_change_type,id\nINSERT,{ord(name)}\n", encoding="utf-8")
        with dk.stream.sink(table, name, equality_fields=["id"]) as files:
            list(files.run_files([tmp_path / name]))
    summaries = [s["summary"] for s in snapshots_json(table)]
    logs = {s["deletekit.sink-id"]: s["deletekit.batch-files"] for s in summaries if "deletekit.batch-files" in s}
    folder = stored_at(table.location + "/metadata/_deletekit")
    (folder / logs["a"]).write_bytes((folder / logs["b"]).read_bytes())
    dk.append(table, [{"id": 101, "name": "other", "score": 0.0}])
    dk.expire_snapshots(table, older_than=2**62, retain_last=1)
    with dk.stream.sink(table, "a", equality_fields=["id"]) as files:
        assert [p.status for p in files.run_files([tmp_path / "a"])] == ["skipped"], "its tag still names it"
        with refused(table, dk.InvalidInputError, "file-moved"):
            (tmp_path / "c").mkdir()
            (tmp_path / "c" / "0.csv").write_bytes((tmp_path / "a" / "0.csv").read_bytes())
            list(files.run_files([tmp_path / "c"]))
