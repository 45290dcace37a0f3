"""The runner of the suite judges what an engine does: each kind of answer, by a small program that gives it."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from conformance import run as runner
from conformance.run import ARCHIVE, OTHER_ROWS, Case, Engine, EngineProcess, Verdict, engine_of, load_suite, run_engine

CASES = load_suite()
CASE = next(case for case in CASES if case.name == "two_key_columns")
OTHER = next(case for case in CASES if case.name == "nan_key")
DAMAGED = next(case for case in CASES if case.is_damaged)
EXPECTED = {case.name: case.expected()["rows"] for case in (CASE, OTHER)}
PROGRAM = ARCHIVE.with_name("run.py")
ASKED = {"metadata": "m", "ref": "main", "snapshot_id": 1, "columns": []}


PRELUDE = f"""
import json, os, signal, sys, time
from pathlib import Path
EXPECTED = json.loads({json.dumps(EXPECTED)!r})
def say(**answer):
    print(json.dumps(answer), flush=True)
def rows(request):
    return EXPECTED[Path(request["metadata"]).parents[2].name]
"""


def program(body: str) -> Engine:
    """Return an engine that runs `body` for each request."""
    loop = "\nfor line in sys.stdin:\n    request = json.loads(line)\n"
    code = PRELUDE + loop + "\n".join(f"    {line}" for line in body.strip().split("\n"))
    return Engine(name="mine", command=(sys.executable, "-c", code))


def run(body: str, *cases: Case, seconds: float = 20) -> list[Verdict]:
    return run_engine(program(body), cases or (CASE,), seconds=seconds)[0]


def one(body: str, **more: Any) -> Verdict:
    [verdict] = run(body, **more)
    return verdict


def test_rows_in_another_order_are_right() -> None:
    verdict = one('say(version="7", rows=rows(request)[::-1])')
    assert (verdict.verdict, verdict.version, verdict.words, verdict.breaks) == ("right", "7", None, None)


def test_what_is_asked() -> None:
    asked = "say(refuses=json.dumps([request, os.path.isfile(request['metadata'])]))"
    request, is_there = json.loads((one(asked).words or "").replace("…/", ""))
    assert is_there
    assert request["ref"] == "main"
    assert request["snapshot_id"] == CASE.refs["main"]
    assert request["columns"] == CASE.expected()["columns"]


def test_a_wrong_reader_is_named() -> None:
    decoy = CASE.decoys[0]
    verdict = one(f"say(rows=json.loads({json.dumps(CASE.decoy(decoy)['rows'])!r}))")
    assert (verdict.verdict, verdict.breaks) == ("WRONG", decoy["breaks"])


def test_a_damaged_table_may_be_refused() -> None:
    assert [v.verdict for v in run('say(refuses="damaged")', DAMAGED)] == ["right"]
    assert [v.verdict for v in run("say(rows=[])", DAMAGED)] == ["WRONG"]


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
        ("os.kill(os.getpid(), signal.SIGSEGV)", "Segmentation fault, without an answer."),
        ('say(crashes="a panic")', "a panic"),
        ("print('hello', flush=True)", "the answer is not JSON: hello"),
        ("print('[' * 100_000, flush=True)", "the answer is not JSON: ["),
        ("print(1, flush=True)", "the answer is neither rows nor an object"),
        ("print([1], flush=True)", "the answer has no `rows`"),
        ("say(rows=3)", "the answer has no `rows`"),
        ("say(rows=[3])", "the answer has no `rows`"),
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
    while state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z":
        assert monotonic() - began < 20


def test_a_huge_answer_is_not_kept() -> None:
    endless = "while True: os.write(1, b'x' * 65536)"
    with EngineProcess(program(endless), 20, largest=1_000_000) as process:
        answer = process.ask(ASKED)
        assert (answer.kind, answer.words) == ("crashes", "more than 1000000 bytes in one answer")


def test_what_is_written_to_standard_error_does_not_stop_the_engine() -> None:
    assert one("os.write(2, b'x' * 5_000_000); say(rows=rows(request))").verdict == "right"


def test_one_process_answers_for_all_cases_and_a_new_one_after_a_crash(tmp_path: Path) -> None:
    started = tmp_path / "started"
    count = f"Path({str(started)!r}).open('a').write(str(os.getpid()) + chr(10))\n"
    right = count + "say(rows=rows(request))"
    assert [v.verdict for v in run(right, CASE, OTHER, CASE)] == ["right"] * 3
    assert len(set(started.read_text().split())) == 1

    # It is asked again after an end that an earlier answer may have caused: a program may answer once and end.
    once = "say(rows=rows(request)); sys.exit(0)"
    assert [v.verdict for v in run(once, CASE, OTHER)] == ["right", "right"]
    # A second line is not the answer to the next question.
    both = "sys.stdout.write(2 * (json.dumps({'rows': rows(request)}) + chr(10))); sys.stdout.flush()"
    assert [v.verdict for v in run(both, CASE, OTHER, CASE)] == ["right"] * 3

    fails = f"{count}if 'nan_key' in request['metadata']: sys.exit(1)\nsay(rows=rows(request))"
    started.unlink()
    assert [v.verdict for v in run(fails, CASE, OTHER, CASE)] == ["right", "crashes", "right"]
    pids = started.read_text().split()
    assert (len(pids), len(set(pids))) == (4, 3)  # nan_key was asked twice


def test_a_program_is_started_for_each_ref_and_prints_rows(tmp_path: Path) -> None:
    """As JSON, as a row a line, or nothing where there are none; in lists by column, or in objects by name."""
    names = [column["name"] for column in CASE.expected()["columns"]]
    rows = EXPECTED[CASE.name]
    objects = [dict(zip(names, row, strict=True)) for row in rows]
    says = {
        json.dumps(rows): "right",
        json.dumps({"version": "2", "rows": objects}): "right",
        "\n".join(map(json.dumps, [{**o, "more": 1} for o in objects])): "right",
        "\n".join(map(json.dumps, rows)): "right",
        json.dumps(objects[0]): "WRONG",
        "": "WRONG",
        "[1, 2": "crashes",
    }
    for text, verdict in says.items():
        (tmp_path / "said").write_text(text)
        cat = engine_of(f"mine=sh -c 'test -f $1 && test $2 = main && cat {tmp_path}/said' sh {{table}} {{ref}}")
        assert [v.verdict for v in run_engine(cat, [CASE, CASE])[0]] == [verdict, verdict], text
    refuses = engine_of("mine=sh -c 'echo no {columns} >&2; exit 3' sh {folder} {snapshot}")
    [verdict_of] = run_engine(refuses, [CASE])[0]
    assert (verdict_of.verdict, verdict_of.words) == ("refuses", f"no {','.join(names)}")


FORMS = [
    ("int", 1, "1", True),
    ("int", 1, 1.0, True),
    ("int", 1, 1.5, False),
    ("int", 1, True, False),
    ("long", 2**63 - 1, str(2**63 - 1), True),
    ("double", 0.0, -0.0, False),
    ("double", "NaN", "NaN", True),
    ("double", 1.5, "x", False),
    ("float", 1.1, 1.100000023841858, True),
    ("double", 1.1, 1.100000023841858, False),
    ("decimal(9, 2)", "14.20", 14.2, True),
    ("decimal(9, 2)", "0.00", "-0", True),
    ("boolean", True, 1, False),
    ("string", "1", 1, False),
    ("date", "2017-11-16", "2017-11-16T00:00:00.000Z", True),
    ("time", "22:31:08.000000", "22:31:08", True),
    ("timestamp", "1969-12-31T23:59:59.999999", "1969-12-31 23:59:59.999999", True),
    ("timestamp", "2024-01-01T00:00:00.000000", "2024-01-01T00:00:00.001", False),
    ("timestamptz", "2024-01-01T00:00:00.000000+00:00", "2024-01-01T00:00:00Z", True),
    ("timestamp_ns", "2024-01-01T00:00:00.000000002", "2024-01-01T00:00:00.000Z", False),
    ("binary", "00FF", "00ff", True),
    ("uuid", "F79C3E09-677c-4bbd-a479-3f349cb785e7", "f79c3e09-677c-4bbd-a479-3f349cb785e7", True),
    ("struct<k: int, v: list<string>>", {"k": 1, "v": ["a"]}, [1, ["a"]], True),
    ("struct<k: int, v: string>", {"k": 1, "v": None}, {"k": "1"}, True),
    ("map<string, decimal(3, 1)>", [["a", "1.0"], ["b", None]], {"b": None, "a": 1}, True),
    ("list<int>", [1, 2], [2, 1], False),
]


@pytest.mark.parametrize(("kind", "value", "other", "same"), FORMS, ids=lambda v: str(v)[:30])
def test_forms_of_one_value(kind: str, value: object, other: object, same: bool) -> None:
    """Programs write JSON as their language does."""
    assert (runner.value_of(value, kind) == runner.value_of(other, kind)) is same
    assert runner.value_of(None, kind) is None


def test_it_needs_the_standard_library_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-S", str(PROGRAM), "--engine", "mine=sh -c 'exit 3' {table}", "--case", "nan_key"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", check=True)
    assert done.stdout.splitlines()[-1] == "mine unknown: 0 right, 1 refuses, 0 WRONG, 0 crashes"


def engine(**answer: object) -> str:
    """Return a program that always gives this answer."""
    text = f"import sys\nfor line in sys.stdin: print({json.dumps(answer)!r}, flush=True)"
    return "mine=" + shlex.join([sys.executable, "-c", text])


@pytest.mark.parametrize(
    ("answer", "code", "verdict"),
    [({"rows": EXPECTED["nan_key"]}, 0, "right"), ({"refuses": "no"}, 0, "refuses"), ({"rows": []}, 1, "WRONG"),
     ({"rows": 3}, 1, "crashes"), ({"unavailable": "not installed"}, 1, None)],
    ids=str,
)  # fmt: skip
def test_the_command(
    answer: dict[str, object], code: int, verdict: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "verdicts.json"
    asked = ["--engine", engine(version="1", **answer), "--case", "nan_key", "--json", str(file)]
    assert runner.main(asked) == code
    results = json.loads(file.read_bytes())["results"]
    assert [(r["engine"], r["version"], r["case"], r["verdict"]) for r in results] == [
        ("mine", "1", "nan_key", verdict) for _ in [verdict] if verdict
    ]
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == (f"mine 1: {', '.join(f'{int(k == verdict)} {k}' for k in runner.KINDS)}" if verdict else
                    "mine cannot be asked: not installed")  # fmt: skip


def test_words_name_no_folder_and_cannot_act_on_a_terminal() -> None:
    verdict = one("say(refuses='in ' + request['metadata'] + ' or file:///home/me/t.parquet \\x1b[2J' + 'x' * 1000)")
    words = verdict.words or ""
    assert words.startswith(f"in …/{CASE.metadata.rpartition('/')[2]} or …/t.parquet \\x1b[2Jxxx")
    assert len(words) < 320


def test_what_cannot_be_asked() -> None:
    found, why = run_engine(Engine("mine", ("no-such-program",)), [CASE])
    assert (found, "cannot be started" in why) == ([], True)
    assert run_engine(program('say(unavailable="not here")'), [CASE]) == ([], "not here")


def test_the_worst_of_several_verdicts_is_kept() -> None:
    racing = "n = globals().get('n', -1) + 1; say(rows=rows(request)[1:] if n % 3 == 1 else rows(request))"
    [verdict] = run_engine(program(racing), [CASE], times=6)[0]
    assert (verdict.verdict, (verdict.words or "").partition(":")[0]) == ("WRONG", "2 of 6 times")
    [verdict] = run_engine(program("say(rows=rows(request))"), [CASE], times=2)[0]
    assert (verdict.verdict, verdict.words) == ("right", None)


def test_names_of_engines(capsys: pytest.CaptureFixture[str]) -> None:
    assert engine_of("mine@1.2=a 'b c'") == Engine("mine", ("a", "b c"), "1.2")
    assert engine_of("sh -c x") == Engine("sh", ("sh", "-c", "x"))
    assert engine_of("spark").command[-1] == "spark"
    for name in ("trino", ""):
        with pytest.raises(SystemExit, match="no engine"):
            engine_of(name)
    for nothing in ([], ["--engine", "duckdb", "--case", "x"]):
        with pytest.raises(SystemExit):
            runner.main(nothing)
    assert "no table has such a name and rule" in capsys.readouterr().err
