"""What holds for every widget, tested for each of them."""

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import traitlets

import deletekit as dk
from deletekit.course import widgets
from deletekit.course.translations import LANGUAGES, Messages
from deletekit.course.views.page import Block, Facts, Grid, Page, Tree, live
from deletekit.course.views.page_html import document_html, page_html
from deletekit.course.views.page_text import LONGEST
from deletekit.course.widgets.base import SAVED_PAGE, PageWidget, esm_of
from tests.course.widgets.scenes import EVIL, SCENES, delta_beside, hostile_table, sample_table
from tests.tables import files_of

HERE = Path(__file__).parents[3]
WIDGETS = {name: scene.make for name, scene in SCENES.items()}
STATES = {name: dict(scene.state) for name, scene in SCENES.items()}
OF_TABLES = [name for name, scene in SCENES.items() if scene.of_table]
pytestmark = pytest.mark.parametrize("name", WIDGETS)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dk.Table]:
    with sample_table(tmp_path_factory.mktemp("deletekit-lesson-")) as made:
        yield made


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dk.Table]:
    with hostile_table(tmp_path_factory.mktemp("hostile")) as made:
        yield made


class Texts(HTMLParser):
    """The texts and the tags of a piece of HTML; a tag that is not closed is remembered."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text, self.tags, self.open = "", set[str](), list[str]()
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"


def facts_of(page: Page) -> list[str]:
    """Every text of a page, without the controls."""
    found = [page.title, page.sentence, page.code, page.note]
    for block in page.blocks:
        found += [block.caption, *texts_of(block)]
    return [text for text in found if text]


def texts_of(block: Block) -> list[str]:
    if isinstance(block, Grid):
        return [*block.columns, *(c for line in block.lines for c in line.cells), block.shown]
    if isinstance(block, Tree):
        return [text for n in block.nodes for text in (n.label, n.value)]
    if isinstance(block, Facts):
        return [text for item in block.items for text in item]
    meanings = [text for meaning in block.meanings for text in meaning]
    return [block.legend, *meanings, *(text for first, signs in block.lines() for text in (f"{first:,}", signs))]


def unnamed(widget: PageWidget) -> dict[str, Any]:
    """The page without what depends on the names that the caller's code has."""
    return {**widget.page, "note": ""}


def squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def test_text_html_and_widget_show_the_same_facts(name: str, table: dk.Table) -> None:
    for state in ({}, STATES[name]):
        widget = WIDGETS[name](table, **state)
        text, html = squeezed(str(widget)), squeezed(Texts(page_html(widget.shown)).text)
        data = squeezed(json.dumps(widget.page, ensure_ascii=False).replace('\\"', '"'))
        facts = facts_of(widget.shown)
        assert len(facts) > 5
        for fact in facts:
            assert squeezed(fact).strip() in text
            assert squeezed(fact).strip() in html
            if not re.fullmatch(r"[-.:+*#]+|[\d,]+", fact):  # the widget draws the cells of a map
                assert squeezed(json.dumps(live(fact), ensure_ascii=False)[1:-1].replace('\\"', '"')).strip() in data


def test_a_live_widget_differs_from_what_notebooks_keep_only_by_sizes(name: str, table: dk.Table) -> None:
    size = {"node": "snapshots/S2/manifest-list/2/manifest_length"} if name == "TableTree" else {}
    pages = [WIDGETS[name](table, **state).shown for state in (size, STATES[name])]
    differing = [(fact, live(fact)) for page in pages for fact in facts_of(page) if fact != live(fact)]
    for kept, seen in differing:
        pattern = re.escape(kept).replace("…", "(.*)").replace("\\~", "~")
        assert re.fullmatch(re.sub(r"~[\d,]+", "([0-9,]+)", pattern), seen), (kept, seen)
        assert "…" not in seen
    assert bool(differing) == (name in ("TableTree", "BitmapBytes", "CostMeter"))


def test_html_is_plain_and_whole(name: str, table: dk.Table) -> None:
    widget = WIDGETS[name](table, **STATES[name])
    fragment = Texts(page_html(widget.shown))
    assert fragment.open == []
    allowed = {"section", "h3", "p", "table", "caption", "thead", "tbody", "tr", "th", "td", "div", "ul", "li"}
    assert fragment.tags <= allowed | {"pre", "code", "strong"}
    document = document_html("title", "en", "contents", [widget.shown])
    assert Texts(document).open == []
    assert not re.search(r"""(?:src|href)=["'](?!#)|<script|url\(|@import""", document)
    maps = re.findall(r'<div class="wide"([^>]*)>(?=(?:(?!</table>).)*<td class="cells">)', document, re.DOTALL)
    assert bool(maps) == (name == "BitmapBytes")
    assert all('tabindex="0"' in place and "aria-label=" in place for place in maps), "what scrolls takes the focus"


def test_plain_text_is_short_and_the_same_on_every_machine(name: str, tmp_path: Path) -> None:
    shown = []
    for folder in (
        "deletekit-lesson-a",
        "deletekit-lesson-of-a-longer-name",
    ):  # paths are in footers
        with sample_table(tmp_path / folder) as table:
            widget = WIDGETS[name](table)
            bundle = widget._repr_mimebundle_()
            assert bundle is not None
            plain = bundle[0]["text/plain"]
            assert len(plain.splitlines()) <= LONGEST
            assert repr(widget) == plain
            assert not re.search(r"0x[0-9a-f]{9,}| object at |/|\d{15,}", plain.replace("manifest-list/", ""))
            assert bundle[0]["text/html"].startswith("<section")
            assert {"application/vnd.jupyter.widget-view+json", SAVED_PAGE} <= set(bundle[0])
            shown.append((plain, bundle[0]["text/html"]))
    assert shown[0] == shown[1]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_language_and_the_signs_of_its_lines(name: str, table: dk.Table, lang: str) -> None:
    for state in ({}, STATES[name]):
        widget, english = (WIDGETS[name](table, **{**state, "lang": said}) for said in (lang, "en"))
        assert (widget.page["lang"], widget.page["error"]) == (lang, False)
        assert widget.shown.code.replace(f", lang='{lang}'", "") == english.shown.code.replace(", lang='en'", "")
        lines = [line for block in widget.shown.blocks if isinstance(block, Grid) for line in block.lines]
        meanings = [Messages(lang)(f"sign-{mark}") for mark in {line.mark for line in lines} - {"", "unused"}]
        third = str(widget).splitlines()[2]
        assert bool(third) == bool(meanings)
        assert all(meaning in third for meaning in meanings)


