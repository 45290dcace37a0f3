"""The verbs that test_crash_injection breaks, and the process that dies of them: `python -m tests.commit.crashing`.

It reads lines of JSON, `[folder, verb, number of the call, when]`, and for each forks a child that runs the verb and
ends at that call; then it prints the child's exit code. Forking wants a process in which nothing has run yet, so this
one only imports.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import deletekit as dk
from tests.commit.faults import Faults, faulty
from tests.commit.forks import serve
from tests.commit.racing import QUICK, Interfering
from tests.tables import ITEMS, items, new_catalog

NAME = "test.t"
LATER = 2**62
"""A time in the future, in milliseconds: everything is older."""
PROPERTIES = {**QUICK, "commit.status-check.min-wait-ms": "1", "commit.status-check.num-retries": "1"}
SOURCE = items((1, "m", 0.1), (8, "m", 0.2))


@dataclass(frozen=True)
class Case:
    """A verb on the table of `make_table`.

    Attributes
    ----------
    same: the table is the same to whoever looks, before and after.
    goes_on: it commits first and cleans up then: an error may come when the commit has landed, and leave files.
    several: it commits several times; of what lies between, only the rows are to be as before or as after.
    race: what lands, without a fault, just before the verb's first attempt.
    prepare: what is done to the table beforehand.
    """

    verb: Callable[[dk.Table], Any]
    version: int = 3
    same: bool = False
    goes_on: bool = False
    several: bool = False
    race: Callable[[dk.Table], Any] | None = None
    prepare: Callable[[dk.Table], Any] = lambda _: None  # a field's default


def head(table: dk.Table, ref: str) -> int:
    return int(table.metadata.refs[ref]["snapshot-id"])


def delete(mode: str, version: int = 3) -> Case:
    return Case(lambda t: dk.delete(t, "id in (1, 4)", mode=mode), version)


def update(mode: str, version: int = 3) -> Case:
    return Case(lambda t: dk.update(t, {"value": 0.5}, where="id = 1", mode=mode), version)


def merge(mode: str, version: int = 3) -> Case:
    return Case(lambda t: dk.merge(t, SOURCE, on=["id"], mode=mode), version)


def upsert(mode: str, version: int = 3) -> Case:
    return Case(lambda t: dk.upsert(t, SOURCE, on=["id"], mode=mode), version)


CHANGES = [
    {"id": 1, "category": "s", "value": 0.5, "_change_type": "UPDATE_AFTER"},
    {"id": 8, "category": "s", "value": 0.6, "_change_type": "INSERT"},
    {"id": 4, "category": None, "value": None, "_change_type": "DELETE"},
]


def write_batch(table: dk.Table, mode: str, ref: str = "main") -> None:
    with dk.stream.sink(table, "sink", on=["id"], mode=mode, ref=ref) as sink:
        sink.write(CHANGES, 0)


def write_file(table: dk.Table) -> None:
    """Apply the same changes from a file, which is logged in a file of the table."""
    with dk.stream.sink(table, "sink", on=["id"], mode="eq-only") as sink:
        list(sink.run_files([Path(__file__).with_name("changes.jsonl")]))


def convert_batch(table: dk.Table) -> None:
    with dk.stream.sink(table, "sink", on=["id"]) as sink:
        dk.stream.convert(sink)


def merge_manifests(table: dk.Table) -> None:
    dk.set_properties(table, {"commit.manifest.min-count-to-merge": "2"})


APPEND = Case(lambda t: dk.append(t, items((9, "n", 9.0))))
CASES = {
    "append": APPEND,
    "append, manifests merged": replace(APPEND, prepare=merge_manifests),
    "append, a stream": Case(
        lambda t: dk.append(t, iter(items((9, "n", 9.0), (10, "n", 9.0), (11, "o", 9.0)))),
        prepare=lambda t: dk.set_properties(t, {"write.target-file-size-bytes": "1"}),  # a file for each row
    ),
    "append, branch": Case(lambda t: dk.append(t, items((9, "n", 9.0)), ref="aside")),
    "delete, copy-on-write": delete("copy-on-write"),
    "delete, position-delete": delete("position-delete", 2),
    "delete, deletion-vector": delete("deletion-vector"),
    "delete, equality-delete": delete("equality-delete"),
    "delete, whole file": Case(lambda t: dk.delete(t, "id >= 4", mode="deletion-vector")),
    "delete_keys": Case(lambda t: dk.delete_keys(t, [{"id": 1}])),
    "update, copy-on-write": update("copy-on-write"),
    "update, position-delete": update("position-delete", 2),
    "update, deletion-vector": update("deletion-vector"),
    "update, equality-delete": update("equality-delete"),
    "merge, copy-on-write": merge("copy-on-write"),
    "merge, position-delete": merge("position-delete", 2),
    "merge, deletion-vector": merge("deletion-vector"),
    "merge, equality-delete": merge("equality-delete"),
    "merge, clauses": Case(
        lambda t: dk.merge(
            t,
            SOURCE,
            on="id",
            when_matched=dk.Clause("update", {"value": dk.expr("target.value + source.value")}),
            when_not_matched_by_source=[dk.Clause("delete", where="id = 2")],
            mode="deletion-vector",
        )
    ),
    "overwrite": Case(lambda t: dk.overwrite(t, items((1, "o", 0.5), (2, "o", 0.5)), "id < 4", mode="copy-on-write")),
    "overwrite, race lost": Case(
        lambda t: dk.overwrite(t, items((1, "o", 0.5)), "id = 1", mode="deletion-vector"),
        race=lambda t: dk.append(t, items((1, "race", 0.0))),
    ),
    "upsert, copy-on-write": upsert("copy-on-write"),
    "upsert, deletion-vector": upsert("deletion-vector"),
    "upsert, equality-delete": upsert("equality-delete"),
    "append, race lost": replace(APPEND, race=lambda t: dk.append(t, items((10, "o", 0.0)))),
    "delete, vectors united": replace(
        delete("deletion-vector"), race=lambda t: dk.delete(t, "id = 2", mode="deletion-vector")
    ),
    "update, planned anew": replace(
        update("deletion-vector"), race=lambda t: dk.delete(t, "id = 2", mode="deletion-vector")
    ),
    "expire_snapshots": Case(lambda t: dk.expire_snapshots(t, older_than=LATER, retain_last=1), goes_on=True),
    "remove_orphan_files": Case(lambda t: dk.remove_orphan_files(t, older_than=LATER, force=True), same=True),
    "compact": Case(lambda t: dk.compact(t, rewrite_all=True)),
    "compact, planned anew": Case(
        lambda t: dk.compact(t, rewrite_all=True), race=lambda t: dk.delete(t, "id = 2", mode="deletion-vector")
    ),
    "compact, carried on": Case(
        lambda t: dk.compact(t, rewrite_all=True), race=lambda t: dk.append(t, items((10, "o", 0.0)))
    ),
    "compact, in parts": Case(
        lambda t: dk.compact(t, rewrite_all=True, partial_progress=True, max_file_group_size_bytes=1), several=True
    ),
    "rewrite_position_deletes": Case(lambda t: dk.rewrite_position_deletes(t, rewrite_all=True), 2),
    "convert_equality_deletes": Case(dk.convert_equality_deletes, prepare=lambda t: dk.delete_keys(t, [{"id": 2}])),
    "remove_dangling_deletes": Case(dk.remove_dangling_deletes),
    "erase": Case(
        lambda t: dk.erase(t, "id = 4"), goes_on=True, several=True, prepare=lambda t: dk.delete_keys(t, [{"id": 2}])
    ),
    "rewrite_manifests": Case(dk.rewrite_manifests),
    "stream.sink, auto": Case(partial(write_batch, mode="auto")),
    "stream.sink, auto, race lost": Case(
        partial(write_batch, mode="auto"), race=lambda t: dk.append(t, items((10, "o", 0.0)))
    ),
    "stream.sink, a file": Case(write_file),
    "stream.sink, a file, race lost": Case(write_file, race=lambda t: dk.append(t, items((10, "o", 0.0)))),
    "stream.reset_sink": Case(
        lambda t: dk.stream.reset_sink(t, "sink", batch_id=7), prepare=partial(write_batch, mode="eq-only")
    ),
    "stream.sink, eq-only": Case(partial(write_batch, mode="eq-only"), 2),
    "stream.promote": Case(
        lambda t: dk.stream.promote(t, "aside", on=["id"]),
        prepare=partial(write_batch, mode="eq-only", ref="aside"),
    ),
    "stream.promote, copy-on-write, reset": Case(
        lambda t: dk.stream.promote(t, "aside", on=["id"], mode="copy-on-write", reset=True),
        prepare=partial(write_batch, mode="auto", ref="aside"),
    ),
    "stream.convert": Case(convert_batch, prepare=partial(write_batch, mode="eq-only")),
    "rollback": Case(lambda t: dk.rollback(t, t.metadata.snapshots[head(t, "main")].parent_snapshot_id)),
    "set_current_snapshot": Case(lambda t: dk.set_current_snapshot(t, head(t, "aside"))),
    "cherry_pick": Case(lambda t: dk.cherry_pick(t, head(t, "aside"))),
    "cherry_pick, fast forward": Case(lambda t: dk.cherry_pick(t, head(t, "ahead"))),
    "revert": Case(lambda t: dk.revert(t, head(t, "main"))),
    "revert, planned anew": Case(
        lambda t: dk.revert(t, head(t, "main")), race=lambda t: dk.append(t, items((10, "o", 0.0)))
    ),
    "fast_forward": Case(lambda t: dk.fast_forward(t, "main", "ahead")),
    "repair": Case(dk.repair),
    "add_column": Case(lambda t: dk.add_column(t, "extra", "int")),
    "upgrade_format_version": Case(lambda t: dk.upgrade_format_version(t, 3), 2),
}
"""Every verb that writes: a new one is one more line."""


def make_table(catalog: dk.Catalog, case: Case) -> dk.Table:
    """Make a table on which every verb has something to do.

    It has a delete that applies to nothing, a vector to replace, and two branches: one that main may be moved forward
    to, and one whose snapshot would have to be done again.
    """
    table = dk.create_table(catalog, NAME, ITEMS, format_version=case.version, properties=PROPERTIES)
    dk.delete_keys(table, [{"id": 77}])
    dk.append(table, items((1, "a", 1.0), (2, "a", 2.0), (3, "b", 3.0)))
    dk.append(table, items((4, "b", 4.0), (5, "b", 5.0)))
    dk.create_branch(table, "aside")
    dk.append(table, items((6, "c", 6.0)), ref="aside")
    dk.delete(table, "id = 3", mode="merge-on-read")
    dk.create_branch(table, "ahead")
    dk.append(table, items((7, "c", 7.0)), ref="ahead")
    case.prepare(table)
    if case.same:
        Path(table.location, "data", "orphan-1.parquet").write_bytes(b"nobody's")
        Path(table.location, "data", "orphan-2.parquet").write_bytes(b"nobody's")
    return table


def run(folder: Path, case: Case, faults: Faults) -> None:
    with new_catalog(folder) as catalog, dk.engine.local(1), faulty(faults, catalog):
        store = Interfering(catalog)

        def race(verb: Callable[[dk.Table], Any]) -> None:
            with faults.paused():
                verb(dk.load_table(catalog, NAME))

        if case.race is not None:
            store.others.append(partial(race, case.race))
        case.verb(dk.load_table(store, NAME))


def live(folder: str, name: str, at: int, when: str) -> None:
    run(Path(folder), CASES[name], Faults(at, when, kill=True))


if __name__ == "__main__":
    serve(live, ["polars"])
