"""Drawings: what they say is what is there, in five languages; their SVG is safe, readable and always the same."""

import re
import unicodedata
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.course import drawings
from deletekit.course.aliases import Aliases
from deletekit.course.svg import FILLS, INKS, Canvas, Svg, text_width, wrapped
from deletekit.course.translations import LANGUAGES
from deletekit.errors import InvalidInputError, NotFoundError
from tests.course.widgets.pixels import contrast
from tests.stored import entries, head_json
from tests.tables import MODES, items, make, new_catalog

NAMESPACE = "{http://www.w3.org/2000/svg}"
HOSTILE = '<script>alert(1)</script>&"\u202e\ufffe'


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dk.Catalog]:
    with new_catalog(tmp_path_factory.mktemp("drawings")) as opened:
        yield opened


def deleted(catalog: dk.Catalog, mode: Any, version: int) -> dk.Table:
    table = make(catalog, items((1, "a", 1.0), (2, "b", 2.0), (3, "c", 3.0)), format_version=version)
    dk.delete(table, "id = 2", mode=mode)
    return table


@pytest.fixture(scope="module")
def everything(catalog: dk.Catalog) -> dk.Table:
    """A table with every kind of delete."""
    rows = [items(*((i, "ab"[i % 2], 1.0) for i in some)) for some in (range(6), range(6, 9))]
    table = make(catalog, *rows, partition_by=["category"])
    with dk.engine.local(threads=1):
        dk.delete(table, "id in (0, 6)", mode="position-delete", granularity="partition")
    dk.update(table, {"value": 2.0}, where="id = 1", mode="equality-delete")
    dk.upgrade_format_version(table, 3)
    dk.delete(table, "id = 2", mode="deletion-vector")
    return table


def commit_of(table: dk.Table, **found: Any) -> Any:
    assert table.current_snapshot is not None
    known = {"snapshot_id": table.current_snapshot.snapshot_id, "attempts": 2, "plans": 1, "removed_delete_files": ()}
    return SimpleNamespace(**known | found)


@pytest.fixture(scope="module")
def draw(everything: dk.Table) -> Any:
    """Every drawing in a language, by name."""

    def every(lang: str) -> dict[str, Svg]:
        return {
            "tree": drawings.file_tree(everything, lang=lang),
            "tree of one": drawings.file_tree(everything, after="S1", lang=lang),
            "whole tree": drawings.file_tree(everything, before="S1", lang=lang),
            "axis": drawings.sequence_axis(everything, lang=lang),
            "container": drawings.roaring_container(range(0, 9_000, 3), lang=lang),
            "merged": drawings.commit_race(everything, commit_of(everything, removed_delete_files=("V1",)), lang=lang),
            "replanned": drawings.commit_race(everything, commit_of(everything, plans=2), lang=lang),
            "rebased": drawings.commit_race(everything, commit_of(everything), lang=lang),
            "no race": drawings.commit_race(everything, commit_of(everything, attempts=1), lang=lang),
        }

    return every


def parsed(markup: str) -> ET.Element:
    return ET.fromstring(markup)  # noqa: S314  # it is what is tested


# --- the SVG ----------------------------------------------------------------------------------------------------------


def estimated(text: ET.Element) -> float:
    """How wide a text is, by a rule of its own: an em for a wide character, else that of a sans-serif's digits."""
    em = 13 * (1.08 if text.get("font-weight") else 1)
    words = text.text or ""
    return sum(em * (1 if unicodedata.east_asian_width(c) in "WF" else 0.6) for c in words)


Rect = tuple[float, float, float, float]


def rect_of(shape: ET.Element) -> Rect:
    x, y, width, height = (float(shape.get(name, "0")) for name in ("x", "y", "width", "height"))
    return x, y, x + width, y + height


def rect_of_text(text: ET.Element) -> Rect:
    x, y = float(text.get("x", "")), float(text.get("y", ""))
    return x, y - 11, x + estimated(text), y + 4


def inside(one: Rect, other: Rect) -> bool:
    return one[0] >= other[0] and one[1] >= other[1] and one[2] <= other[2] and one[3] <= other[3]


def overlap(one: Rect, other: Rect) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


