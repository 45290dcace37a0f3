"""Part `delta_log`: the state of a Delta log from a checkpoint, beside reading its Parquet file and beside delta-rs.

The checkpoints name data files that do not exist. The three take turns, and each ratio is of medians of one run.
"""

# ruff: noqa: PLC0415  # the library is imported after the tables are made

from __future__ import annotations

import json
import random
import statistics
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.benchmarks.report import ms, table_of, verdict
from tests.benchmarks.settings import Settings
from tests.delta.handmade import LONGS, z85

__all__ = ["run"]

FILES, PER_BIN = 300_000, 600
TARGET = 3
VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
TEXTS, TEXT = pa.map_(pa.string(), pa.string()), pa.string()
PROTOCOL = pa.struct(
    [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", pa.list_(TEXT)),
        ("writerFeatures", pa.list_(TEXT)),
    ]
)
METADATA = pa.struct(
    [
        ("id", TEXT),
        ("format", pa.struct([("provider", TEXT), ("options", TEXTS)])),
        ("schemaString", TEXT),
        ("partitionColumns", pa.list_(TEXT)),
        ("configuration", TEXTS),
    ]
)
COLUMNS = ("id", "amount", "at", "customer")
BOUNDS = pa.struct([(name, pa.int64()) for name in COLUMNS])
PARSED = pa.struct([("numRecords", pa.int64()), ("minValues", BOUNDS), ("maxValues", BOUNDS), ("nullCount", BOUNDS)])
KINDS: Mapping[str, Mapping[str, bool | int]] = {
    "statistics as text, a vector for each fifth file": {"vector": 5},
    "a vector for each file": {"vector": 1},
    "each path has escapes": {"escapes": True},
    "statistics as columns only, few distinct values": {"parsed": True},
}


def run(settings: Settings) -> str:
    """Seconds, and seconds of processor time, for each kind of checkpoint."""
    from deletekit.delta.log import DeltaLog
    from deletekit.table.file_io import PyIcebergIO

    files = 2_000 if settings.small else FILES
    rows = []
    for kind, options in KINDS.items():
        path = settings.work / "delta_log" / f"{files}-{kind.replace(' ', '-')}"
        checkpoint = path / "_delta_log" / f"{0:020d}.checkpoint.parquet"
        if not checkpoint.exists():
            _make(path, checkpoint, files, **options)

        def ours(path: Path = path) -> int:
            return len(DeltaLog(PyIcebergIO({}, str(path)), str(path)).state(0).files)

        def looked_up(path: Path = path) -> int:
            live = DeltaLog(PyIcebergIO({}, str(path)), str(path)).state(0).files
            assert "no such file" not in live  # as a commit after the checkpoint would ask
            return len(live)

        ways: dict[str, Callable[[], int]] = {
            "parquet": lambda path=checkpoint: pq.read_table(path).num_rows - 2,
            "ours": ours,
            "looked up": looked_up,
            "deltalake": lambda path=path: _by_deltalake(path),
        }
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for _ in range(settings.runs + 1):
            for name, way in ways.items():
                time.sleep(0.2)  # threads of the one before still free memory, which counts as processor time
                begin, used = time.perf_counter(), time.process_time()
                assert way() == files, name
                taken[name].append((time.perf_counter() - begin, time.process_time() - used))
        medians = [[statistics.median(both) for both in zip(*found[1:], strict=True)] for found in taken.values()]
        least = medians[0]
        ratios = [[f"{a / b:.1f}" for a, b in zip(found, least, strict=True)] for found in medians[1:]]
        size = f"{checkpoint.stat().st_size / 1e6:.0f} MB"
        verdicts = [verdict(medians[1][0] / least[0], TARGET)]
        times = [" / ".join(map(ms, found)) for found in medians]
        rows.append([f"{kind}: {size}", *times, *map(" / ".join, ratios), *verdicts])
    names = ["`pq.read_table`", "our state", "and a look-up", "deltalake"]
    return table_of(["checkpoint", *names, *(f"{n} to Parquet" for n in names[1:]), f"target {TARGET}"], rows)


def _by_deltalake(path: Path) -> int:
    from deltalake import DeltaTable

    return int(DeltaTable(path).get_add_actions().num_rows)


def _make(
    path: Path, checkpoint: Path, files: int, *, vector: int = 0, escapes: bool = False, parsed: bool = False
) -> None:
    """Write a checkpoint of version 0. `vector` n gives each n-th file a vector."""
    checkpoint.parent.mkdir(parents=True)
    chance = random.Random(files)
    fields: list[tuple[str, pa.DataType]] = [
        ("path", pa.string()),
        ("partitionValues", pa.map_(pa.string(), pa.string())),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats_parsed", PARSED) if parsed else ("stats", pa.string()),
    ]
    fields += [("deletionVector", VECTOR)] if vector else []
    adds: list[Any] = [_add(n, chance, vector, escapes=escapes, parsed=parsed) for n in range(files)]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    protocol |= {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    metadata = {"id": "benchmark", "format": {"provider": "parquet", "options": {}}, "schemaString": LONGS}
    metadata |= {"partitionColumns": [], "configuration": {}}
    columns = {
        "protocol": pa.array([protocol, None, *[None] * files], PROTOCOL),
        "metaData": pa.array([None, metadata, *[None] * files], METADATA),
        "add": pa.array([None, None, *adds], pa.struct(fields)),
    }
    pq.write_table(pa.table(columns), checkpoint)
    commit = [{"protocol": protocol}, {"metaData": metadata}]
    checkpoint.with_name(f"{0:020d}.json").write_text("\n".join(map(json.dumps, commit)))
    checkpoint.with_name("_last_checkpoint").write_text(json.dumps({"version": 0, "size": files + 2}))


def _add(number: int, chance: random.Random, vector: int, *, escapes: bool, parsed: bool) -> dict[str, Any]:
    low, high = ({name: 1 if parsed else chance.randrange(10**n) for name in COLUMNS} for n in (6, 9))
    stats = {"numRecords": 2_000, "minValues": low, "maxValues": high, "nullCount": dict.fromkeys(COLUMNS, 0)}
    folder = f"at=2026-01-{number % 28 + 1:02d}%2012%3A{number % 60:02d}%3A00/" if escapes else ""
    name = f"part-{number:05d}-{uuid.UUID(int=chance.getrandbits(128))}-c000.snappy.parquet"
    out = {"path": folder + name, "partitionValues": [], "size": 20_000 + number % 7, "modificationTime": 1}
    out |= {"dataChange": False, **({"stats_parsed": stats} if parsed else {"stats": json.dumps(stats)})}
    if vector and number % vector == 0:
        encoded = z85(random.Random(number // vector // PER_BIN).randbytes(16))
        place = {"pathOrInlineDv": encoded, "offset": 1 + number // vector % PER_BIN * 42, "sizeInBytes": 34}
        out["deletionVector"] = {"storageType": "u", **place, "cardinality": 1}
    return out
