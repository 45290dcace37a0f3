"""deletekit and pyiceberg on one catalog: each sees, and builds on, what the other committed."""

from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import EqualTo
from pyiceberg.table import StaticTable
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, StringType

import deletekit as dk
from tests.catalogs.stores import MORE, ROWS, SCHEMA, Store, leftovers
from tests.tables import Row, expected, items, live


def rows_of(table: Any) -> list[Row]:
    return expected(table.refresh().scan().to_arrow().to_pylist())


def batch(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


@pytest.mark.parametrize("version", [1, 2])
def test_commits_by_turns(store: Store, version: int) -> None:
    ours = store.create("t", SCHEMA, format_version=version, partition_by=["category"])
    theirs = store.peer().load_table(store.full("t"))
    mode = "position-delete" if version == 2 else "copy-on-write"
    model = {r["id"]: r for r in ROWS + MORE}

    def agree() -> None:
        assert live(ours.refresh()) == expected(list(model.values())) == rows_of(theirs)

    theirs.append(batch(ROWS))
    dk.append(ours, MORE)
    agree()
    dk.delete(ours, "id = 4", mode=mode)
    del model[4]
    agree()
    theirs.delete(EqualTo("id", 1))
    del model[1]
    agree()
    dk.update(ours, {"value": -1.0}, where="id = 5", mode=mode)
    model[5] = {**model[5], "value": -1.0}
    agree()
    theirs.overwrite(batch(items((2, "b", 2.5))), overwrite_filter=EqualTo("id", 2))
    model[2] = {**model[2], "value": 2.5}
    agree()
    assert leftovers(ours) == set()
    if version == 2:
        numbers = [s.sequence_number for s in theirs.metadata.snapshots]
        assert numbers == list(range(1, len(numbers) + 1))


def test_evolution_by_turns(store: Store) -> None:
    ours = store.create("t", SCHEMA, format_version=2)
    theirs = store.peer().load_table(store.full("t"))
    dk.append(ours, ROWS)
    dk.add_column(ours, "note", "string")
    theirs.refresh()
    with theirs.update_schema() as schema:
        schema.update_column("id", LongType())
        schema.add_column("extra", StringType())
        schema.rename_column("value", "amount")
    with theirs.update_spec() as spec:
        spec.add_field("category", IdentityTransform(), "category")
    with theirs.transaction() as transaction:
        transaction.set_properties(owner="them")
    dk.add_partition_field(ours, "bucket(2, id)")
    dk.append(ours, [{"id": 2**40, "category": "z", "amount": 1.0, "note": "n", "extra": "e"}])
    dk.delete(ours, "id = 1", mode="position-delete")
    theirs.refresh()
    assert theirs.schema() == ours.schema
    assert [f.field_id for f in ours.schema.fields] == [1, 2, 3, 4, 5]
    assert theirs.spec() == ours.spec
    assert [f.name for f in ours.spec.fields] == ["category", "id_bucket"]
    assert ours.properties["owner"] == "them"
    kept = [{"id": r["id"], "category": r["category"], "amount": r["value"], "note": None, "extra": None} for r in ROWS]
    new = {"id": 2**40, "category": "z", "amount": 1.0, "note": "n", "extra": "e"}
    assert live(ours) == expected([*kept[1:], new]) == rows_of(theirs)
    snapshot = theirs.current_snapshot()
    theirs.manage_snapshots().create_branch(snapshot.snapshot_id, "side").create_tag(
        snapshot.snapshot_id, "tag"
    ).commit()
    dk.append(ours, [{**new, "id": 7}], ref="side")
    assert live(ours, ref="tag") == expected([*kept[1:], new])
    assert len(live(ours, ref="side")) == 4
    assert theirs.refresh().scan(snapshot_id=theirs.metadata.refs["side"].snapshot_id).to_arrow().num_rows == 4


def test_tables_that_pyiceberg_made(store: Store) -> None:
    peer = store.peer()
    peer.create_namespace_if_not_exists(store.namespace)
    theirs = peer.create_table(
        store.full("theirs"),
        schema=SCHEMA,
        location=str(store.folder / "theirs"),
        properties={"write.delete.mode": "x"},
    )
    theirs.append(batch(ROWS))
    theirs.append(batch(MORE))
    theirs.delete(EqualTo("id", 2))
    ours = store.load("theirs")
    assert live(ours) == expected([r for r in ROWS + MORE if r["id"] != 2])
    dk.set_properties(ours, {"write.delete.mode": None})
    if store.kind != "metastore":
        dk.upgrade_format_version(ours, 3)
    dk.delete(ours, "id = 3", mode="merge-on-read")
    assert live(store.load("theirs")) == expected([ROWS[0], *MORE]) == rows_of(theirs)


def test_from_pyiceberg(store: Store) -> None:
    store.create("t", SCHEMA, format_version=2)
    theirs = store.peer().load_table(store.full("t"))
    ours = dk.from_pyiceberg(theirs)
    assert ours.identifier == theirs.name() == (store.namespace, "t")
    assert ours.require_catalog().pyiceberg is theirs.catalog
    dk.append(ours, ROWS)
    dk.delete(ours, "id = 1", mode="position-delete")
    assert rows_of(theirs) == expected(ROWS[1:]) == live(ours)
    again = dk.from_pyiceberg(theirs)
    assert again.metadata_location == theirs.metadata_location == ours.metadata_location


def test_from_pyiceberg_without_a_catalog(sql_store: Store) -> None:
    table = sql_store.create("t", SCHEMA)
    with pytest.raises(dk.UnsupportedError):
        dk.from_pyiceberg(StaticTable.from_metadata(table.metadata_location))


@pytest.mark.parametrize("version", [1, 2])
def test_whoever_is_late_is_told(store: Store, version: int) -> None:
    ours = store.create("t", SCHEMA, format_version=version, properties={"commit.retry.num-retries": "0"})
    dk.append(ours, ROWS)
    theirs = store.peer().load_table(store.full("t"))
    dk.append(ours, MORE)
    with pytest.raises(CommitFailedException):
        theirs.append(batch(ROWS))
    theirs.refresh()

    def meanwhile(rows: pa.Table) -> pa.Array:
        theirs.append(batch(items((6, "f", 60.0))))
        return pa.array([0.0] * len(rows))

    with pytest.raises(dk.CommitConflictError):
        dk.update(ours, {"value": meanwhile}, where="id = 1", mode="copy-on-write")
    assert rows_of(theirs) == expected(ROWS + MORE + items((6, "f", 60.0))) == live(ours.refresh())
