"""The pipeline and every verb on the Spark engine, with a catalog and storage of one's choice, in a session of its own.

`python -m tests.engines.place_driver FOLDER KEY=VALUE...` takes a catalog's properties, and prints what it found as
JSON. What rows there must be a dict says; what rows there are Iceberg's own reader says too.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import deletekit as dk
from data.pipeline import run_pipeline, session_opener
from tests.pipeline.flights import some_flights

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "place"
ROWS = 3_000
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("grp", pa.int32()), ("value", pa.float64())])
Model = dict[int, tuple[int, float]]


def rows(ids: range) -> pa.Table:
    return pa.table({"id": list(ids), "grp": [i % 10 for i in ids], "value": [i / 2 for i in ids]}, schema=SCHEMA)


def verbs(version: int) -> list[tuple[str, Callable[[dk.Table], Any], Callable[[Model], Model]]]:
    """Each verb, and what it does to a dict."""
    positions = "deletion-vector" if version == 3 else "position-delete"
    source = pa.table({"id": [6, 7, 90_001], "value": [0.25, 0.75, 1.25]})

    def merged(model: Model) -> Model:
        changed = {i: (model[i][0], v) for i, v in ((6, 0.25), (7, 0.75)) if i in model}
        return {**model, **changed, 90_001: (-1, 1.25)}

    return [
        ("append", lambda t: dk.append(t, rows(range(ROWS))), lambda m: m | {i: (i % 10, i / 2) for i in range(ROWS)}),
        (
            "append",
            lambda t: dk.append(t, rows(range(ROWS, 2 * ROWS))),
            lambda m: m | {i: (i % 10, i / 2) for i in range(ROWS, 2 * ROWS)},
        ),
        ("cow", lambda t: dk.delete(t, "grp = 1", mode="copy-on-write"), lambda m: without(m, 1)),
        ("positions", lambda t: dk.delete(t, "grp = 2", mode=positions), lambda m: without(m, 2)),
        ("positions", lambda t: dk.delete(t, "grp = 3", mode=positions), lambda m: without(m, 3)),
        ("equality", lambda t: dk.delete(t, "grp = 4", mode="equality-delete"), lambda m: without(m, 4)),
        ("keys", lambda t: dk.delete_keys(t, [{"id": 5}]), lambda m: {i: r for i, r in m.items() if i != 5}),
        (
            "update",
            lambda t: dk.update(t, {"value": -1.0}, where="grp = 9", mode="merge-on-read"),
            lambda m: {i: (g, -1.0 if g == 9 else v) for i, (g, v) in m.items()},
        ),
        ("merge", lambda t: dk.merge(t, source, on=["id"], mode="merge-on-read"), merged),
        ("convert", dk.convert_equality_deletes, same),
        ("rewrite", lambda t: dk.rewrite_position_deletes(t, rewrite_all=True), same),
        ("compact", lambda t: dk.compact(t, rewrite_all=True), same),
        ("dangling", dk.remove_dangling_deletes, same),
    ]


def same(model: Model) -> Model:
    return model


def without(model: Model, group: int) -> Model:
    return {i: row for i, row in model.items() if row[0] != group}


def as_model(found: pa.Table) -> Model:
    columns = (found[name].to_pylist() for name in ("id", "grp", "value"))
    return {i: (-1 if g is None else g, v) for i, g, v in zip(*columns, strict=True)}


def run_verbs(session: SparkSession, catalog: dk.Catalog, version: int) -> list[str]:
    """What went wrong after which verb."""
    name = f"verbs.v{version}"
    table = dk.create_table(catalog, name, SCHEMA, format_version=version, partition_by=["bucket(3, id)"])
    wrong: list[str] = []
    model: Model = {}
    with dk.engine.spark(session):
        for verb, change, follow in verbs(version):
            change(table)
            model = follow(model)
            found = dk.scan(table).to_arrow()
            if as_model(found) != model or len(found) != len(model):
                wrong.append(f"v{version} {verb}: {len(found)} rows, not {len(model)}")
    iceberg = session.table(f"{catalog.name}.{name}").toArrow()
    if as_model(iceberg) != model or len(iceberg) != len(model):
        wrong.append(f"v{version}, read by Iceberg: {len(iceberg)} rows, not {len(model)}")
    return wrong + [str(finding) for finding in dk.verify(table, level="data").errors]


def main(folder: str, *given: str) -> None:
    properties = dict(pair.split("=", 1) for pair in given)
    directory = Path(folder) / "run"
    with session_opener(directory, catalog_name=NAME, properties=properties) as open_session:
        session, catalog = open_session()
        wrong = [problem for version in (2, 3) for problem in run_verbs(session, catalog, version)]
        report = run_pipeline(directory, lambda: (session, catalog), days=1, flights=some_flights())
        again = run_pipeline(directory, lambda: (session, catalog), days=1)
        location = dk.load_table(catalog, report.table).location
    statuses = [sorted({step.status for step in one.steps}) for one in (report, again)]
    checks = [f"{check.name}: {check.found}" for check in report.checks if not check.ok]
    print(json.dumps({"wrong": wrong + checks, "statuses": statuses, "location": location}))


if __name__ == "__main__":
    main(*sys.argv[1:])
