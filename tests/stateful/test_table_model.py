"""Long random sequences of verbs leave the same rows as the same steps on a plain Python list.

After every step the scan is the model, every earlier snapshot still reads as it did, explain's live rows are the scan,
a data file has at most one deletion vector, and v3 row ids are unique and stay with rows that were not rewritten by
equality updates. `DELETEKIT_STATEFUL_EXAMPLES` makes the run longer.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import deletekit as dk
from deletekit.formats.manifest_list import ManifestContent
from deletekit.table.snapshot import SnapshotReader

Row = dict[str, Any]
MODES = {
    1: ["copy-on-write"],
    2: ["copy-on-write", "equality-delete", "position-delete", "merge-on-read"],
    3: ["copy-on-write", "equality-delete", "deletion-vector", "merge-on-read"],
}
PARTITIONINGS = [(), ("part",), ("bucket(3, id)",), ("truncate(1, part)", "bucket(2, id)")]
SCHEMA = pa.schema([("id", pa.int32()), ("part", pa.string()), ("value", pa.int64())])

ids = st.integers(0, 12)
parts = st.sampled_from([None, "a", "b", "ab"])
values = st.one_of(st.none(), st.integers(0, 5))
new_rows = st.lists(st.fixed_dictionaries({"id": ids, "part": parts, "value": values}), min_size=1, max_size=6)


class TableModel(RuleBasedStateMachine):
    """A deletekit table beside a list of rows; columns that the table gains or loses, the rows gain or lose too."""

    @initialize(version=st.sampled_from([1, 2, 3]), partition_by=st.sampled_from(PARTITIONINGS))
    def create(self, version: int, partition_by: tuple[str, ...]) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="deletekit-model-"))
        catalog = dk.local_catalog(self.directory)
        self.table = dk.create_table(
            catalog,
            "model.t",
            SCHEMA,
            format_version=version,
            partition_by=partition_by,
            properties={"commit.retry.num-retries": "0"},
        )
        self.rows: list[Row] = []
        self.history: dict[int, Counter[Any]] = {}
        self.value_name = "value"
        self.extra = 0
        self.row_ids: dict[int, Any] = {}

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            shutil.rmtree(self.directory)

    def mode(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(MODES[self.table.format_version]), label="mode")

    def full(self, row: Row) -> Row:
        """A row as the table holds it now: the value column under its current name, and defaults of added columns."""
        named = {self.value_name if k == "value" else k: v for k, v in row.items()}
        defaults = {f.name: f.write_default for f in self.table.schema.fields}
        return {**defaults, **named}

    @rule(rows=new_rows)
    def append(self, rows: list[Row]) -> None:
        full = [self.full(r) for r in rows]
        dk.append(
            self.table,
            pa.Table.from_pylist(
                [{k: r[k] for k in ("id", "part", self.value_name)} for r in full], schema=self.arrow()
            ),
        )
        self.rows += full

    def arrow(self) -> pa.Schema:
        kind = dk.scan(self.table).arrow_schema
        return pa.schema([kind.field(n) for n in ("id", "part", self.value_name)])

    @rule(data=st.data(), id=ids)
    def delete_by_id(self, data: st.DataObject, id: int) -> None:  # noqa: A002
        dk.delete(self.table, f"id = {id}", mode=self.mode(data))
        self.rows = [r for r in self.rows if r["id"] != id]

    @rule(data=st.data(), low=ids)
    def delete_by_value_or_null(self, data: st.DataObject, low: int) -> None:
        name = self.value_name
        dk.delete(self.table, f"{name} is null or (id >= {low} and part = 'a')", mode=self.mode(data))
        self.rows = [r for r in self.rows if not (r[name] is None or (r["id"] >= low and r["part"] == "a"))]

    @precondition(lambda self: self.table.format_version >= 2)
    @rule(chosen=ids, part=parts)
    def delete_keys(self, chosen: int, part: str | None) -> None:
        dk.delete_keys(
            self.table,
            pa.table({"id": pa.array([chosen], self.arrow().field("id").type), "part": pa.array([part], pa.string())}),
        )
        self.rows = [r for r in self.rows if (r["id"], r["part"]) != (chosen, part)]

    @rule(data=st.data(), id=ids, value=values)
    def update(self, data: st.DataObject, id: int, value: int | None) -> None:  # noqa: A002
        mode = self.mode(data)
        dk.update(self.table, {self.value_name: value}, where=f"id = {id}", mode=mode)
        self.rows = [{**r, self.value_name: value} if r["id"] == id else r for r in self.rows]
        self.forget_row_ids(mode, id)

    @rule(data=st.data(), id=ids, part=parts, value=values)
    def merge(self, data: st.DataObject, id: int, part: str | None, value: int | None) -> None:  # noqa: A002
        mode = self.mode(data)
        arrow = self.arrow()
        source = pa.Table.from_pylist([{"id": id, "part": part, self.value_name: value}], schema=arrow)
        dk.merge(self.table, source, on=["id"], mode=mode)
        new = {"part": part, self.value_name: value}
        if any(r["id"] == id for r in self.rows):
            self.rows = [{**r, **new} if r["id"] == id else r for r in self.rows]
        else:
            self.rows.append(self.full({"id": id, "part": part, "value": value}))
        self.forget_row_ids(mode, id)

    def forget_row_ids(self, mode: str, changed: int) -> None:
        """An equality update does not know the old row, so its new version gets a new id."""
        if mode == "equality-delete":
            self.row_ids = {i: key for i, key in self.row_ids.items() if key != changed}

    @precondition(lambda self: self.table.format_version < 3)
    @rule()
    def upgrade(self) -> None:
        dk.upgrade_format_version(self.table, self.table.format_version + 1)

    @precondition(lambda self: self.extra < 3)
    @rule(default=st.sampled_from([None, 7]))
    def add_column(self, default: int | None) -> None:
        default = default if self.table.format_version == 3 else None
        self.extra += 1
        dk.add_column(self.table, f"extra{self.extra}", "long", default=default)
        for row in self.rows:
            row[f"extra{self.extra}"] = default

    @precondition(lambda self: any(f.name.startswith("extra") for f in self.table.schema.fields))
    @rule(data=st.data())
    def drop_column(self, data: st.DataObject) -> None:
        names = [f.name for f in self.table.schema.fields if f.name.startswith("extra")]
        name = data.draw(st.sampled_from(names))
        dk.drop_column(self.table, name)
        for row in self.rows:
            del row[name]

    @rule()
    def rename_column(self) -> None:
        new = "amount" if self.value_name == "value" else "value"
        dk.rename_column(self.table, self.value_name, new)
        for row in self.rows:
            row[new] = row.pop(self.value_name)
        self.value_name = new

    @precondition(lambda self: str(self.table.schema.find_field("id").field_type) == "int")
    @rule()
    def promote_key(self) -> None:
        dk.update_column(self.table, "id", type="long")

    @precondition(lambda self: self.table.format_version >= 2 and len(self.table.spec.fields) < 3)
    @rule(field=st.sampled_from(["part", "bucket(5, id)", "truncate(10, id)"]))
    def add_partition_field(self, field: str) -> None:
        try:
            dk.add_partition_field(self.table, field)
        except dk.InvalidInputError as e:
            assert e.kind == "partition-spec"  # noqa: PT017  # it is there already

    @precondition(lambda self: self.table.format_version >= 2 and self.table.spec.fields)
    @rule()
    def drop_partition_field(self) -> None:
        dk.drop_partition_field(self.table, self.table.spec.fields[0].name)

    @rule(data=st.data())
    def change_a_branch(self, data: st.DataObject) -> None:
        """What happens on a branch stays on it."""
        if self.table.current_snapshot is None:
            return
        if "side" not in self.table.metadata.refs:
            dk.create_branch(self.table, "side")
        dk.delete(self.table, f"id = {data.draw(ids)}", mode=self.mode(data), ref="side")

    @invariant()
    def scan_is_the_model(self) -> None:
        if not hasattr(self, "table"):
            return
        found = as_counter(dk.scan(self.table).to_arrow().to_pylist())
        assert found == as_counter(self.rows)
        assert dk.scan(self.table).count() == len(self.rows)
        assert as_counter(v.row for v in dk.explain(self.table, "true").live) == found
        snapshot = self.table.current_snapshot
        if snapshot is not None:
            self.history.setdefault(snapshot.snapshot_id, as_counter_of_ids(self.rows))

    @invariant()
    def earlier_snapshots_read_as_they_did(self) -> None:
        for snapshot_id, expected in getattr(self, "history", {}).items():
            found = dk.scan(self.table, columns=["id", "part"], snapshot_id=snapshot_id).to_arrow().to_pylist()
            assert Counter((r["id"], r["part"]) for r in found) == expected

    @invariant()
    def one_vector_and_stable_row_ids(self) -> None:
        if not hasattr(self, "table") or self.table.format_version < 3 or self.table.current_snapshot is None:
            return
        reader = SnapshotReader(self.table.io, self.table.metadata)
        deletes = [e.data_file for e in reader.live_entries(self.table.current_snapshot, ManifestContent.DELETES)]
        vectors = Counter(d.referenced_data_file for d in deletes if d.is_deletion_vector)
        assert all(count == 1 for count in vectors.values())
        rows = dk.scan(self.table, columns=["id", "_row_id"]).to_arrow().to_pylist()
        known = [r["_row_id"] for r in rows if r["_row_id"] is not None]
        assert len(known) == len(set(known))
        for row in rows:
            if row["_row_id"] is not None:
                assert self.row_ids.setdefault(row["_row_id"], row["id"]) == row["id"]


def as_counter(rows: Any) -> Counter[Any]:
    return Counter(tuple(sorted(row.items(), key=lambda item: item[0])) for row in rows)


def as_counter_of_ids(rows: list[Row]) -> Counter[Any]:
    return Counter((row["id"], row["part"]) for row in rows)


TestTableModel = TableModel.TestCase
TestTableModel.settings = settings(
    max_examples=int(os.environ.get("DELETEKIT_STATEFUL_EXAMPLES", "25")),
    stateful_step_count=18,
    deadline=None,
    derandomize="DELETEKIT_STATEFUL_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
)
