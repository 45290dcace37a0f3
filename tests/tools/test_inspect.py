"""INSPECT: a snapshot as plain values, compared with what json, fastavro and pyarrow read from the same files."""

import base64
import json
from typing import Any

import pytest

import deletekit as dk
from deletekit.engines.local import LocalEngine
from tests.counting_io import counted
from tests.storage import stored_at
from tests.stored import avro, head_json, live_files, manifest_list, metadata_json, parquet, vectors
from tests.tables import VERSION_AND_MODE, items, make, unchanged

FIVE = items((1, "a", 1.0), (2, None, 2.0), (3, "b", 3.0), (4, "a", None), (5, None, 5.0))


def as_json(value: Any) -> Any:
    """Avro values as inspect shows them: bytes in base64, absent fields left out."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {k: as_json(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [as_json(v) for v in value]
    return value


@pytest.mark.parametrize(("version", "mode"), VERSION_AND_MODE)
@pytest.mark.parametrize("partition_by", [[], ["category"]], ids=str)
def test_what_is_stored_is_shown(catalog: dk.Catalog, version: int, mode: str, partition_by: list[str]) -> None:
    table = make(catalog, FIVE, FIVE, format_version=version, partition_by=partition_by)
    dk.delete(table, "id in (1, 2)", mode=mode)
    with unchanged(table):
        shown = dk.inspect(table, deletes=True)
    assert json.loads(json.dumps(shown)) == shown, "ready for JSON"
    assert shown["metadata-location"] == table.metadata_location
    stored = metadata_json(table)
    for name in ("table-uuid", "format-version", "location", "schemas", "partition-specs", "properties"):
        assert shown["metadata"][name] == stored[name]
    assert shown["snapshot"] == head_json(table)

    listed = [as_json(m) for m in manifest_list(table)]
    for ours, theirs in zip(shown["manifest-list"], listed, strict=True):
        for name, value in theirs.items():
            if name not in ("partitions", "added_data_files_count", "existing_data_files_count"):
                assert renamed(ours).get(name) == value, name
    for ours, theirs in zip(shown["manifests"], listed, strict=True):
        assert ours["manifest_path"] == theirs["manifest_path"]
        for entry, raw in zip(ours["entries"], avro(theirs["manifest_path"]), strict=True):
            assert entry["status"] == raw["status"]
            expected = as_json(raw["data_file"])
            for name in ("file_path", "record_count", "value_counts", "lower_bounds", "upper_bounds", "equality_ids"):
                assert entry["data_file"].get(name) == expected.get(name), name
            assert list(entry["data_file"].get("partition") or []) == list((raw["data_file"]["partition"]).values())


def renamed(manifest: dict[str, Any]) -> dict[str, Any]:
    """The file counts of v1 lists have longer names."""
    files = {"added_files_count", "existing_files_count", "deleted_files_count"}
    return manifest | {n.replace("_files_", "_data_files_"): v for n, v in manifest.items() if n in files}


def test_inherited_values_are_filled_in(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE[:2], FIVE[2:], format_version=3)
    shown = dk.inspect(table)
    found = {e["sequence_number"]: e for m in shown["manifests"] for e in m["entries"]}
    assert {n: (e["file_sequence_number"], e["data_file"]["first_row_id"]) for n, e in found.items()} == {
        1: (1, 0),
        2: (2, 2),
    }
    assert all(e["sequence_number"] is None for m in manifest_list(table) for e in avro(m["manifest_path"]))


def test_positions_of_a_vector_and_its_footer(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE, format_version=3)
    dk.delete(table, "id in (1, 3)", mode="deletion-vector")
    (shown,) = dk.inspect(table, deletes=True)["deletes"]
    (data,) = live_files(table, 0)
    assert (shown["kind"], shown["sequence_number"], shown["truncated"]) == ("deletion-vector", 2, False)
    assert {data["file_path"]: set(shown["positions"])} == vectors(table)
    (blob,) = shown["puffin"]["blobs"]
    assert (blob["type"], blob["offset"], blob["length"]) == ("deletion-vector-v1", 4, 44)
    assert {p["key"]: p["value"] for p in blob["properties"]} == {
        "referenced-data-file": data["file_path"],
        "cardinality": "2",
    }


def test_a_file_of_vectors_is_read_once(catalog: dk.Catalog) -> None:
    """Its footer too, which tells of all of them: else the time would grow by their square."""
    table = make(catalog, FIVE[:2], FIVE[2:], format_version=3)
    dk.delete(table, "id in (1, 3)", mode="deletion-vector", engine=LocalEngine(1))
    table, reads = counted(table)
    assert len(dk.inspect(table, deletes=True)["deletes"]) == 2
    assert reads.opened_like(".puffin") == 3  # the vectors, the end of the footer, the footer


def test_rows_of_position_deletes(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE)
    dk.delete(table, "id in (1, 3)", mode="position-delete")
    (shown,) = dk.inspect(table, deletes=True)["deletes"]
    (data,) = live_files(table, 0)
    assert shown["positions_by_file"] == {data["file_path"]: [0, 2]}


def test_rows_of_equality_deletes(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE)
    dk.delete_keys(table, [{"id": 4, "category": None}, {"id": 5, "category": "x"}])
    (shown,) = dk.inspect(table, deletes=True)["deletes"]
    assert shown["rows"] == parquet(live_files(table, 1)[0]["file_path"]).to_pylist()


@pytest.mark.parametrize(("version", "mode"), [vm for vm in VERSION_AND_MODE if vm[1] != "copy-on-write"])
def test_long_lists_are_cut_and_say_so(catalog: dk.Catalog, version: int, mode: str) -> None:
    table = make(catalog, FIVE, format_version=version)
    dk.delete(table, "id < 5", mode=mode)
    for limit, truncated in ((2, True), (4, False)):
        (shown,) = dk.inspect(table, deletes=True, positions=limit)["deletes"]
        listed = shown.get("positions") or shown.get("rows") or next(iter(shown["positions_by_file"].values()))
        assert (len(listed), shown["truncated"]) == (min(limit, 4), truncated)


def test_the_past_and_nothing(catalog: dk.Catalog) -> None:
    table = make(catalog)
    empty = dk.inspect(table, deletes=True)
    assert (empty["snapshot"], empty["manifest-list"], empty["manifests"], empty["deletes"]) == (None, [], [], [])
    first = dk.append(table, FIVE).snapshot_id
    dk.delete(table, "id = 1", mode="equality-delete")
    shown = dk.inspect(table, snapshot_id=first, deletes=True)
    assert (shown["snapshot"]["snapshot-id"], shown["deletes"], len(shown["manifests"])) == (first, [], 1)


def test_one_damaged_file_is_named_and_the_others_are_shown(catalog: dk.Catalog) -> None:
    """A missing key file, a Puffin file of noise, a position delete file cut off, a manifest of noise."""
    table = make(catalog, FIVE, FIVE, format_version=3)
    dk.delete_keys(table, [{"id": 1}])
    dk.delete_keys(table, [{"id": 2}])
    dk.delete(table, "id = 3", mode="deletion-vector")
    whole = dk.inspect(table, deletes=True)
    missing = next(d for d in live_files(table, 1) if d["content"] == 2)["file_path"]
    puffin = next(d for d in live_files(table, 1) if d["file_format"] == "PUFFIN")["file_path"]
    stored_at(missing).unlink()
    stored_at(puffin).write_bytes(b"noise" * 100)
    shown = dk.inspect(table, deletes=True)
    assert shown["manifests"] == whole["manifests"]
    errors = {d["data_file"]["file_path"]: d["error"]["kind"] for d in shown["deletes"] if "error" in d}
    assert errors.pop(missing) == "file-not-found"
    assert errors == {puffin: "deletion-vector-length"} or list(errors) == [puffin]
    sound = [d for d in shown["deletes"] if "error" not in d]
    assert sound == [d for d in whole["deletes"] if d["data_file"]["file_path"] not in (missing, puffin)]
    assert len(sound) == 2
    path = manifest_list(table)[0]["manifest_path"]
    stored_at(path).write_bytes(b"noise")
    damaged = dk.inspect(table)["manifests"]
    assert [m["error"]["file"] for m in damaged if "error" in m] == [path]
    assert [m for m in damaged if "error" not in m] == whole["manifests"][1:]
