"""Figures as Markdown: tables, targets beside what was measured, and the facts of the machine."""

from __future__ import annotations

import html
import json
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tests.benchmarks.measure import Cell

__all__ = ["machine", "megabytes", "ms", "notes_of", "table_of", "verdict", "write_report"]

PACKAGES = ("pyarrow", "pyroaring", "fastavro", "polars", "duckdb", "pyiceberg", "chdb", "pysail", "pyspark")


def table_of(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first column is text, the others are figures."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def verdict(found: float | None, target: float) -> str:
    """Whether a figure keeps its target, which is the most it may be."""
    if found is None:
        return "MISSED"
    return "met" if found <= target else "MISSED"


def ms(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def megabytes(count: float | None) -> str:
    return "" if count is None else f"{count / 1e6:,.0f} MB"


def notes_of(cells: dict[str, dict[str, Cell]]) -> str:
    """Why each empty cell is empty: engine, tables, reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row, by_engine in cells.items():
        for engine, cell in by_engine.items():
            if cell.verdict:
                # Paths and numbers differ from table to table, what is wrong does not.
                why = re.sub(r"(file://)?/[^\s'\"]+", "...", cell.why)
                reasons.setdefault((engine, f"{cell.verdict}: {why}"), []).append(row)
    return "\n".join(f"- {engine}, {', '.join(rows)}: {why}" for (engine, why), rows in reasons.items())


def write_report(path: Path, report: str) -> None:
    """Write a report as Markdown, its tables as JSON, and a page of pictures that is made of that JSON."""
    path.write_text(report, encoding="utf-8")
    about, *sections = report.split("\n### ")
    parts = [{"part": text.partition("\n")[0], "tables": tables_in(text)} for text in sections]
    found = path.with_suffix(".json")
    found.write_text(json.dumps({"machine": about.strip(), "parts": parts}, indent=1), encoding="utf-8")
    path.with_suffix(".html").write_text(page_of(json.loads(found.read_text(encoding="utf-8"))), encoding="utf-8")


def page_of(found: Any) -> str:
    """An HTML page of the tables of a report that have times: a bar for each."""
    from tests.tools.benchmark_pictures import bars  # noqa: PLC0415  # imports the course's drawings

    drawn = [f"<p>{html.escape(found['machine'])}</p>"]
    for part in found["parts"]:
        drawn.append(f"<h2>{html.escape(part['part'])}</h2>")
        drawn += [bars(part["part"], *table).markup for table in part["tables"]]
    return "\n".join(['<!doctype html><meta charset="utf-8"><title>Benchmarks</title>', *drawn]) + "\n"


def tables_in(text: str) -> list[tuple[list[str], list[list[str]]]]:
    """Header and rows of each Markdown table of a text."""
    found = []
    for lines in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        header, _, *rows = ([cell.strip() for cell in line.strip("|").split(" | ")] for line in lines.splitlines())
        found.append((header, rows))
    return found


def machine() -> str:
    """CPU, cores, memory, system, versions and the date."""
    facts = [
        f"{os.cpu_count()} cores of {_cpu()}",
        f"{_memory_gib():.0f} GiB of memory",
        f"{platform.system()} {platform.release()}",
        f"Python {platform.python_version()}",
        *_java(),
        *(f"{name} {found}" for name in PACKAGES if (found := _version(name))),
    ]
    load = f"load average at the end {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return f"{', '.join(facts)}; {datetime.now(UTC):%Y-%m-%d}; commit {_commit()}; {load}."


def _cpu() -> str:
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30 if hasattr(os, "sysconf") else 0.0


def _java() -> list[str]:
    try:
        shown = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    except OSError:
        return []
    found = re.search(r'version "([^"]+)"', shown)
    return [f"Java {found[1]}"] if found else []


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
