"""What tests of maintenance share: reachability by json and fastavro alone, and somebody else who comes in between."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import deletekit as dk
from deletekit.table.catalog import Catalog, TableState
from deletekit.table.identifier import Identifier
from deletekit.table.metadata import TableMetadata
from tests.storage import stored_at
from tests.stored import avro, metadata_json
from tests.tables import Row, live

FAR = 4_102_444_800_000
"""A time after every snapshot: 2100."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def live_paths(snapshot: Mapping[str, Any]) -> set[str]:
    """Data and delete files that a snapshot has live."""
    return {
        entry["data_file"]["file_path"]
        for listed in avro(snapshot["manifest-list"])
        for entry in avro(listed["manifest_path"])
        if entry["status"] != 2
    }


def needed(table: dk.Table) -> set[str]:
    """Every file that the table needs: of each snapshot what is live and the way there, statistics, metadata files."""
    metadata = metadata_json(table)
    found = {table.metadata_location, *(entry["metadata-file"] for entry in metadata["metadata-log"])}
    for name in ("statistics", "partition-statistics"):
        found |= {entry["statistics-path"] for entry in metadata.get(name, ())}
    for snapshot in metadata["snapshots"]:
        found.add(snapshot["manifest-list"])
        found |= {listed["manifest_path"] for listed in avro(snapshot["manifest-list"])}
        found |= live_paths(snapshot)
    return found


def history(table: dk.Table) -> dict[int, list[Row]]:
    """Rows of every snapshot."""
    return {i: live(table, snapshot_id=i) for i in table.refresh().metadata.snapshots}


def lineage(table: dk.Table, **options: Any) -> list[tuple[Any, ...]]:
    """(id, row id, last updated) of every row."""
    rows = dk.scan(table, columns=["id", "_row_id", "_last_updated_sequence_number"], **options).to_arrow()
    return sorted(tuple(row.values()) for row in rows.to_pylist())


def snapshot_ids(table: dk.Table) -> list[int]:
    """Ids in the order in which the snapshots were made."""
    return [s["snapshot-id"] for s in metadata_json(table.refresh())["snapshots"]]


def staged(table: dk.Table, rows: Sequence[Row], *, wap_id: str | None = None, **options: Any) -> int:
    """Append to a branch that is dropped again: a snapshot that no ref leads to, as write-audit-publish stages it."""
    dk.create_branch(table, "staging")
    properties = {"wap.id": wap_id} if wap_id else None
    done = dk.append(table, rows, ref="staging", commit_properties=properties, **options)
    dk.drop_ref(table, "staging")
    assert done.snapshot_id is not None
    return done.snapshot_id


class Between(Catalog):
    """A catalog with somebody who acts once, before a commit is asked for or after it landed."""

    def __init__(
        self,
        catalog: Catalog,
        before: Callable[[], Any] | None = None,
        after: Callable[[], Any] | None = None,
    ) -> None:
        self._catalog = catalog
        self._before = before
        self._after = after
        self.pyiceberg = catalog.pyiceberg
        self.commits = 0

    def load(self, identifier: Identifier) -> TableState:
        return self._catalog.load(identifier)

    def create(self, identifier: Identifier, metadata: TableMetadata) -> TableState:
        return self._catalog.create(identifier, metadata)

    def commit(self, identifier: Identifier, requirements: Any, updates: Any) -> TableState:
        self.commits += 1
        if self._before is not None:
            before, self._before = self._before, None
            before()
        state = self._catalog.commit(identifier, requirements, updates)
        if self._after is not None:
            after, self._after = self._after, None
            after()
        return state


@contextmanager
def between(
    table: dk.Table, *, before: Callable[[], Any] | None = None, after: Callable[[], Any] | None = None
) -> Iterator[Between]:
    """Let somebody act in the middle of the block's commit; what they use must be another handle."""
    catalog = table.require_catalog()
    table.catalog = Between(catalog, before, after)
    try:
        yield table.catalog
    finally:
        table.catalog = catalog


def other(table: dk.Table) -> dk.Table:
    """Another handle on the same table."""
    return dk.load_table(table.require_catalog(), table.name)


def edit_metadata(table: dk.Table, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the table's metadata file in place, as no catalog would: for what deletekit itself does not write."""
    metadata = metadata_json(table)
    change(metadata)
    stored_at(table.metadata_location).write_text(json.dumps(metadata), encoding="utf-8")
    table.refresh()
