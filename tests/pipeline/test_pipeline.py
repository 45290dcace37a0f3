"""The pipeline in the tests' Spark session: what it makes, what it refuses, and crashes at every step."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import deletekit as dk
from data.pipeline import PipelineReport, run, run_pipeline, session_opener
from data.pipeline.done_steps import STEP
from data.pipeline.steps import Step, Work, steps_of
from deletekit.table.catalog import Catalog, SqlStore
from tests.invariants import check_table
from tests.optional_types import SparkSession
from tests.pipeline.flights import DAYS, some_flights
from tests.pipeline.killed_driver import commits
from tests.tables import raises

_numbers = count()


class Crash(BaseException):
    """The end of a driver, as far as its own process can play it."""


class Runs:
    """Runs of one pipeline in a directory, on a table that no other test has."""

    def __init__(self, directory: Path, session: SparkSession, catalog: Catalog) -> None:
        self.directory = directory
        self.name = f"pipeline.t{next(_numbers)}"
        self.catalog = catalog
        self._session = session

    def run(self, **options: Any) -> PipelineReport:
        chosen = {"days": DAYS, "flights": some_flights(), **options}
        return run_pipeline(self.directory, lambda: (self._session, self.catalog), table=self.name, **chosen)

    @property
    def table(self) -> dk.Table:
        return dk.load_table(self.catalog, self.name)

    def history(self) -> list[str | None]:
        snapshots = sorted(self.table.metadata.snapshots.values(), key=lambda s: s.sequence_number)
        return [snapshot.summary.get(STEP) for snapshot in snapshots]


@pytest.fixture
def runs(spark: SparkSession, tmp_path: Path) -> Iterator[Runs]:
    catalog = dk.local_catalog(spark.conf.get("spark.sql.catalog.local.warehouse"))
    yield Runs(tmp_path / "run", spark, catalog)
    catalog.pyiceberg.close()


TWICE = "load is there twice"
STEPS = [
    "load",
    *(f"2014-01-0{d} {feed}" for d in (1, 2) for feed in ("corrections", "cancellations", "privacy_requests")),
    "compact",
    "remove dangling deletes",
]


@pytest.mark.parametrize("version", [pytest.param(2, marks=pytest.mark.long), 3])
def test_a_run(runs: Runs, version: int) -> None:
    report = runs.run(format_version=version)
    assert report.ok, report.checks
    assert len(report.checks) == 4
    assert [step.name for step in report.steps] == STEPS
    assert {step.status for step in report.steps} == {"done"}
    assert runs.history() == STEPS
    table = runs.table
    check_table(table)
    summaries = {s.summary[STEP]: s.summary for s in table.metadata.snapshots.values()}
    kind = "added-dvs" if version == 3 else "added-position-delete-files"
    assert int(summaries["2014-01-01 cancellations"][kind]) > 0
    assert int(summaries["2014-01-01 privacy_requests"]["added-equality-delete-files"]) == 1
    assert summaries["compact"]["total-data-files"] == summaries["compact"]["added-data-files"]
    assert summaries["remove dangling deletes"]["total-delete-files"] == "0"
    assert json.loads((runs.directory / "report.json").read_text())["live_rows"] == dk.scan(table).count()
    text = (runs.directory / "report.txt").read_text()
    assert all(name in text for name in STEPS)
    figures = {step.name: step for step in report.steps}
    assert figures["load"].rows_in == figures["load"].rows_written
    assert figures["2014-01-01 cancellations"].rows_deleted == figures["2014-01-01 cancellations"].rows_in
    changes_nothing(runs, report, version)


def changes_nothing(runs: Runs, first: PipelineReport, version: int) -> None:
    """Run once more."""
    location = runs.table.metadata_location
    again = runs.run(format_version=version)
    assert runs.table.metadata_location == location
    assert list(again.steps) == [replace(step, status="done before", seconds=None) for step in first.steps]
    assert again.checks == first.checks


@pytest.mark.slow
def test_a_crash_at_every_step(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before each commit, when all files are written, and after it, when nobody heard that it landed."""
    commit = SqlStore.commit
    for number, step in enumerate(STEPS):
        with monkeypatch.context() as patch:
            patch.setattr(SqlStore, "commit", crash_before(commit, step))
            with pytest.raises(Crash):
                runs.run()
        assert runs.history() == STEPS[:number]
        with monkeypatch.context() as patch:
            patch.setattr(run, "steps_of", lambda delivery, step=step: crash_after(steps_of(delivery), step))
            with pytest.raises(Crash):
                runs.run()
        assert runs.history() == STEPS[: number + 1]
    assert runs.run().ok
    assert runs.history() == STEPS


