"""Streams of files: each once, by its path, whatever is named again, expired, moved or given in another order."""

import os
import random
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deletekit as dk
from deletekit.commit.change import Base
from deletekit.commit.planned_change import PlannedChange
from deletekit.stream.applied_batches import BatchId
from deletekit.stream.change_files import change_files, natural_key
from deletekit.stream.file_batches import logged
from deletekit.table.locations import local_path
from tests.stored import head_json, snapshots_json
from tests.stream.replay import PEOPLE, Row, check, people, put, replay
from tests.tables import make, raises, refused, unchanged

CHANGES = pa.schema([*PEOPLE, pa.field("_change_type", pa.string())])
FAR = 2**62


class Stream:
    """Files of one batch each, which all write the keys 0 and 1: an old one applied late or twice is seen."""

    def __init__(self, table: dk.Table, folder: Path) -> None:
        self.table, self.folder, self.applied = table, folder, []
        self.known: set[str] = set()

    def file(self, name: str) -> Path:
        path = self.folder / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_pylist(self.rows(path.name), CHANGES), path)
        return path

    def rows(self, name: str) -> list[Row]:
        return [put(0, name), put(1, name), put(int(natural_key(name)[0][0][1]) + 100, name)]

    def run(self, *names: str, **options: Any) -> list[str]:
        """Give files to a new sink; the status of each, and the table holds what the applied ones come to."""
        with dk.stream.sink(self.table, "files", on=["id"], **options, maintain=None) as sink:
            done = list(sink.run_files([self.file(n) for n in names]))
        self.applied += [Path(p.file).name for p in done if p.status == "committed"]
        check(self.table, replay([self.rows(name) for name in self.applied]), known=self.known)
        return [p.status for p in done]

    def refuses(self, kind: str, *names: str, error: type[dk.DeletekitError] = dk.InvalidInputError) -> None:
        files = [self.file(n) for n in names]
        with dk.stream.sink(self.table, "files", on=["id"]) as sink, refused(self.table, error, kind):
            list(sink.run_files(files))

    def logs(self) -> list[Path]:
        return sorted(Path(local_path(self.table.location)).glob("metadata/_deletekit/*.log"))

    def expire(self) -> None:
        dk.expire_snapshots(self.table, older_than=FAR, retain_last=1)


@pytest.fixture
def stream(catalog: dk.Catalog, tmp_path: Path) -> Stream:
    return Stream(people(catalog), tmp_path / "changes")


def test_later_files_may_be_given_alone(stream: Stream) -> None:
    assert stream.run("0.parquet", "1.parquet") == ["committed"] * 2
    assert stream.run("2.parquet") == ["committed"]
    assert stream.run("1.parquet", "0.parquet") == ["skipped"] * 2
    assert stream.run("0.parquet", "1.parquet", "2.parquet", "3.parquet") == ["skipped"] * 3 + ["committed"]
    assert stream.run("1.parquet", "4.parquet") == ["skipped", "committed"]


def test_files_after_an_expiry(stream: Stream) -> None:
    """The logs have every file, whatever expires: no order, folder or earlier file is needed."""
    names = [f"{n}.parquet" for n in range(4)]
    stream.run(*names)
    stream.expire()
    with unchanged(stream.table):
        assert stream.run(*names) == ["skipped"] * 4
        assert stream.run("2.parquet") == ["skipped"]
    assert stream.run(*names, "4.parquet") == ["skipped"] * 4 + ["committed"]
    stream.expire()
    assert stream.run("elsewhere/6.parquet") == ["committed"]
    stream.expire()
    stream.refuses("file-order", *names, "3.5.parquet", "4.parquet", "elsewhere/6.parquet", "7.parquet")
    assert stream.run("elsewhere/6.parquet", "5.parquet", "1.5.parquet") == ["skipped", "committed", "committed"]


