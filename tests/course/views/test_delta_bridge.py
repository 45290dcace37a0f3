"""DeltaBridge on logs that no public writer writes, on damage, and beside tables that `sync_delta` made."""

import copy
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.course.recordings.temporary_table import synced_table
from deletekit.course.views.delta_bridge import delta_bridge
from deletekit.course.views.delta_view import DeltaView
from deletekit.course.views.page import Facts, Page
from deletekit.course.views.page_text import page_text
from tests.course.views.test_views import grid
from tests.delta.handmade import HandMade, body_of, frame, inline, native_body, remove, with_vector
from tests.delta.reading import live_delete_entries
from tests.delta.test_sync import DAMAGE, write_checkpoint
from tests.tables import files_of


@pytest.fixture
def delta(tmp_path: Path) -> HandMade:
    return HandMade(tmp_path / "delta")


def bridge(path: Any, table: Any = None, **state: Any) -> Page:
    return delta_bridge(DeltaView(path, table, synced_table), **state)


def parts(page: Page) -> list[tuple[str, ...]]:
    """The lines of the bytes, numbers as Python has them."""
    return [tuple(cell.replace(",", "") for cell in line.cells) for line in grid(page, "bytes").lines]


def test_actions_entries_and_bytes(delta: HandMade) -> None:
    one, two = delta.data(range(8)), delta.data(range(8, 16))
    delta.commit(one, two)
    vector = delta.vector([1, 3])
    delta.commit(remove(one), with_vector(one, vector))
    page = bridge(delta.path)
    assert [(line.cells[0], line.cells[1], *line.cells[3:], line.mark) for line in grid(page, "actions").lines] == [
        ("0", "protocol", "-", "-", "-", ""),
        ("0", "metaData", "-", "-", "-", ""),
        ("0", "add", "-", "-", "8", ""),
        ("0", "add", "-", "-", "8", "live"),
        ("1", "remove", "-", "-", "-", "removed"),
        ("1", "add", "V1", "2", "8", "live"),
    ]
    assert {line.cells for line in grid(page, "entries").lines} == {
        ("D1", "0 DATA", "-", "8", "1"),
        ("V1", "1 POSITION_DELETES", "D1", "2", "-"),
        ("D2", "0 DATA", "-", "8", "1"),
    }
    facts = page.block("vector")
    assert isinstance(facts, Facts)
    assert ("Delta: storageType", "u") in facts.items
    assert ("Delta: sizeInBytes", str(vector["sizeInBytes"])) in facts.items
    assert {line.cells[3] for line in grid(page, "counters").lines} == {"same"}
    stored = frame(body_of([1, 3]))
    assert sum(int(c[3]) for c in parts(page)) == len(stored)
    assert {c[-1] for c in parts(page)} == {"same"}
    assert parts(page)[0][1] == "1"  # behind the version byte
    assert parts(page)[0][2] == "4"  # behind Puffin's magic
    earlier = bridge(delta.path, version=0)
    assert "bytes" not in {b.name for b in earlier.blocks}
    assert [line.mark for line in grid(earlier, "actions").lines] == ["", "", "live", "live"]


@pytest.mark.parametrize("place", ["inline", "file"])
@pytest.mark.parametrize("order", ["", "<", ">"])
def test_every_kind_of_vector(delta: HandMade, place: str, order: str) -> None:
    positions = [*range(100, 4000, 3), 70_000, 70_001]
    body = native_body(positions, order) if order else body_of(positions)
    if place == "inline":
        vector = inline(body, len(positions))
    else:
        vector = {**delta.vector_file(body)[0], "cardinality": len(positions)}
    delta.commit(with_vector(delta.data(range(80_000)), vector))
    page = bridge(delta.path)
    assert not page.error
    facts = page.block("vector")
    assert isinstance(facts, Facts)
    (_, delta_count), (_, iceberg_count), *_, (_, verdict) = facts.items
    assert (delta_count, iceberg_count, verdict) == (f"{len(positions):,}", f"{len(positions):,}", "same")
    by_field = [(c[0], c[-1]) for c in parts(page)]
    in_delta = [c[3].removeprefix("Delta: ").split(" ")[0] for c in parts(page) if c[1] != "-"]
    assert sum(map(int, in_delta)) == len(frame(body))
    assert ("array container", "same") in by_field
    if order:
        assert {"length of the bitmap", "key: upper 32 bits"} <= {field for field, _ in by_field}
        assert dict(by_field)["magic number"] == "different"
    else:
        assert {verdict for _, verdict in by_field} == {"same"}


