"""`deletekit inspect`: the same as deletekit.inspect, in strict JSON and in text that fits."""

import json
import re
from base64 import b64encode
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pytest
from rich.cells import cell_len

import deletekit as dk
from deletekit.cli.inspect_text import InspectText
from deletekit.text import json_ready
from tests.cli.conftest import Run
from tests.tables import new_catalog

Load = Callable[[str], dk.Table]

TABLES = ["users", "history", "parts", "types", "evil", "empty"]


def strict(text: str) -> Any:
    def refuse(constant: str) -> NoReturn:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("name", TABLES)
def test_json_is_what_the_library_says(run: Run, warehouse: Path, table: Load, name: str) -> None:
    result = run("inspect", "--warehouse", warehouse, f"demo.{name}", "--json", "--deletes")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.isascii()
    assert strict(result.stdout) == json_ready(dk.inspect(table(f"demo.{name}"), deletes=True))


def test_limit_of_json_is_that_of_positions_and_keys(run: Run, warehouse: Path) -> None:
    def deletes(*limit: object) -> list[dict[str, Any]]:
        result = run("inspect", "--warehouse", warehouse, "demo.parts", "--deletes", "--json", *limit)
        found: list[dict[str, Any]] = strict(result.stdout)["deletes"]
        return found

    assert not any(d["truncated"] for d in deletes())
    assert deletes("--limit", 0) == deletes()
    cut = deletes("--limit", 2)
    assert all(len(p) <= 2 for d in cut for p in d["positions_by_file"].values())
    assert any(d["truncated"] for d in cut)


# --- text -------------------------------------------------------------------------------------------------------------


def test_metadata(run: Run, warehouse: Path, table: Load) -> None:
    history = table("demo.history")
    text = run("inspect", "--warehouse", warehouse, "demo.history").stdout
    for line in (
        "demo.history",
        "format version         2",
        f"table uuid             {history.metadata.table_uuid}",
        f"location               {history.location}",
        "last sequence number   3",
        "Schema 1  current; also 0",
        "  id  column       type",
        "   2  full_name    string",
        "   4  home         struct",
        "   5    city       string",
        "   6    tags       list",
        "   7      element  string",
        "Partition spec 0  default",
        "  unpartitioned",
    ):
        assert line in text, line
    head = history.current_snapshot
    assert head is not None
    assert re.search(rf"^ \*    3  +{head.snapshot_id}  overwrite  20\d\d-.*  main, dev$", text, re.MULTILINE)
    assert re.search(r"^  loaded  tag  ", text, re.MULTILINE)


def test_properties_and_partition_fields(run: Run, warehouse: Path) -> None:
    assert "write.delete.mode  merge-on-read" in run("inspect", "--warehouse", warehouse, "demo.users").stdout
    text = run("inspect", "--warehouse", warehouse, "demo.parts").stdout
    [field] = [line for line in text.splitlines() if "1000" in line]
    assert {"at_day", "day", "at (2)"} <= {*re.split(r" {2,}", field.strip())}
    assert "partition at_day=2026-01-01, kind='a'" in text


def test_defaults_documentation_and_identifiers(run: Run, fresh: Path) -> None:
    with new_catalog(fresh) as catalog:
        dk.add_column(dk.load_table(catalog, "demo.users"), "rank", "int", default=7, required=True, doc="low is good")
    text = run("inspect", "--warehouse", fresh, "demo.users").stdout
    assert re.search(
        r"^  +4  rank +int +required, initial-default 7, write-default 7, low is good$", text, re.MULTILINE
    )


def test_manifests_and_entries(run: Run, warehouse: Path, table: Load) -> None:
    users = table("demo.users")
    shown = dk.inspect(users)
    text = run("inspect", "--warehouse", warehouse, "demo.users").stdout
    for listed in shown["manifest-list"]:
        kind = "deletes" if listed["content"] else "data"
        assert f"{kind}  {listed['manifest_path'].removeprefix(users.location + '/')}" in text
    data, vector = (m["entries"][0]["data_file"] for m in shown["manifests"])
    assert f"added  {data['file_path'].removeprefix(users.location + '/')}" in text
    assert "4 rows · parquet, " in text
    assert "sequence 1 · first row id 0" in text
    assert f"added  {vector['file_path'].removeprefix(users.location + '/')}" in text
    assert "deletion vector: 2 positions · 44 bytes at offset 4 · sequence 2" in text
    assert f"of {data['file_path'].removeprefix(users.location + '/')}" in text


def test_a_deletion_vector_down_to_its_positions(run: Run, warehouse: Path) -> None:
    text = run("inspect", "--warehouse", warehouse, "demo.users", "--deletes").stdout
    deletes = text.partition("Live delete files (1)")[2]
    assert "Puffin file  data/" in deletes
    assert "positions 0, 2\n" in deletes
    assert "footer: type deletion-vector-v1 · fields 2147483645 · snapshot id -1 · sequence number -1" in deletes
    assert " · cardinality 2" in deletes
    assert "created-by deletekit" in deletes


def test_equality_deletes_with_their_keys(run: Run, warehouse: Path) -> None:
    text = run("inspect", "--warehouse", warehouse, "demo.history", "--deletes").stdout
    deletes = text.partition("Live delete files (2)")[2]
    assert "sequence 2 · equality delete: 2 keys of id (1)" in deletes
    assert re.search(r"└── id\n    1\n    3\n", deletes)
    typed = run("inspect", "--warehouse", warehouse, "demo.types", "--deletes").stdout
    assert re.search(r"X'00ff1b5b33316d'  2026-02-28  12\.340  2026-02-28T12:30:00\.000001", typed)


