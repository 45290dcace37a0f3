"""What must be true of a simulated table: its rows by a plain model, and its files, checked at each swap and removal.

The rows of each new snapshot are read by the conformance suite's oracle, which knows nothing of deletekit, and compared
with what the operation does to the rows of the snapshot before.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from deletekit.table.metadata import TableMetadata, parse_metadata
from tests.conformance import files as content_files
from tests.conformance import oracle
from tests.conformance.oracle import LAST_UPDATED, ROW_ID, Oracle

Rows = Mapping[int, int]
"""A value by id."""
Fail = Callable[[str, str], None]
_MARKER = ("deletekit.sink-id", "deletekit.batch-id")


@dataclass(eq=False)
class Op:
    """What a process is doing.

    Attributes
    ----------
    apply: what it does to rows; None: nothing to rows.
    batch: sink and number, if it is a batch of a sink; such an operation also maintains the table.
    age: seconds after which snapshots may be removed; None: none may.
    moves: it may point a ref to a snapshot that is there.
    landed: the snapshots that it has committed.
    refused: the verb said that it certainly did not commit.
    """

    name: str
    apply: Callable[[Rows], Rows] | None = None
    batch: tuple[str, int] | None = None
    age: float | None = None
    moves: bool = False
    landed: list[int] = field(default_factory=list)
    refused: bool = False
    wrote: set[str] = field(default_factory=set)


class Model:
    """The truth about the one table of a world.

    Attributes
    ----------
    files: the object store's.
    rows: of every snapshot that ever was, by its id.
    live: the files that the table's metadata leads to now.
    ever: those that it ever led to.
    op: tells what is being done, by whom it is asked.
    """

    def __init__(self, fail: Fail, op: Callable[[], Any], now: Callable[[], float]) -> None:
        self.files: dict[str, bytes] = {}
        self.rows: dict[int, Rows] = {}
        self.live: set[str] = set()
        self.ever: set[str] = set()
        self.raw: dict[str, Any] = {"refs": {}, "snapshots": [], "last-sequence-number": 0, "next-row-id": 0}
        self.swaps = 0
        self._fail, self.op, self._now = fail, op, now
        self._files_of: dict[int, set[str]] = {}
        self._parsed: dict[str, TableMetadata] = {}
        self._live_rows: dict[Any, Any] = {}
        self._id_of_row: dict[int, int] = {}
        self._applied: Counter[tuple[str, str, int]] = Counter()

    def parsed(self, location: str) -> TableMetadata:
        """Return a metadata file as the catalog's server knows it."""
        if location not in self._parsed:
            self._parsed[location] = parse_metadata(self.files[location], location)
        return self._parsed[location]

    def head(self, ref: str = "main") -> Rows:
        found = self.raw["refs"].get(ref)
        return self.rows[found["snapshot-id"]] if found else {}

    def removed(self, path: str) -> None:
        """Check that nobody needs a file that is removed now. An erasure also takes the indexes of sinks."""
        op = self.op()
        if path in self.live and not ("/_deletekit/" in path and op is not None and op.name == "erase"):
            self._fail("lost file", f"a file of the table was removed: {path}")

    # --- at a swap -----------------------------------------------------------------------------------------------

    def swapped(self, location: str, op: Op | None) -> None:
        """Check what has become of the table: new snapshots, refs that moved, snapshots that are gone."""
        op = op or Op("set up", moves=True)
        if location not in self.files:
            self._fail("lost file", f"the table's metadata file is not there: {location}")
        before, now = self.raw, json.loads(self.files[location])
        if op.refused:
            self._fail("not refused", f"{op.name} landed after it had been reported as failed")
        old, new = ({s["snapshot-id"]: s for s in raw["snapshots"]} for raw in (before, now))
        for name in ("last-sequence-number", "next-row-id"):
            if now.get(name, 0) < before.get(name, 0):
                self._fail("counter", f"{name} went back from {before[name]} to {now[name]}")
        for snapshot_id in new.keys() - old.keys():
            self._check_snapshot(location, new[snapshot_id], op)
        self._check_refs(before, now, new.keys() - old.keys(), op)
        for snapshot_id in old.keys() - new.keys():
            at = old[snapshot_id]["timestamp-ms"]
            if op.age is None or at > (self._now() - op.age) * 1000:
                self._fail("expired early", f"{op.name} removed snapshot {snapshot_id}, which is too young")
        named = [f["statistics-path"] for n in ("statistics", "partition-statistics") for f in now.get(n) or ()]
        folder, indexes = location.rpartition("/")[0], [s["summary"].get("deletekit.key-index") for s in new.values()]
        named += [f"{folder}/_deletekit/{name}" for name in indexes if name]
        self.live = {location, *named}.union(*(self._files_of[i] for i in new))
        self.ever |= self.live
        self.raw = now
        self.swaps += 1

    def _check_snapshot(self, location: str, snapshot: dict[str, Any], op: Op) -> None:
        snapshot_id, parent = snapshot["snapshot-id"], snapshot.get("parent-snapshot-id")
        if parent is not None and parent not in self.rows:
            self._fail("history", f"{op.name} committed on a snapshot that never was")
        rows = self._read(location, snapshot)
        base = {} if parent is None else self.rows.get(parent, {})
        if parent is None and self.raw["snapshots"] and self.raw["refs"]:
            self._fail("history", f"{op.name} committed a snapshot without a parent")
        wanted = base if op.apply is None or self._is_upkeep(snapshot, op) else op.apply(base)
        if rows != wanted:
            ids = rows.keys() | wanted.keys()
            wrong = {i: (wanted.get(i), rows.get(i)) for i in ids if wanted.get(i) != rows.get(i)}
            what = f"{op.name}: {snapshot['summary'].get('operation')} on {len(base)} rows"
            self._fail("rows", f"{what}: id -> (expected, found): {wrong}")
        self.rows[snapshot_id] = rows
        op.landed.append(snapshot_id)

    def _is_upkeep(self, snapshot: dict[str, Any], op: Op) -> bool:
        if op.batch is None:
            return bool(snapshot["summary"].get("operation") == "replace")
        return tuple(snapshot["summary"].get(name) for name in _MARKER) != (op.batch[0], str(op.batch[1]))

    def _check_refs(self, before: dict[str, Any], now: dict[str, Any], new: set[int], op: Op) -> None:
        for name in before["refs"].keys() | now["refs"].keys():
            old, head = (raw["refs"].get(name, {}).get("snapshot-id") for raw in (before, now))
            if old == head or (head is None and (op.moves or op.age is not None)):
                continue
            snapshot = next((s for s in now["snapshots"] if s["snapshot-id"] == head), None)
            if snapshot is None:
                self._fail("history", f"{op.name}: {name} points to a snapshot that is not there")
            elif head in new and name == "main":
                if snapshot.get("parent-snapshot-id") != old:
                    self._fail("history", f"{op.name} committed over a commit that it has not seen")
                if op.batch is not None and not self._is_upkeep(snapshot, op):
                    self._applied[name, *op.batch] += 1
                    if self._applied[name, *op.batch] > 1:
                        self._fail("exactly once", f"batch {op.batch} was applied twice")
            elif not op.moves and name in ("main", "dev") and head not in new:
                self._fail("history", f"{op.name} moved {name}")

    def was_applied(self, batch: tuple[str, int]) -> bool:
        return self._applied["main", *batch] == 1

    # --- the reader ----------------------------------------------------------------------------------------------

    def _read(self, location: str, snapshot: dict[str, Any]) -> Rows:
        reader = Oracle(self.files, location)
        paths = {snapshot["manifest-list"]}
        self._files_of[snapshot["snapshot-id"]] = paths
        try:
            for manifest in oracle._records(self.files[snapshot["manifest-list"]]):
                self._check_whole(manifest["manifest_path"], manifest["manifest_length"])
                paths.add(manifest["manifest_path"])
            data, deletes = reader._live(snapshot)
        except KeyError as e:
            self._fail("lost file", f"a new snapshot needs a file that is not there: {e}")
            raise
        for file in (*data, *deletes):
            self._check_whole(file["file_path"], file["file_size_in_bytes"])
            paths.add(file["file_path"])
        rows: dict[int, int] = {}
        row_ids: set[int] = set()
        schema = reader.schemas[reader.raw["current-schema-id"]]
        for file in data:
            for row in self._live_rows_of(reader, file, deletes, schema):
                if row[1] in rows:
                    self._fail("rows", f"id {row[1]} is there twice")
                rows[row[1]] = row[2]
                self._check_row_id(row, row_ids, snapshot)
        return rows

    def _live_rows_of(self, reader: Oracle, file: Any, deletes: Any, schema: Any) -> Any:
        applying = [d for d in deletes if reader._applies(d, file)]
        names = tuple(sorted((d["file_path"], d.get("content_offset") or 0) for d in applying))
        key = (file["file_path"], file["first_row_id"], file["sequence"], names)
        if key not in self._live_rows:
            self._live_rows[key] = reader._live_rows(file, deletes, schema, None)
        return self._live_rows[key]

    def _check_row_id(self, row: Any, seen: set[int], snapshot: dict[str, Any]) -> None:
        row_id = row.get(ROW_ID)
        if row_id is None:
            return
        if row_id in seen or self._id_of_row.setdefault(row_id, row[1]) != row[1]:
            self._fail("row id", f"row id {row_id} was given to two rows")
        if row[LAST_UPDATED] > snapshot["sequence-number"]:
            self._fail("row id", f"row {row_id} was updated later than its snapshot")
        seen.add(row_id)

    def _check_whole(self, path: str, size: int) -> None:
        found = self.files.get(path)
        if found is None or len(found) != size:
            what = "is not there" if found is None else f"has {len(found)} bytes instead of {size}"
            self._fail("lost file", f"a new snapshot needs a file that {what}: {path}")


def forget() -> None:
    """Free what the readers keep."""
    oracle._records.cache_clear()
    content_files.read.cache_clear()