def checkpointed(delta: HandMade, parts_: int) -> None:
    adds = [delta.data(range(i * 10, i * 10 + 10)) for i in range(3)]
    delta.commit(adds[0])
    delta.commit(adds[1])
    vector = delta.vector([0])
    delta.commit(adds[2], remove(adds[0]), with_vector(adds[0], vector))
    state = [delta.protocol(), delta.metadata(), adds[1], adds[2], with_vector(adds[0], vector)]
    state = copy.deepcopy(state)
    write_checkpoint(delta, 2, *([state] if parts_ == 1 else [state[:3], state[3:]]))
    delta.commit(remove(adds[1]))


@pytest.mark.parametrize("count", [1, 2])
def test_a_log_that_begins_with_a_checkpoint(delta: HandMade, count: int) -> None:
    checkpointed(delta, count)
    for version in (0, 1, 2):
        delta.log(version).unlink()
    page = bridge(delta.path)
    shown = [(line.cells[:2], line.mark) for line in grid(page, "actions").lines]
    assert sorted(s for s in shown if s[0][1] == "checkpoint: add") == [
        (("2", "checkpoint: add"), ""),
        (("2", "checkpoint: add"), "live"),
        (("2", "checkpoint: add"), "live"),
    ]
    assert shown[-1] == (("3", "remove"), "removed")
    assert {line.cells[3] for line in grid(page, "counters").lines} == {"same"}
    assert {c[-1] for c in parts(page)} == {"same"}
    with pytest.raises(dk.NotFoundError, match="does not reach"):
        bridge(delta.path, version=1)


@pytest.mark.parametrize("format_version", [2, 3])
def test_beside_a_table_that_follows(delta: HandMade, catalog: dk.Catalog, format_version: int) -> None:
    one = delta.data(range(50))
    delta.commit(one, delta.data(range(50, 60)))
    dk.sync_delta(delta.path, catalog, "t.d", format_version=format_version)
    vector = delta.vector([1, 3, 40])
    delta.commit(remove(one), with_vector(one, vector))
    table = dk.sync_delta(delta.path, catalog, "t.d").table
    delta.commit(delta.data(range(3)))  # nobody has synced that
    before = files_of(table)
    page = bridge(delta.path, table)
    assert not page.error
    assert next(c for c in page.controls if c.trait == "version").value == 1
    assert {line.cells[3] for line in grid(page, "counters").lines} == {"same"}
    deletes = [line.cells for line in grid(page, "entries").lines if line.cells[1] == "1 POSITION_DELETES"]
    (stored,) = live_delete_entries(table)
    assert [(c[0], int(c[3])) for c in deletes] == [("V1", stored["record_count"])]
    facts = page.block("vector")
    assert isinstance(facts, Facts)
    assert facts.items[-1][1] == "same"
    assert {c[-1] for c in parts(page)} == ({"same"} if format_version == 3 else {"not compared"})
    if format_version == 3:
        assert int(parts(page)[0][2]) == stored["content_offset"]
    assert "entries" in {b.name for b in bridge(delta.path, table, version=0).blocks}
    assert bridge(f"file://{delta.path}", table).block("counters") == page.block("counters")
    assert eval(page.code, {"dk": Widgets, "path": delta.path, "table": table}) == page.code  # noqa: S307
    assert files_of(table) == before


class Widgets:
    """Stands for `dk` where no widget can be: what its line of Python shows is the page again."""

    class widgets:  # noqa: N801
        @staticmethod
        def DeltaBridge(path: Any, table: Any = None, **state: Any) -> str:  # noqa: N802
            return bridge(path, table, **state).code


def test_a_table_that_others_changed_is_seen_to_differ(delta: HandMade, catalog: dk.Catalog) -> None:
    delta.commit(with_vector(delta.data(range(20)), delta.vector([4])))
    table = dk.sync_delta(delta.path, catalog, "t.d").table
    dk.delete(table, "id = 7", mode="deletion-vector")
    page = bridge(delta.path, table)
    wrong = {line.key for line in grid(page, "counters").lines if line.mark == "wrong"}
    assert wrong == {"counter-deleted-rows"}
    assert "different" in page.sentence
    assert any(c[-1] == "different" for c in parts(page))
    other = dk.create_table(catalog, "t.other", dk.datasets.users().schema)
    shown = bridge(delta.path, other)
    assert shown.error
    assert "delta-version-not-found" in page_text(shown)


