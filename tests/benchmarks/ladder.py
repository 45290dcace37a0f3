"""Part `ladder`: what a batch of a stream costs by the table's keys and the batch's rows, beside others.

Batches are upserts: eight of ten rows have a key of the table, two are new. Bytes are those that the process read and
wrote (`/proc/self/io`, caches included), memory is the peak of the process above what it held before.
"""

# ruff: noqa: PLC0415  # imported in the worker alone

import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.benchmarks.ladder_peers import OPENED, PEERS
from tests.benchmarks.ladder_rows import Job, base, batch_of, new_keys
from tests.benchmarks.measure import Stopped, Worker
from tests.benchmarks.readers import Facts
from tests.benchmarks.report import megabytes, ms, table_of, verdict
from tests.benchmarks.settings import Settings

SECONDS = 2 * 3600
PEER_BATCHES = 3
SCANS = 9
FLAT, SCAN = 1.2, 1.3
MAINTAIN = 10
NAME = "test.ladder"
DRAFT = "Iceberg's index draft says of 2,000 changes of 100 million keys: copy-on-write 75 s, merge-on-read 16.9 s."


def run(settings: Settings) -> str:
    """Each line in a process of its own; each table is built once and put back for the next batch size."""
    home = settings.work / "ladder"
    ours: list[list[str]] = []
    beside: list[list[str]] = []
    for keys in settings.keys:
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        job = {"home": str(home), "keys": keys, "rows": 0, "batches": settings.batches}
        _once("build", job)
        for rows in settings.batch_rows:
            for maintain in (None, MAINTAIN):
                restore(home)
                ours.append(_line(job | {"rows": rows, "maintain": maintain}, settings))
            for peer in PEERS if settings.peers else ():
                restore(home)
                beside.append(_peer(peer, job | {"rows": rows, "batches": PEER_BATCHES}, settings))
    shutil.rmtree(home, ignore_errors=True)
    header = [
        "keys, batch", "first batch", "a batch", "last ten to first ten (1.2)", "", "read a batch", "written a batch",
        "peak memory", "a new process's first batch", "scan to compacted (1.3)", "",
    ]  # fmt: skip
    about = f"{settings.batches} batches each, after one that builds the index; means with maintain. {DRAFT}"
    out = f"{about}\n\n{table_of(header, ours)}"
    if beside:
        header = ["keys, batch, with", "a batch", "read a batch", "written a batch", "peak memory", "rows"]
        out += f"\n\nThe same rows with others, median of {PEER_BATCHES} batches:\n\n{table_of(header, beside)}"
    return out


