"""A pytest plugin: what tests have counted, summed up and printed below everything else.

A test says `record_property("figure: injected errors", 27)` for what is added up over tests, and
`record_property("figures", "a line")` for what is said as it is; both travel from pytest-xdist's workers.
"""

from collections import Counter

import pytest

SUM, LINE = "figure: ", "figures"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    sums: Counter[str] = Counter()
    lines: list[str] = []
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        for name, value in report.user_properties:
            if name.startswith(SUM):
                sums[name.removeprefix(SUM)] += int(str(value))
            elif name == LINE:
                lines.append(str(value))
    if sums or lines:
        terminalreporter.section("figures")
        for line in sorted(lines):
            terminalreporter.write_line(line)
        for name, value in sorted(sums.items()):
            terminalreporter.write_line(f"{name}: {value}")