def crash_before(commit: Callable[..., Any], step: str) -> Callable[..., Any]:
    mine = commits(step)

    def crashing(*arguments: Any) -> Any:
        if mine(*arguments):
            raise Crash
        return commit(*arguments)

    return crashing


def crash_after(steps: Iterator[Step], name: str) -> Iterator[Step]:
    def crashing(step: Step) -> Callable[[Work, Mapping[str, str]], dk.results.Commit]:
        def run_and_crash(work: Work, properties: Mapping[str, str]) -> dk.results.Commit:
            step.run(work, properties)
            raise Crash

        return run_and_crash

    for step in steps:
        yield replace(step, run=crashing(step)) if step.name == name else step


def test_a_second_driver_that_thinks_the_table_empty(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The load is an insert by key: done again on top of itself, it commits nothing."""
    with monkeypatch.context() as patch:
        patch.setattr(run, "steps_of", lambda delivery: crash_after(steps_of(delivery), "load"))
        with pytest.raises(Crash):
            runs.run(days=1)
    location = runs.table.metadata_location
    seen: list[dk.results.Commit] = []

    def again(steps: Sequence[Step]) -> Iterator[Step]:
        for step in steps:
            if step.name == "2014-01-01 corrections":

                def load_again(work: Work, properties: Mapping[str, str]) -> dk.results.Commit:
                    seen.append(steps[0].run(work, properties))
                    raise Crash

                yield replace(step, run=load_again)
            else:
                yield step

    with monkeypatch.context() as patch:
        patch.setattr(run, "steps_of", lambda delivery: again(list(steps_of(delivery))))
        with pytest.raises(Crash):
            runs.run(days=1)
    assert [commit.snapshot_id for commit in seen] == [None]
    assert runs.table.metadata_location == location


def test_wrong_rows_and_steps_are_found(runs: Runs) -> None:
    def wrong() -> dict[str, str]:
        report = runs.run(days=1)
        assert not report.ok
        return {check.name: check.found for check in report.checks if not check.ok}

    assert runs.run(days=1).ok
    dk.update(runs.table, {"arr_delay": -999}, where="flight_id = 40", mode="deletion-vector")
    values = "column arr_delay has other values"
    assert wrong() == {"deletekit's scan": values, "Spark with Iceberg's reader": values}
    ours = {"deletekit.pipeline.delivery": runs.table.properties["deletekit.pipeline.delivery"], STEP: "load"}
    dk.append(runs.table, some_flights().slice(0, 1), commit_properties=ours)
    dk.delete(runs.table, "flight_id = 80", mode="deletion-vector")
    keys = "column flight_id has other values"
    assert wrong() == {"deletekit's scan": keys, "Spark with Iceberg's reader": keys, "the history": TWICE}
    assert "WRONG" in (runs.directory / "report.txt").read_text()


# --- refusals, each before anything is written ------------------------------------------------------------------------


def test_a_table_of_something_else(runs: Runs) -> None:
    dk.create_table(runs.catalog, runs.name, some_flights().schema)
    location = runs.table.metadata_location
    with raises(dk.InvalidInputError, "pipeline-table"):
        runs.run()
    assert runs.table.metadata_location == location


def test_another_format_version(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    with raises(dk.InvalidInputError, "format-version"):
        runs.run(format_version=1)
    assert not runs.directory.exists()
    with monkeypatch.context() as patch:
        patch.setattr(run, "steps_of", lambda delivery: crash_after(steps_of(delivery), "load"))
        with pytest.raises(Crash):
            runs.run(format_version=2)
    with raises(dk.InvalidInputError, "format-version", expected=2):
        runs.run(format_version=3)
    assert runs.history() == ["load"]


def test_a_raw_file_that_is_not_what_its_schema_says(runs: Runs) -> None:
    """A note that fits its damaged file: Spark refuses the row, and nothing of the load is committed."""
    import hashlib  # noqa: PLC0415

    from data.pipeline.delivery import deliver  # noqa: PLC0415

    runs.directory.mkdir()
    delivery = deliver(runs.directory, 1, some_flights())
    file = delivery.flights[0]
    data = Path(delivery.path(file)).read_bytes().replace(b",JFK,", b",JFK,,", 1)
    Path(delivery.path(file)).write_bytes(data)
    note = delivery.folder / "delivery.json"
    text = note.read_text().replace(file.sha256, hashlib.sha256(data).hexdigest())
    note.write_text(text.replace(f'"size": {file.size}', f'"size": {len(data)}'))
    with pytest.raises(Exception, match=r"(?i)malformed|failfast"):
        runs.run(days=1)
    assert runs.history() == []
    check_table(runs.table)


def test_a_master_beside_that_of_spark_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    with (
        raises(dk.InvalidInputError, "spark-master", found="local[1]"),
        session_opener(tmp_path / "run", master="local[1]"),
    ):
        pass