def test_the_line_of_python_shows_the_same_page_again(name: str, table: dk.Table) -> None:
    widget = WIDGETS[name](table, **STATES[name])
    again = eval(widget.shown.code, {"dk": dk, "table": table, "path": delta_beside(table)})  # noqa: S307  # it is what the test is about
    assert unnamed(again) == unnamed(widget)


def test_an_unknown_trait_is_refused(name: str, table: dk.Table) -> None:
    with pytest.raises(TypeError, match="no trait colour"):
        WIDGETS[name](table, colour="red")


def test_what_is_no_table_is_refused_in_a_sentence(name: str, table: dk.Table) -> None:
    made = getattr(widgets, name)
    if name == "StreamStepper":
        with pytest.raises(TypeError, match="makes its own"):
            made(table)
    elif name != "CostMeter":
        assert made().page["error"]
    else:
        assert made(3).page["error"]


def test_what_meant_something_elsewhere_only_is_forgotten(name: str, table: dk.Table) -> None:
    scene = SCENES[name]
    widget = scene.make(table, **scene.before)
    assert not widget.page["error"]
    for trait, value in scene.change.items():
        setattr(widget, trait, value)
    assert not widget.page["error"], widget.page["sentence"]
    assert {trait: getattr(widget, trait) for trait in scene.after} == scene.after


def test_what_is_wrong_is_shown_inside(name: str, table: dk.Table, tmp_path: Path) -> None:
    ((trait, value),) = SCENES[name].wrong.items()
    widget = WIDGETS[name](table)
    right, offered = getattr(widget, trait), [control["trait"] for control in widget.page["controls"]]
    setattr(widget, trait, value)
    assert widget.page["error"]
    still = widget.page["controls"]
    assert [control["trait"] for control in still] == offered
    assert all(c["value"] == value for c in still if c["trait"] == trait and c["kind"] != "button")
    assert trait in str(widget) or "snapshot" in str(widget)
    assert str(value) in str(widget)
    setattr(widget, trait, right)
    assert not widget.page["error"]
    assert WIDGETS[name](table, lang="xx").page["error"]
    if name in OF_TABLES:
        assert "not-there" in str(WIDGETS[name](tmp_path / "not-there"))


def test_what_nobody_thought_of_is_shown_inside_too(
    name: str, table: dk.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    widget = WIDGETS[name](table)

    def broken(_: PageWidget) -> Any:
        raise RecursionError("<b>deep</b>")

    monkeypatch.setattr(type(widget), "view", broken)
    ((trait, value),) = SCENES[name].wrong.items()
    setattr(widget, trait, value)
    assert widget.page["error"]
    assert "RecursionError: <b>deep</b>" in str(widget)
    assert "<b>" not in page_html(widget.shown)


def test_state_is_in_traits_that_can_be_linked(name: str, table: dk.Table) -> None:
    one, two = WIDGETS[name](table), WIDGETS[name](table)
    for trait, value in STATES[name].items():
        traitlets.link((one, trait), (two, trait))
        setattr(one, trait, value)
    assert {trait: getattr(two, trait) for trait in STATES[name]} == STATES[name]
    assert two.page == one.page
    assert unnamed(two) == unnamed(WIDGETS[name](table, **STATES[name]))


def test_nothing_is_written_and_the_page_cannot_be_set(name: str, table: dk.Table) -> None:
    before = files_of(table)
    widget = WIDGETS[name](table, **STATES[name])
    with pytest.raises(traitlets.TraitError):
        widget.page = {}
    assert files_of(table) == before


def test_anyones_table_is_opened_by_path_folder_or_pyiceberg(name: str, table: dk.Table) -> None:
    if name in OF_TABLES:
        folder, theirs = table.location.removeprefix("file://"), table.require_catalog().pyiceberg
        sources = (table, table.metadata_location, folder, theirs.load_table(table.identifier))
        page, *others = (unnamed(WIDGETS[name](source)) for source in sources)
        assert others == [page] * 3


def test_hostile_names_and_values_are_text(name: str, hostile: dk.Table) -> None:
    widget = WIDGETS[name](hostile)
    tags = Texts(page_html(widget.shown))
    assert not tags.tags & {"script", "img", "svg", "iframe"}
    assert not any(attribute.startswith("on") for attribute, _ in tags.attributes)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e]", str(widget))
    if name == "RowFate":
        assert EVIL in str(widget)


def test_its_module_loads_nothing(name: str) -> None:
    source = esm_of(WIDGETS_MODULES[name])
    assert not re.search(
        r"^\s*import\s|import\(|https?://(?!www\.w3\.org)|innerHTML|outerHTML|eval\(", source, re.MULTILINE
    )
    own = HERE / "deletekit" / "course" / "widgets" / "static" / f"{WIDGETS_MODULES[name]}.js"
    assert len(own.read_text(encoding="utf-8").splitlines()) < 300


WIDGETS_MODULES = {name: getattr(widgets, name).module for name in WIDGETS}
