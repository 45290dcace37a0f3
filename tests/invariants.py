"""What must hold of every table that deletekit wrote, whatever was done to it: checked with json and fastavro only."""

import json
from typing import Any

import deletekit as dk
from tests.storage import stored_at
from tests.stored import avro, metadata_json
from tests.tables import files_of

ADDED, EXISTING, DELETED = 1, 0, 2
Json = dict[str, Any]


def check_table(table: dk.Table, *, orphans: bool = True) -> None:
    """Check every snapshot, the bookkeeping between them, and that no file lies about that nothing refers to."""
    metadata = metadata_json(table)
    specs = {s["spec-id"]: s["fields"] for s in metadata["partition-specs"]}
    snapshots = sorted(metadata["snapshots"], key=lambda s: (s.get("sequence-number", 0), s["timestamp-ms"]))
    by_id = {s["snapshot-id"]: s for s in snapshots}
    assert len(by_id) == len(snapshots)
    for snapshot in snapshots:
        check_snapshot(snapshot, specs, by_id)
    check_history(metadata, snapshots)
    if orphans:
        assert files_of(table) == reachable(table)


def check_history(metadata: Json, snapshots: list[Json]) -> None:
    assert {ref["snapshot-id"] for ref in metadata["refs"].values()} <= {s["snapshot-id"] for s in snapshots}
    times = [s["timestamp-ms"] for s in snapshots]
    assert times == sorted(times)
    # What expired leaves gaps.
    numbers = [s["sequence-number"] for s in snapshots if s.get("sequence-number")]
    whole = numbers == list(range(1, len(numbers) + 1)) and numbers[-1:] in ([], [metadata.get("last-sequence-number")])
    if metadata["format-version"] >= 2:
        assert len(set(numbers)) == len(numbers)
        assert metadata["last-sequence-number"] >= max(numbers, default=0)
    if metadata["format-version"] >= 3:
        free = 0
        for snapshot in snapshots:
            if snapshot.get("first-row-id") is not None:
                assert snapshot["first-row-id"] == free or (snapshot["first-row-id"] > free and not whole)
                free = snapshot["first-row-id"] + snapshot["added-rows"]
        assert metadata["next-row-id"] == free or (metadata["next-row-id"] > free and not whole)


def check_snapshot(snapshot: Json, specs: dict[int, Any], snapshots: dict[int, Json]) -> None:
    number = snapshot.get("sequence-number", 0)
    listed = avro(snapshot["manifest-list"])
    live: list[Json] = []
    for manifest in listed:
        live += check_manifest(manifest, specs, snapshots, number)
    contents = [m.get("content", 0) for m in listed]
    assert contents == sorted(contents), "data manifests before delete manifests"
    check_vectors(live)
    check_totals(snapshot["summary"], live)
    paths = [(f["file_path"], f.get("content_offset")) for f in live]
    assert len(set(paths)) == len(paths), "no file is live twice"


def check_manifest(listed: Json, specs: dict[int, Any], snapshots: dict[int, Json], number: int) -> list[Json]:
    """The live files of a manifest, each with its inherited sequence number as `sequence`."""
    assert stored_at(listed["manifest_path"]).stat().st_size == listed["manifest_length"]
    entries = avro(listed["manifest_path"])
    assert entries, "no manifest is empty"
    own, writer = listed.get("sequence_number", 0), listed["added_snapshot_id"]
    names = ("added", "existing", "deleted")
    statuses = [e["status"] for e in entries]
    live = []
    for name, status in zip(names, (ADDED, EXISTING, DELETED), strict=True):
        of_status = [e for e in entries if e["status"] == status]
        count = listed.get(f"{name}_files_count", listed.get(f"{name}_data_files_count"))
        assert count == len(of_status)
        assert listed[f"{name}_rows_count"] == sum(e["data_file"]["record_count"] for e in of_status)
    for entry in entries:
        file = entry["data_file"]
        assert (file.get("content", 0) == 0) == (listed.get("content", 0) == 0), "data and deletes do not mix"
        assert len(file["partition"]) == len(specs[listed["partition_spec_id"]])
        check_entry(entry, own, writer, snapshots)
        if entry["status"] != DELETED:
            sequence = entry.get("sequence_number")
            place = (listed["partition_spec_id"], str(file["partition"]))
            live.append({**file, "sequence": own if sequence is None else sequence, "place": place})
    assert own <= number, "no manifest comes from later"
    if live and "min_sequence_number" in listed:
        assert listed["min_sequence_number"] == min(f["sequence"] for f in live)
    assert live or writer in snapshots
    assert ADDED in statuses or EXISTING in statuses or own == number, "an empty manifest is kept by its writer only"
    return live