@pytest.mark.parametrize("lost", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-1])])
def test_a_log_that_is_lost_is_asked_for(stream: Stream, lost: Callable[[Path], Any]) -> None:
    """It is never taken for an empty one. What is then given is applied, and goes on with logs that are whole."""
    stream.run("0.parquet", "1.parquet", "2.parquet")
    stream.expire()  # and with it the logs that were merged
    lost(stream.logs()[0])
    stream.known = {"file-log"}
    for names in (["0.parquet"], ["3.parquet"]):
        stream.refuses("file-log", *names, error=dk.FormatError)
    assert stream.run("1.parquet", "2.parquet", "3.parquet", allow_rewind=True) == ["committed"] * 3
    assert stream.run("1.parquet", "3.parquet", "4.parquet") == ["skipped", "skipped", "committed"]


def test_batches_of_no_file_are_not_those_of_files(stream: Stream) -> None:
    with dk.stream.sink(stream.table, "files", on=["id"]) as sink:
        sink.write(pq.read_table(stream.file("0.parquet")), 0)
    stream.applied.append("0.parquet")
    stream.refuses("file-unknown", "0.parquet", "1.parquet")
    assert stream.run("1.parquet", allow_rewind=True) == ["committed"]
    assert stream.run("1.parquet", "2.parquet") == ["skipped", "committed"]


@pytest.mark.slow
def test_logs_are_few_and_an_entry_is_written_few_times(stream: Stream) -> None:
    """A log takes over the entries of the shorter ones: of n files there are at most log2(n) + 1 logs."""
    written = 0
    for number in range(20):
        stream.run(f"{number}.parquet")
        named = head_json(stream.table)["summary"]["deletekit.batch-files"].split(",")
        counts = [int(name.partition("-")[2].removesuffix(".log")) for name in named]
        assert sum(counts) == number + 1
        assert counts == sorted(counts, reverse=True)
        assert len(counts) == (number + 1).bit_count()
        written += counts[-1]
    assert written <= 20 * 5


def test_a_branch_that_was_rolled_back_is_told_before_a_file_is_skipped(stream: Stream) -> None:
    stream.run("0.parquet", "1.parquet")
    dk.rollback(stream.table, snapshots_json(stream.table)[0]["snapshot-id"])
    stream.applied.pop()
    stream.refuses("branch-rewound", "0.parquet")
    stream.refuses("branch-rewound", "0.parquet", "1.parquet")
    assert stream.run("1.parquet", allow_rewind=True) == ["committed"]
    assert stream.run("0.parquet", "1.parquet") == ["skipped"] * 2


