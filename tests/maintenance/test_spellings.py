"""However a path is spelled, no verb removes a file that the table needs, or one that is not the table's."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

import deletekit as dk
from deletekit.commit.change import ReadSet, RowDelta
from deletekit.commit.planned_change import plan_change
from deletekit.commit.swap import commit
from deletekit.maintenance.reachable import check_not_needed
from deletekit.table.file_io import FileInfo
from tests.maintenance.model import FAR, edit_metadata, history, needed, snapshot_ids
from tests.storage import stored_at
from tests.tables import expected, files_of, ids, items, live, make, raises, refused

ROWS = items((1, "a", 1.0), (2, "a", 2.0), (3, "b", 3.0), (4, "b", 4.0))


@pytest.fixture
def local(tmp_path: Path) -> Iterator[dk.Catalog]:
    """Give a catalog on disk, whatever the other tests' storage is."""
    catalog = dk.local_catalog(tmp_path / "wh")
    yield catalog
    catalog.pyiceberg.engine.dispose()  # type: ignore[attr-defined]


def on_disk(path: str) -> str:
    """The file that a path names, in the operating system's own words."""
    return os.path.realpath(stored_at(path))


def needed_on_disk(table: dk.Table) -> set[str]:
    """What the table needs, read by other libraries; their paths are opened as the operating system spells them."""
    return {on_disk(path) for path in needed(table)}


def folder_of(table: dk.Table) -> Path:
    return Path(on_disk(table.metadata_location)).parent.parent


def stray(table: dk.Table, name: str = "data/stray.parquet") -> Path:
    path = folder_of(table) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"stray")
    return path


def link_to(folder: Path) -> str:
    """Another way to a folder, by a symbolic link."""
    link = folder.with_name(f"link-to-{folder.name}")
    if not link.exists():
        link.symlink_to(folder)
    return str(link)


def beyond(folder: Path) -> str:
    """A way that the operating system and Java read alike, through a folder that is there."""
    (folder.parent / "x").mkdir(exist_ok=True)
    return f"{folder.parent}/x/../{folder.name}"


SPELLINGS: dict[str, Callable[[Path], str]] = {
    "plain": str,
    "two dots": beyond,
    "two dots twice": lambda p: f"{p.parent}/../{p.parent.name}/../{p.parent.name}/{p.name}",
    "one dot": lambda p: f"{p.parent}/./{p.name}/.",
    "doubled slashes": lambda p: f"/{str(p.parent)[1:]}//{p.name}",
    "file:": lambda p: f"file:{p}",
    "file://": lambda p: f"file://{p}",
    "FILE:": lambda p: f"FILE:{p}",
    "file:// and dots": lambda p: f"file://{beyond(p)}",
    "file: and doubled slashes": lambda p: f"file:{p.parent}//{p.name}/",
    "file://localhost": lambda p: f"file://localhost{p}",
    "link": link_to,
}
NAMES = ["with space", "per%20cent%2F", "h\u00f6he", "ho\u0308he", "a#b?c=d", "a+b&c;d", "UPPER"]


def busy(catalog: dk.Catalog, **options: Any) -> dk.Table:
    table = make(catalog, ROWS[:2], ROWS[2:], format_version=3, partition_by=["category"], **options)
    dk.delete(table, "id = 1", mode="deletion-vector")
    dk.delete(table, "id = 3", mode="copy-on-write")
    return table


def respelled(table: dk.Table, spell: Callable[[Path], str]) -> None:
    """Let the metadata name the table's location and its manifest lists by another spelling."""
    plain = str(folder_of(table))
    spelled = spell(Path(plain))

    def change(metadata: dict[str, Any]) -> None:
        metadata["location"] = spelled
        for snapshot in metadata["snapshots"]:
            snapshot["manifest-list"] = spelled.rstrip("/") + snapshot["manifest-list"].removeprefix(plain)

    edit_metadata(table, change)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_verb_removes_what_the_table_needs(local: dk.Catalog, spelling: str) -> None:
    table = busy(local)
    respelled(table, SPELLINGS[spelling])
    survives_every_verb(table)


