"""What a learner types: check, predict, hint, solution, progress."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from deletekit.course import check, checking, hint, predict, progress, solution
from deletekit.course.answer_kinds import ANSWER_KINDS
from deletekit.course.checking import CHECK_TYPE, judge
from deletekit.course.exercise import Mistake
from deletekit.course.exercises.all import EXERCISES
from deletekit.course.tracks import TRACKS
from deletekit.course.translations import LANGUAGES, text
from tests.tools.translation import glossary


def test_a_verdict_is_one_line_and_facts_for_programs() -> None:
    verdict = check("00.2", {1, 3})
    assert repr(verdict) == "✗ 00.2: not yet. These are the ids that the delete named. Which ones are left?"
    bundle = verdict._repr_mimebundle_()
    assert bundle["text/plain"] == verdict.said
    assert bundle[CHECK_TYPE] == {"exercise": "00.2", "status": "not-yet", "mistake": 1}


def test_a_prediction_is_noted_and_judged_later() -> None:
    assert check("00.1").status == "not-answered"
    assert predict("00.1", 4).status == "noted"
    assert (check("00.1").status, check("00.1").mistake) == ("not-yet", 1)
    known = EXERCISES["00.1"]
    answer = f"{known.mistakes[0].hint} The answer: 2. {known.why}"
    assert check("00.1").said == f"✗ 00.1: it came out differently. {answer}"
    predict("00.1", 2)
    assert check("00.1").status == "correct"
    assert predict("00.1", ...).status == "not-answered"
    assert check("00.1").status == "not-answered", "a prediction that is taken back is not judged"


def test_a_prediction_of_another_kind_is_said_and_not_noted(tmp_path: Path) -> None:
    predict("00.1", 2)
    verdict = predict("00.1", "two")
    assert (verdict.status, verdict.mistake) == ("other-kind", None)
    assert verdict.said == (
        "✗ 00.1: the answer is a whole number. 'two' is of type str. It is not noted: write your prediction once more."
    )
    assert check("00.1").status == "correct", "the prediction before it is still there"
    assert predict("00.1", 1234).said == "00.1: noted. Now run and see.", "whether it is right is not said"


@pytest.mark.parametrize(
    ("typed", "nearest"),
    [
        ("4.2", "04.2"),
        ("04,2", "04.2"),
        ("04.02", "04.2"),
        (" 04.2 ", "04.2"),
        ("\uff10\uff14\uff0e\uff12", "04.2"),
        (4.2, "04.2"),
        ("exercise 4-2", "04.2"),
        ("04.9", ", ".join([i for i in EXERCISES if i.startswith("04")][-3:])),
        ("99.9", ", ".join(list(EXERCISES)[-3:])),
    ],
)
def test_a_mistyped_id_gets_one_sentence_with_the_nearest_ones(
    typed: object, nearest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for verb in (check, predict):
        verdict = verb(typed, 1)  # type: ignore[arg-type]
        assert verdict.status == "no-exercise"
        assert verdict.said == f"✗ There is no exercise {typed!r}; the nearest: {nearest}."
    for other in (hint, solution):
        other(typed)  # type: ignore[arg-type]
        assert capsys.readouterr().out == f"✗ There is no exercise {typed!r}; the nearest: {nearest}.\n"


def test_anything_may_be_typed_for_an_id(tmp_path: Path) -> None:
    odd = ["", [], {1}, ..., "x" * 10**6, "9" * 5000, 10**5000, float("nan"), object()]
    for unknown in odd:
        said = check(unknown, 1).said  # type: ignore[arg-type]
        assert re.search(r"the nearest: \d\d\.\d", said)
        assert len(said) < 300
        assert " at 0x" not in said
    assert not list(tmp_path.iterdir()), "nothing is recorded"


def test_hints_come_one_by_one_and_begin_again(capsys: pytest.CaptureFixture[str]) -> None:
    steps = EXERCISES["00.2"].hints
    for _ in range(len(steps) + 2):
        hint("00.2")
    shown = capsys.readouterr().out.splitlines()
    last = 'that was the last hint. solution("00.2") shows the answer, and why.'
    assert [line.split(":", 1)[1].strip() for line in shown] == [*steps, last, steps[0]]
    assert shown[0].startswith(f"00.2, hint 1 of {len(steps)}:")


def test_a_verb_without_its_exercise_or_for_another_kind_gets_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    sentence = '… Write the number of an exercise between the brackets, such as "00.1".'
    hint()
    solution()
    assert [check().said, predict().said, *capsys.readouterr().out.splitlines()] == [sentence] * 4
    assert predict("04.1").status == "not-answered"
    for verdict in (check("01.4"), predict("01.4", 3)):
        assert verdict.said == '… 01.4 asks for no prediction: answer with check("01.4", ...).'
    assert check("01.4").status == "not-answered", "what was predicted is not noted"


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_term_counts_in_the_language_of_the_learner(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DELETEKIT_LANG", language)
    terms = {row["en"]: row[language] for row in glossary()}
    for exercise in EXERCISES.values():
        one = (lambda name: {name}) if exercise.answer_kind is ANSWER_KINDS["names"] else str
        for choice in exercise.choices:
            term = terms.get(choice) or terms.get(choice.replace("-", " "))
            assert language == "en" or term is None or re.fullmatch(term, text(choice))
            english, own = judge(exercise, one(choice)), judge(exercise, one(text(choice).upper()))
            assert own == english
    assert all(name in check("01.2", "Puffin").said for name in ("table metadata", text("table metadata")))


@pytest.mark.parametrize("exercise_id", EXERCISES)
def test_every_exercise_has_a_solution(exercise_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    solution(exercise_id)
    shown = capsys.readouterr().out
    assert exercise_id in shown
    assert EXERCISES[exercise_id].why in shown


def test_an_exercise_in_english_only_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = {"why": "New reason.", "hints": ("New hint.",), "mistakes": (Mistake(answers=(4,), hint="New mistake."),)}
    exercise = replace(EXERCISES["00.1"], **words)
    monkeypatch.setitem(EXERCISES, "00.1", exercise)  # type: ignore[arg-type]
    for language, sentence in (
        ("en", ""),
        ("ko", " (이 연습 문제는 아직 영어로만 되어 있습니다.)"),
    ):
        monkeypatch.setenv("DELETEKIT_LANG", language)
        checking._hints_given.clear()
        assert check("00.1", 2).said.endswith(f" New reason.{sentence}")
        assert check("00.1", 4).said.endswith(f" New mistake.{sentence}")
        hint("00.1")
        solution("00.1")
        shown = capsys.readouterr().out.splitlines()
        assert shown[0].endswith(f" New hint.{sentence}")
        assert shown[-1] == f"New reason.{sentence}"


# --- progress ---------------------------------------------------------------------------------------------------------


def test_progress_counts_what_was_tried_and_what_was_right() -> None:
    check("00.3", 2)
    check("00.2", {2, 4})
    assert progress().rows[0] == ("00", 1, 2, 2, "0/1")
    check("00.2", {1, 3})
    assert progress().rows[0] == ("00", 1, 2, 2, "0/1"), "what was right stays right"
    predict("00.1", 4)
    assert progress().still_open[:2] == ("00.1", "00.3")
    check("00.1")
    assert progress().still_open[0] == "00.3", "a wrong prediction is done once one has seen what is right"
    check("00.3", 4)
    assert progress().rows[0] == ("00", 2, 2, 2, "0/1")
    check("00.1", 2)
    assert progress().rows[0] == ("00", 2, 2, 2, "1/1")
    head = ["lesson", "right", "tried", "exercises", "right predictions", "open"]
    assert re.split("  +", repr(progress()).splitlines()[0]) == head


def test_progress_says_what_is_open_and_what_comes_next() -> None:
    assert progress().still_open == tuple(EXERCISES)
    for exercise in ("00.1", "00.3"):
        check(exercise, EXERCISES[exercise].right[0])
    lines = repr(progress()).splitlines()
    assert lines[1].split() == ["00", "·", "Start", "here", "1", "1", "2", "1/1", "2"]
    assert lines[2].startswith("01 · The anatomy of a table")
    assert lines[-1] == "Next: exercise 00.2 of 00 · Start here."
    for exercise in EXERCISES.values():
        check(exercise.id, exercise.right[0])
    assert progress().still_open == ()
    assert repr(progress()).splitlines()[-1] == "Every exercise is right. Well done!"
    bars = re.findall(r'<progress value="(\d+)" max="(\d+)"', progress()._repr_html_())
    assert len(bars) == len(progress().rows)
    assert [bar for bar in bars if bar[0] != bar[1]] == [("0", "1")], "lesson 12 has predictions only"


def test_a_track_orders_and_limits_what_progress_shows(tmp_path: Path) -> None:
    (tmp_path / "progress.json").write_text('{"track": "hour"}')
    found = progress()
    assert [row[0] for row in found.rows] == ["00", "04", "06"]
    assert found.still_open == tuple(TRACKS["hour"].split())
    check("00.1", 2)
    check("15.1", 0)
    assert progress().rows[0] == ("00", 0, 0, 1, "1/1")
    assert any(line.startswith("Your track: hour. ") for line in repr(progress()).splitlines())


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "{",
        "[]",
        "null",
        '{"track": 1, "00.2 x": 1, "00.1": 7, "77.7": "correct", "00.2": "correct"}',
        "[" * 100_000,
    ],
)
def test_a_damaged_file_costs_no_more_than_what_it_held(damage: str, tmp_path: Path) -> None:
    (tmp_path / "progress.json").write_text(damage)
    rows = progress().rows
    assert rows[0][1] == ("00.2" in damage)
    assert check("00.3", 4).status == "correct"
    assert progress().rows[0][1] == 1 + ("00.2" in damage)


def test_what_another_kernel_has_seen_solved_stays_solved(tmp_path: Path) -> None:
    stored = tmp_path / "progress.json"
    assert check("00.3", 77).status == "not-yet"
    stored.write_text('{"00.3": "correct"}')
    assert progress().rows[0][1:3] == (1, 1)
    check("00.2", "no")
    assert json.loads(stored.read_text())["00.3"] == "correct"


def test_all_languages_share_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DELETEKIT_PROGRESS")
    (tmp_path / "ko").mkdir()
    for folder in (tmp_path / "ko", tmp_path):
        monkeypatch.chdir(folder)
        check("00.1", 2)
        assert list(tmp_path.rglob("*.json")) == [tmp_path / "deletekit-progress.json"]


@pytest.mark.parametrize("place", ["nowhere", "file"])
def test_without_a_place_for_the_file_progress_is_kept_in_memory(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("DELETEKIT_PROGRESS", str(tmp_path / place / "progress.json"))
    assert check("00.3", 4).status == "correct"
    assert progress().rows[0][1] == 1
