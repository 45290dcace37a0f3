"""One table over the commands whose results the printer prints: what each does, in JSON and in text, and how it ends.

Each row runs three times: as a dry run where there is one, which changes no byte, then as JSON, and as text in a copy
of the same warehouse. The text has every plain field of the JSON.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deletekit as dk
from deletekit.cli.printer import result_text
from deletekit.cli.terminal import Answer, Output
from tests.cli.conftest import EVIL, USERS, Run
from tests.cli.test_hostile import assert_harmless
from tests.tables import ids, new_catalog

SOON = "2100-01-01"
Document = dict[str, Any]


@dataclass
class World:
    """A warehouse, and the ids of what is in it.

    `demo.users` has four rows, of which a vector hides row 1 and an equality delete row 2; the branch `audit` has all
    four and one more. `demo.old` is of format version 2, with four rows.
    """

    folder: Path
    snapshots: list[int] = field(default_factory=list)
    audit: int = 0

    @property
    def warehouse(self) -> Path:
        return self.folder / "wh"

    def rows(self, ref: str = "main", name: str = "demo.users") -> list[int]:
        with new_catalog(self.warehouse) as catalog:
            return sorted(ids(dk.load_table(catalog, name), ref=ref))

    def table(self, ask: Callable[[dk.Table], Any], name: str = "demo.users") -> Any:
        with new_catalog(self.warehouse) as catalog:
            return ask(dk.load_table(catalog, name))


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path / "world")
    with new_catalog(made.warehouse) as catalog:
        dk.append(dk.create_table(catalog, "demo.old", USERS.schema, format_version=2), USERS)
        table = dk.create_table(catalog, "demo.users", USERS.schema, format_version=3)
        dk.append(table, USERS)
        dk.create_branch(table, "audit")
        made.audit = int(dk.append(table, USERS.slice(0, 1), ref="audit").snapshot_id or 0)
        dk.delete(table, "id = 1", mode="deletion-vector")
        dk.delete_keys(table, [{"id": 2}])
        made.snapshots = [*table.metadata.snapshots]
    changes = [{"_change_type": "UPDATE_AFTER", "id": 3, "name": "new", "value": 1.0}]
    pq.write_table(pa.Table.from_pylist(changes), made.folder / "0.parquet")
    pq.write_table(USERS.set_column(0, "id", pa.array([7, 8, 9, 10], pa.int32())), made.folder / "rows.parquet")
    (made.folder / "rows.csv").write_text("id,name,value\n3,Ann,0.5\n9,New,1\n", encoding="utf-8")
    return made


@dataclass(frozen=True)
class Case:
    """A command and what comes of it.

    Attributes
    ----------
    arguments: `{...}` stands for a field of the World.
    expected: members of the JSON; a number for a list is its length, a function is asked.
    rows: of main afterwards.
    dry: whether there is a dry run.
    """

    arguments: str
    expected: Mapping[str, Any]
    rows: list[int] | None = None
    exit_code: int = 0
    dry: bool = True
    table: str = "demo.users"

    @property
    def command(self) -> str:
        return self.arguments.split()[0]


LEFT = [3, 4]
CASES = [
    Case("append {folder}/rows.csv", {"operation": "append", "added_data_files": 1, "matched_rows": 0}, [3, 3, 4, 9]),
    Case("append {folder}/rows.csv --ref audit", {"ref": "audit", "added_data_files": 1}, LEFT),
    Case("add-files {folder}/rows.parquet", {"operation": "append"}, [3, 4, 7, 8, 9, 10], dry=False),
    Case("update id=3 --set name='Ann=Bo' --set value=null", {"matched_rows": 1, "operation": "overwrite"}, LEFT),
    Case("update id=3 --set name='x' --mode merge-on-read", {"added_delete_files": 1, "matched_rows": 1}, LEFT),
    Case("merge {folder}/rows.csv --on id", {"matched_rows": 1}, [3, 4, 9]),
    Case("merge {folder}/rows.csv --on id --when-matched delete --when-not-matched nothing", {"matched_rows": 1}, [4]),
    Case("delete id=3 --mode copy-on-write", {"matched_rows": 1, "removed_data_files": 1}, [4]),
    Case("delete id=3 --mode merge-on-read", {"matched_rows": 1, "added_delete_files": 1}, [4]),
    Case("delete id=3 --mode equality-delete", {"matched_rows": None, "added_delete_files": 1}, [4]),
    Case("delete id=99", {"operation": None, "snapshot_id": None}, LEFT),
    Case("compact --rewrite-all", {"rewritten_data_files": 1, "commits": 1}, LEFT),
    Case("compact --min-input-files 9 --where id=3", {"rewritten_data_files": 0}, LEFT),
    Case("convert-equality-deletes", {"converted_delete_files": 1, "data_files": 1}, LEFT),
    Case("rewrite-position-deletes", {"rewritten_delete_files": 0}, LEFT),
    Case("remove-dangling-deletes", {"equality_delete_files": 0, "deletion_vectors": 0}, LEFT),
    Case("rewrite-manifests", {"rewritten_manifests": 2, "added_manifests_count": 1}, LEFT),
    Case("expire-snapshots --older-than " + SOON, {"snapshot_ids": 2, "deleted_manifest_lists": 2}, LEFT),
    Case("expire-snapshots --older-than 2000-01-01 --snapshot {snapshots[2]}", {"snapshot_ids": 1}, LEFT),
    Case("remove-orphan-files", {"orphan_files": 0, "listed_files": lambda n: n > 5}, LEFT),
    Case("erase id=3", {"is_erased": False, "remaining": lambda r: list(r) == ["audit"]}, [4], exit_code=1),
    Case("erase id=3 --all-refs", {"is_erased": True, "remaining": {}}, [4]),
    Case("rollback {snapshots[0]}", {"moved": True, "snapshot_id": "{snapshots[0]}"}, [1, 2, 3, 4]),
    Case("rollback --as-of " + SOON, {"moved": False}, LEFT),
    Case("set-current-snapshot {audit}", {"moved": True, "previous_snapshot_id": "{snapshots[3]}"}, [1, 1, 2, 3, 4]),
    Case("set-current-snapshot --ref audit", {"moved": True}, [1, 1, 2, 3, 4]),
    Case("cherry-pick {audit}", {"fast_forward": False, "added_data_files": 1}, [1, 3, 4]),
    Case("revert {snapshots[2]}", {"inserted_rows": 1, "skipped_rows": 0}, [1, 3, 4]),
    Case("fast-forward new audit", {"moved": True, "previous_snapshot_id": None}, LEFT),
    Case("make-readable --engine snowflake", {"dry_run": False}, LEFT),
    Case("branch", {"refs": lambda refs: sorted(refs) == ["audit", "main"]}, LEFT, dry=False),
    Case("branch v1 --tag --snapshot {audit}", {"refs": lambda refs: refs["v1"]["type"] == "tag"}, dry=False),
    Case("branch audit --drop", {"refs": lambda refs: list(refs) == ["main"]}, LEFT, dry=False),
    Case("upgrade 3", {"format_version": 3}, dry=False, table="demo.old"),
    Case("sinks", {"sinks": 0}, dry=False),
    Case("promote audit --on id", {"added_rows": 1, "deleted_rows": 0}, [1, 3, 4], dry=False),
    Case("scan -o {folder}/out.csv", {"rows": 2, "bytes": lambda n: n > 20}, LEFT, dry=False),
    Case("changes -o {folder}/out.jsonl", {"rows": 6, "format": "jsonl"}, LEFT, dry=False),
]


def everything(folder: Path) -> dict[str, str]:
    found = sorted(folder.rglob("*"))
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() if p.is_file() else "directory" for p in found}


def strict(text: str) -> Document:
    def refuse(constant: str) -> NoReturn:
        raise AssertionError(f"{constant} is not JSON")

    return dict(json.loads(text, parse_constant=refuse))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.arguments)
def test_what_a_command_does_and_prints(run: Run, world: World, case: Case) -> None:
    def ask(*options: str) -> Any:
        command, *rest = case.arguments.format(**vars(world)).split()
        done = run(command, "--warehouse", world.warehouse, case.table, *rest, *options)
        assert done.exit_code == (0 if "--dry-run" in options else case.exit_code), done.output
        assert (done.stderr, done.stdout.isascii() or "--json" not in options) == ("", True)
        return done.stdout

    before, kept = everything(world.folder), world.folder.with_name("kept")
    if case.dry:
        tried = strict(ask("--dry-run", "--json"))
        assert (tried["dry_run"], everything(world.folder)) == (True, before)
        assert "Nothing was changed." in ask("--dry-run") or tried.get("operation", "") is None
    shutil.copytree(world.folder, kept)
    document = strict(ask("--json"))
    for name, value in case.expected.items():
        found = document.get(name)
        wanted = int(value.format(**vars(world))) if isinstance(value, str) and "{" in value else value
        fits = wanted(found) if callable(wanted) else (len(found) if isinstance(found, list) else found) == wanted
        assert fits, (name, found)
    if case.rows is not None:
        assert world.rows() == case.rows
    shutil.rmtree(world.folder)
    kept.rename(world.folder)
    text = ask()
    if document.get("operation"):
        assert f"{document['operation']} on {document['ref']} of {document['table']} · " in text
        matched = document["matched_rows"]
        assert (re.search(r"· (\d+) rows? matched", text) or [0, "0"])[1] == str(matched or 0)
    elif "operation" not in document:
        for name, value in document.items():
            if isinstance(value, bool | int | str) and not re.search(r"_id|sequence|bytes|dry_run|table|ref", name):
                shown = {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value
                assert re.search(rf"^ *{name.replace('_', ' ')} +{re.escape(str(shown))}$", text, re.MULTILINE), name


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("delete id=1 --with-rows", "kind +mode"),
        ("delete id=1 --mode position-delete", "kind +delete-kind"),
        ("delete nope=1", "kind +filter"),
        ("delete id=1 --ref nope", "kind +ref-not-found"),
        ("delete value=1 --mode equality-delete", "kind +equality-key"),
        ("update true --set id=ten", "no such column"),
        ("update true --set id=9999999999", "kind +column-type"),
        ("update true --set value=1e999", "kind +filter"),
        ("update true --set nope=1", "no such column"),
        ("merge {folder}/rows.csv --on nope", "nope"),
        ("compact --target-file-size-bytes 0", "bad option"),
        ("expire-snapshots --snapshot {snapshots[3]}", "referenced-snapshot"),
        ("remove-orphan-files --older-than 2100-01-01", "orphan-age"),
        ("rollback {audit}", "not-an-ancestor"),
        ("fast-forward main audit", "not-an-ancestor"),
        ("erase id=3 --ref nope", "ref-not-found"),
        ("sinks --drop nobody", "no such sink"),
        ("sinks --reset nobody --batch 0", "no such sink"),
        ("promote nope --on id", "ref-not-found"),
        ("branch audit", "exists"),
        ("branch main --drop", "main"),
        ("upgrade 2", "can only be raised"),
        ("make-readable --engine nope", "nope"),
    ],
)
def test_a_refusal_comes_before_anything_is_written(run: Run, world: World, arguments: str, words: str) -> None:
    before = everything(world.folder)
    command, *rest = arguments.format(**vars(world)).split()
    for form in ([], ["--json"]):
        done = run(command, "--warehouse", world.warehouse, "demo.users", *rest, *form)
        assert (done.exit_code, done.stdout) == (1, ""), done.output
        assert done.stderr.startswith("Error: ")
        assert re.search(words, done.stderr), done.stderr
    assert everything(world.folder) == before


@pytest.mark.parametrize(
    "arguments",
    [
        "rollback", "set-current-snapshot", "update true", "update true --set name", "update true --set =1",
        "branch --drop", "branch --tag", "branch a --drop --tag", "stream",
        "stream x --rate 3", "sinks --reset numbers", "sinks --batch 3", "sinks --query q", "sinks --reset a --drop b",
        "verify --heads --snapshot 1", "scan --format csv", "compact --strategy gently", "erase", "sync-delta",
        "changes --to 1 --ref main", "verify --level deepest", "remove-orphan-files --equal-scheme s3a",
    ],
)  # fmt: skip
def test_wrong_usage(run: Run, world: World, arguments: str) -> None:
    command, *rest = arguments.split()
    done = run(command, "--warehouse", world.warehouse, "demo.users", *rest)
    assert (done.exit_code, done.stdout) == (2, ""), done.output


# --- the printer ------------------------------------------------------------------------------------------------------


@dataclass
class Result:
    """A result with a field of each kind."""

    table: str = "demo.users"
    rewritten_bytes: int = 12_345_678
    duration_ms: int = 1234
    timestamp_ms: int = 0
    is_done: bool = False
    nothing: str | None = None
    none_of_them: tuple[str, ...] = ()
    paths: tuple[str, ...] = ("/wh/t/data/a.parquet", "/elsewhere/b")
    failed: Mapping[str, str] = field(default_factory=lambda: {"/wh/t/x": "no such file"})
    by_ref: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {"main": ("a", "b")})
    steps: tuple[Mapping[str, Any], ...] = ({"action": "rewrite", "rows": 3, "inside": [1, 2]}, {"action": "x"})
    many: tuple[int, ...] = tuple(range(30))
    dry_run: bool = True


def test_every_field_by_its_kind_and_unit(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=False, quiet=False).show(Answer(document=Result(), location="/wh/t"))
    shown = capsys.readouterr().out.splitlines()
    assert shown[:6] == [
        "table            demo.users",
        "rewritten bytes  12.3 MB",
        "duration ms      1,234 ms",
        "timestamp ms     1970-01-01 00:00:00 UTC",
        "is done          no",
        "none of them     none",
    ]
    assert "\n".join(shown[6:]).startswith("\npaths  2\n  data/a.parquet\n  /elsewhere/b\n")
    text = "\n".join(shown)
    assert "\nfailed\n  x  no such file\n" in text
    assert "\nby ref main  2\n  a\n  b\n" in text
    assert "\nsteps  2\n  action   rows  inside\n  rewrite     3  1, 2\n  x\n" in text
    assert "  19\n  … and 10 more; --json lists all\n" in text
    assert text.endswith("\n\nNothing was changed.")
    assert "nothing" not in text.replace("Nothing", "")


def test_hostile_names_and_values_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    result = {EVIL: EVIL, "list": [EVIL], "map": {EVIL: EVIL}, "rows": [{EVIL: EVIL}], "deep": {EVIL: [EVIL]}}
    Output(as_json=False, quiet=False).show(Answer(document=result))
    assert_harmless(capsys.readouterr().out)
    assert len([*result_text(result)]) > 1