@pytest.mark.parametrize(
    ("scheme", "name"), [*zip(cycle(["", "file:", "file://"]), NAMES, strict=False), ("", "a#b?c")]
)
def test_letters_of_names_are_letters(local: dk.Catalog, tmp_path: Path, name: str, scheme: str) -> None:
    table = busy(local, location=f"{scheme}{tmp_path}/{name}/t")
    assert folder_of(table) == tmp_path / name / "t"
    survives_every_verb(table)
    assert {p.name for p in tmp_path.iterdir()} == {"wh", name}


def survives_every_verb(table: dk.Table) -> None:
    """Orphans, expiry and erasure, with files under both spellings: nothing that is needed goes, what is not does."""
    dk.append(table, items((5, "c", 5.0), (6, "c", 6.0)))  # its files are below the location as it is spelled
    past = history(table)
    gone = stray(table)
    done = dk.remove_orphan_files(table, older_than=FAR, force=True)
    assert [on_disk(p) for p in done.orphan_files] == [str(gone)]
    assert history(table) == past
    kept = live(table)
    expired = dk.expire_snapshots(table, older_than=FAR)
    assert (expired.failed_files, expired.kept_files) == ({}, ())
    assert live(table) == kept
    assert dk.erase(table, "id = 5").is_erased
    assert live(table) == expected([row for row in kept if row["id"] != 5])
    dk.remove_orphan_files(table, older_than=FAR, force=True)
    on_it = {str(p) for p in folder_of(table).rglob("*") if p.is_file()}
    assert on_it == needed_on_disk(table)
    assert dk.verify(table).ok
    dk.append(table, items((7, "d", 7.0)))
    assert ids(table) == [2, 4, 6, 7]


def test_a_live_list_by_another_name_stays(local: dk.Catalog) -> None:
    """An expired snapshot whose manifest list is the live one, by another spelling."""
    table = make(local, ROWS, ROWS, format_version=2)
    old, new = snapshot_ids(table)

    def change(metadata: dict[str, Any]) -> None:
        lists = {s["snapshot-id"]: s for s in metadata["snapshots"]}
        lists[old]["manifest-list"] = "file://" + lists[new]["manifest-list"]

    edit_metadata(table, change)
    rows = live(table)
    done = dk.expire_snapshots(table, older_than=FAR)
    assert (done.snapshot_ids, done.deleted_manifest_lists) == ((old,), ())
    assert live(table) == rows


# --- what enters ------------------------------------------------------------------------------------------------------


