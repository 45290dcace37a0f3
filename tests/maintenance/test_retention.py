"""Which snapshots expire, against the specification's sentences put into plain loops."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField

import deletekit as dk
from deletekit.maintenance.expire_snapshots import ExpiryRequest, plan_expiry
from deletekit.table.metadata import TableMetadata, new_metadata

NOW = 1000
SCHEMA = Schema(NestedField(1, "id", IntegerType(), required=False))


def metadata_of(parents: list[int | None], refs: dict[str, Any], properties: dict[str, str]) -> TableMetadata:
    """Snapshots 1, 2, ... made ten milliseconds apart; `parents` says whose child each is."""
    base = new_metadata(
        SCHEMA, UNPARTITIONED_PARTITION_SPEC, location="memory:/t", format_version=2, properties=properties
    )
    snapshots = [
        {"snapshot-id": i, "timestamp-ms": 10 * i, "sequence-number": i, "manifest-list": f"list{i}", "summary": {}}
        | ({} if parent is None else {"parent-snapshot-id": parent})
        for i, parent in enumerate(parents, 1)
    ]
    head = refs["main"]["snapshot-id"] if "main" in refs else None
    return TableMetadata({**base.raw, "snapshots": snapshots, "refs": refs, "current-snapshot-id": head})


def model(metadata: TableMetadata, older_than: int, keep: int, max_ref_age: int) -> tuple[set[int], set[str]]:
    """What stays: (snapshot ids, refs)."""
    parents = {s["snapshot-id"]: s.get("parent-snapshot-id") for s in metadata.raw["snapshots"]}
    made = {s["snapshot-id"]: s["timestamp-ms"] for s in metadata.raw["snapshots"]}
    refs, stays, led_to = set(), set(), set()
    for name, ref in metadata.raw["refs"].items():
        # "For `main` and refs younger than max-ref-age-ms".
        if name != "main" and NOW - made[ref["snapshot-id"]] > ref.get("max-ref-age-ms", max_ref_age):
            continue
        refs.add(name)
        stays.add(ref["snapshot-id"])
        led_to.add(ref["snapshot-id"])
        if ref["type"] == "tag":
            continue
        line, at = [], ref["snapshot-id"]
        while at in parents:
            line.append(at)
            at = parents[at]
        led_to |= set(line)
        least = ref.get("min-snapshots-to-keep", keep)
        limit = NOW - ref["max-snapshot-age-ms"] if "max-snapshot-age-ms" in ref else older_than
        # Parents are older than their children here, so the young ones are the first ones.
        stays |= set(line[:least]) | {i for i in line if made[i] >= limit}
    stays |= {i for i in parents if i not in led_to and made[i] >= older_than}
    return stays, refs


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[int | None], dict[str, Any]]:
    count = draw(st.integers(1, 12))
    parents = [draw(st.none() | st.integers(1, i - 1)) if i > 1 else None for i in range(1, count + 1)]
    refs = {}
    for name in ("main", *draw(st.lists(st.sampled_from(["a", "b", "c"]), unique=True))):
        kind = "branch" if name == "main" else draw(st.sampled_from(["branch", "tag"]))
        ref: dict[str, Any] = {"snapshot-id": draw(st.integers(1, count)), "type": kind}
        ages = st.integers(0, 1000)
        if draw(st.booleans()):
            ref["max-ref-age-ms"] = draw(ages)
        if kind == "branch" and draw(st.booleans()):
            ref["max-snapshot-age-ms"] = draw(ages)
        if kind == "branch" and draw(st.booleans()):
            ref["min-snapshots-to-keep"] = draw(st.integers(1, 5))
        refs[name] = ref
    return parents, refs


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(
    table=tables(),
    age=st.integers(0, 1000),
    keep=st.integers(1, 5),
    ref_age=st.integers(0, 1000),
    as_properties=st.booleans(),
)
def test_what_stays(table: Any, age: int, keep: int, ref_age: int, as_properties: bool) -> None:
    properties = {"history.expire.max-ref-age-ms": str(ref_age)}
    if as_properties:
        properties["history.expire.max-snapshot-age-ms"] = str(age)
        properties["history.expire.min-snapshots-to-keep"] = str(keep)
        request = ExpiryRequest(now_ms=NOW)
    else:
        request = ExpiryRequest(now_ms=NOW, older_than_ms=NOW - age, retain_last=keep)
    metadata = metadata_of(*table, properties)
    stays, refs = model(metadata, NOW - age, keep, ref_age)
    found = plan_expiry(metadata, request)
    assert {s.snapshot_id for s in found.snapshots} == set(metadata.snapshots) - stays
    assert set(found.refs) == set(metadata.refs) - refs


def test_named_ids_expire_whatever_their_age() -> None:
    metadata = metadata_of([None, 1, 2, 3], {"main": {"snapshot-id": 4, "type": "branch"}}, {})
    found = plan_expiry(metadata, ExpiryRequest(now_ms=NOW, older_than_ms=0, snapshot_ids=(2, 3)))
    assert [s.snapshot_id for s in found.snapshots] == [2, 3]
    with pytest.raises(dk.InvalidInputError) as caught:
        plan_expiry(metadata, ExpiryRequest(now_ms=NOW, older_than_ms=0, snapshot_ids=(4,)))
    assert caught.value.kind == "referenced-snapshot"


def test_a_cycle_of_parents_ends() -> None:
    metadata = metadata_of([2, 1], {"main": {"snapshot-id": 2, "type": "branch"}}, {})
    found = plan_expiry(metadata, ExpiryRequest(now_ms=NOW, older_than_ms=NOW))
    assert [s.snapshot_id for s in found.snapshots] == [1]
