"""Every widget in a real JupyterLab in a real Chromium: drawn, walked by keyboard, clicked, judged by axe, offline."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.course.widgets.scenes import EVIL, SCENES, big_table, delta_table, hostile_table, sample_table

pytest.importorskip("playwright", reason="playwright is not installed: pip install 'deletekit[test]'")
pytest.importorskip("jupyterlab", reason="JupyterLab is not installed: pip install 'deletekit[course]'")

from axe_playwright_python.sync_playwright import Axe

from tests.course.widgets.browser import IN_BROWSER
from tests.course.widgets.lab import Lab, Notebook
from tests.course.widgets.pixels import colours, faint_texts, highlighted, moving, share, system_colour
from tests.optional_types import Browser, Locator

pytestmark = IN_BROWSER

VIEWS = {scene.cell: name for name, scene in SCENES.items()}
CELLS = {scene.cell: scene.code for scene in SCENES.values()} | {"hostile": "w.RowFate(evil)"}
# No test changes `hostile`, so its language tells the page that what was sent before is there.
RESET = f"""
shown = [{", ".join(VIEWS)}, *together.widgets, *large.widgets]
first = [w.state() for w in shown]
def reset():
    for w, state in zip(shown, first):
        for _ in range(2):  # a trait that is set back may reset others
            for name, value in state.items():
                setattr(w, name, value)
    hostile.lang = "en" if hostile.lang == "es" else "es"