def test_locations_are_stored_without_dots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Java stores them, and where the operating system finds them: a link before `..` is followed first."""
    (tmp_path / "at" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "at" / "deep")
    monkeypatch.chdir(tmp_path / "at")
    for given, wanted in (
        ("../wh", "/wh"),
        ("./wh/.", "/at/wh"),
        (f"{tmp_path}/at/../at//wh/", "/at/wh"),
        (f"{tmp_path}/link/../wh", "/at/wh"),
        (f"{tmp_path}/link/wh", "/link/wh"),
    ):
        catalog = dk.local_catalog(given)
        table = make(catalog, ROWS[:1], properties={"write.data.path": f"{given}/elsewhere"})
        assert table.location.startswith(f"{tmp_path}{wanted}/test/")
        assert table.properties["write.data.path"] == f"{tmp_path}{wanted}/elsewhere"
        dk.set_properties(table, {"write.metadata.path": f"file:{tmp_path}/x/.././y"})
        assert table.properties["write.metadata.path"] == f"file:{tmp_path}/y"
        assert stored_at(table.metadata_location).exists()
        catalog.pyiceberg.engine.dispose()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "location", ["s3://b/x/../t", "s3a://b/./t", "s3://b/t#1", "file://host/t", "file:t", "gs://b/t?"]
)
def test_locations_that_readers_disagree_about_are_refused(local: dk.Catalog, location: str) -> None:
    with raises(dk.InvalidInputError, "location", field="location", found=location):
        make(local, location=location)
    table = make(local, ROWS[:1])
    with refused(table, dk.InvalidInputError, "location", field="write.data.path", found=location):
        dk.set_properties(table, {"write.data.path": location})


def test_a_table_in_two_places_is_left_alone(local: dk.Catalog, tmp_path: Path) -> None:
    """`link/..` is one folder to the system and another to Java."""
    table = busy(local)
    (tmp_path / "far" / "off").mkdir(parents=True)
    (tmp_path / "wh" / "link").symlink_to(tmp_path / "far" / "off")
    edit_metadata(table, lambda m: m.update(location=f"{tmp_path}/wh/link/../test/{table.name.split('.')[1]}"))
    for verb in VERBS:
        with refused(table, dk.InvalidInputError, "location", field="location"):
            verb(table)


# --- what is another's ------------------------------------------------------------------------------------------------

VERBS: list[Callable[[dk.Table], Any]] = [
    lambda t: dk.remove_orphan_files(t, older_than=FAR, force=True),
    lambda t: dk.expire_snapshots(t, older_than=FAR),
    lambda t: dk.erase(t, "id = 2"),
]


def test_a_location_that_is_not_where_the_metadata_lies(local: dk.Catalog, tmp_path: Path) -> None:
    table, victim = busy(local), busy(local)
    for location in (victim.location, str(tmp_path), str(tmp_path / "wh" / "test"), f"{table.location}/deeper"):
        edit_metadata(table, lambda m, place=location: m.update(location=place))  # type: ignore[misc]
        for verb in VERBS:
            with refused(table, dk.InvalidInputError, "metadata-elsewhere", file=table.metadata_location):
                verb(table)
    # Where a property names the metadata's folder, nothing but metadata's word stands for the location.
    properties = {"write.metadata.path": f"{folder_of(table)}/metadata"}
    edit_metadata(table, lambda m: m.update(location=victim.location, properties=properties))
    with refused(table, dk.InvalidInputError, "orphan-location", file=table.metadata_location):
        dk.remove_orphan_files(table, older_than=FAR, force=True)
    assert ids(victim) == [2, 4]
    assert dk.verify(victim).ok


def test_statistics_may_name_any_file(local: dk.Catalog, tmp_path: Path) -> None:
    """A file elsewhere stays and is listed; one that the table needs stays."""
    table = busy(local)
    live_file = next(iter(sorted(p for p in files_of(table) if p.endswith(".parquet") and "category=a" in p)))
    precious = [tmp_path / "diary", tmp_path / "other" / "photo"]
    for path in precious:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"mine")
    beside = f"{table.location}/../../../diary"
    named = [str(precious[0]), f"file://{precious[1]}", live_file, table.metadata_location, beside]
    old = snapshot_ids(table)[: len(named)]
    size = {"file-size-in-bytes": 4, "file-footer-size-in-bytes": 1, "blob-metadata": []}
    names = ["statistics", "partition-statistics"]

    def change(metadata: dict[str, Any]) -> None:
        for i, path in enumerate(named):
            entry = {"snapshot-id": old[i % 2], "statistics-path": path, **size}
            metadata.setdefault(names[i % 2], []).append(entry)

    edit_metadata(table, change)
    rows = live(table)
    expected_kept = {*named[:2], named[4]}
    tried = dk.expire_snapshots(table, older_than=FAR, dry_run=True)
    done = dk.expire_snapshots(table, older_than=FAR)
    assert {*tried.kept_files} == {*done.kept_files}
    assert {*done.kept_files} <= expected_kept
    assert {on_disk(p) for p in done.kept_files} == {str(p) for p in precious}
    assert all(path.exists() for path in precious)
    assert live(table.refresh()) == rows


def test_files_elsewhere_stay_unless_said_so(local: dk.Catalog, tmp_path: Path) -> None:
    for said in (False, True):
        table = make(local, format_version=3, properties={"write.data.path": f"{tmp_path}/far"})
        dk.append(table, ROWS)
        dk.set_properties(table, {"write.data.path": None})
        far = {str(p) for p in (tmp_path / "far").rglob("*.parquet")}
        where = {"other_locations": [f"file:{tmp_path}/x/../far"]} if said else {}
        done = dk.erase(table, "id = 1", **where)  # type: ignore[arg-type]
        assert done.expired is not None
        assert {*done.expired.kept_files} == (set() if said else far)
        assert {*done.expired.deleted_data_files} == (far if said else set())
        assert done.is_erased == said
        assert ids(table) == [2, 3, 4]
        for path in far:
            Path(path).unlink(missing_ok=True)


def test_a_log_may_name_any_file(local: dk.Catalog, tmp_path: Path) -> None:
    """A commit that forgets logged metadata files removes those alone that are the table's metadata files."""
    properties = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    table, victim = make(local, ROWS, properties=properties), make(local, ROWS)
    diary = tmp_path / "diary"
    diary.write_bytes(b"mine")
    data = [p for p in files_of(table) if p.endswith(".parquet")]
    named = [str(diary), victim.metadata_location, *data, f"file://{table.metadata_location}"]
    edit_metadata(
        table,
        lambda m: m.update(
            {"metadata-log": [{"timestamp-ms": m["last-updated-ms"], "metadata-file": path} for path in named]}
        ),
    )
    own = table.metadata_location
    dk.append(table, items((9, "z", 9.0)))
    assert stored_at(own).exists()  # the log has it still, by another spelling
    dk.append(table, items((10, "z", 10.0)))
    assert not stored_at(own).exists()
    assert diary.exists()
    assert (ids(table), ids(victim)) == ([1, 2, 3, 4, 9, 10], [1, 2, 3, 4])


