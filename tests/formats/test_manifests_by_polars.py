"""Manifests decoded by polars: entry for entry what fastavro gives, and the same errors."""

import copy
import pickle
import random
import struct
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deletekit.errors import DeletekitError, FormatError
from deletekit.formats.content_file import DataFile, DeleteFile, EntryStatus, FileContent, ManifestEntry
from deletekit.formats.manifest_columns import DecodedMetrics, LazyDataFile, ManifestColumns, MetricsCache, text_array
from deletekit.formats.manifest_list import ManifestFile
from deletekit.formats.manifest_writer import write_manifest
from deletekit.formats.manifests import columns_of, inherit, read_manifest
from tests.formats.test_manifests import DAMAGE, FIXED, READS, golden, listed
from tests.golden_files import Entry

LISTED = ManifestFile(
    manifest_path="m.avro", manifest_length=1, partition_spec_id=0, added_snapshot_id=77, sequence_number=9
)


def by_polars(data: bytes, row: ManifestFile) -> list[ManifestEntry]:
    manifest = read_manifest(data, spec_id=row.partition_spec_id, by_polars=True)
    return list(inherit(manifest, row).all_entries())


def strictly(data: bytes, row: ManifestFile) -> list[ManifestEntry]:
    return list(inherit(read_manifest(data, spec_id=row.partition_spec_id), row).all_entries())


def is_by_polars(data: bytes) -> bool:
    """Whether polars' columns were believed."""
    return isinstance(read_manifest(data, spec_id=0, by_polars=True).columns.metrics, DecodedMetrics)


def same(found: list[ManifestEntry], expected: list[ManifestEntry]) -> bool:
    """Whether two lists are equal in value and type; as text, for NaN and -0.0."""
    return repr(found) == repr(expected)


# --- golden -----------------------------------------------------------------------------------------------------------


@pytest.mark.golden
@pytest.mark.parametrize(("entry", "read"), READS)
def test_golden_manifests_have_the_same_entries(entry: Entry, read: Entry) -> None:
    row = listed(entry, read)
    expected = strictly(golden(entry), row)
    found = by_polars(golden(entry), row)
    assert is_by_polars(golden(entry)) == (entry["file"] != FIXED and bool(expected))
    assert same(found, expected)
    assert found == expected or any(v != v for e in expected for v in e.data_file.partition)


@pytest.mark.parametrize("name", sorted(set(DAMAGE) - {"spec id of words"}))  # the list's spec id is taken instead
def test_damage_is_named_by_polars_too(name: str) -> None:
    make, kind, field = DAMAGE[name]
    with pytest.raises(FormatError) as error:
        read_manifest(make(), spec_id=0, by_polars=True)
    assert (error.value.kind, error.value.field) == (kind, field)


# --- generated --------------------------------------------------------------------------------------------------------

PARTITION_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32),
    "double": st.floats() | st.sampled_from((0.0, -0.0, struct.unpack("<d", b"\1\0\0\0\0\0\xf8\x7f")[0])),
    "string": st.text(max_size=4),
    "binary": st.binary(max_size=4),
    "date": st.integers(-(2**31), 2**31 - 1),
    "timestamp": st.integers(-(2**63), 2**63 - 1),
    "uuid": st.binary(min_size=16, max_size=16),
    "decimal(9, 2)": st.binary(min_size=4, max_size=4),
    "decimal(38, 0)": st.binary(min_size=16, max_size=16),
    "unknown": st.none(),
}
POSITIVE = st.integers(0, 2**40)
IDS = st.integers(0, 2**31 - 1)
COUNTS = st.none() | st.dictionaries(IDS, st.integers(-(2**63), 2**63 - 1), max_size=3)
BOUNDS = st.none() | st.dictionaries(IDS, st.binary(max_size=70), max_size=3)
PATHS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=80).map(lambda t: "s3://bucket/" + t)


