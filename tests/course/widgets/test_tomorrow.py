"""A notebook of yesterday: its widgets show the pages that it saved, until they are live again."""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import nbformat
import pytest

from tests.course.widgets.scenes import sample_table

pytest.importorskip("playwright", reason="playwright is not installed: pip install 'deletekit[test]'")
pytest.importorskip("jupyterlab", reason="JupyterLab is not installed: pip install 'deletekit[course]'")

from nbconvert import HTMLExporter
from playwright.sync_api import expect
from traitlets.config import Config

from tests.course.widgets.browser import IN_BROWSER
from tests.course.widgets.lab import Lab, Notebook
from tests.optional_types import Browser, Page

pytestmark = IN_BROWSER

OUTPUTS = ".jp-OutputArea-output:visible"
PAGES = ".jp-OutputArea-output section:visible"
TITLES = ["Table tree", "Row fate"]
VIEW = "application/vnd.jupyter.widget-view+json"
KERNEL = "window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel"
CELLS = ["import deletekit as dk", "tree = dk.widgets.TableTree(t)\ntree", "fate = dk.widgets.RowFate(t)\nfate"]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(tmp_path_factory.mktemp("lab")) as started:
        yield started


@pytest.fixture(scope="module")
def yesterday(browser: Browser, lab: Lab) -> Iterator[Path]:
    """Give a notebook that ran, was saved, and lost its kernel."""
    with sample_table(lab.folder / "sample") as table:
        cells = [f"{CELLS[0]}\nt = dk.from_metadata({table.metadata_location!r})", *CELLS[1:]]
        with closing(Notebook(browser, lab, lab.notebook("yesterday", cells))) as notebook:
            notebook.run_all()
            live(notebook.page)
            save(notebook)
        yield lab.folder / "work" / "yesterday.ipynb"


def live(page: Page) -> None:
    """Wait until both widgets are live, and nothing else is shown."""
    expect(page.locator(".deletekit .dk-code:visible")).to_have_count(2, timeout=60_000)
    expect(page.locator(PAGES)).to_have_count(0)
    expect(page.locator(OUTPUTS)).to_have_count(2)


def static(page: Page) -> None:
    """Wait until both saved pages are shown, and nothing else."""
    expect(page.locator(PAGES)).to_have_count(2, timeout=20_000)
    page.wait_for_timeout(3000)  # Jupyter looks two seconds for a model before it gives up
    texts = [text.strip() for text in page.locator(OUTPUTS).all_inner_texts()]
    assert [text.split("\n")[0] for text in texts] == TITLES
    assert "model not found" not in "".join(texts)
    assert page.locator(".deletekit:visible").count() == 0


def save(notebook: Notebook) -> None:
    notebook.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.save().then(() => null)")


def test_saved_pages_are_shown_until_the_cells_run_again(browser: Browser, lab: Lab, yesterday: Path) -> None:
    with closing(Notebook(browser, lab, lab.address(yesterday.name))) as notebook:
        page = notebook.page
        static(page)
        notebook.run("import deletekit")  # the new kernel is used, for other things
        static(page)
        notebook.run_all()
        live(page)


def test_without_a_kernel(browser: Browser, lab: Lab, yesterday: Path) -> None:
    page = browser.new_page()
    page.route(re.compile(r"/api/(sessions|kernels)\b"), lambda route: route.abort())
    page.goto(lab.address(yesterday.name))
    static(page)
    page.close()


def test_two_notebooks_in_one_page(browser: Browser, lab: Lab, yesterday: Path) -> None:
    other = yesterday.with_stem("other")
    other.write_bytes(yesterday.read_bytes())
    address = lab.address(yesterday.name).replace("/doc/tree/", "/lab/tree/")
    with closing(Notebook(browser, lab, address)) as notebook:
        static(notebook.page)
        notebook.command("docmanager:open", path=other.name)
        notebook.page.wait_for_function("() => window.jupyterapp.shell.currentWidget?.context?.path === 'other.ipynb'")
        static(notebook.page)
        notebook.page.wait_for_function(f"() => {KERNEL}?.status === 'idle'", timeout=60_000)
        notebook.run_all()
        live(notebook.page)
        notebook.command("docmanager:open", path=yesterday.name)
        static(notebook.page)


def test_a_page_that_is_loaded_again_is_live(browser: Browser, lab: Lab, yesterday: Path) -> None:
    with closing(Notebook(browser, lab, lab.address(yesterday.name))) as notebook:
        notebook.run_all()
        live(notebook.page)
        save(notebook)
        notebook.page.reload()
        live(notebook.page)
        notebook.run("fate.row = 1")
        notebook.page.wait_for_function(
            "() => /row=1/.test(document.querySelectorAll('.deletekit .dk-code')[1].textContent)"
        )
        notebook.page.locator(".deletekit [role=treeitem]").first.click()
        notebook.until("len(tree.node) > 0", expected=True)


@pytest.mark.parametrize("end", ["restart", "shutdown"])
def test_a_kernel_ends_below_an_open_page(browser: Browser, lab: Lab, yesterday: Path, end: str) -> None:
    with closing(Notebook(browser, lab, lab.address(yesterday.name))) as notebook:
        notebook.run_all()
        live(notebook.page)
        notebook.page.evaluate(f"() => {{ {KERNEL}.{end}() }}")
        static(notebook.page)
        if end == "restart":
            notebook.run_all()
            live(notebook.page)


def test_a_notebook_that_is_not_trusted(browser: Browser, lab: Lab, yesterday: Path) -> None:
    book = nbformat.read(yesterday, as_version=4)
    book.cells[0].source += "  # somebody else wrote this"
    nbformat.write(book, yesterday.with_stem("foreign"))
    with closing(Notebook(browser, lab, lab.address("foreign.ipynb"))) as notebook:
        trusted = "() => window.jupyterapp.shell.currentWidget.content.model.cells.get(1).trusted"
        assert notebook.page.evaluate(trusted) is False
        static(notebook.page)


def test_other_readers_take_the_html(browser: Browser, yesterday: Path) -> None:
    """GitHub and nbviewer know `text/html`; so does nbconvert, if the notebook has no state of widgets."""
    book = nbformat.read(yesterday, as_version=4)
    nbformat.validate(book)
    outputs = [output.data for cell in book.cells for output in cell.outputs]
    assert [data["text/html"].startswith("<section") for data in outputs] == [True, True]
    # An editor that tries the types of vendors first must come to the page after the live widget.
    others = [kind for data in outputs for kind in data if kind.startswith("application/vnd.")]
    assert others == [VIEW, VIEW]
    assert converted(browser, book, HTMLExporter()) == TITLES
    # With a state nbconvert leaves the widgets to a script from the network, unless it is told otherwise.
    state = {data[VIEW]["model_id"]: {"model_name": "AnyModel", "state": {}} for data in outputs}
    book.metadata["widgets"] = {VIEW.replace("view", "state"): {"state": state}}
    assert converted(browser, book, HTMLExporter()) == []
    first = Config(NbConvertBase={"display_data_priority": ["text/html", "text/plain"]})
    assert converted(browser, book, HTMLExporter(config=first)) == TITLES


def converted(browser: Browser, book: nbformat.NotebookNode, exporter: HTMLExporter) -> list[str]:
    """Return the titles of the widgets in a converted notebook, as a browser without a network shows it."""
    page = browser.new_page()
    page.route(re.compile("^http"), lambda route: route.abort())
    page.set_content(exporter.from_notebook_node(book)[0])
    titles = page.locator("section h3:visible").all_inner_texts()
    page.close()
    return titles
