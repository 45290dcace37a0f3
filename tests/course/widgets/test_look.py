"""How the widgets look in a browser: whole words, one screen, legends, tokens. JupyterLab is not needed."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import deletekit as dk
from deletekit.course.translations import LANGUAGES
from deletekit.course.views.page_html import page_html
from deletekit.course.widgets.base import PageWidget, esm_of
from tests.course.widgets.browser import IN_BROWSER
from tests.course.widgets.scenes import SCENES, sample_table
from tests.optional_types import Browser, Locator, Page

pytest.importorskip("playwright", reason="playwright is not installed: pip install 'deletekit[test]'")

pytestmark = IN_BROWSER

WIDTHS = (390, 1024, 1400)
ONE_SCREEN = 1_150  # the highest is StreamStepper in Spanish, after a crash

# Every word that does not stand on one line. Chinese and Japanese have no spaces, and break where they like.
_BROKEN = r"""(root) => {
  const broken = [];
  const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode;
    if (text.parentElement.closest("option, svg")) continue;
    for (const word of text.data.matchAll(/[\p{Script=Latin}\p{Script=Hangul}\p{M}\d_]+/gu)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      const tops = [...range.getClientRects()].map((rectangle) => Math.round(rectangle.top));
      if (new Set(tops).size > 1) broken.push(word[0]);
    }
  }
  return broken;
}"""

Show = Callable[..., "Locator"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dk.Table]:
    with sample_table(tmp_path_factory.mktemp("sample")) as made:
        yield made


@pytest.fixture
def show(browser: Browser) -> Iterator[Show]:
    """Give what draws a widget's page as a notebook does; what it sets is in `window.set`."""
    page: Page = browser.new_page()
    page.set_default_timeout(5_000)

    def drawn(widget: PageWidget, width: int = 1024, *, dark: bool = False) -> Locator:
        page.set_viewport_size({"width": width, "height": 900})
        script = esm_of(widget.module).replace("export default", "const widget =")
        data = json.dumps(widget.page).replace("<", "\\u003c")
        theme = "#111; --jp-ui-font-color0: #fff; --jp-layout-color2: #424242" if dark else "#fff"
        page.set_content(f"""<!DOCTYPE html><meta charset="utf-8"><style>{widget._css}</style>
            <body data-jp-theme-light="{str(not dark).lower()}" style="--jp-layout-color1: {theme}"><div></div>
            <script type="module">{script}
            const model = {{ get: () => ({data}), set() {{}}, save_changes() {{}}, on() {{}}, off() {{}} }};
            widget.render({{ model, el: document.querySelector("div") }});</script>""")
        return page.locator(".deletekit")

    yield drawn
    page.close()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("name", SCENES)
def test_words_are_whole_and_what_is_wide_scrolls_inside(show: Show, table: dk.Table, name: str, lang: str) -> None:
    for state in ({}, SCENES[name].state):
        for width in WIDTHS:
            root = show(SCENES[name].make(table, lang=lang, **state), width)
            assert root.evaluate(_BROKEN) == []
            assert root.page.evaluate("document.documentElement.scrollWidth") <= width
            box = root.bounding_box()
            assert box is not None
            assert width < 1_000 or box["height"] < ONE_SCREEN


def test_what_is_chosen_is_seen_without_scrolling(show: Show, table: dk.Table) -> None:
    root = show(SCENES["TableTree"].make(table, node="snapshots/S5/manifest-list/2/entries/V2"), 390)
    chosen, around = root.locator("[aria-selected=true]").bounding_box(), root.locator(".dk-tree").bounding_box()
    assert chosen is not None
    assert around is not None
    assert around["y"] <= chosen["y"]
    assert chosen["y"] + chosen["height"] <= around["y"] + around["height"]
    assert root.page.evaluate("scrollY") == 0


