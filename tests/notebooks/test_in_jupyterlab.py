"""A lesson of each language as learners meet it: opened in JupyterLab, run to its end, its widgets used; offline."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import nbformat
import pytest

from deletekit.course.translations import Messages
from tests.tools.build_notebooks import notebook_file

pytest.importorskip("playwright", reason="playwright is not installed: pip install 'deletekit[test]'")
pytest.importorskip("jupyterlab", reason="JupyterLab is not installed: pip install 'deletekit[course]'")

from tests.course.widgets.browser import IN_BROWSER
from tests.course.widgets.lab import Lab, Notebook
from tests.optional_types import Browser, Locator

pytestmark = IN_BROWSER

LESSONS = [
    ("en", "06_deletion_vectors", ["BitmapBytes", "RowFate"]),
    ("ko", "04_equality_deletes", ["SequenceTimeline"]),
    ("ko", "14_delta_to_iceberg", ["DeltaBridge"]),
    ("ja", "02_copy_on_write", ["SnapshotDiff", "CostMeter"]),
    ("zh-CN", "16_exactly_once", ["StreamStepper"]),
    ("es", "01_table_anatomy", ["TableTree"]),
]
"""Lessons with the widgets in them: every language, and every widget."""
DONE = "() => [...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].every((p) => /\\d/.test(p.textContent))"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Give a JupyterLab whose kernels learn the language from the notebook's folder alone."""
    folder = tmp_path_factory.mktemp("lab")
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("DELETEKIT_LANG", raising=False)
        environment.setenv("DELETEKIT_COURSE_ENGINE", "local")
        environment.setenv("DELETEKIT_PROGRESS", str(folder / "progress.json"))
        with Lab(folder) as started:
            yield started


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("language", "name", "widgets"), LESSONS)
def test_a_lesson_runs_to_its_end_and_its_widgets_live(
    browser: Browser, lab: Lab, language: str, name: str, widgets: list[str]
) -> None:
    file = notebook_file(language, name)
    titles = [Messages(language)(f"title-{widget}") for widget in widgets]
    with closing(Notebook(browser, lab, lab.copy(file))) as notebook:
        page = notebook.page

        # As committed: what a widget says is there before anything runs.
        assert page.locator(".deletekit").count() == 0
        for title in titles:
            page.locator(".jp-OutputArea h3", has_text=title).first.wait_for()

        notebook.run_all()
        page.wait_for_function(f"() => document.querySelectorAll('.deletekit .dk-code').length === {len(widgets)}")
        page.wait_for_function(DONE, timeout=60_000)
        assert prompts(notebook) == [f"[{n}]:" for n in range(1, cells(file) + 1)]
        assert page.locator("[data-mime-type='application/vnd.jupyter.error']").all_inner_texts() == []
        assert page.locator("[data-mime-type='application/vnd.jupyter.stderr']").all_inner_texts() == []

        roots = page.locator(".deletekit").all()
        assert [root.get_attribute("data-view") for root in roots] == widgets
        assert [root.get_attribute("lang") for root in roots] == [language] * len(widgets)
        for root in roots:
            use(root)
        assert notebook.foreign == []
        assert notebook.errors == []


def prompts(notebook: Notebook) -> list[str]:
    return notebook.page.locator(".jp-CodeCell .jp-InputPrompt").all_inner_texts()


def cells(file: Path) -> int:
    return sum(cell.cell_type == "code" for cell in nbformat.read(file, as_version=4).cells)


def use(root: Locator) -> None:
    """Change something in a widget; Python answers with another line of code."""
    before = root.locator(".dk-code code").inner_text()
    if root.locator("[role=treeitem]").count():
        root.locator("[role=treeitem]").first.click()
    elif root.locator(".dk-choice[aria-selected=false]").count():
        root.locator(".dk-choice[aria-selected=false]").last.click()
    elif root.locator("input[type=checkbox]").count():
        root.locator("input[type=checkbox]").first.click()
    elif root.locator("input[type=number]").count():
        root.locator("input[type=number]").first.press("ArrowDown")
    else:
        root.locator("select").first.select_option(index=1)
    root.page.wait_for_function(
        "([code, was]) => code.isConnected ? code.textContent !== was : true",
        arg=[root.locator(".dk-code code").element_handle(), before],
    )
    after = root.locator(".dk-code code").inner_text()
    assert after != before
    assert "dk-failed" not in (root.get_attribute("class") or "")
