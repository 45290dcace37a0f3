"""The runner judges what an engine does: each kind of answer, by a small program that gives it."""

import json
import sys
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from conformance.runner import EngineRun, Verdict, chosen_cases, run_engine, suite_folder
from conformance.suite import Case, load_suite
from deletekit.conformance import engines
from deletekit.conformance.engines import Engine, EngineProcess, engine_of
from deletekit.errors import InvalidInputError, NotFoundError
from deletekit.reader_verdicts.known_verdicts import OTHER_ROWS

CASES = load_suite(suite_folder())
CASE = next(case for case in CASES if case.name == "two_key_columns")
OTHER = next(case for case in CASES if case.name == "nan_key")
EXPECTED = {case.name: case.expected() for case in (CASE, OTHER)}

PRELUDE = f"""
import json, os, signal, sys, time
from pathlib import Path
EXPECTED = json.loads({json.dumps(EXPECTED)!r})
def say(**answer):
    print(json.dumps(answer), flush=True)
def rows(request):
    return EXPECTED[Path(request["metadata"]).parents[1].name]
"""


def program(body: str) -> Engine:
    """Return an engine that runs `body` for each request."""
    loop = "\nfor line in sys.stdin:\n    request = json.loads(line)\n"
    code = PRELUDE + loop + "\n".join(f"    {line}" for line in body.strip().split("\n"))
    return Engine(name="mine", command=(sys.executable, "-c", code))


def run(body: str, *cases: Case, seconds: float = 20) -> EngineRun:
    return run_engine(program(body), cases or (CASE,), seconds=seconds)


def one(body: str, **more: Any) -> Verdict:
    [verdict] = run(body, **more).verdicts
    return verdict


def test_rows_in_another_order_are_right() -> None:
    verdict = one('say(version="7", rows=rows(request)[::-1])')
    assert (verdict.verdict, verdict.version, verdict.words, verdict.breaks) == ("right", "7", None, None)


def test_what_is_asked() -> None:
    asked = "say(refuses=json.dumps([request, os.path.isfile(request['metadata'])]))"
    request, is_there = json.loads((one(asked).words or "").replace("…/", ""))
    assert is_there
    assert request["ref"] == "main"
    assert request["snapshot_id"] == CASE.snapshot_id()
    assert request["columns"] == CASE.columns()


def test_a_wrong_reader_is_named() -> None:
    decoy = CASE.decoys[0]
    verdict = one(f"say(rows=json.loads({json.dumps(CASE.decoy_rows(decoy))!r}))")
    assert (verdict.verdict, verdict.breaks) == ("WRONG", decoy.breaks)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("rows(request)[1:]", '1 row missing ([2, 1, "y"]), 0 rows too many'),
        ("rows(request) + rows(request)", '0 rows missing, 3 rows too many ([2, 1, "y"])'),
        ("[row[:1] for row in rows(request)]", '3 rows missing ([2, 1, "y"]), 3 rows too many ([2])'),
    ],
)
def test_other_rows_are_counted(rows: str, words: str) -> None:
    verdict = one(f"say(rows={rows})")
    assert (verdict.verdict, verdict.breaks, verdict.words) == ("WRONG", OTHER_ROWS, words)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('say(refuses="I cannot do this")', "refuses: I cannot do this"),
        ('print("I cannot do this", file=sys.stderr); sys.exit(3)', "refuses: I cannot do this"),
        ('print("why", file=sys.stderr); sys.exit(5)', "exit code 5, without an answer. why"),
        ("sys.exit(0)", "exit code 0, without an answer."),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "signal SIGSEGV, without an answer."),
        ('say(crashes="a panic")', "a panic"),
        ("print('hello', flush=True)", "the answer is not JSON: hello"),
        ("print('[' * 100_000, flush=True)", "the answer is not JSON: ["),
        ("print([1], flush=True)", "the answer is not a JSON object"),
        ("say(rows=3)", "the answer has no `rows`"),
        ("say(rows=[3])", "the answer has no `rows`"),
        ("say()", "the answer has no `rows`"),
    ],
)
def test_refuses_or_crashes_with_its_words(body: str, words: str) -> None:
    verdict = one(body)
    said = words if words.startswith("refuses: ") else f"crashes: {words}"
    assert f"{verdict.verdict}: {verdict.words}".startswith(said)


def test_deep_values_do_not_break_the_runner() -> None:
    for depth in (500, 900, 940, 960, 2000):
        assert one(f"print('{{\"rows\": [[' + '[' * {depth} + ']' * {depth} + ']]}}', flush=True)").verdict != "right"