@st.composite
def files(draw: st.DrawFn, types: list[str], version: int, kind: str) -> DataFile | DeleteFile:
    common: dict[str, Any] = {
        "spec_id": 0,
        "file_path": draw(PATHS),
        "file_format": draw(st.sampled_from(("PARQUET", "AVRO", "ORC"))),
        "partition": tuple(draw(st.none() | PARTITION_VALUES[t]) for t in types),
        "record_count": draw(POSITIVE),
        "file_size_in_bytes": draw(POSITIVE),
        "key_metadata": draw(st.none() | st.binary(max_size=3)),
        "split_offsets": draw(st.none() | st.lists(POSITIVE, max_size=3).map(tuple)),
        "sort_order_id": draw(st.none() | IDS),
    }
    maps = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
    common |= {name: draw(COUNTS) for name in maps} | {n: draw(BOUNDS) for n in ("lower_bounds", "upper_bounds")}
    if kind == "data":
        return DataFile(**common, first_row_id=draw(st.none() | POSITIVE) if version == 3 else None)
    if kind == "vector":
        common |= {"file_format": "PUFFIN", "referenced_data_file": draw(PATHS)}
        common |= {"content_offset": draw(POSITIVE), "content_size_in_bytes": draw(POSITIVE)}
        return DeleteFile(**common, content=FileContent.POSITION_DELETES)
    if kind == "position":
        return DeleteFile(**common, content=FileContent.POSITION_DELETES, referenced_data_file=draw(st.none() | PATHS))
    ids = draw(st.lists(IDS, min_size=1, max_size=3).map(tuple))
    return DeleteFile(**common, content=FileContent.EQUALITY_DELETES, equality_ids=ids)


@st.composite
def manifests(draw: st.DrawFn) -> tuple[bytes, ManifestFile]:
    version = draw(st.sampled_from((1, 2, 3)))
    types = draw(st.lists(st.sampled_from(sorted(PARTITION_VALUES)), max_size=3))
    deletes = {1: (), 2: (("position", "equality"),), 3: (("position", "equality", "vector"),)}[version]
    kinds = draw(st.sampled_from((("data",), *deletes)))
    entries = []
    for _ in range(draw(st.integers(1, 12))):
        status = draw(st.sampled_from(EntryStatus))
        file = draw(files(types, version, draw(st.sampled_from(kinds))))
        if status == EntryStatus.ADDED and isinstance(file, DataFile):
            file = replace(file, first_row_id=None)
        number = draw(POSITIVE | st.none()) if status == EntryStatus.ADDED else draw(POSITIVE)
        file_number, snapshot_id = draw(POSITIVE | st.none()), draw(POSITIVE | st.none())
        entries.append(
            ManifestEntry(
                status=status,
                snapshot_id=snapshot_id,
                sequence_number=number,
                file_sequence_number=file_number,
                data_file=file,
            )
        )
    data = write_manifest(
        entries,
        format_version=version,
        content=entries[0].data_file.content,
        schema_json={"type": "struct", "fields": [], "schema-id": 0},
        spec_json={"spec-id": 0, "fields": [{"name": f"p{i}"} for i in range(len(types))]},
        partition_types=[(1000 + i, f"p {i}", kind) for i, kind in enumerate(types)],
        codec=draw(st.sampled_from(("null", "deflate", "zstandard", "snappy"))),
    )
    only_new = all(e.status == EntryStatus.ADDED for e in entries)
    highest = max(e.sequence_number or 0 for e in entries)
    row = replace(
        LISTED,
        sequence_number=draw(st.sampled_from((highest, 2**63 - 1) if version > 1 or only_new else (0,))),
        first_row_id=draw(st.none() | POSITIVE),
    )
    return data, row


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(manifests())
def test_generated_manifests_have_the_same_entries(case: tuple[bytes, ManifestFile]) -> None:
    data, row = case
    assert is_by_polars(data)
    assert same(by_polars(data, row), strictly(data, row))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(manifests(), st.randoms(use_true_random=False))
