"""The engines that are installed here still do what deletekit/reader_verdicts/verdicts.json says of them."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from conformance.run import HERE, Case, Engine, Verdict, engine_of, load_suite, run_engine
from deletekit.reader_verdicts.known_verdicts import VERDICTS_FILE, verified_verdicts
from tests.tools.suite_verdicts import collected

CASES = load_suite()
PEERS = ("pyiceberg", "polars", "duckdb", "chdb", "pysail")
ICEBIRD = "0.3.1"


def same_as_known(engine: Engine, cases: Sequence[Case] = CASES) -> list[Verdict]:
    """Compare a run on these cases with the verdicts that are known of this version of the engine."""
    found, unavailable = run_engine(engine, cases)
    assert not unavailable
    version = found[0].version
    known = [v for v in verified_verdicts() if (v.engine, v.version) == (engine.name, version)]
    assert known, f"no verdicts on {engine.name} {version}: `python -m tests.tools.suite_verdicts` adds them"
    names = {case.name for case in cases}
    expected = {(v.case, v.ref): (v.verdict, v.breaks) for v in known if v.case in names}
    assert {(v.case, v.ref): (v.verdict, v.breaks) for v in found} == expected
    return found


@pytest.mark.slow
def test_deletekit_is_right_everywhere() -> None:
    assert {v.verdict for v in same_as_known(engine_of("deletekit"))} == {"right"}


@pytest.mark.slow
@pytest.mark.peers
@pytest.mark.parametrize("every", [len(PEERS), pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", PEERS)
def test_peer(name: str, every: int) -> None:
    """An engine is asked for every fifth table, each engine for others, and before a release for all."""
    pytest.importorskip(name, reason=f"{name} is not installed: pip install 'deletekit[peers]'")
    same_as_known(engine_of(name), CASES[PEERS.index(name) % every :: every])


@pytest.mark.slow
@pytest.mark.peers
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.long)])
def test_a_reader_in_another_language(tmp_path: Path, every: int) -> None:
    """icebird, from npm: a process for each ref, which prints a row a line."""
    command = ["npm", "install", "--no-save", "--prefix", str(tmp_path), f"icebird@{ICEBIRD}"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    program = tmp_path / "icebird.mjs"
    program.write_bytes((HERE / "icebird.mjs").read_bytes())  # Node looks for modules beside the program
    same_as_known(engine_of(f"icebird@{ICEBIRD}=node {program} {{table}} {{ref}}"), CASES[::every])


@pytest.mark.long  # test_spark_reads_the_suite.py has Spark read every table too
@pytest.mark.spark
def test_spark(own_spark: None) -> None:
    same_as_known(engine_of("spark"))


def test_every_verdict_is_on_a_case_of_the_suite() -> None:
    refs = {(case.name, ref) for case in CASES for ref in case.refs}
    assert {(v.case, v.ref) for v in verified_verdicts()} == refs
    assert {"deletekit", "spark", "icebird", *PEERS} <= {v.engine for v in verified_verdicts()}


def test_the_results_of_a_run_replace_those_of_the_same_version() -> None:
    text = VERDICTS_FILE.read_text(encoding="utf-8")
    known = verified_verdicts()
    assert collected((), known, "") == text
    first = next(v for v in known if v.verdict == "refuses")
    again = {name: getattr(first, name) for name in ("engine", "version", "case", "ref")}
    document = json.loads(
        collected([{**again, "verdict": "right", "words": None, "breaks": None}], known, "2027-01-01")
    )
    (about,) = [a for a in document["engines"] if (a["engine"], a["version"]) == (first.engine, first.version)]
    assert about["date"] == "2027-01-01"
    assert first.case not in [case for cases in about["refuses"].values() for case in cases]
    assert len(document["engines"]) == len(json.loads(text)["engines"])