def test_a_late_engine_is_ended_with_its_children(tmp_path: Path) -> None:
    child = f"import subprocess; p = subprocess.Popen(['sleep', '60']); Path({str(tmp_path / 'pid')!r})"
    began = monotonic()
    verdict = one(f"{child}.write_text(str(p.pid)); time.sleep(60)", seconds=2)
    assert (verdict.verdict, verdict.words) == ("crashes", "no answer in 2 seconds")
    assert monotonic() - began < 20
    state = Path("/proc", (tmp_path / "pid").read_text(), "stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_huge_answer_is_not_kept(tmp_path: Path) -> None:
    endless = "while True: os.write(1, b'x' * 65536)"
    with EngineProcess(program(endless), tmp_path, 20, largest=1_000_000) as process:
        answer = process.ask({})
        assert (answer.kind, answer.words) == ("crashes", "more than 1000000 bytes in one answer")


def test_what_is_written_to_standard_error_does_not_stop_the_engine() -> None:
    assert one("os.write(2, b'x' * 5_000_000); say(rows=rows(request))").verdict == "right"


def test_one_process_answers_for_all_cases_and_a_new_one_after_a_crash(tmp_path: Path) -> None:
    started = tmp_path / "started"
    count = f"Path({str(started)!r}).open('a').write(str(os.getpid()) + chr(10))\n"
    right = count + "say(rows=rows(request))"
    assert [v.verdict for v in run(right, CASE, OTHER, CASE).verdicts] == ["right"] * 3
    assert len(set(started.read_text().split())) == 1

    # It is asked again after an end that an earlier answer may have caused: a program may answer once and end.
    once = "say(rows=rows(request)); sys.exit(0)"
    assert [v.verdict for v in run(once, CASE, OTHER).verdicts] == ["right", "right"]
    # A second line is not the answer to the next question.
    both = "sys.stdout.write(2 * (json.dumps({'rows': rows(request)}) + chr(10))); sys.stdout.flush()"
    assert [v.verdict for v in run(both, CASE, OTHER, CASE).verdicts] == ["right"] * 3

    fails = f"{count}if 'nan_key' in request['metadata']: sys.exit(1)\nsay(rows=rows(request))"
    started.unlink()
    assert [v.verdict for v in run(fails, CASE, OTHER, CASE).verdicts] == ["right", "crashes", "right"]
    pids = started.read_text().split()
    assert (len(pids), len(set(pids))) == (4, 3)  # nan_key was asked twice


def test_words_name_no_folder_and_cannot_act_on_a_terminal() -> None:
    verdict = one("say(refuses='in ' + request['metadata'] + ' or file:///home/me/t.parquet \\x1b[2J' + 'x' * 1000)")
    words = verdict.words or ""
    assert words.startswith(f"in …/{CASE.metadata.rpartition('/')[2]} or …/t.parquet \\x1b[2Jxxx")
    assert len(words) < 320


def test_what_cannot_be_asked() -> None:
    missing = run_engine(Engine(name="mine", command=("no-such-program",)), [CASE])
    assert (missing.verdicts, missing.ok) == ((), False)
    assert "cannot be started" in (missing.unavailable or "")
    assert run('say(unavailable="not here")').unavailable == "not here"


def test_the_worst_of_several_verdicts_is_kept() -> None:
    racing = "n = globals().get('n', -1) + 1; say(rows=rows(request)[1:] if n % 3 == 1 else rows(request))"
    [verdict] = run_engine(program(racing), [CASE], times=6).verdicts
    assert (verdict.verdict, (verdict.words or "").partition(":")[0]) == ("WRONG", "2 of 6 times")
    [verdict] = run_engine(program("say(rows=rows(request))"), [CASE], times=2).verdicts
    assert (verdict.verdict, verdict.words) == ("right", None)


def test_names_of_engines() -> None:
    assert engine_of("mine=a 'b c'") == Engine(name="mine", command=("a", "b c"))
    for name in ("trino", "", "=x", "spark="):
        with pytest.raises(InvalidInputError) as found:
            engine_of(name)
        assert (found.value.kind, found.value.found) == ("engine", name)


def test_the_package_alone_asks_by_a_command_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_SOURCES", tmp_path)
    assert engine_of("mine=a").command == ("a",)
    with pytest.raises(InvalidInputError, match="in a checkout of deletekit") as found:
        engine_of("duckdb")
    assert (found.value.kind, found.value.found) == ("engine", "duckdb")
    assert str(found.value.expected).endswith("or NAME=COMMAND")


def test_cases_are_chosen_by_name(tmp_path: Path) -> None:
    assert [case.name for case in chosen_cases(suite_folder(), "nan_k*")] == ["nan_key"]
    with pytest.raises(NotFoundError, match="no case of this name"):
        chosen_cases(suite_folder(), "x")
    with pytest.raises(NotFoundError, match="no conformance suite here"):
        chosen_cases(tmp_path)