def test_position_deletes_in_runs(run: Run, warehouse: Path) -> None:
    text = run("inspect", "--warehouse", warehouse, "demo.parts", "--deletes").stdout
    assert "positions 0-5, 10\n" in text
    assert text.count("Position delete file  data/") == 3
    cut = run("inspect", "--warehouse", warehouse, "demo.parts", "--deletes", "--limit", 1).stdout
    assert "positions 0-5, … (7 positions in all; --limit 0 shows them)" in cut
    assert "… and 2 more files; --limit 0 shows all" in cut


def test_limit_applies_to_every_list_and_says_so(run: Run, warehouse: Path) -> None:
    text = run("inspect", "--warehouse", warehouse, "demo.history", "--deletes", "--limit", 1).stdout
    assert "… and 2 older; --limit 0 shows all" in text
    assert "… and 3 more manifests; --limit 0 shows all" in text
    parts = run("inspect", "--warehouse", warehouse, "demo.parts", "--limit", 2).stdout
    assert "… and 2 more entries; --limit 0 shows all" in parts
    assert "more" not in run("inspect", "--warehouse", warehouse, "demo.parts", "--limit", 0).stdout


def test_metrics(run: Run, warehouse: Path) -> None:
    text = run("inspect", "--warehouse", warehouse, "demo.users", "--metrics").stdout
    assert re.search(r" 1  id +4 +0 +1 +4$", text, re.MULTILINE)
    assert re.search(r" 2  name +4 +1 +'User-1' +'User-3'$", text, re.MULTILINE)
    assert re.search(r" 3  value +4 +0 +1 +100\.0 +400\.0$", text, re.MULTILINE)
    parts = run("inspect", "--warehouse", warehouse, "demo.parts", "--metrics").stdout
    assert re.search(r"2147483546  file_path", parts)
    assert re.search(r"2147483545  pos +", parts)
    typed = run("inspect", "--warehouse", warehouse, "demo.types", "--metrics").stdout
    assert re.search(r" 2  b +1 +0 +X'00ff1b5b33316d'", typed)
    assert re.search(r" 3  d +1 +0 +2026-02-28 ", typed)
    assert re.search(r" 4  n +1 +0 +12\.340 ", typed)
    assert "2026-02-28T12:30:00.000001" in typed
    assert "partition d=2026-02-28, n=12.340, u=00010203-0405-0607-0809-0a0b0c0d0e0f, b=X'00ff1b5b33316d'" in typed
    assert "partition d=NULL, n=NULL, u=NULL, b=NULL" in typed


@pytest.mark.parametrize("name", TABLES)
def test_everything_fits_80_columns(run: Run, warehouse: Path, name: str) -> None:
    result = run("inspect", "--warehouse", warehouse, f"demo.{name}", "--deletes", "--metrics", columns=80)
    assert result.exit_code == 0, result.stderr
    assert [line for line in result.stdout.splitlines() if cell_len(line) > 80] == []
    assert [line for line in result.stdout.splitlines() if line != line.rstrip()] == []


@pytest.mark.parametrize("columns", [20, 40])
def test_nothing_is_cut_off_where_it_is_narrow(run: Run, warehouse: Path, columns: int) -> None:
    text = run("inspect", "--warehouse", warehouse, "demo.users", "--deletes", columns=columns).stdout
    joined = re.sub(r"[\s│├└─]", "", text)
    wide = run("inspect", "--warehouse", warehouse, "demo.users", "--deletes").stdout
    for path in re.findall(r"data/\S+", wide):
        assert path in joined


def test_a_pipe_gets_every_path_in_one_line(run: Run, warehouse: Path, table: Load) -> None:
    lines = run("inspect", "--warehouse", warehouse, "demo.parts", "--deletes").stdout.splitlines()
    paths = [t.data_file.file_path for t in dk.scan(table("demo.parts")).plan()]
    for path in paths:
        assert [line for line in lines if path.rpartition("/data/")[2] in line]


# --- time travel ------------------------------------------------------------------------------------------------------


def test_snapshot_ref_and_time(run: Run, warehouse: Path, table: Load) -> None:
    history = table("demo.history")
    first, second, third = history.metadata.raw["snapshots"]
    for choice, snapshot in (
        (["--snapshot", first["snapshot-id"]], first),
        (["--ref", "loaded"], first),
        (["--ref", "dev"], third),
        ([], third),
        (["--as-of", first["timestamp-ms"]], first),
        (["--as-of", "2999-01-01"], third),
        (["--snapshot", second["snapshot-id"]], second),
    ):
        result = run("inspect", "--warehouse", warehouse, "demo.history", "--json", *choice)
        assert strict(result.stdout)["snapshot"]["snapshot-id"] == snapshot["snapshot-id"], choice
        text = run("inspect", "--warehouse", warehouse, "demo.history", *choice).stdout
        assert f"\nSnapshot {snapshot['snapshot-id']}  " in text


def test_a_table_without_commits(run: Run, warehouse: Path) -> None:
    text = run("inspect", "--warehouse", warehouse, "demo.empty", "--deletes").stdout
    assert "No snapshots  nothing was ever committed" in text
    assert "Manifest list" not in text


def test_decimals_of_38_digits(tmp_path: Path) -> None:
    value = Decimal("-1234567890123456789012345678.9012345678")
    stored = b64encode(int(str(value).replace(".", "")).to_bytes(16, "big", signed=True)).decode()
    schema = pa.schema([("n", pa.decimal128(38, 10))])
    with new_catalog(tmp_path) as catalog:
        table = dk.create_table(catalog, "t.n", schema, format_version=2, partition_by=["n"])
        text = InspectText(table.metadata, dk.inspect(table), metrics=False, limit=0)
    assert text.partition(0, [stored]) == f"partition n={value}"