def test_the_last_look_is_by_what_is_on_disk(local: dk.Catalog, tmp_path: Path) -> None:
    """Whatever the names say, a file that is needed is not removed, nor one that a needed name is a link to."""
    table = busy(local)
    lone, path = str(stray(table)), min(needed(table))
    (tmp_path / "again").symlink_to(folder_of(table))
    (tmp_path / "link").symlink_to(path)
    again = f"{tmp_path}/again{path.removeprefix(str(folder_of(table)))}"
    for removed, known in ((path, path), (again, path), (f"file://{path}", path), (path, str(tmp_path / "link"))):
        with refused(table, dk.InvalidInputError, "needed-file", file=removed, found=known):
            check_not_needed([lone, removed], [known])
    check_not_needed([lone], needed(table))
    check_not_needed([], ["s3://b/../x"])
    with pytest.raises(dk.InvalidInputError):
        check_not_needed(["s3://b/x"], ["s3://b/../x"])


def test_a_listing_by_other_names_is_refused(local: dk.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = busy(local)
    real = type(table.io).list

    def listing(io: Any, prefix: str) -> Iterator[FileInfo]:
        for info in real(io, prefix):
            yield FileInfo(path=info.path.upper(), size=info.size, modified_ms=0)

    monkeypatch.setattr(type(table.io), "list", listing)
    with refused(table, dk.InvalidInputError, "listing-mismatch", file=table.metadata_location):
        dk.remove_orphan_files(table)


def test_one_file_under_two_names_is_found(local: dk.Catalog) -> None:
    """Readers return its rows twice; expiry keeps it while one of the names is live."""
    table = make(local, format_version=2)
    (file,) = dk.append(table, ROWS).added_data_files
    again = replace(file, file_path=f"file:{file.file_path}")
    commit(plan_change(table, lambda _: RowDelta(added_data_files=(again,), read_set=ReadSet())))
    (seen,) = [f for f in dk.verify(table).findings if f.kind == "duplicate-file"]
    assert seen.found == 2
    assert {seen.file, seen.message.rpartition(" named ")[2]} == {file.file_path, again.file_path}
    dk.rollback(table, snapshot_ids(table)[0])
    commit(plan_change(table, lambda _: RowDelta(added_data_files=(again,), read_set=ReadSet())))
    done = dk.expire_snapshots(table, older_than=FAR)
    assert done.deleted_data_files == ()
    assert ids(table) == [1, 1, 2, 2, 3, 3, 4, 4]


# --- folders ----------------------------------------------------------------------------------------------------------


def folders(table: dk.Table) -> set[str]:
    root = folder_of(table)
    return {str(p.relative_to(root)) for p in root.rglob("*") if p.is_dir()}


def test_no_empty_folder_is_left(local: dk.Catalog) -> None:
    """A partition's folder has a value of its rows in its name; it goes with its last file, and no other does."""
    table = make(local, items((1, "u1@x.org", 1.0)), items((2, "b", 2.0)), partition_by=["category"])
    (folder_of(table) / "data" / "mine").mkdir()
    assert "data/category=u1%40x.org" in folders(table)
    assert dk.erase(table, "id = 1").is_erased
    assert folders(table) == {"data", "data/category=b", "data/mine", "metadata"}
    lone = stray(table, "deep/er/stray")
    dk.remove_orphan_files(table, older_than=FAR, force=True)
    assert not lone.parent.parent.exists()
    dk.delete(table, "id = 2", mode="copy-on-write")
    dk.expire_snapshots(table, older_than=FAR)
    assert folders(table) == {"data", "data/mine", "metadata"}
    assert folder_of(table).exists()