def test_legends_say_what_the_forms_mean(show: Show, table: dk.Table) -> None:
    root = show(SCENES["BitmapBytes"].make(table, zoom=1))
    said = root.locator(".dk-legend").all_inner_texts()
    assert [text.split("\n") for text in said] == [
        ["none is deleted", "less than 25 %", "25 to 50 %", "50 to 75 %", "75 % and more, not all", "all are deleted"],
        ["file", "blob", "array container", "footer"],
    ]
    forms = root.locator(".dk-strip span").evaluate_all("(all) => all.map((e) => getComputedStyle(e).backgroundColor)")
    swatches = root.locator(".dk-legend").nth(1).locator(".dk-swatch")
    assert set(forms) == set(swatches.evaluate_all("(all) => all.map((e) => getComputedStyle(e).backgroundColor)"))
    assert len(set(forms)) == 4

    line = show(SCENES["SequenceTimeline"].make(table))
    drawn = line.locator("svg text").all_text_contents()
    assert {"data file", "deletion vector", "equality delete", "sequence number"} <= set(drawn)
    assert "An arrow goes from a delete" in line.inner_text()


@pytest.mark.parametrize("dark", [False, True])
def test_fills_are_told_apart(show: Show, table: dk.Table, dark: bool) -> None:
    root = show(SCENES["BitmapBytes"].make(table), dark=dark)
    for forced, wanted in (("none", "backgroundColor"), ("active", "background")):
        root.page.emulate_media(forced_colors=forced)  # type: ignore[arg-type]  # they are two of its literals
        looks = [
            root.evaluate(
                """(root, [form, wanted]) => {
                    const probe = root.querySelector(".dk-strip span").cloneNode();
                    probe.className = `dk-fill-${form}`;
                    root.querySelector(".dk-strip").append(probe);
                    return getComputedStyle(probe)[wanted];
                }""",
                [form, wanted],
            )
            for form in range(1, 7)
        ]
        assert len(set(looks)) == 6
    root.page.emulate_media(forced_colors="none")


def test_one_set_of_tokens(table: dk.Table) -> None:
    """A colour and a font's size are written once, where the tokens are: a widget's, or those of the drawings."""
    style = SCENES["CostMeter"].make(table)._css
    tokens = re.compile(r"\s*--dk-|\.deletekit \{ (?:--dkd-[a-z]+: [^;{}]+; )+\}$")
    rules = [line for line in style.splitlines() if not tokens.match(line)]
    assert [line for line in rules if re.search(r"#[0-9a-f]{3,6}\b|rgba?\(|font-size: (?!var|inherit)", line)] == []
    assert [line for line in rules if re.search(r"(?:padding|margin|gap): [^;]*\dpx", line)] == []
    assert "anywhere" not in style


class TestTheReadersNames:
    """The line of Python that is copied says what the reader's own code says."""

    def test_a_variable(self, table: dk.Table) -> None:
        users = table
        del table
        assert dk.widgets.RowFate(users).page["code"].startswith("dk.widgets.RowFate(users")
        assert dk.widgets.explore(users).tree.page["code"] == "dk.widgets.TableTree(users)"

    def test_an_entry_of_a_dict(self, tmp_path: Path) -> None:
        with sample_table(tmp_path) as made:
            tables = {"contacts": made}
            del made
            page = dk.widgets.SnapshotDiff(tables["contacts"]).page
            assert (page["code"], page["note"]) == ("dk.widgets.SnapshotDiff(tables['contacts'])", "")

    def test_without_a_name_it_says_so(self, tmp_path: Path) -> None:
        with sample_table(tmp_path) as made:
            place = made.metadata_location
        widget = dk.widgets.RowFate(Path(place))
        assert widget.page["code"].startswith("dk.widgets.RowFate(table, ")
        for said in (widget.page["note"], str(widget), page_html(widget.shown)):
            assert "Write the name of your own variable in place of table." in said
        assert dk.widgets.StreamStepper().page["note"] == ""
