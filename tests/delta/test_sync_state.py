"""The state between syncs: it changes what a sync reads, and nothing else."""

import json
import logging
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import deletekit as dk
from deletekit.delta import sync_state
from deletekit.table.file_io import PyIcebergIO
from tests.delta.handmade import HandMade, Json, body_of, remove, with_vector
from tests.delta.reading import check_synced, raises_kind
from tests.tables import ids

ROWS = 20


class Model:
    """A Delta table, and its live files as a plain dict: the add action and the deleted positions, by name."""

    def __init__(self, delta: HandMade, seed: int) -> None:
        self.delta, self.random = delta, random.Random(seed)
        self.live: dict[str, tuple[Json, frozenset[int]]] = {}
        self.gone: list[Json] = []
        self.made = 0
        self.versions: list[list[int]] = []

    def commit(self) -> None:
        """Commit some changes of some files, each file at most once."""
        actions: list[Json] = [{"commitInfo": {"operation": "TEST"}}]
        names = list(self.live)
        self.random.shuffle(names)
        for _ in range(self.random.choice([0, 1, 1, 2, 5])):
            kind = self.random.choice(["add", "add", "vector", "vector", "clear", "remove", "again", "old"])
            if kind == "add":
                actions.append(self.added())
            elif kind == "old" and self.gone:
                old = self.random.choice(self.gone)
                if old["add"]["path"] not in self.live:
                    actions.append(remove(old))
            elif names:
                actions += self.changed(names.pop(), kind)
        self.delta.commit(*actions)
        self.versions.append(sorted(self.rows()))

    def added(self) -> Json:
        first = self.made * ROWS
        name = f"{self.random.choice(['', 'a b/', 'é/'])}part-{self.made}.parquet"
        add = self.delta.data(range(first, first + ROWS), name)
        if self.random.random() < 0.2:
            add["add"]["path"] = f"file://{self.delta.path}/{add['add']['path']}"
        self.made += 1
        self.live[add["add"]["path"]] = add, frozenset()
        return add

    def changed(self, name: str, kind: str) -> Iterator[Json]:
        add, deleted = self.live.pop(name)
        if kind == "remove":
            self.gone.append(add)
            yield remove(add)
            return
        new = deleted | set(self.random.sample(range(ROWS), 3)) if kind == "vector" else deleted
        new = frozenset() if kind == "clear" else frozenset(new)
        vector = self.delta.vector(sorted(new)) if new else None
        again = add if kind == "again" else with_vector(add, vector)
        self.live[name] = again, new
        if kind != "again":
            yield remove(add)
        yield again

    def rows(self) -> Iterator[int]:
        for add, deleted in self.live.values():
            first = int(Path(add["add"]["path"]).stem.removeprefix("part-")) * ROWS
            yield from (first + i for i in range(ROWS) if i not in deleted)