"""


@pytest.fixture
def notebook(opened: Notebook) -> Notebook:
    """Give the notebook, its widgets as they were at first: which tests ran before in this process is chance."""
    opened.run("reset()")
    opened.page.wait_for_function(
        "([i, lang]) => document.querySelectorAll('.deletekit')[i].lang === lang",
        arg=[list(CELLS).index("hostile"), opened.python("hostile.lang")],
    )
    return opened


@pytest.fixture(scope="module")
def opened(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    """Give a notebook that has run every widget."""
    folder = tmp_path_factory.mktemp("lab")
    delta = delta_table(folder / "delta")
    made = sample_table(folder / "sample"), hostile_table(folder / "hostile"), big_table(folder / "big")
    with made[0] as table, made[1] as evil, made[2] as big, Lab(folder) as lab:
        head = [
            "import deletekit as dk, deletekit.course.widgets as w",
            f"t = dk.from_metadata({table.metadata_location!r}); evil = dk.from_metadata({evil.metadata_location!r})",
            f"delta = {str(delta)!r}; big = dk.from_metadata({big.metadata_location!r})",
        ]
        cells = ["\n".join(head), *(f"{name} = {code}\n{name}" for name, code in CELLS.items())]
        cells += ["together = dk.widgets.explore(t)\ntogether", "large = dk.widgets.explore(big)\nlarge"]
        opened = Notebook(browser, lab, lab.notebook("widgets", cells))
        opened.run_all()
        count = f"() => document.querySelectorAll('.deletekit .dk-code').length === {len(CELLS) + 10}"
        opened.page.wait_for_function(count, timeout=60_000)
        opened.run(RESET)
        yield opened
        opened.close()


def widget(notebook: Notebook, name: str) -> Locator:
    """The widget of a cell."""
    return notebook.page.locator(".deletekit").nth(list(CELLS).index(name))


def cells_of(notebook: Notebook) -> int:
    return notebook.page.locator(".jp-Notebook .jp-Cell").count()


def says(notebook: Notebook, name: str, expected: str) -> None:
    """Wait for the live sentence."""
    notebook.page.wait_for_function(
        "([i, text]) => document.querySelectorAll('.deletekit [role=status]')[i].textContent.includes(text)",
        arg=[list(CELLS).index(name), expected],
    )


@pytest.mark.parametrize("name", VIEWS)
def test_the_widget_shows_what_its_page_says(notebook: Notebook, name: str) -> None:
    root = widget(notebook, name)
    assert root.get_attribute("data-view") == VIEWS[name]
    shown = " ".join((root.text_content() or "").split())
    page = notebook.python(f"{name}.page")
    assert page["sentence"] in shown
    assert page["code"] in shown
    for block in page["blocks"]:
        texts = [c for line in block.get("lines", ()) for c in line["cells"]]
        texts += [t for n in block.get("nodes", ()) for t in (n["label"], n["value"])]
        for text in texts:
            assert " ".join(text.split()) in shown or " " in text


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_axe_finds_nothing(notebook: Notebook, theme: str) -> None:
    notebook.theme(theme)
    found: Any = Axe().run(notebook.page, context={"include": [[".deletekit"]]})
    wrong = [
        (v["id"], n["html"][:200], n.get("failureSummary")) for v in found.response["violations"] for n in v["nodes"]
    ]
    assert wrong == []


def test_a_tree_is_walked_by_keyboard(notebook: Notebook) -> None:
    root, keys = widget(notebook, "tree"), notebook.page.keyboard
    before = cells_of(notebook)
    root.locator("[role=treeitem]").first.focus()
    keys.press("ArrowDown")
    keys.press("ArrowDown")
    notebook.until("tree.node", "snapshots")
    keys.press("ArrowLeft")
    notebook.page.wait_for_function(
        "() => document.querySelector('.deletekit [data-key=\"tree:snapshots\"]').ariaExpanded === 'false'"
    )
    keys.press("ArrowRight")
    notebook.page.wait_for_function(
        "() => document.querySelector('.deletekit [data-key=\"tree:snapshots\"]').ariaExpanded === 'true'"
    )
    keys.press("ArrowRight")
    notebook.until("tree.node", "snapshots/S5")
    keys.press("Home")
    notebook.until("tree.node", "metadata")
    keys.press("s")  # typeahead; and in JupyterLab's command mode a key
    notebook.until("tree.node", "snapshots")
    for key in "abxdd":
        keys.press(key)
    notebook.page.wait_for_timeout(300)
    assert cells_of(notebook) == before
    assert notebook.page.evaluate("() => document.activeElement.getAttribute('role')") == "treeitem"


def test_a_row_is_chosen_by_keyboard_and_by_mouse(notebook: Notebook) -> None:
    root, keys = widget(notebook, "fate"), notebook.page.keyboard
    root.locator("table").first.locator("tbody tr").nth(1).click()
    notebook.until("fate.row", 1)
    says(notebook, "fate", "Row 1 of D1 is hidden: deletion vector V1")
    for key, row in (("ArrowDown", 2), ("PageDown", 7), ("ArrowUp", 6)):
        keys.press(key)
        notebook.until("fate.row", row)
    says(notebook, "fate", "equality delete E1")
    keys.press("ArrowRight")
    keys.press("End")
    assert notebook.page.evaluate("() => document.activeElement.cellIndex") == 5
    keys.press("Control+Home")
    notebook.until("fate.row", 0)
    root.get_by_text("Equality deletes: older").click()
    notebook.until("fate.sequence_rule", False)
    says(notebook, "fate", "A rule is switched off")


def test_python_changes_what_is_shown(notebook: Notebook) -> None:
    notebook.run("fate.sequence_rule = True; fate.row = 3")
    says(notebook, "fate", "Row 3 of D1 is hidden")
    notebook.run("fate.row = 99")
    says(notebook, "fate", "no such row")
    assert "error" in (widget(notebook, "fate").text_content() or "").lower()
    notebook.run("fate.row = 3; fate.lang = 'ko'")
    says(notebook, "fate", "숨겨졌습니다")
    assert widget(notebook, "fate").get_attribute("lang") == "ko"


def test_positions_are_walked_and_edited(notebook: Notebook) -> None:
    root, keys = widget(notebook, "bitmap"), notebook.page.keyboard
    root.locator("[role=grid].dk-map [role=gridcell]").nth(1).click()
    notebook.until("bitmap.position", 1)
    keys.press("ArrowRight")
    notebook.until("bitmap.position", 2)
    says(notebook, "bitmap", "Position 2 is not in V1")
    root.get_by_role("button", name="Put position 2 in").click()
    notebook.until("bitmap.edits", [2])
    says(notebook, "bitmap", "Position 2 is in V1")
    root.get_by_role("button", name="Undo all edits").click()
    notebook.until("bitmap.edits", [])
    root.locator(".dk-map [role=gridcell]").nth(2).focus()
    keys.press("-")
    notebook.until("bitmap.zoom", 1)
    keys.press("+")
    notebook.until("bitmap.zoom", 0)
    root.locator("table.dk-grid tbody tr").nth(4).click()
    notebook.until("bitmap.byte", 20)
    says(notebook, "bitmap", "Bytes 20-23: key: upper 32 bits: 0")


def test_snapshots_are_chosen(notebook: Notebook) -> None:
    widget(notebook, "diff").get_by_label("After").select_option(label="S2")
    notebook.until("diff.after", "S2")
    says(notebook, "diff", "From S1 to S2: files added: 1, removed: 0; rows in: 0, rows out: 2.")


def test_a_delete_is_moved_in_time(notebook: Notebook) -> None:
    root = widget(notebook, "line")
    root.locator("table").first.locator("tbody tr").first.click()
    notebook.until("line.data_file", "D1")
    says(notebook, "line", "For data file D1 must be opened: V1 E1")
    root.get_by_label("Move a delete").select_option(label="E1")
    root.get_by_label("to sequence number").fill("1")
    root.get_by_label("to sequence number").press("Enter")
    notebook.until("line.moved_to", 1)
    says(notebook, "line", "For data file D1 must be opened: V1")
    assert root.locator("svg").count() == 1


def test_a_workload_is_measured(notebook: Notebook) -> None:
    root = widget(notebook, "costs")
    root.get_by_label("Percent deleted").fill("50")
    root.get_by_label("Percent deleted").press("Enter")
    notebook.until("costs.percent", 50)
    says(notebook, "costs", "50 % of 1,000 rows")


def test_a_stream_is_stepped_and_crashed(notebook: Notebook) -> None:
    root = widget(notebook, "stream")
    root.get_by_role("button", name="Next batch").click()
    notebook.until("stream.step", 2)
    root.get_by_label("Crash").select_option(label="all files written, not committed")
    says(notebook, "stream", "stopped in batch 1: snapshots: 1, files that nothing leads to:")
    assert root.locator(".dk-step.dk-stopped").count() == 1
    root.get_by_role("button", name="Resume").click()
    notebook.until("stream.resumed", True)
    says(notebook, "stream", "Batches: 2; snapshots: 2")
    assert notebook.python("len(stream.table.metadata.snapshots)") == 2


def test_a_bridge_shows_both_sides_and_what_is_damaged(notebook: Notebook) -> None:
    root = widget(notebook, "delta")
    says(notebook, "delta", "positions in Delta and Iceberg: same; parts with the same bytes: 10 of 10")
    assert root.locator(".dk-blocks table").count() == 5
    root.get_by_label("Version").fill("0")
    root.get_by_label("Version").press("Enter")
    notebook.until("delta.version", 0)
    says(notebook, "delta", "no live deletion vector")
    root.get_by_label("Version").fill("7")
    root.get_by_label("Version").press("Enter")
    says(notebook, "delta", "no such Delta version")
    notebook.run("delta.version = None")
    says(notebook, "delta", "positions in Delta and Iceberg: same")


def test_traits_are_linked_in_the_browser(notebook: Notebook) -> None:
    notebook.run("import ipywidgets; link = ipywidgets.jslink((fate, 'vector_rule'), (together.rows, 'vector_rule'))")
    widget(notebook, "fate").get_by_text("A deletion vector replaces").click()
    notebook.until("[fate.vector_rule, together.rows.vector_rule]", [False, False])
    notebook.run("fate.vector_rule = True")
    notebook.until("together.rows.vector_rule", True)
    notebook.run("link.unlink()")


def test_explored_together_they_follow_each_other(notebook: Notebook) -> None:
    first = len(CELLS)
    tree, rows = (notebook.page.locator(".deletekit").nth(first + i) for i in (0, 1))
    tabs = notebook.page.locator(".dk-explore").first.get_by_role("tab")
    tree.get_by_role("treeitem", name="S4", exact=False).first.click()
    notebook.until("together.rows.snapshot", "S4")
    assert notebook.python("[together.bytes.snapshot, together.diff.after, together.timeline.snapshot]") == ["S4"] * 3
    notebook.run("together.rows.data_file = 'D1'")
    tabs.nth(1).click()
    rows.locator("tbody tr").nth(3).click()
    notebook.until("together.bytes.position", 3)
    assert notebook.python("[together.bytes.delete_file, together.timeline.data_file]") == ["V1", "D1"]


def test_together_they_are_one_screen(notebook: Notebook) -> None:
    large = notebook.page.locator(".dk-explore").last
    tabs = large.get_by_role("tab")
    assert tabs.all_inner_texts() == notebook.python("[w.shown.title for w in large.widgets]")
    for i, view in enumerate(notebook.python("[w.shown.view for w in large.widgets]")):
        tabs.nth(i).click()
        large.locator(f".deletekit[data-view={view}]").wait_for(state="visible")
        assert sum(w.is_visible() for w in large.locator(".deletekit").all()) == 1
        box = large.bounding_box()
        assert box is not None
        assert 200 < box["height"] < 1_000


def test_what_a_table_holds_is_text(notebook: Notebook) -> None:
    root = widget(notebook, "hostile")
    assert EVIL in (root.text_content() or "")
    assert root.locator("img, script, svg").count() == 0


# --- what readers ask their system for --------------------------------------------------------------------------------


@pytest.fixture(params=["light", "dark"])
def forced(notebook: Notebook, request: pytest.FixtureRequest) -> Iterator[Notebook]:
    """Give the notebook in high contrast: the reader's few colours in place of all others."""
    notebook.page.emulate_media(forced_colors="active", color_scheme=request.param)
    yield notebook
    notebook.page.emulate_media(forced_colors="none", color_scheme="no-preference")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", VIEWS)