def test_a_lost_race_keeps_the_log_of_its_batch(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that is put on another head keeps its files, and the log is one of them."""
    rebased, counted = PlannedChange.rebased, []

    def counting(change: PlannedChange) -> PlannedChange:
        counted.append(change)
        return rebased(change)

    monkeypatch.setattr(PlannedChange, "rebased", counting)
    race = iter([True])

    def append_meanwhile(base: Base, batch: BatchId, **options: Any) -> Any:
        if next(race, False):
            other = dk.load_table(base.table.require_catalog(), base.table.name)
            dk.append(other, [{"id": 1000, "name": "other", "score": 0.0}])
        return logged(base, batch, **options)

    monkeypatch.setattr("deletekit.stream.batch_run.logged", append_meanwhile)
    with dk.stream.sink(stream.table, "files", on=["id"], mode="eq-only") as sink:
        assert [p.status for p in sink.run_files([stream.file("0.parquet")])] == ["committed"]
    assert counted
    stream.expire()
    [log] = stream.logs()
    assert log.name in head_json(stream.table)["summary"]["deletekit.batch-files"]
    with dk.stream.sink(stream.table, "files", on=["id"]) as sink:
        assert [p.status for p in sink.run_files([stream.file("0.parquet")])] == ["skipped"]


def test_a_file_that_comes_late_is_refused_in_the_middle_and_applied_at_the_end(stream: Stream) -> None:
    stream.run("0.parquet", "2.parquet")
    stream.refuses("file-order", "0.parquet", "1.parquet", "2.parquet")
    assert stream.run("1.parquet") == ["committed"]


def test_a_file_that_was_changed_is_refused(stream: Stream) -> None:
    stream.run("0.parquet", "1.parquet")
    path = stream.file("0.parquet")
    pq.write_table(pa.Table.from_pylist([put(0, "0.parquet"), put(1, "another"), put(100, "0.parquet")], CHANGES), path)
    stream.refuses("file-changed", "0.parquet", "1.parquet", "2.parquet")
    stream.expire()
    stream.refuses("file-changed", "0.parquet")
    stream.refuses("file-changed", "1.parquet", "0.parquet")


def test_a_file_that_was_only_touched_is_the_same(stream: Stream) -> None:
    stream.run("0.parquet")
    os.utime(stream.file("0.parquet"), (0, 0))
    with unchanged(stream.table):
        assert stream.run("0.parquet") == ["skipped"]


def test_a_folder_that_was_moved(stream: Stream, tmp_path: Path) -> None:
    stream.run("0.parquet", "1.parquet")
    stream.folder = stream.folder.rename(tmp_path / "moved")
    stream.refuses("file-moved", "0.parquet", "1.parquet")
    stream.refuses("file-moved", "1.parquet")
    stream.expire()
    stream.refuses("file-moved", "0.parquet", "1.parquet")
    stream.file("1.parquet").rename(stream.folder / "7.parquet")
    stream.refuses("file-moved", "7.parquet")


def test_files_of_one_name_in_several_folders(stream: Stream) -> None:
    for day in range(3):
        path = stream.file(f"day-{day}/part-0.parquet")
        pq.write_table(pa.Table.from_pylist([put(0, f"day {day}")], CHANGES), path)
    with dk.stream.sink(stream.table, "files", on=["id"]) as sink:
        for _ in range(2):
            done = list(sink.run_files([stream.folder]))
    assert [(Path(p.file).parent.name, p.status) for p in done] == [(f"day-{n}", "skipped") for n in range(3)]
    check(stream.table, replay([[put(0, "day 2")]]))


def test_applying_again_is_asked_for(stream: Stream) -> None:
    stream.run("0.parquet", "1.parquet", "2.parquet")
    assert stream.run("0.parquet", "1.parquet", allow_rewind=True) == ["committed"] * 2
    assert stream.run("0.parquet", "1.parquet", "2.parquet") == ["skipped"] * 3
    assert stream.run("3.parquet") == ["committed"]


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_given_no_file_is_applied_twice_and_none_is_lost(
    catalog: dk.Catalog, tmp_path: Path, seed: int
) -> None:
    """Runs and expiries at random: a new file is applied or refused by name, and an old one never applied again.

    In half of them files are given in one order and from where the stream is, so that none may be skipped but old ones.
    """
    chance = random.Random(seed)
    stream = Stream(people(catalog), tmp_path / "changes")
    names = [f"{chance.choice(['a', 'b'])}/{n}.parquet" for n in range(12)]
    kinds: set[str] = set()
    for _ in range(14):
        start = chance.randrange(len(stream.applied) + 1 if seed % 2 else len(names))
        given = names[start : start + chance.randrange(1, 5)]
        if seed % 2 == 0:
            chance.shuffle(given)
        before = list(stream.applied)
        try:
            done = stream.run(*given)
        except dk.InvalidInputError as error:
            kinds.add(error.kind)
        else:
            for name, status in zip(given, done, strict=True):
                assert status != "committed" or Path(name).name not in before
                assert status == "committed" or Path(name).name in before or seed % 2 == 0
        if chance.random() < 0.3 and stream.table.current_snapshot:
            stream.expire()
    assert kinds <= {"file-order"}
    assert len(stream.applied) >= 4


# --- which files ------------------------------------------------------------------------------------------------------


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def chosen(folder: Path, *paths: str, **options: bool) -> list[str]:
    found = change_files([str(folder / p) for p in paths], **options)
    return [str(Path(p).relative_to(folder)) for p in found]


def test_files_are_taken_as_given_and_folders_in_natural_order(tmp_path: Path) -> None:
    touch(tmp_path, *(f"{n}.parquet" for n in (1, 2, 10)), "_SUCCESS", ".1.parquet.crc", "_temporary/3.parquet")
    touch(tmp_path, "sub/b2.csv", "sub/b10.csv", "sub/a.jsonl")
    natural = ["1.parquet", "2.parquet", "10.parquet", "sub/a.jsonl", "sub/b2.csv", "sub/b10.csv"]
    assert chosen(tmp_path, "2.parquet", "10.parquet") == ["2.parquet", "10.parquet"]
    assert chosen(tmp_path, "2.parquet", "1.parquet", "10.parquet") == ["2.parquet", "1.parquet", "10.parquet"]
    assert chosen(tmp_path, ".") == natural
    assert chosen(tmp_path, "sub", "*.parquet") == [*natural[3:], *natural[:3]]
    assert chosen(tmp_path, "**/*.csv") == natural[4:]
    for shell in (["1.parquet", "10.parquet", "2.parquet"], ["10.parquet", "2.parquet"]):
        with pytest.raises(dk.InvalidInputError, match=r"10.parquet before 2.parquet; .*--as-given") as error:
            chosen(tmp_path, *shell)
        assert error.value.kind == "file-order"
        assert chosen(tmp_path, *shell, as_given=True) == shell
    for paths, kind in ((("1.parquet", "*.parquet"), "file-twice"), ((".", "notes.txt"), "file-format")):
        touch(tmp_path, "notes.txt")
        with raises(dk.InvalidInputError, kind):
            chosen(tmp_path, *paths)
    for nothing in ("no.parquet", "no*.parquet", "_temporary"):
        (tmp_path / "_temporary" / "3.parquet").unlink(missing_ok=True)
        with pytest.raises(dk.NotFoundError):
            chosen(tmp_path, nothing)


def test_natural_order() -> None:
    names = ["a", "a/1", "a/2/x", "a/10", "a/10.csv", "a/x01y1", "a/x1y2", "a/x1y10", "a/x2", "b"]
    for _ in range(20):
        assert sorted(random.sample(names, len(names)), key=natural_key) == names


# --- what is in them --------------------------------------------------------------------------------------------------

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TYPES: dict[str, tuple[pa.DataType, Any]] = {
    "id": (pa.string(), "007"),
    "text": (pa.string(), "2026-01-02"),
    "n": (pa.int64(), 1),
    "cost": (pa.decimal128(20, 2), Decimal("1234567890.25")),
    "real": (pa.float64(), 1.0),
    "flag": (pa.bool_(), True),
    "at": (pa.timestamp("us", "UTC"), AT),
}
FILES = {
    "csv": f"_change_type,{','.join(TYPES)}\nINSERT,007,2026-01-02,1,1234567890.25,1,true,{AT.isoformat()}\n"
    'INSERT,7,"",,,,,\n',
    "jsonl": '{"_change_type": "INSERT", "id": "007", "text": "2026-01-02", "n": 1, "cost": "1234567890.25", "real": 1,'
    f' "flag": true, "at": "{AT.isoformat()}"}}\n{{"_change_type": "INSERT", "id": "7", "text": ""}}\n',
}


@pytest.mark.parametrize("suffix", FILES)
def test_values_have_the_types_of_the_table(catalog: dk.Catalog, tmp_path: Path, suffix: str) -> None:
    """Whatever they look like. In CSV nothing between commas is null, and two quotes are the empty text."""
    table = make(catalog, schema=pa.schema([(name, kind) for name, (kind, _) in TYPES.items()]), format_version=3)
    path = tmp_path / f"0.{suffix}"
    path.write_text(FILES[suffix], encoding="utf-8")
    with dk.stream.sink(table, "s", on=["id"]) as sink:
        assert [p.status for p in sink.run_files([path])] == ["committed"]
    first = {name: value for name, (_, value) in TYPES.items()}
    found = sorted(dk.scan(table).to_arrow().to_pylist(), key=lambda r: r["id"])
    assert found == [first, {**dict.fromkeys(TYPES), "id": "7", "text": ""}]
    path.write_text(FILES[suffix].replace("1234567890.25", "much"), encoding="utf-8")
    other = dk.stream.sink(table, "other", on=["id"])
    with other, refused(table, dk.InvalidInputError, "rows"):
        list(other.run_files([path]))