def restore(home: Path) -> None:
    """Put the built tables back: files never change, so they are linked; the catalogs' own are copied."""
    shutil.rmtree(home / "wh", ignore_errors=True)
    for path in (home / "kept").rglob("*"):
        target = home / "wh" / path.relative_to(home / "kept")
        if path.is_dir():
            target.mkdir(parents=True, exist_ok=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix in (".parquet", ".avro"):
            target.hardlink_to(path)
        else:
            shutil.copy2(path, target)


def fine(count: float) -> str:
    return f"{count / 1e6:,.2f} MB"


def _once(part: str, job: Job) -> tuple[Facts, int | None]:
    worker = Worker("tests.benchmarks.ladder:open_ladder", part, seconds=SECONDS)
    try:
        _, facts, peak = worker.run_with_memory(job)
    finally:
        worker.stop()
    return facts, peak


def _line(job: Job, settings: Settings) -> list[str]:
    what = f"{job['keys']:,}, {job['rows']:,}" + (f", maintain={MAINTAIN}" if job["maintain"] else "")
    try:
        facts, peak = _once("stream", job)
        again, _ = _once("restart", job)
        scans, _ = _once("scans", job)
    except Stopped as stopped:
        return [what, f"{stopped}: {stopped.why}", *[""] * 8, "MISSED"]
    times = facts["times"]
    # One batch of ten maintains the table: a median would not count it.
    middle = statistics.fmean if job["maintain"] else statistics.median
    flat = middle(times[-10:]) / middle(times[:10])
    scan = scans["scan"] / scans["compacted"]
    wrong = scans["rows"] != job["keys"] + (job["batches"] + 2) * new_keys(job)
    line = [
        what, ms(facts["first"]), ms(middle(times)), f"**{flat:.2f}**", verdict(flat, FLAT),
        fine(facts["read"]), fine(facts["written"]), megabytes(peak), ms(again["seconds_"]),
        f"**{scan:.2f}**", "WRONG" if wrong else verdict(scan, SCAN),
    ]  # fmt: skip
    settings.say(f"ladder {line}")
    return line


def _peer(peer: str, job: Job, settings: Settings) -> list[str]:
    what = f"{job['keys']:,}, {job['rows']:,}, {peer}"
    try:
        facts, peak = _once(peer, job)
    except Stopped as stopped:
        line = [what, f"{stopped}: {stopped.why}", *[""] * 4]
    else:
        right = facts["rows"] == job["keys"] + job["batches"] * new_keys(job)
        took = ms(statistics.median(facts["times"]))
        line = [
            what, took, fine(facts["read"]), fine(facts["written"]), megabytes(peak),
            "right" if right else f"WRONG: {facts['rows']:,}",
        ]  # fmt: skip
    settings.say(f"ladder {line}")
    return line


# --- in the worker ----------------------------------------------------------------------------------------------------


def open_ladder(part: str) -> Callable[[Job], Facts]:
    """In the worker: one part, ours or a peer's."""
    ours = {"build": _build, "stream": _stream, "restart": _restart, "scans": _scans}
    return ours[part] if part in ours else OPENED[part]


def _build(job: Job) -> Facts:
    """Build our table and each peer's that deletekit can write, in v2 where the peer knows no more."""
    import deletekit as dk

    home = Path(job["home"])
    for name, version in (("ladder", 3), ("theirs", 2)):
        catalog = dk.local_catalog(home / "wh")
        properties = {"write.merge.mode": "merge-on-read", "write.delete.mode": "merge-on-read"}
        first = next(iter(base(job)))
        table = dk.create_table(catalog, f"test.{name}", first.schema, format_version=version, properties=properties)
        dk.append(table, base(job))
        catalog.pyiceberg.engine.dispose()  # type: ignore[attr-defined]
    (home / "wh").rename(home / "kept")
    return {}


def _table(job: Job) -> Any:
    import deletekit as dk

    return dk.load_table(dk.local_catalog(Path(job["home"]) / "wh"), NAME)


def _sink(job: Job) -> Any:
    import deletekit as dk

    return dk.stream.sink(_table(job), "ladder", on=["id"], change_type=None, maintain=job["maintain"])


def _stream(job: Job) -> Facts:
    """The batches, after one that builds the index."""
    times = []
    with _sink(job) as sink:
        first = _timed(lambda: sink.write(batch_of(job, 0), 0))
        before = io_of()
        for number in range(1, job["batches"] + 1):
            rows = batch_of(job, number)
            times.append(_timed(lambda rows=rows, number=number: sink.write(rows, number)))
        read, written = ((b - a) / job["batches"] for a, b in zip(before, io_of(), strict=True))
    return {"first": first, "times": times, "read": read, "written": written}


def _restart(job: Job) -> Facts:
    """The first batch of a new process."""
    number = job["batches"] + 1
    rows = batch_of(job, number)
    begin = time.perf_counter()
    with _sink(job) as sink:
        sink.write(rows, number)
        return {"seconds_": time.perf_counter() - begin}


def _scans(job: Job) -> Facts:
    import deletekit as dk

    table = _table(job)
    before = table.current_snapshot.snapshot_id
    rows = _count(table)
    dk.compact(table, rewrite_all=True)
    # By turns: what else runs on the machine slows both.
    times = [(_timed(lambda: _count(table, before)), _timed(lambda: _count(table))) for _ in range(SCANS)]
    scan, compacted = map(min, zip(*times, strict=True))
    return {"rows": rows, "scan": scan, "compacted": compacted}


def _count(table: Any, snapshot_id: int | None = None) -> int:
    import deletekit as dk

    return sum(len(batch) for batch in dk.scan(table, snapshot_id=snapshot_id).to_batches())


def _timed(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def io_of() -> tuple[int, int]:
    """Bytes that this process has read and written so far; none where there is no /proc."""
    try:
        lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0, 0
    found = dict(line.split(": ") for line in lines)
    return int(found["rchar"]), int(found["wchar"])
