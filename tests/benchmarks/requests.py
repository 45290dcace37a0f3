"""Part `requests`: operations on an S3 that takes 30 ms for each request, beside pyarrow's client alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from pyarrow import fs

import deletekit as dk
from deletekit.formats.manifest_list import read_manifest_list, write_manifest_list
from tests.benchmarks.planning_tables import SNAPSHOT_ID, build, location_of
from tests.benchmarks.report import table_of, verdict
from tests.benchmarks.settings import Settings
from tests.s3 import S3
from tests.s3_requests import S3Requests, requests_of

__all__ = ["run"]

DELAY = 0.03
MANIFESTS = 1000
AT_ONCE = 32


def run(settings: Settings) -> str:
    """Plan many manifests; write, hide a row and scan a table of one file."""
    s3 = S3.start()
    try:
        with requests_of(s3) as requests:
            rows = [*_planning(settings, s3, requests), *_one_file(settings, s3, requests)]
    finally:
        s3.stop()
    header = ["operation", "requests", "at once", "seconds", "requests one after the other would take", "target", ""]
    about = "The target is what the format needs: a request for each file, and two for a data file, footer and rows."
    return f"{about}\n\n{table_of(header, rows)}"


def _planning(settings: Settings, s3: S3, requests: S3Requests) -> list[list[str]]:
    manifests = 20 if settings.small else MANIFESTS
    root = settings.work / f"requests-{manifests}"
    folder = Path(location_of(root))
    if not (folder / "metadata" / "v1.metadata.json").exists():
        build(root, 2 * manifests, manifests)
    home = f"s3://{s3.bucket()}/wh/t"
    location = _moved(folder, home, s3)
    given = requests.properties
    keys = {"access_key": given["s3.access-key-id"], "secret_key": given["s3.secret-access-key"]}
    system = fs.S3FileSystem(endpoint_override=given["s3.endpoint"], region=given["s3.region"], **keys)
    names = [f"{home.removeprefix('s3://')}/metadata/{path.name}" for path in (folder / "metadata").glob("*-m0.avro")]

    def by_arrow() -> None:
        def read(name: str) -> None:
            with system.open_input_file(name) as stream:
                stream.read()

        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(read, names))

    def by_deletekit() -> None:
        planned = dk.scan(dk.from_metadata(location, **requests.properties)).plan()
        assert len(planned) == 2 * manifests

    return [
        _measured(f"plan {manifests:,} manifests, from the metadata file", by_deletekit, requests, 2 + manifests),
        _measured(f"pyarrow alone: the bytes of these manifests, {AT_ONCE} threads", by_arrow, requests),
    ]


def _moved(folder: Path, home: str, s3: S3) -> str:
    """Put a table of `planning_tables` on S3, and return the location of its metadata file."""
    listed = read_manifest_list((folder / "metadata" / f"snap-{SNAPSHOT_ID}.avro").read_bytes())
    moved = [replace(m, manifest_path=m.manifest_path.replace(str(folder), home)) for m in listed]
    options: dict[str, Any] = {"format_version": 3, "snapshot_id": SNAPSHOT_ID, "parent_snapshot_id": None}
    files = {path.name: path.read_bytes() for path in (folder / "metadata").glob("*-m0.avro")}
    files[f"snap-{SNAPSHOT_ID}.avro"] = write_manifest_list(moved, **options, sequence_number=2, first_row_id=0)
    files["v1.metadata.json"] = (folder / "metadata" / "v1.metadata.json").read_bytes().replace(
        str(folder).encode(), home.encode()
    )  # fmt: skip
    for name, data in files.items():
        s3.request("PUT", f"{home.removeprefix('s3://')}/metadata/{name}", data)
    return f"{home}/metadata/v1.metadata.json"


def _one_file(settings: Settings, s3: S3, requests: S3Requests) -> list[list[str]]:
    rows = pa.table({"id": pa.array(range(100_000), pa.int64())})
    settings.work.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=settings.work) as directory:
        place = {"uri": f"sqlite:///{directory}/catalog.db", "warehouse": f"s3://{s3.bucket()}/wh"}
        catalog = dk.load_catalog("s3", type="sql", **place, **requests.properties)
        table = dk.create_table(catalog, "n.t", rows.schema, format_version=3)
        steps: list[tuple[str, Callable[[], Any], int | None]] = [
            ("append one file", lambda: dk.append(table, rows), None),
            ("delete a row by a vector", lambda: dk.delete(table, "id = 7", mode="deletion-vector"), None),
            ("scan the file with its vector", lambda: dk.scan(table).to_arrow(), 6),
            ("count() of it", lambda: dk.scan(table).count(), 4),
        ]
        measured = [_measured(name, step, requests, target) for name, step, target in steps]
        catalog.pyiceberg.close()
    return measured


def _measured(name: str, step: Callable[[], Any], requests: S3Requests, target: int | None = None) -> list[str]:
    requests.clear()
    requests.seconds = DELAY
    begin = time.perf_counter()
    step()
    seconds = time.perf_counter() - begin
    requests.seconds = 0.0
    seen = len(requests.seen)
    judged = [f"{target:,}", verdict(seen, target)] if target else ["", ""]
    return [name, f"{seen:,}", str(requests.most_at_once), f"{seconds:.2f}", f"{seen * DELAY:.2f}", *judged]