def test_damaged_manifests_are_never_read_as_something_else(
    case: tuple[bytes, ManifestFile], rng: random.Random
) -> None:
    data, row = case
    for _ in range(8):
        hurt = bytearray(data)
        for _ in range(rng.choice((1, 1, 3))):
            hurt[rng.randrange(len(hurt) // 2, len(hurt))] ^= 1 << rng.randrange(8)
        assert outcome(by_polars, bytes(hurt), row) == outcome(strictly, bytes(hurt), row)


def outcome(read: Callable[[bytes, ManifestFile], list[ManifestEntry]], data: bytes, row: ManifestFile) -> str:
    try:
        return repr(read(data, row))
    except DeletekitError as e:
        return repr(e)


def test_an_entry_that_cannot_inherit_is_refused() -> None:
    file = DataFile(spec_id=0, file_path="a" * 30, file_format="AVRO", record_count=1, file_size_in_bytes=1)
    shape = written(file, file, status=EntryStatus.ADDED, sequence_number=None)
    # The same file with the status of an existing entry: 2 is 1, 0 is 0.
    hurt = shape.replace(b"\x02\x02\x9a\x01\x00\x00", b"\x00\x02\x9a\x01\x00\x00")
    assert hurt != shape
    assert is_by_polars(hurt)
    assert len(by_polars(shape, replace(LISTED, sequence_number=9))) == 2
    with pytest.raises(FormatError) as error:
        by_polars(hurt, replace(LISTED, sequence_number=9))
    assert error.value.field == "sequence_number"


def written(*files: DataFile | DeleteFile, status: EntryStatus, sequence_number: int | None) -> bytes:
    return write_manifest(
        [
            ManifestEntry(
                status=status,
                snapshot_id=77,
                sequence_number=sequence_number,
                file_sequence_number=sequence_number,
                data_file=f,
            )
            for f in files
        ],
        format_version=3,
        content=files[0].content,
        schema_json={"type": "struct", "fields": [], "schema-id": 0},
        spec_json={"spec-id": 0, "fields": []},
        partition_types=[],
        codec="null",
    )


# --- lazy files -------------------------------------------------------------------------------------------------------

FILE = DataFile(
    spec_id=0,
    file_path="s3://bucket/a_data_file.parquet",
    file_format="PARQUET",
    record_count=10,
    file_size_in_bytes=100,
    value_counts={1: 10},
    lower_bounds={1: b"\0"},
    split_offsets=(4, 40),
)


def decoded(*files: DataFile | DeleteFile) -> ManifestColumns:
    data = written(*files, status=EntryStatus.ADDED, sequence_number=1)
    return inherit(read_manifest(data, spec_id=0, by_polars=True), LISTED)


def test_a_lazy_file_is_a_plain_one_to_whoever_looks() -> None:
    file = decoded(FILE).entry(0).data_file
    assert type(file) is LazyDataFile
    assert (file, FILE) == (FILE, file)
    assert file != replace(FILE, record_count=11)
    assert repr(decoded(FILE).entry(0).data_file) == repr(FILE)
    assert asdict(decoded(FILE).entry(0).data_file) == asdict(FILE)  # type: ignore[call-overload]
    assert replace(decoded(FILE).entry(0).data_file, spec_id=3) == replace(FILE, spec_id=3)
    assert hash(decoded(replace(FILE, value_counts=None, lower_bounds=None)).entry(0).data_file) == hash(
        replace(FILE, value_counts=None, lower_bounds=None)
    )
    with pytest.raises(FrozenInstanceError):
        file.record_count = 1  # type: ignore[misc]
    with pytest.raises(AttributeError, match="colour"):
        _ = file.colour  # type: ignore[union-attr]


def test_a_lazy_file_travels_as_a_plain_one() -> None:
    for travelled in (pickle.loads(pickle.dumps(decoded(FILE).entry(0).data_file)), copy.copy(decoded(FILE).entry(0))):  # noqa: S301
        file = travelled.data_file if isinstance(travelled, ManifestEntry) else travelled
        assert file == FILE
    assert type(pickle.loads(pickle.dumps(decoded(FILE).entry(0).data_file))) is DataFile  # noqa: S301


def test_metrics_of_few_manifests_are_kept() -> None:
    cache = MetricsCache(most=2)
    data = written(FILE, status=EntryStatus.ADDED, sequence_number=1)
    entries = [read_manifest(data, spec_id=0, cache=cache, by_polars=True).columns.entry(0) for _ in range(5)]
    assert [e.data_file.value_counts for e in entries * 2] == [{1: 10}] * 10
    assert cache._kept.cache_info().currsize == 2


def test_entries_of_both_kinds_are_told_apart() -> None:
    """A table may not have such a manifest; who refuses it must see what it holds."""
    entry = strictly(written(FILE, status=EntryStatus.ADDED, sequence_number=1), LISTED)[0]
    delete = DeleteFile(
        content=FileContent.EQUALITY_DELETES,
        equality_ids=(1,),
        spec_id=0,
        file_path="d",
        file_format="ORC",
        record_count=1,
        file_size_in_bytes=1,
    )
    entries = [entry, replace(entry, data_file=delete), entry]
    assert list(columns_of(entries, 0, ()).all_entries()) == entries


def test_text_that_is_not_utf8_is_not_looked_for() -> None:
    assert text_array(["b", "\udcff", "ä", "a"]).to_pylist() == ["a", "b", "ä"]
