"""The catalogs of `deletekit.course` and of the instructor's pages: which texts they can have, and which they lack."""

import ast
from pathlib import Path

from deletekit.course.answer_kinds import ANSWER_KINDS
from deletekit.course.exercises.all import EXERCISES
from deletekit.course.function_answers import function
from deletekit.tools.explain import SENTENCES
from tests.tools import instructor, translation
from tests.tools.lessons import ROOT, lesson_names, read_source

COURSE = ROOT / "deletekit" / "course"


def catalog_file(language: str) -> Path:
    return COURSE / "locale" / f"{language}.po"


def interface_texts() -> list[str]:
    """List what the course says around exercises: literals in `text(...)`, kinds of answers, the words of `explain`."""
    found = []
    for file in sorted(COURSE.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "text":
                argument = node.args[0]
                if isinstance(argument, ast.Constant):
                    found.append(str(argument.value))
    kinds = [kind.description for kind in (*ANSWER_KINDS.values(), function())]
    return list(dict.fromkeys([*found, *kinds, *SENTENCES.values()]))


def exercise_texts() -> list[str]:
    """List what the exercises say, in their order, and the terms among which they let one choose."""
    found, terms = list[str](), {row["en"] for row in translation.glossary()}
    for exercise in EXERCISES.values():
        found += [exercise.why, *exercise.hints, *(mistake.hint for mistake in exercise.mistakes)]
        found += [choice for choice in exercise.choices if choice in terms or choice.replace("-", " ") in terms]
    return list(dict.fromkeys(found))


def update(languages: list[str]) -> None:
    """Bring the catalogs to the texts of the code."""
    for language in languages:
        translation.merge_catalog(catalog_file(language), course_texts(), language)
    for language in instructor.page_languages():
        file = translation.catalog_file(language, instructor.CATALOG)
        translation.merge_catalog(file, instructor.page_texts(), language)


def course_texts() -> list[str]:
    """List every text of the course outside of its lessons, once."""
    return list(dict.fromkeys([*interface_texts(), *exercise_texts()]))


def missing(language: str) -> dict[str, list[str]]:
    """List the English texts that a language lacks: of the course (`course`), the instructor's pages, each lesson."""
    wanted = {
        "course": (catalog_file(language), course_texts()),
        **{
            name: (translation.catalog_file(language, name), translation.english_units(read_source(name)))
            for name in lesson_names()
        },
    }
    if language in instructor.page_languages():
        file = translation.catalog_file(language, instructor.CATALOG)
        wanted[instructor.CATALOG] = (file, instructor.page_texts())
    lacking = {}
    for name, (file, texts) in wanted.items():
        translated = translation.translations(file)
        lacking[name] = [text for text in texts if text not in translated]
    return lacking
