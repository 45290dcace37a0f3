"""A pytest plugin: sort the tests into tiers, write how long each took, and fail a first tier that gets slow.

A test is in the first tier unless a mark says otherwise. `slow` puts it into the second tier, `long` into the third. A
test on Spark is in the second tier, unless it has the mark `first_tier`. Of a test with many cases, `sampled(n)` puts
about one case of n into the second tier, `sampled(n, tier=1)` into the first, and the others into the third.
CONTRIBUTING.md tells what each tier is for.
"""

import os
from collections import defaultdict
from pathlib import Path
from zlib import crc32

import pytest

FIRST_TIER_SECONDS = 10.0
"""The longest that a test of the first tier may take, without its fixtures: twice what it takes on a good machine."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers")
    group.addoption("--tier", type=int, choices=(1, 2, 3), help="run only the tests of this tier")
    group.addoption("--durations-file", type=Path, help="append each test's seconds to this file, the longest first")


@pytest.hookimpl(trylast=True)  # after tests/conftest.py has marked what needs Spark
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = config.getoption("--tier")
    if wanted is None:
        return
    other = [item for item in items if tier(item) != wanted]
    config.hook.pytest_deselected(items=other)
    items[:] = [item for item in items if tier(item) == wanted]


def tier(item: pytest.Item) -> int:
    """Return the tier of a test: 1, 2 or 3."""
    marks = {mark.name for mark in item.iter_markers()}
    if "first_tier" in marks:
        return 1
    if "long" in marks:
        return 3
    chosen = 1
    for mark in item.iter_markers("sampled"):
        # By a checksum of the name, so that the chosen cases are spread over all parameters and stay the same.
        if crc32(item.nodeid.encode()) % mark.args[0]:
            return 3
        chosen = mark.kwargs.get("tier", 2)
    return 2 if marks & {"slow", "spark"} else chosen


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # pytest-xdist's workers report to the process that started them
        config.pluginmanager.register(_Durations(config.getoption("--tier"), config.getoption("--durations-file")))


def _busy() -> float:
    """Return how many processes want each core, at least 1: on a busy machine, a test takes so much longer."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)) if hasattr(os, "getloadavg") else 1.0


class _Durations:
    """Collect the seconds of each test. The first tier fails if a test in it took too long."""

    def __init__(self, wanted: int | None, file: Path | None) -> None:
        self._wanted, self._file = wanted, file
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._too_long: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += report.duration
        timed = self._wanted == 1 and report.when == "call" and "first_tier" not in report.keywords
        if timed and report.duration > FIRST_TIER_SECONDS * _busy():
            self._too_long[report.nodeid] = report.duration

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._file is not None:
            longest = sorted(self._seconds.items(), key=lambda item: -item[1])
            with self._file.open("a", encoding="utf-8") as file:
                file.writelines(f"{seconds:8.2f} s  {name}\n" for name, seconds in longest)
        if self._too_long and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._too_long:
            terminalreporter.section(f"longer than {FIRST_TIER_SECONDS:g} s in the first tier: mark them `slow`")
            for name, seconds in sorted(self._too_long.items(), key=lambda item: -item[1]):
                terminalreporter.write_line(f"FAILED {name}: {seconds:.1f} s")
