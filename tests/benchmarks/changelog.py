"""Part `changelog`: the changes of 1 % of a table, beside reading both snapshots and an anti-join in polars."""

import statistics
from collections.abc import Callable
from typing import Any

import deletekit as dk
from tests.benchmarks.measure import Stopped, Worker
from tests.benchmarks.readers import Facts
from tests.benchmarks.report import megabytes, ms, table_of
from tests.benchmarks.settings import Settings

MODES = {"deletion vectors": (3, "deletion-vector"), "position deletes": (2, "position-delete"), "keys": (2, "keys")}
TIMES_FASTER = 10.0


def run(settings: Settings) -> str:
    """1 % of the rows deleted in one commit: the last rows, and rows anywhere in the table."""
    tables = settings.tables()
    last = f"id >= {settings.rows - settings.rows // 100}"
    cases = [(where, mode) for where in (last, "grp = 7") for mode in MODES]
    expected = {last: settings.rows // 100, "grp = 7": tables.group_rows[7]}
    rows = []
    for where, mode in cases:
        version, how = MODES[mode]
        table = tables.fresh("changelog", version)
        before = table.metadata.current_snapshot.snapshot_id  # type: ignore[union-attr]
        if how == "keys":
            dk.delete_keys(table, dk.scan(table, where, columns=["id"]).to_arrow())
        else:
            dk.delete(table, where, mode=how)
        job = {"warehouse": str(tables.warehouse), "name": "work.changelog", "from": before}
        found: dict[str, tuple[float, int, int | None]] = {}
        for who in ("deletekit", "polars"):
            found[who] = _measured(who, job, settings)
        right = found["deletekit"][1] == found["polars"][1] == expected[where]
        faster = found["polars"][0] / found["deletekit"][0]
        judged = "WRONG" if not right else "met" if faster >= TIMES_FASTER else "MISSED"
        times = [cell for seconds, _, peak in found.values() for cell in (ms(seconds), megabytes(peak))]
        place = "the last rows" if where == last else "anywhere"
        rows.append([f"{mode}, {place}", *times, f"**{faster:.1f}**", judged])
        settings.say(f"changelog {rows[-1]}")
    header = ["deleted by", "deletekit", "peak", "polars, anti-join", "peak", "times faster (10)", ""]
    return table_of(header, rows)


def _measured(who: str, job: dict[str, Any], settings: Settings) -> tuple[float, int, int | None]:
    worker = Worker("tests.benchmarks.changelog:open_changelog", who, seconds=600)
    try:
        _, facts, peak = worker.run_with_memory(job)
        seconds = [worker.run(job)[0] for _ in range(settings.runs)]
    except Stopped as e:
        raise SystemExit(f"changelog, {who}: {e}: {e.why}") from e
    finally:
        worker.stop()
    return statistics.median(seconds), facts["rows"], peak


def open_changelog(who: str) -> Callable[[dict[str, Any]], Facts]:
    """In the worker: open the table, and read the rows that went."""

    def ours(job: dict[str, Any]) -> Facts:
        table = dk.load_table(dk.local_catalog(job["warehouse"]), job["name"])
        return {"rows": sum(len(batch) for batch in dk.changes(table, job["from"]))}

    def theirs(job: dict[str, Any]) -> Facts:
        table = dk.load_table(dk.local_catalog(job["warehouse"]), job["name"])
        before = dk.scan(table, snapshot_id=job["from"]).to_polars()
        return {"rows": len(before.join(dk.scan(table).to_polars(), on="id", how="anti"))}

    return ours if who == "deletekit" else theirs