@pytest.mark.sampled(3, tier=1)
@pytest.mark.parametrize("format_version", [2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_random_histories(
    delta: HandMade, catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch, seed: int, format_version: int
) -> None:
    """By a state, by the whole log, and with maintenance in between, a table has the rows of the model."""
    monkeypatch.setattr(sync_state, "WHOLE_EVERY", 5)
    model = Model(delta, seed)
    done = -1
    for _ in range(12):
        for _ in range(model.random.choice([1, 1, 2, 4])):
            model.commit()
        last = len(model.versions) - 1
        version = model.random.choice([None, None, model.random.randint(max(done, 0), last)])
        options: dict[str, Any] = {"verify": True} if model.random.random() < 0.2 else {}
        commits = model.random.choice(["coalesce", "each"])
        synced = dk.sync_delta(
            delta.path, catalog, "t.d", version=version, commits=commits, format_version=format_version, **options
        )
        done = last if version is None else version
        assert synced.version == done
        assert ids(synced.table) == model.versions[done]
        check_synced(synced.table)
        if format_version == 2 and model.random.random() < 0.3:
            dk.rewrite_position_deletes(synced.table)
    assert ids(dk.sync_delta(delta.path, catalog, "t.whole").table) == model.versions[-1]


def many(delta: HandMade, files: int) -> list[Json]:
    """A table of many small files, and a change of one that tells what was read by the next sync."""
    adds = [delta.data(range(i * 3, i * 3 + 3), f"part-{i}.parquet") for i in range(files)]
    vectors = [{**raw, "cardinality": 1} for raw in delta.vector_file(*[body_of([1])] * (files // 2))]
    delta.commit(*map(with_vector, adds, vectors), *adds[files // 2 :])
    return adds


def change(delta: HandMade, add: Json) -> None:
    delta.commit(remove(add), with_vector(add, delta.vector([0, 2])))


def opened(
    delta: HandMade, catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch, **options: Any
) -> tuple[list[str], dk.Table]:
    """The files that a sync opens."""
    paths: list[str] = []
    open_file = PyIcebergIO.open  # that reading calls too
    monkeypatch.setattr(PyIcebergIO, "open", lambda io, path: paths.append(path) or open_file(io, path))
    table = dk.sync_delta(delta.path, catalog, "t.d", **options).table
    monkeypatch.undo()
    return paths, table


def test_a_sync_opens_what_changed(delta: HandMade, catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    adds = many(delta, 60)
    paths, _ = opened(delta, catalog, monkeypatch, properties={"commit.manifest.target-size-bytes": "1"})
    assert sum(path.endswith(".bin") for path in paths) == 1, "its vectors are read together"
    few = [delta.data(range(1000, 1003), "few.parquet")]
    change(delta, adds[-1])
    delta.commit(*few)
    paths, table = opened(delta, catalog, monkeypatch)
    assert not [p for p in paths if p.endswith(f"{0:020d}.json")], "the log before is not read"
    assert [p for p in paths if p.endswith(".parquet")] == [f"{delta.path}/few.parquet"]
    assert sum(path.endswith(".bin") for path in paths) == 1
    assert len(ids(table)) == 180 - 30 - 2 + 3
    check_synced(table)


def test_a_state_that_is_damaged_or_gone_is_not_used(
    delta: HandMade, catalog: dk.Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    adds = many(delta, 4)
    table = dk.sync_delta(delta.path, catalog, "t.d").table
    for number, damage in enumerate((b"", b"half", b"\xff")):
        state = next(Path(table.properties["deletekit.delta-delete-directory"]).glob("*.state"))
        data = state.read_bytes()
        state.write_bytes({b"": b"", b"half": data[: len(data) // 2], b"\xff": data[:-9] + b"\xff" + data[-8:]}[damage])
        change(delta, adds[number]) if number > 1 else delta.commit(delta.data(range(90 + number, 91 + number)))
        with caplog.at_level(logging.WARNING, "deletekit"):
            table = dk.sync_delta(delta.path, catalog, "t.d").table
        assert "sync-state" in caplog.text
        check_synced(table)
    for state in Path(table.properties["deletekit.delta-delete-directory"]).glob("*.state"):
        state.unlink()
    delta.commit(remove(adds[3]))
    assert len(ids(dk.sync_delta(delta.path, catalog, "t.d").table)) == 12 - 2 + 2 - 2 - 3


def test_a_checksum_is_compared_with_counters_that_are_kept(delta: HandMade, catalog: dk.Catalog) -> None:
    adds = many(delta, 4)
    dk.sync_delta(delta.path, catalog, "t.d")
    change(delta, adds[3])
    crc = delta.log(1).with_suffix(".crc")
    right = {"numFiles": 4, "numDeletedRecordsOpt": 4, "numDeletionVectorsOpt": 3}
    for name, found in right.items():
        crc.write_text(json.dumps({**right, name: 9}))
        with raises_kind("delta-checksum", field=name, found=found):
            dk.sync_delta(delta.path, catalog, "t.d")
    crc.write_text(json.dumps(right))
    assert dk.sync_delta(delta.path, catalog, "t.d").version == 1
