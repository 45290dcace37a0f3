"""The catalogs of `deletekit.course`: which texts they must have, found in the code itself."""

from __future__ import annotations

import ast
from pathlib import Path

from deletekit.course.answer_kinds import ANSWER_KINDS, function
from deletekit.course.exercises.all import EXERCISES
from tests.tools.lessons import ROOT
from tests.tools.translation import merge_catalog

COURSE = ROOT / "deletekit" / "course"


def catalog_file(language: str) -> Path:
    return COURSE / "locale" / f"{language}.po"


def interface_texts() -> list[str]:
    """List what the course says around exercises: every literal given to `text(...)`, and the kinds of answers."""
    found = []
    for file in sorted(COURSE.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "text":
                argument = node.args[0]
                if isinstance(argument, ast.Constant):
                    found.append(str(argument.value))
    kinds = [kind.description for kind in (*ANSWER_KINDS.values(), function())]
    return list(dict.fromkeys([*found, *kinds]))


def exercise_texts() -> list[str]:
    """List what the exercises say, in their order."""
    found = []
    for exercise in EXERCISES.values():
        found += [exercise.why, *exercise.hints, *(mistake.hint for mistake in exercise.mistakes)]
    return list(dict.fromkeys(found))


def update(languages: list[str]) -> None:
    """Bring the catalogs to the texts of the code."""
    for language in languages:
        merge_catalog(catalog_file(language), [*interface_texts(), *exercise_texts()], language)