def test_in_high_contrast_every_text_is_read(forced: Notebook, name: str) -> None:
    root = widget(forced, name)
    assert faint_texts(root) == []
    assert share(root, "Canvas") > 0.5
    assert share(root, "CanvasText") > 0.005


def test_in_high_contrast_what_is_chosen_stands_out(forced: Notebook) -> None:
    forced.run("fate.sequence_rule = True; fate.row = 1; tree.node = 'refs'; bitmap.position = 2; bitmap.byte = 24")
    says(forced, "fate", "Row 1 of D1")
    says(forced, "bitmap", "Bytes 24")
    pairs = [
        (
            widget(forced, "fate").locator("tbody tr[aria-selected=true]"),
            widget(forced, "fate").locator("tbody tr").nth(5),
        ),
        (
            widget(forced, "tree").locator("[aria-selected=true]"),
            widget(forced, "tree").locator("[role=treeitem]").last,
        ),
        (
            widget(forced, "bitmap").locator(".dk-cell[aria-selected=true]"),
            widget(forced, "bitmap").locator(".dk-cell").nth(6),
        ),
        (
            widget(forced, "bitmap").locator(".dk-strip .dk-on"),
            widget(forced, "bitmap").locator(".dk-strip span").nth(1),
        ),
    ]
    for chosen, other in pairs:
        assert highlighted(chosen, margin=2) > 40
        assert highlighted(other) == 0