@pytest.mark.sampled(2, tier=1)
@pytest.mark.parametrize("lang", LANGUAGES)
def test_labels_are_in_their_boxes_and_nothing_overlaps(draw: Any, lang: str) -> None:
    for name, svg in draw(lang).items():
        root = parsed(svg.markup)
        _, _, width, height = map(float, root.get("viewBox", "").split())
        boxes = []
        for group in root.iter(f"{NAMESPACE}g"):
            (shape,) = group.findall(f"{NAMESPACE}rect")
            boxes.append(rect_of(shape))
            for text in group.findall(f"{NAMESPACE}text"):
                assert inside(rect_of_text(text), boxes[-1]), (name, text.text)
        free = [rect_of_text(text) for text in root.findall(f"{NAMESPACE}text")]
        things = boxes + free
        assert all(inside(thing, (0, 0, width, height)) for thing in things), name
        assert [(a, b) for i, a in enumerate(things) for b in things[:i] if overlap(a, b)] == [], name


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_drawing_has_a_name_and_says_its_facts(draw: Any, lang: str) -> None:
    others = {svg.text for svg in draw("en" if lang == "ko" else "ko").values()}
    for svg in draw(lang).values():
        root = parsed(svg.markup)
        title, facts = root.findtext(f"{NAMESPACE}title"), root.findtext(f"{NAMESPACE}desc")
        assert (root.get("role"), root.get("lang")) == ("img", lang)
        assert svg.text == f"{title}\n{facts}"
        assert repr(svg) == svg.text == svg._repr_mimebundle_()["text/plain"]
        assert svg.text not in others


def test_the_same_data_give_the_same_bytes_without_ids(draw: Any) -> None:
    assert draw("ja") == draw("ja")
    for svg in draw("en").values():
        assert not re.search(r'\bid=|href|<script|\bon\w+="', svg.markup)
        assert "forced-colors" in svg.markup
        assert "prefers-color-scheme:dark" in svg.markup


def rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


@pytest.mark.parametrize("scheme", [0, 1])
def test_colours_can_be_told_from_what_is_behind_them(scheme: int) -> None:
    for fill in FILLS.values():
        assert contrast(rgb(INKS["ink"][scheme]), rgb(fill[scheme])) >= 7
        assert all(contrast(rgb(ink[scheme]), rgb(fill[scheme])) >= 3 for ink in INKS.values())


def test_hostile_names_are_inert(catalog: dk.Catalog) -> None:
    table = dk.create_table(
        catalog, ("hostile", HOSTILE[:-1].replace("/", "")), pa.schema([("id", pa.int64())]), format_version=3
    )
    dk.append(table, [{"id": 1}, {"id": 2}])
    dk.delete(table, "id = 1", mode="deletion-vector")
    for svg in (
        drawings.file_tree(table),
        drawings.sequence_axis(table),
        drawings.commit_race(table, commit_of(table)),
    ):
        assert {element.tag.removeprefix(NAMESPACE) for element in parsed(svg.markup).iter()} <= {
            *("svg", "title", "desc", "style", "g", "rect", "text", "path")
        }
        assert "<script" not in svg.markup + svg.to_html()
        assert "\u202e" not in svg.markup
    canvas = Canvas(HOSTILE, "en")
    assert parsed(canvas.finish([HOSTILE]).markup) is not None


def test_lines_break_where_the_language_does() -> None:
    assert wrapped("one two three", 8) == ["one two", "three"]
    assert wrapped("배치가 테이블에 있습니다", 14) == ["배치가", "테이블에", "있습니다"]
    assert wrapped("バッチはテーブルに入っています。", 12) == ["バッチはテー", "ブルに入って", "います。"]
    assert text_width("삭제") > 2 * text_width("x")


# --- the facts --------------------------------------------------------------------------------------------------------

VERSION_AND_MODE = [(version, mode) for version in (2, 3) for mode in MODES[version]]


@pytest.mark.parametrize(("version", "mode"), VERSION_AND_MODE)
def test_a_tree_has_the_files_that_the_manifests_list(catalog: dk.Catalog, version: int, mode: Any) -> None:
    table = deleted(catalog, mode, version)
    said = drawings.file_tree(table, lang="en").text
    names = Aliases(table)
    for entry in entries(table):  # read with fastavro
        name = names.of(entry["data_file"]["file_path"])
        mine = entry["inherited"] == head_json(table)["sequence-number"]
        here = ", removed" if entry["status"] == 2 else ", added" if mine else ""
        assert re.search(
            rf"^{name}, [\w ]+{here}: record_count {entry['data_file']['record_count']}$", said, re.MULTILINE
        )
    copied = mode == "copy-on-write"
    assert ("applies to D1." in said) != copied
    assert ("D1 (removed)" in said) == copied


