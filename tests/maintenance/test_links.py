"""No verb removes a file that is the table's by its name only: a link in the table's folders may lead elsewhere."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import deletekit as dk
from tests.delta.handmade import HandMade, remove, with_vector
from tests.maintenance.damage import edit_manifest
from tests.maintenance.model import FAR, edit_metadata, snapshot_ids
from tests.tables import ITEMS, expected, files_of, ids, items, live, make, refused

ROWS = items((1, "a", 1.0), (2, "b", 2.0))


def link(at: Path, to: Path) -> Path:
    at.symlink_to(to)
    return at


# Each names one file of a folder outside of the table, by a way through the table's folder of data.
READABLE: dict[str, Callable[[Path, Path], str]] = {
    "folder": lambda data, out: f"{link(data / 'to-folder', out)}",
    "file:": lambda data, out: f"file:{link(data / 'to-folder-2', out)}",
    "file://": lambda data, out: f"file://{link(data / 'to-folder-3', out)}",
    "file://localhost": lambda data, out: f"file://localhost{link(data / 'to-folder-4', out)}",
    "slashes": lambda data, out: f"{data}//{link(data / 'to-folder-5', out).name}/",
    "deep": lambda data, out: f"{link(data / 'to-parent', out.parent)}/{out.name}",
    "relative": lambda data, out: f"{link(data / 'up', Path('../../../..'))}/{out.name}",
    "chain": lambda data, out: f"{link(data / 'second', link(data / 'first', link(data / 'last', out)))}",
    "dots": lambda data, out: f"{link(data / 'child', out / 'child')}/..",
    "plain dots": lambda data, out: f"{data}/../../../../{out.name}",
    "files": lambda data, out: f"{linked_files(data / 'links', out)}",
}
UNREADABLE: dict[str, Callable[[Path, Path], str]] = {
    "loop": lambda data, out: f"{link(data / 'loop', data / 'loop')}/../../../../{out.name}",
    "escaped dots": lambda data, out: f"{data}/%2e%2e/%2e%2e/%2e%2e/%2e%2e/{out.name}",
    "escaped slash": lambda data, out: f"{data}/..%2f..%2f..%2f..%2f{out.name}",
    "another host": lambda _, out: f"file://elsewhere{out}",
}


def linked_files(folder: Path, out: Path) -> Path:
    folder.mkdir()
    for file in out.glob("*.parquet"):
        link(folder / file.name, file)
    return folder


def hostile(tmp_path: Path, ways: dict[str, Any], **options: Any) -> tuple[dk.Table, Path]:
    """Return a table with a snapshot that names copies of its file in a folder outside, one by each way."""
    table = make(dk.local_catalog(tmp_path / "wh"), ROWS, format_version=2, **options)
    data, out = Path(table.location) / "data", tmp_path / "outside"
    (out / "child").mkdir(parents=True)
    own = next(data.glob("*.parquet"))
    for number in range(len(ways)):
        shutil.copy(own, out / f"{number}.parquet")

    def add(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        paths = [f"{way(data, out).rstrip('/')}/{number}.parquet" for number, way in enumerate(ways.values())]
        return [{**entries[0], "data_file": {**entries[0]["data_file"], "file_path": path}} for path in paths]

    edit_manifest(table, add)
    table = dk.load_table(dk.local_catalog(tmp_path / "wh"), table.name)
    if ways is READABLE:
        dk.overwrite(table, items((2, "b", 2.0), (3, "c", 3.0)), where="true")
    return table, out


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def expire(table: dk.Table) -> tuple[str, ...]:
    return dk.expire_snapshots(table, older_than=FAR).kept_files


def erase(table: dk.Table) -> tuple[str, ...]:
    done = dk.erase(table, "id = 1", all_refs=True)
    assert not done.is_erased
    assert done.expired is not None
    return done.expired.kept_files


def compact(table: dk.Table) -> tuple[str, ...]:
    dk.compact(table, rewrite_all=True)
    dk.rewrite_manifests(table)
    return expire(table)


def purge(table: dk.Table) -> tuple[str, ...]:
    assert table.catalog is not None
    return dk.drop_table(table.catalog, table.identifier, purge=True).kept_files


@pytest.mark.parametrize("verb", [expire, erase, compact, purge])
def test_data_files_behind_links_stay(tmp_path: Path, verb: Callable[[dk.Table], tuple[str, ...]]) -> None:
    table, out = hostile(tmp_path, READABLE)
    before = contents(out)
    assert len(before) == len(READABLE)
    kept = verb(table)
    assert contents(out) == before
    assert {Path(path).name for path in kept} == {*before}


def test_paths_that_lead_nowhere_remove_nothing(tmp_path: Path) -> None:
    table, out = hostile(tmp_path, UNREADABLE)
    before = contents(out)
    purge(table)
    assert contents(out) == before


def test_statistics_and_logged_metadata_behind_links_stay(tmp_path: Path) -> None:
    properties = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    table, out = hostile(tmp_path, READABLE, properties=properties)
    folder = link(Path(table.location) / "metadata" / "link", out)
    for name in ("a.stats", "b.metadata.json", "c.metadata.json"):
        (out / name).write_bytes(b"mine")
    before, old = contents(out), snapshot_ids(table)[0]
    size = {"file-size-in-bytes": 4, "file-footer-size-in-bytes": 1, "blob-metadata": []}

    def change(metadata: dict[str, Any]) -> None:
        metadata["statistics"] = [{"snapshot-id": old, "statistics-path": f"{folder}/a.stats", **size}]
        logged = [f"{folder}/b.metadata.json", f"file://{folder}/c.metadata.json"]
        metadata["metadata-log"] = [{"timestamp-ms": metadata["last-updated-ms"], "metadata-file": p} for p in logged]

    edit_metadata(table, change)
    dk.append(table, items((4, "d", 4.0)))
    assert f"{folder}/a.stats" in expire(table)
    assert contents(out) == before


@pytest.mark.parametrize("folder", ["metadata/_deletekit", "data", "data/deeper"])
def test_folders_that_are_links_are_not_emptied(tmp_path: Path, folder: str) -> None:
    """What verbs list, or name after a folder, lies elsewhere if the folder is a link, also if a property names it."""
    properties = {"write.data.path": f"{tmp_path}/wh/test/t/{folder}"}
    catalog = dk.local_catalog(tmp_path / "wh")
    table = dk.create_table(catalog, "test.t", ITEMS, properties=properties)
    out = tmp_path / "outside"
    out.mkdir()
    place = Path(table.location) / folder
    place.parent.mkdir(parents=True, exist_ok=True)
    link(place, out)
    dk.append(table, ROWS)
    for name in ("a.root", "b.run", "c.rows", "d.deletes", "e.parquet"):
        (out / name).write_bytes(b"mine")
    before = contents(out)
    dk.remove_orphan_files(table, older_than=FAR, force=True)
    with refused(table, dk.InvalidInputError, "orphan-location", field="location"):
        dk.remove_orphan_files(table, older_than=FAR, force=True, location=str(place))
    done = dk.erase(table, "id = 1")
    assert not done.is_erased
    assert bool(done.failed_sink_files) == (folder == "metadata/_deletekit")
    assert {name: data for name, data in contents(out).items() if name in before} == before
    assert ids(table) == [2]
    # The caller may say that the place behind the link is the table's.
    dk.delete(table, "id = 2", mode="copy-on-write")
    more = dk.expire_snapshots(table, older_than=FAR, other_locations=[str(place)])
    assert more.kept_files == ()
    assert {name for name in before if not (out / name).exists()} == set()


@pytest.mark.parametrize("way", [None, "wh", "wh/test", "wh/test/t"])
def test_a_table_behind_links_is_the_table(tmp_path: Path, way: str | None) -> None:
    """A folder above the table or its own one is a link, or a link leads to another folder of the table."""
    if way:
        (tmp_path / "disk").mkdir()
        (tmp_path / way).parent.mkdir(parents=True, exist_ok=True)
        link(link(tmp_path / "step", tmp_path / "disk").parent / way, tmp_path / "step")
    catalog = dk.local_catalog(tmp_path / "wh")
    table = dk.create_table(catalog, "test.t", ITEMS, properties={"write.data.path": f"{tmp_path}/wh/test/t/files"})
    if way is None:
        (Path(table.location) / "data").mkdir()
        link(Path(table.location) / "files", Path("data"))
    dk.append(table, ROWS)
    dk.delete(table, "id = 1", mode="copy-on-write")
    done = dk.erase(table, "id = 1")
    assert done.is_erased
    assert done.expired is not None
    assert (done.expired.kept_files, len(done.expired.deleted_data_files)) == ((), 1)
    stray = Path(table.location) / "files" / "stray.parquet"
    stray.write_bytes(b"stray")
    orphans = dk.remove_orphan_files(table, older_than=FAR, force=True).orphan_files
    assert {Path(path).name for path in orphans} >= {"stray.parquet"}
    assert ids(table) == [2]
    assert dk.drop_table(catalog, "test.t", purge=True).kept_files == ()
    assert not [path for path in Path(table.location).rglob("*") if path.is_file()]


# --- Delta ------------------------------------------------------------------------------------------------------------


def synced(tmp_path: Path, **options: Any) -> tuple[dk.Table, Callable[[], dk.Table], Path]:
    """Return a synced table, what syncs a new deletion vector to it, and its folder of delete files."""
    delta = HandMade(tmp_path / "delta")
    adds = [delta.data(range(10))]
    delta.commit(*adds)
    catalog = dk.local_catalog(tmp_path / "wh")
    done = dk.sync_delta(delta.path, catalog, "t.d", **options)

    def more() -> dk.Table:
        adds.append(with_vector(adds[0], delta.vector(range(len(adds)))))
        delta.commit(adds[-1], remove(adds[-2]))
        return dk.sync_delta(delta.path, catalog, "t.d").table

    return done.table, more, Path(done.table.properties["deletekit.delta-delete-directory"])


@pytest.mark.parametrize("linked", ["deletion-vectors", "metadata"])
def test_clean_up_of_synced_tables_follows_no_link(tmp_path: Path, linked: str) -> None:
    table, more, _ = synced(tmp_path)
    more()
    place, out = Path(table.location) / linked, tmp_path / "outside"
    place.rename(out)
    link(place, out)
    for name in ("delta-mine.puffin", "repack-mine.puffin", "mine.avro", "mine.metadata.json"):
        (out / name).write_bytes(b"mine")
    before = contents(out)
    more()
    done = dk.clean_up_delta(dk.load_table(table.catalog, "t.d"), older_than=FAR, orphan_hours=0)  # type: ignore[arg-type]
    assert not [path for path in done.deleted_files if f"/{linked}/" in path]
    found = contents(out)
    assert {name for name in before if name not in found and not name.endswith(".state")} == set()


@pytest.mark.parametrize("name", ["x", "x/y", "x/", "a b", "%2e%2e", None])
def test_the_delete_directory_lies_below_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str | None
) -> None:
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    table, more, folder = synced(tmp_path, delete_directory=name)
    assert folder == Path(table.location) / (name or "deletion-vectors")
    monkeypatch.chdir(tmp_path)
    more()
    (deletes,) = {Path(path).parent for path in files_of(table) if path.endswith((".puffin", ".bin"))}
    assert deletes == folder
    dk.clean_up_delta(dk.load_table(table.catalog, "t.d"), older_than=FAR, orphan_hours=0)  # type: ignore[arg-type]
    assert live(table.refresh()) == expected([{"id": n} for n in range(1, 10)])
    assert not [*(tmp_path / "cwd").iterdir()]


def test_no_delete_directory_elsewhere(tmp_path: Path) -> None:
    table, _, folder = synced(tmp_path, delete_directory="x")
    assert dk.sync_delta(tmp_path / "delta", table.catalog, "t.d", delete_directory=str(folder)).commits == ()  # type: ignore[arg-type]
    location = table.location
    bad = [
        "..",
        ".",
        "../x",
        "x/../y",
        "/x",
        str(tmp_path),
        location,
        f"{location}/../y",
        "s3://b/x",
        "file:x",
        "file:///x",
    ]
    for number, wanted in enumerate([*bad, "x//y", "//x", "x\0y", "C:/x"]):
        for name in ("t.d", f"t.new{number}"):
            with refused(table, dk.InvalidInputError, "location", field="delete_directory"):
                dk.sync_delta(tmp_path / "delta", table.catalog, name, delete_directory=wanted)  # type: ignore[arg-type]
        edit_metadata(table, lambda m, to=wanted: m["properties"].update({"deletekit.delta-delete-directory": to}))  # type: ignore[misc]
        for verb in (dk.clean_up_delta, dk.repack, lambda t: dk.sync_delta(tmp_path / "delta", t.catalog, "t.d")):
            with refused(table, dk.InvalidInputError, "location", field="delete_directory"):
                verb(table)
        edit_metadata(table, lambda m: m["properties"].update({"deletekit.delta-delete-directory": str(folder)}))
