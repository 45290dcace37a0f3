"""The examples in docstrings do what they say, and every public name is in the site's reference."""

import inspect
from doctest import ELLIPSIS, DocTestFinder, DocTestRunner
from pathlib import Path
from typing import Any

import pytest

import deletekit as dk
from tests.tools.library_pages import IN_EXAMPLES, REFERENCE

MODULES = [name for name in dk.__all__ if inspect.ismodule(getattr(dk, name))]
WITH_EXAMPLES = [name for name in dk.__all__ if name not in MODULES and ">>>" in (getattr(dk, name).__doc__ or "")]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(IN_EXAMPLES, names)  # noqa: S102 - our own lines, which the reference shows
    [test] = DocTestFinder(recurse=False).find(getattr(dk, name), name, module=False, globs=names)
    said: list[str] = []
    runner = DocTestRunner(optionflags=ELLIPSIS)
    runner.run(test, out=said.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)


def test_the_most_used_verbs_have_examples() -> None:
    assert {"create_table", "append", "delete", "update", "upsert", "Clause", "scan", "compact"} <= {*WITH_EXAMPLES}


def test_every_public_name_is_in_the_reference_once() -> None:
    named = [name for _, names in REFERENCE.values() for name in names]
    known = {*dk.__all__} | {f"{module}.{name}" for module in MODULES for name in getattr(dk, module).__all__}
    assert sorted(named) == sorted(known)