def test_the_axis_says_which_delete_applies(everything: dk.Table) -> None:
    svg = drawings.sequence_axis(everything, lang="en")
    widget = dk.widgets.SequenceTimeline(everything, lang="en")
    lines = {line["cells"][0]: line["cells"][2] for line in widget.page["blocks"][0]["lines"]}
    for name, applying in lines.items():
        none = f"No delete must be opened for data file {name}." in svg.text
        assert none if applying == "-" else f"For data file {name} must be opened: {applying}" in svg.text
    arrows = sum(len(applying.split()) for applying in lines.values() if applying != "-")
    assert svg.markup.count('class="dkd-applies"') == arrows


@pytest.mark.parametrize(
    ("positions", "kind", "sizes"),
    [
        (range(0, 1_000, 100), "array", (20, 8_192, 42)),
        (range(0, 65_536, 10), "bitmap", (13_108, 8_192, 26_218)),
        (range(100), "run", (200, 8_192, 6)),
        ([n for n in range(65_536) if n != 30_000], "run", (131_070, 8_192, 10)),
        ([5], "array", (2, 8_192, 6)),
    ],
)
def test_the_stored_form_of_a_container(positions: Any, kind: str, sizes: tuple[int, ...]) -> None:
    said = drawings.roaring_container(positions, lang="en").text
    for form, size in zip(("array", "bitmap", "run"), sizes, strict=True):
        stored = ": the fewest, so this form is stored" if form == kind else ""
        assert re.search(rf"^{form} container: .*; size in bytes: {size:,}{stored}$", said, re.MULTILINE)


def test_what_a_loser_did(everything: dk.Table) -> None:
    merged = drawings.commit_race(everything, commit_of(everything, removed_delete_files=("V1",)), lang="en").text
    assert "refused: current is S4; lost attempts: 1" in merged
    assert "merges its deletes with those of S4" in merged
    assert "asks to swap S3 for S4?" in merged
    assert "replans on S4" in drawings.commit_race(everything, commit_of(everything, plans=2), lang="en").text
    assert "keeps its files, now on S4" in drawings.commit_race(everything, commit_of(everything), lang="en").text
    assert "refused" not in drawings.commit_race(everything, commit_of(everything, attempts=1), lang="en").text
    longer = drawings.commit_race(everything, commit_of(everything, attempts=3), base="S2", lang="en").text
    assert "asks to swap S2 for S3, S4" in longer


def test_what_does_not_exist_is_refused(everything: dk.Table) -> None:
    with pytest.raises(NotFoundError, match="S99"):
        drawings.file_tree(everything, after="S99")
    with pytest.raises(InvalidInputError, match="S5"):
        drawings.commit_race(everything, commit_of(everything), base="S5")
    with pytest.raises(InvalidInputError, match="xx"):
        drawings.file_tree(everything, lang="xx")


def test_a_tree_counts_what_it_leaves_out(catalog: dk.Catalog) -> None:
    many = make(catalog, items(*((i, str(i), 1.0) for i in range(9))), partition_by=["category"])
    assert "D6 and 3 more" in drawings.file_tree(many, lang="en").text
    for number in range(10, 20):
        dk.append(many, items((number, "x", 1.0)))
    assert "Manifests not shown: 3" in drawings.file_tree(many, lang="en").text


def test_an_empty_table_is_drawn(catalog: dk.Catalog) -> None:
    table = dk.create_table(catalog, "drawings.empty", pa.schema([("id", pa.int64())]))
    assert "no snapshot yet" in drawings.file_tree(table, lang="en").text
    assert "no data file" in drawings.sequence_axis(table, lang="en").text
    dk.append(table, [{"id": 1}])
    dk.delete(table, "id = 1", mode="copy-on-write")
    assert "D1, data file, removed" in drawings.file_tree(table, lang="en").text
    assert "Data files: 0, deletes: 0" in drawings.sequence_axis(table, lang="en").text
