"""The instructor's pages: every lesson has one, as generated and translated; what people wrote names what there is."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from deletekit.course.exercises.all import EXERCISES
from deletekit.course.tracks import TRACKS, plan_of
from tests.tools import catalogs
from tests.tools.instructor import PAGES, block, instructor_pages, page_languages, page_of, sections, shown
from tests.tools.lessons import lesson_names, read_source, solutions

lessons = pytest.mark.parametrize("name", lesson_names())


def test_pages_are_as_built() -> None:
    pages = instructor_pages()
    stale = [file.name for file, text in pages.items() if not file.is_file() or file.read_text("utf-8") != text]
    assert stale == [], "run `python -m tests.tools.build_notebooks`, or see tests/tools/instructor.py"


@lessons
def test_the_clock_runs_to_the_end(name: str) -> None:
    minutes = read_source(name).metadata["deletekit"]["minutes"]
    starts = [int(minute) for minute in re.findall(r"^\| (\d+) \|", block(name), re.MULTILINE)]
    assert starts == sorted(starts)
    assert (starts[0], starts[-1]) == (0, minutes["teach"] + minutes["exercise"])
    assert min(after - before for before, after in pairwise(starts)) >= 2, "nobody looks at the clock each minute"
    planned = [exercise for part in sections(read_source(name)) for exercise in part.exercises]
    assert sorted(planned) == sorted(e.id for e in EXERCISES.values() if e.lesson == name[:2])


def test_the_course_page_has_the_minutes_of_all_lessons() -> None:
    minutes = [read_source(name).metadata["deletekit"]["minutes"] for name in lesson_names()]
    teach, exercise = (sum(lesson[part] for lesson in minutes) for part in ("teach", "exercise"))
    page = " ".join((PAGES.parents[1] / "docs" / "course.md").read_text(encoding="utf-8").split())
    assert f"{(teach + exercise) / 60:.0f} hours: {teach} minutes to read and run, {exercise} for the exercises" in page


@lessons
def test_the_answers_are_on_the_page(name: str) -> None:
    page = page_of(name).read_text(encoding="utf-8")
    assert [code for key, code in solutions().items() if key[:2] == name[:2] and code not in page] == []


@lessons
def test_every_known_mistake_is_on_the_page(name: str) -> None:
    page = page_of(name).read_text(encoding="utf-8")
    mistakes = [m for e in EXERCISES.values() if e.lesson == name[:2] for m in e.mistakes]
    rows = re.findall(rf"^\| {name[:2]}\.\d+ \| (?:`.+`|a function: \w.*) \| .+ \|$", page, re.MULTILINE)
    assert len(rows) == len(mistakes)
    assert len(set(re.findall(rf"^\| ({name[:2]}\.\d+ \| a function: .+?) \|", page, re.MULTILINE))) == len(
        [m for m in mistakes if all(map(callable, m.answers))]
    ), "each mistake of a function has a name of its own"
    assert " at 0x" not in page


@lessons
def test_what_people_wrote_is_there(name: str) -> None:
    parts = dict(
        re.findall(r"^## (.+?)\n\n(.+?)(?=\n## |\Z)", page_of(name).read_text("utf-8"), re.MULTILINE | re.DOTALL)
    )
    assert parts["Say it in one sentence"].strip()
    assert parts["Keep, and cut"].strip()
    assert len(re.findall(r"^\d\. .+\?\n   \*Listen for:\* .+\.$", parts["Ask the room"], re.MULTILINE)) == 3


def test_exercises_that_are_named_exist() -> None:
    # A page may be there before its lesson is.
    there = {name[:2] for name in lesson_names()}
    named = {
        f"{file.name}: {exercise}"
        for file in PAGES.rglob("*.md")
        for exercise in re.findall(r"\b([01]\d\.\d+)\b", file.read_text(encoding="utf-8"))
        if exercise[:2] in there and exercise not in EXERCISES
    }
    assert named == set()


@pytest.mark.parametrize("language", page_languages())
def test_a_translated_page_says_what_the_english_one_does(language: str) -> None:
    made = instructor_pages()
    lacking = {text for texts in catalogs.missing(language).values() for text in texts}
    for english in (PAGES / "README.md", *map(page_of, lesson_names())):
        text = made.get(english) or english.read_text(encoding="utf-8")
        said = made[PAGES / language / english.name]
        for kept in (r"\b\d\d\.\d+\b", r"^\| *\d+ \|", r"^#+ ", r"^\d\. ", r"^\|.*\|$"):
            found = [len(re.findall(kept, page, re.MULTILINE)) for page in (text, said)]
            assert found[0] == found[1], (english.name, kept)
        prose = re.sub(r"(?s:```.*?```)|`[^`\n]*`|\]\([^)]*\)|<!--.*?-->", " ", said)
        left = [line for line in prose.split("\n") if re.search(r"(?:\b[A-Za-z]{2,}\b[ ,]+){4}", line)]
        known = {re.sub(r"`[^`]*`|\]\([^)]*\)", " ", line) for block in lacking for line in block.split("\n")}
        unexplained = [line for line in left if not any(text.lstrip("# ") in line for text in known if text)]
        assert unexplained == [], english.name


@pytest.mark.parametrize("language", ["en", *page_languages()])
def test_links_of_pages_lead_somewhere(language: str) -> None:
    folder = PAGES if language == "en" else PAGES / language
    for file in folder.glob("*.md"):
        links = re.findall(r"\]\(([^)#]+)", file.read_text(encoding="utf-8"))
        assert [link for link in links if "://" not in link and not _is_there(file.parent / link)] == [], file.name


def _is_there(target: Path) -> bool:
    # A lesson may have its page before it is built.
    return target.is_file() or (target.suffix == ".ipynb" and target.stem in lesson_names())


def test_answers_are_written_in_one_way_only() -> None:
    assert shown({"b", "a"}) == "`{'a', 'b'}`"
    assert shown({"x": {2, 1}, "y": [set(), "a|b"]}) == "`{'x': {1, 2}, 'y': [set(), 'a\\|b']}`"


def test_tracks_are_the_plans_of_the_page() -> None:
    page = (PAGES / "README.md").read_text(encoding="utf-8")
    plans = {
        track: plan for plan in page.split("\n## ") for track in re.findall(r"`deletekit lab --track ([\w-]+)`", plan)
    }
    assert list(plans) == list(TRACKS)
    # The lessons that a plan links to, in its order; the day begins with those of the half day.
    linked = {track: re.findall(r"\((\d\d)_\w+\.md\)", plan) for track, plan in plans.items()}
    linked["day"] = ["00", "01", "02", *linked["day"]]
    linked["onboarding"] = [f"{number:02}" for number in range(9) if number != 3] + linked["onboarding"]
    assert {track: list(plan_of(track)) for track in TRACKS} == linked
    assert [i for ids in plan_of("half-day").values() for i in ids] == re.findall(r"\d\d\.\d", plans["half-day"])
    assert "04.2" not in {i for ids in plan_of("day").values() for i in ids}
    assert {i for track in TRACKS for ids in plan_of(track).values() for i in ids} <= set(EXERCISES)
    assert [i for ids in plan_of("course").values() for i in ids] == list(EXERCISES)
