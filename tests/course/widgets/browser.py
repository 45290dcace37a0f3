"""The system's Chromium, as a fixture and as a context."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.optional_types import Browser

IN_BROWSER = [
    pytest.mark.slow,
    # Playwright and jupyter_client leave sockets and loops to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.xdist_group("browser"),
]


def chromium() -> str | None:
    """The program."""
    return next(
        (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
    )


@contextmanager
def running(program: str) -> Iterator[Browser]:
    """Start the browser, and stop it."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  # an extra

    options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=options)
        yield started
        started.close()


def axe_findings(browser: Browser, address: str) -> list[str]:
    """What axe says of a page on a phone, a tablet and a desk, light and dark; and how much wider it is than these."""
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415  # an extra

    found = []
    for width in (390, 1024, 1400):
        for theme in ("light", "dark"):
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
            page.goto(address)  # until it is loaded: a long page may leave the network idle while it is still read
            page.wait_for_load_state("networkidle")
            for rule in Axe().run(page).response["violations"]:
                found += [f"{width} {theme} {rule['id']}: {node['html'][:200]}" for node in rule["nodes"]]
            wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            found += [f"{width} {theme}: {wide} pixels too wide"] if wide > 0 else []
            page.close()
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Give the system's Chromium."""
    pytest.importorskip("playwright", reason="playwright is not installed: pip install 'deletekit[test]'")
    program = chromium()
    if program is None:
        pytest.skip("Chromium is not installed (Debian's package chromium)")
    with running(program) as started:
        yield started