def shown_or_raised(path: Path) -> tuple[Page | None, dk.DeletekitError | None]:
    """A widget shows either; what the log itself breaks leaves no page."""
    try:
        return bridge(path), None
    except dk.DeletekitError as error:
        return None, error


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_shown_with_file_and_field(delta: HandMade, name: str) -> None:
    damage, error, kind = DAMAGE[name]
    delta.commit(delta.data(range(5)))
    vector = delta.vector([1, 2])
    delta.commit({"commitInfo": {}}, with_vector(delta.data(range(10)), vector))
    damage(delta, vector)
    page, raised = shown_or_raised(delta.path)
    if page is None:
        assert isinstance(raised, error)
        assert not kind or raised.kind == kind
        assert raised.file is not None
        return
    assert page.error
    items = dict(page.blocks[0].items)  # type: ignore[union-attr]
    assert not kind or items["kind"] == kind
    assert "file" in items or "field" in items
    assert len(grid(page, "actions").lines) >= 4, "what can be shown is shown"


@pytest.mark.slow
def test_whatever_the_bytes_are_nothing_breaks(delta: HandMade) -> None:
    """Bytes of log, checkpoint and vectors changed at random: a page, or an error that is ours."""
    checkpointed(delta, 2)
    files = [f for f in delta.path.rglob("*") if f.suffix in (".json", ".bin") or "checkpoint" in f.name]
    good = {file: file.read_bytes() for file in files}
    choose = random.Random(3)
    pages = errors = 0
    for _ in range(150):
        file = choose.choice(files)
        data = bytearray(good[file])
        for _ in range(choose.randint(1, 3)):
            data[choose.randrange(len(data))] = choose.randrange(256)
        file.write_bytes(data[: choose.choice([len(data), choose.randrange(len(data))])])
        try:
            page = bridge(delta.path)
            page_text(page)
            pages += 1
        except (dk.DeletekitError, OSError, pa.ArrowException):
            errors += 1
        file.write_bytes(good[file])
    assert min(pages, errors) > 15


@pytest.mark.slow
def test_large_logs_are_paged(delta: HandMade) -> None:
    adds = [delta.data(range(3), name=f"{n}.parquet") for n in range(130)]
    delta.commit(*(with_vector(a, inline(body_of([1]), 1)) for a in adds))
    page = bridge(delta.path, start=100, entry_start=125)
    assert grid(page, "actions").shown == "showing 101-132 of 132"
    assert grid(page, "entries").shown == "showing 126-130 of 130"
    assert len(grid(page, "entries").lines) == 10
    positions = range(0, 65_536 * 120, 65_536)
    delta.commit(with_vector(delta.data(range(65_536 * 120), name="big.parquet"), delta.vector(positions)))
    big = bridge(delta.path, vector="V131", part_start=100)
    assert grid(big, "bytes").shown == "showing 101-129 of 129"


def test_one_inline_vector_on_two_data_files_is_two(delta: HandMade) -> None:
    vector = inline(body_of([2]), 1)
    delta.commit(with_vector(delta.data(range(5)), vector), with_vector(delta.data(range(5)), vector))
    page = bridge(delta.path, vector="V2")
    assert sorted(line.cells[3] for line in grid(page, "actions").lines)[-2:] == ["V1", "V2"]
    assert {line.cells[0] for line in grid(page, "entries").lines} == {"D1", "V1", "D2", "V2"}
    assert {c[-1] for c in parts(page)} == {"same"}


def test_what_is_not_there_is_refused(delta: HandMade, tmp_path: Path) -> None:
    delta.commit(delta.data(range(3)))
    assert bridge(delta.path, vector="").sentence.startswith("Version 0")
    for vector in ("V9", "D1", "<b>"):
        with pytest.raises(dk.NotFoundError) as caught:
            bridge(delta.path, vector=vector)
        assert (caught.value.field, caught.value.found) == ("vector", vector)
    with pytest.raises(dk.NotFoundError) as caught:
        bridge(tmp_path)
    assert caught.value.file == str(tmp_path)


def test_an_iceberg_table_alone_leads_to_its_delta_table_or_is_refused(delta: HandMade, catalog: dk.Catalog) -> None:
    delta.commit(delta.data(range(3)))
    followed = dk.sync_delta(str(delta.path), catalog, "t.followed").table
    shown = dk.widgets.DeltaBridge(followed).shown
    assert [b.lines for b in shown.blocks] == [b.lines for b in bridge(delta.path, followed).blocks]  # type: ignore[union-attr]
    assert shown.code == "dk.widgets.DeltaBridge(followed)"
    other = dk.create_table(catalog, "t.other", pa.schema([("id", pa.int64())]))
    for wrong, said in ((other, "follows no Delta table"), (3, "not a table"), (None, "not a table")):
        page = dk.widgets.DeltaBridge(wrong, lang="en").page
        assert page["error"]
        assert said in page["sentence"]