def test_in_high_contrast_kinds_are_told_apart(forced: Notebook) -> None:
    bitmap, costs = widget(forced, "bitmap"), widget(forced, "costs")
    says(forced, "bitmap", "positions: 2")
    assert share(bitmap.locator(".dk-all").first, "CanvasText") > 0.9
    assert share(bitmap.locator(".dk-none").first, "Canvas") > 0.6
    dark = {form: share(bitmap.locator(f".dk-strip .dk-fill-{form}").last, "CanvasText") for form in (1, 2, 3, 4)}
    assert sorted(dark, key=lambda form: dark[form]) == [1, 2, 3, 4]  # file, blob, footer, container
    forced.run("bitmap.zoom = 1")
    bitmap.locator(".dk-some-3").first.wait_for()
    assert 0.2 < share(bitmap.locator(".dk-some-3").first, "CanvasText") < 0.8

    assert share(costs.locator(".dk-bar.dk-written").first, "CanvasText") > 0.8
    assert share(costs.locator(".dk-bar.dk-read").first, "Canvas") > 0.5
    assert share(costs.locator(".dk-bar.dk-read").first, "CanvasText") > 0.01

    for mark in widget(forced, "line").locator("svg g").all():
        assert share(mark.locator("text"), "CanvasText") > 0.005
        assert share(mark.locator("text"), "Canvas") > 0.3
        edge = mark.locator("rect")
        assert colours(edge, margin=2)[system_colour(mark, "CanvasText")] + highlighted(edge, margin=2) > 100

    forced.run("stream.crash = ''; stream.step = 2")
    stream = widget(forced, "stream")
    stream.locator(".dk-step.dk-done").nth(1).wait_for()
    assert share(stream.locator(".dk-step.dk-done").first, "CanvasText") > 0.5
    assert share(stream.locator(".dk-step:not(.dk-done)").first, "Canvas") > 0.5

    borders = {
        mark: widget(forced, "fate")
        .locator(f"tr.dk-{mark} th")
        .first.evaluate("e => getComputedStyle(e).borderInlineStartStyle")
        for mark in ("live", "hidden")
    }
    assert borders == {"live": "solid", "hidden": "dotted"}


def test_nothing_moves_for_those_who_ask_for_that(notebook: Notebook) -> None:
    assert moving(notebook.page) > 0
    notebook.page.emulate_media(reduced_motion="reduce")
    try:
        for name in VIEWS:
            widget(notebook, name).hover()
            assert moving(notebook.page) == 0
        widget(notebook, "fate").locator("tbody tr").nth(4).click()
        notebook.until("fate.row", 4)
        assert moving(notebook.page) == 0
    finally:
        notebook.page.emulate_media(reduced_motion="no-preference")


def test_nothing_left_the_machine_and_nothing_failed(notebook: Notebook) -> None:
    assert notebook.foreign == []
    assert notebook.errors == []