def check_entry(entry: Json, own: int, writer: int, snapshots: dict[int, Json]) -> None:
    status, versioned = entry["status"], "sequence_number" in entry
    if status == ADDED:
        assert entry["snapshot_id"] == writer
        if entry.get("sequence_number") is not None:
            assert writer not in snapshots or snapshots[writer]["summary"]["operation"] == "replace"
            assert entry["sequence_number"] < own
        assert entry.get("file_sequence_number") is None
        summary = snapshots.get(writer, {"summary": {}})["summary"]
        known = {"deletekit.promoted-snapshot-id", "deletekit.delta-version"}.intersection(summary)
        assert entry["data_file"].get("first_row_id") is None or known, "rows of a branch, or Delta's, have ids already"
    elif status == DELETED:
        assert entry["snapshot_id"] == writer, "who deleted it, not who added it"
        assert not versioned or entry["sequence_number"] < own
    else:
        assert entry["snapshot_id"] != writer
        assert not versioned or entry["file_sequence_number"] <= own
    if versioned and status != ADDED:
        assert None not in (entry["sequence_number"], entry["file_sequence_number"])
        added_by = snapshots.get(entry["snapshot_id"]) if status == EXISTING else None
        if added_by is not None and added_by.get("sequence-number"):
            assert entry["file_sequence_number"] == added_by["sequence-number"]


def check_vectors(live: list[Json]) -> None:
    data = {f["file_path"]: f for f in live if f.get("content", 0) == 0}
    seen = set()
    for vector in (f for f in live if f["file_format"].upper() == "PUFFIN"):
        target = vector["referenced_data_file"]
        assert target not in seen, "one vector for a data file"
        seen.add(target)
        assert target in data, "a vector goes with its data file"
        assert data[target]["place"] == vector["place"]
        assert data[target]["sequence"] <= vector["sequence"]
        assert 0 < vector["record_count"] <= data[target]["record_count"]


def check_totals(summary: Json, live: list[Json]) -> None:
    def total(name: str, files: list[Json]) -> int:
        return sum(f[name] for f in files)

    data = [f for f in live if f.get("content", 0) == 0]
    deletes = [f for f in live if f.get("content", 0) != 0]
    sizes = [f.get("content_size_in_bytes") or f["file_size_in_bytes"] for f in live]
    assert {name: int(value) for name, value in summary.items() if name.startswith("total-")} == {
        "total-records": total("record_count", data),
        "total-data-files": len(data),
        "total-delete-files": len(deletes),
        "total-position-deletes": total("record_count", [f for f in deletes if f["content"] == 1]),
        "total-equality-deletes": total("record_count", [f for f in deletes if f["content"] == 2]),
        "total-files-size": sum(sizes),
    }


def reachable(table: dk.Table) -> set[str]:
    """Every file that the table's metadata leads to, the logged metadata files included."""
    metadata = metadata_json(table)
    found = {table.metadata_location, *(entry["metadata-file"] for entry in metadata["metadata-log"])}
    for snapshot in metadata["snapshots"]:
        found.add(snapshot["manifest-list"])
        found |= sink_files(metadata, snapshot)
        for manifest in avro(snapshot["manifest-list"]):
            found.add(manifest["manifest_path"])
            # Files that are only marked as deleted have gone, once the snapshots that had them live expired.
            found |= {e["data_file"]["file_path"] for e in avro(manifest["manifest_path"]) if e["status"] != DELETED}
    return found


def sink_files(metadata: Json, snapshot: Json) -> set[str]:
    """The files of sinks that a snapshot names: applied files, remembered deletes, the key index."""
    folder = metadata.get("properties", {}).get("write.metadata.path", f"{metadata['location']}/metadata")
    summary = snapshot["summary"]
    logs = summary.get("deletekit.batch-files", "").split(",")
    deletes = summary.get("deletekit.sequence-deletes", "").split(",")[1:]
    names = {name for name in (*logs, *deletes) if name}
    root = summary.get("deletekit.key-index")
    place = None if root is None else stored_at(f"{folder}/_deletekit/{root}")
    if place is not None and place.exists():  # `erase` removes what may hold a hash of an erased key
        content = place.read_bytes()
        names |= {root, *(run["name"] for run in json.loads(content.partition(b"\n")[2])["runs"])}
    return {f"{folder}/_deletekit/{name}" for name in names}
