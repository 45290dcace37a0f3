"""Figures as Markdown: tables, targets beside what was measured, and where they were taken."""

import json
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypedDict

from tests.benchmarks.measure import Cell

PACKAGES = ("pyarrow", "pyroaring", "fastavro", "polars", "duckdb", "pyiceberg", "chdb", "pysail", "pyspark")

PARTS = {
    "read": "Read to Arrow",
    "plan": "Planning",
    "maintain": "Actions that write",
    "changelog": "Changes of a table",
    "ladder": "A stream's costs by keys and batches",
    "delta_ladder": "sync_delta by the size of the table",
    "start": "Start",
    "spark": "On Spark",
}


FAILED = "failed:"


class Part(TypedDict):
    """What was measured of a part: Markdown by lines, and where it is from."""

    date: str
    commit: str
    command: str
    machine: str
    text: list[str]


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


def part_of(text: str, command: str) -> Part:
    """A part that was just measured."""
    load = f"load average at the end {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}", "commit": _commit(), "command": command,
        "machine": f"{_machine()}; {load}", "text": text.splitlines(),
    }  # fmt: skip


def failed(part: Part) -> bool:
    """Whether measuring it ended with an error."""
    return part["text"][0].startswith(FAILED)


def block_of(name: str, part: Part) -> str:
    """A part as it is shown: heading, figures, and where they are from."""
    about = f"{part['date']}, commit {part['commit']}, `{part['command']}`; {part['machine']}."
    return f"### {PARTS[name]}\n\n" + "\n".join(part["text"]) + f"\n\n{about}\n"


def write_report(path: Path, parts: dict[str, Part]) -> None:
    """Write parts as Markdown, and as the JSON that can be published."""
    path.write_text("\n".join(block_of(*each) for each in parts.items()), encoding="utf-8")
    write_parts(path.with_suffix(".json"), parts)


def write_parts(path: Path, parts: dict[str, Part]) -> None:
    """Write parts as JSON."""
    path.write_text(json.dumps(parts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def tables_in(text: str) -> list[tuple[list[str], list[list[str]]]]:
    """Header and rows of each Markdown table of a text."""
    found = []
    for lines in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        header, _, *rows = ([cell.strip() for cell in line.strip("|").split(" | ")] for line in lines.splitlines())
        found.append((header, rows))
    return found


def _machine() -> str:
    """CPU, cores, memory, system and versions."""
    facts = [
        f"{os.cpu_count()} cores of {_cpu()}",
        f"{_memory_gib():.0f} GiB of memory",
        f"{platform.system()} {platform.release()}",
        f"Python {platform.python_version()}",
        *_java(),
        *(f"{name} {found}" for name in PACKAGES if (found := _version(name))),
    ]
    return ", ".join(facts)


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
    """The commit that is checked out, and whether the library has been changed since."""
    git = partial(subprocess.run, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    found = git(["git", "rev-parse", "--short=8", "HEAD"]).stdout.strip() or "unknown"
    return f"{found}-dirty" if git(["git", "status", "--porcelain", "deletekit"]).stdout else found
