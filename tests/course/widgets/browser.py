"""The system's Chromium, as a fixture and as a context."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser


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


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Give the system's Chromium."""
    pytest.importorskip("playwright", reason="playwright is not installed: pip install 'deletekit[test]'")
    program = chromium()
    if program is None:
        pytest.skip("Chromium is not installed (Debian's package chromium)")
    with running(program) as started:
        yield started
