"""The engines that are installed here still do what deletekit/reader_verdicts/verdicts.json says of them."""

from collections.abc import Sequence

import pytest

from conformance.runner import EngineRun, run_engine, suite_folder
from conformance.suite import Case, load_suite
from conformance.verdicts import VERDICTS, read_verdicts
from deletekit.conformance.engines import engine_of

CASES = load_suite(suite_folder())
KNOWN = (read_verdicts(VERDICTS) or {})["results"]
PEERS = ("pyiceberg", "polars", "duckdb", "chdb", "pysail")


def same_as_known(run: EngineRun, cases: Sequence[Case] = CASES) -> None:
    """Compare a run on these cases with the verdicts that are known of this version of the engine."""
    known = [r for r in KNOWN if (r["engine"], r["version"], r["verified"]) == (run.engine, run.version, True)]
    assert known, f"no verdicts on {run.engine} {run.version}: `python -m conformance --write-verdicts` adds them"
    names = {case.name for case in cases}
    expected = {(r["case"], r["ref"]): (r["verdict"], r["breaks"]) for r in known if r["case"] in names}
    assert {(v.case, v.ref): (v.verdict, v.breaks) for v in run.verdicts} == expected


@pytest.mark.slow
def test_deletekit_is_right_everywhere() -> None:
    found = run_engine(engine_of("deletekit"), CASES)
    assert [v for v in found.verdicts if v.verdict != "right"] == []
    same_as_known(found)


@pytest.mark.slow
@pytest.mark.peers
@pytest.mark.parametrize("every", [len(PEERS), pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", PEERS)
def test_peer(name: str, every: int) -> None:
    """An engine is asked for every fifth table, each engine for others, and before a release for all."""
    pytest.importorskip(name, reason=f"{name} is not installed: pip install 'deletekit[peers]'")
    cases = CASES[PEERS.index(name) % every :: every]
    same_as_known(run_engine(engine_of(name), cases), cases)


@pytest.mark.long  # test_spark_reads_the_suite.py has Spark read every table too
@pytest.mark.spark
def test_spark(own_spark: None) -> None:
    same_as_known(run_engine(engine_of("spark"), CASES))


def test_every_verdict_is_on_a_case_of_the_suite() -> None:
    refs = {(case.name, ref) for case in CASES for ref in case.refs}
    assert {(r["case"], r["ref"]) for r in KNOWN if r["verified"]} == refs
    adapters = {r["engine"] for r in KNOWN if r["verified"]}
    assert {"deletekit", "spark", *PEERS} <= adapters
