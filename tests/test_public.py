"""The door of the public functions: a wrong call is refused by name, by deletekit's errors and by nothing else."""

import inspect
import io
import pickle
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.errors import DeletekitError, InvalidInputError
from deletekit.public import public
from deletekit.table.catalog import SqlStore
from deletekit.table.pyiceberg_store import PyIcebergStore

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}, SCHEMA)


class Colour(Enum):
    RED = "red"


def functions() -> dict[str, Any]:
    """Every public function by name, those of public modules too."""
    found = {name: getattr(dk, name) for name in dk.__all__}
    modules = {
        "engine": dk.engine,
        "stream": dk.stream,
        "datasets": dk.datasets,
        "spark": dk.spark,
        "widgets": dk.widgets,
    }
    for prefix, module in modules.items():
        found |= {f"{prefix}.{name}": getattr(module, name) for name in module.__all__}
    return {name: thing for name, thing in found.items() if inspect.isfunction(thing)}


# These start a Java process, or look for one.
STARTS_JAVA = {"engine.spark"} | {
    f"spark.{name}" for name in ("session", "register", "fetch_jars", "java_problem", "java_program")
}
CALLED = sorted(functions().keys() - STARTS_JAVA)


def right_arguments(verb: str, catalog: dk.Catalog, folder: Path) -> dict[str, Any]:
    """Arguments with which each function does something, by the names of its parameters."""
    table = dk.create_table(catalog, "w.t", SCHEMA, format_version=2)
    first = dk.append(table, ROWS)
    dk.create_branch(table, "b")
    known: dict[str, Any] = {
        "table": table,
        "catalog": catalog,
        "identifier": "w.new" if verb in ("create_table", "sync_delta") else "w.t",
        "schema": SCHEMA,
        "where": "id = 1",
        "rows": ROWS,
        "keys": pa.table({"id": [1]}),
        "source": folder / "delta" if verb == "sync_delta" else ROWS,
        "on": ["id"],
        "assignments": {"name": "z"},
        "name": {"drop_column": "name", "rename_column": "name", "update_column": "name", "drop_ref": "b"}.get(
            verb, "n"
        ),
        "new_name": "other",
        "type": "string",
        "field": "bucket(4, id)",
        "properties": {"a": "b"},
        "format_version": 3,
        "snapshot_id": first.snapshot_id,
        "branch": "b",
        "to": "main",
        "path": folder / "made",
        "location": table.metadata_location,
        "sink_id": "s",
        "route": "name",
        "pool": ThreadPoolExecutor(1),
        "files": [folder / "data.parquet"],
        "engines": ["snowflake"],
        "sort_by": "id",
        "sink": dk.stream.sink(table, "s", on="id") if verb == "stream.foreach_messages" else None,
        "decoder": dk.stream.decoder("debezium-json"),
        "servers": "localhost:1",
        "topics": "t",
    }
    parameters = inspect.signature(functions()[verb]).parameters.values()
    needed = {p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD}
    arguments = {name: known[name] for name in needed if name in known}
    if verb == "from_pyiceberg":
        arguments["table"] = catalog.pyiceberg.load_table("w.t")
    if verb == "datasets.path":
        arguments["name"] = "users"
    if verb in ("rollback", "set_current_snapshot"):
        arguments["snapshot_id"] = first.snapshot_id
    return arguments


def wrong_values(catalog: dk.Catalog, folder: Path) -> list[Any]:
    closed = (folder / "closed").open("wb")
    closed.close()
    return [
        None,
        3,
        -1,
        2.5,
        True,
        "x",
        "",
        "\0",
        b"x",
        object(),
        [],
        [None],
        {"x": object()},
        Colour.RED,
        date(2024, 1, 1),
        datetime(1, 1, 1, tzinfo=UTC),
        float("nan"),
        2**70,
        closed,
        catalog.pyiceberg.load_table("w.t"),
        catalog.pyiceberg,
        dk.delete,
        int,
    ]


@pytest.mark.parametrize("verb", CALLED)
def test_a_wrong_argument_is_refused_by_its_name(
    verb: str, catalog: dk.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    warnings.simplefilter("ignore")  # of pyiceberg, about paths that it does not know
    check_wrong_arguments(functions()[verb], right_arguments(verb, catalog, tmp_path), catalog, tmp_path)


def check_wrong_arguments(function: Any, right: dict[str, Any], catalog: dk.Catalog, folder: Path) -> None:
    escaped, unnamed, wrong = [], [], wrong_values(catalog, folder)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        for value in wrong:
            if parameter.name == "say" and callable(value):
                continue  # it fits, and what it raises is its own
            try:
                finish(function(**{**right, parameter.name: value}))
            except DeletekitError as e:
                if e.kind == "argument" and e.field != parameter.name:
                    unnamed.append(f"{parameter.name}={value!r}: {e}")
            except Exception as e:  # noqa: BLE001 - what this test is about
                escaped.append(f"{parameter.name}={value!r}: {type(e).__name__}: {e}")
    assert escaped == []
    assert unnamed == []


def methods() -> dict[str, Any]:
    """Every public method of the classes whose objects a caller is given, by class and name."""
    found = {}
    for cls in (
        dk.Catalog,
        SqlStore,
        PyIcebergStore,
        dk.Table,
        dk.results.Scan,
        dk.stream.Sink,
        dk.results.Explanation,
    ):
        own = {name: member for name, member in vars(cls).items() if not name.startswith("_")}
        found |= {f"{cls.__name__}.{name}": member for name, member in own.items() if inspect.isfunction(member)}
    return found


TAKES_SOMETHING = sorted(name for name, m in methods().items() if len(inspect.signature(m).parameters) > 1)


@pytest.mark.parametrize("method", TAKES_SOMETHING)
def test_a_wrong_argument_of_a_method_too(
    method: str, catalog: dk.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = dk.create_table(catalog, "w.t", SCHEMA, format_version=2)
    dk.append(table, ROWS)
    # The base class of catalogs has no objects; what it does is what a catalog that is not SQL's own does.
    stored = PyIcebergStore(catalog.pyiceberg)
    known: dict[str, Any] = {
        "identifier": ("w", "t"),
        "namespace": "w",
        "to": "w.other",
        "metadata_location": table.metadata_location,
        "metadata": table.metadata,
        "format_version": 2,
        "requirements": [],
        "updates": [],
        "state": table.state,
        "changes": pa.table({"id": [9], "name": ["z"], "_change_type": ["insert"]}),
        "batch_id": 1,
        "batches": [],
        "files": [],
        "frame": ROWS,
    }
    with dk.stream.sink(table, "s", on=["id"]) as sink:
        owners: dict[str, Any] = {
            "Catalog": stored,
            "SqlStore": catalog,
            "PyIcebergStore": stored,
            "Table": dk.load_table(catalog, "w.t"),
            "Scan": dk.scan(table),
            "Sink": sink,
            "Explanation": dk.explain(table, "id = 1"),
        }
        owner, _, name = method.partition(".")
        bound = getattr(owners[owner], name)
        needed = [p.name for p in inspect.signature(bound).parameters.values() if p.default is p.empty]
        check_wrong_arguments(bound, {n: known[n] for n in needed if n in known}, catalog, tmp_path)


def finish(result: Any) -> None:
    """Do what a lazy result puts off."""
    if isinstance(result, dk.results.Scan):
        result.to_arrow()
        result.count()
    elif isinstance(result, dk.stream.Sink):
        result.write(pa.table({"id": [9], "name": ["z"], "_change_type": ["insert"]}), 1)
    elif hasattr(result, "__enter__"):
        with result:
            pass


# --- what a call says -------------------------------------------------------------------------------------------------


@pytest.fixture
def table(catalog: dk.Catalog) -> dk.Table:
    table = dk.create_table(catalog, "w.t", SCHEMA, format_version=3)
    dk.append(table, ROWS)
    return table


SAID: dict[str, tuple[Any, str]] = {
    "a pyiceberg table": (lambda t: dk.delete(theirs(t), "true"), "`table`.*pyiceberg.table.Table.*from_pyiceberg"),
    "a name": (lambda _: dk.scan("w.t"), "`table`.*'w.t' .str.*load_table"),  # type: ignore[arg-type]
    "text for a list": (lambda t: dk.erase(t, "id = 1", refs="main"), "`refs`.*'main' .str.*a list of str"),
    "a list of others": (lambda t: dk.scan(t, columns=["id", 3]), "`columns`.*3"),
    "a size in words": (lambda t: dk.compact(t, target_file_size_bytes="1MB"), "target_file_size_bytes.*'1MB'.*int"),
    "no such option": (lambda t: dk.compact(t, target_size=3), "no such option.*target_size.*target_file_size_bytes"),
    "no such argument": (lambda t: dk.delete(t, wher="true"), "delete.*'where'"),
    "one too many": (lambda t: dk.drop_ref(t, "a", "b"), "drop_ref.*too many"),
    "an Arrow type": (lambda t: dk.add_column(t, "n", pa.int64()), "`type`.*DataType.*str or a pyiceberg IcebergType"),
    "a duration": (lambda t: dk.expire_snapshots(t, older_than="5d"), "older_than; found 5d"),
    "a duration of orphans": (lambda t: dk.remove_orphan_files(t, older_than="5d"), "older_than; found 5d"),
    "a time of a scan": (lambda t: dk.scan(t, as_of="5d"), "as_of; found 5d"),
    "a lower version": (lambda t: dk.upgrade_format_version(t, 2), "only be raised.*found 2, of a table.* 3.*newest"),
    "an empty name": (lambda t: dk.add_column(t, "", "int"), "field name; found an empty name"),
    "a new name that is empty": (lambda t: dk.rename_column(t, "id", ""), "field new_name"),
    "a branch without a name": (lambda t: dk.create_branch(t, ""), "field name"),
    "an engine without threads": (lambda _: dk.engine.local(0), "threads"),
    "values that are not columns": (
        lambda t: dk.update(t, {"name": lambda r: [object()] * len(r)}, where="true"), "values that are not columns",
    ),
    "an option of pandas": (lambda t: dk.scan(t).to_pandas(nope=1), "to_pandas.*options.*field nope"),
    "a connection": (lambda t: dk.scan(t).to_duckdb("x"), "`connection`.*'x'.*DuckDBPyConnection or None"),
    "an Arrow schema": (
        lambda t: pa.table(dk.scan(t), schema=pa.schema([("nope", pa.int8())])), "cannot give.*schema.*id: int64",
    ),
    "a type of Arrow": (
        lambda t: pa.table(dk.scan(t), schema=pa.schema([("id", pa.int64()), ("name", pa.list_(pa.int8()))])), "schema",
    ),
    "a number for a table's name": (lambda t: t.catalog.drop_table(3), "`identifier`.*found 3.*str or a list of str"),
    "no argument of a method": (lambda t: t.catalog.drop_table(), "drop_table.*'identifier'.*expected identifier$"),
    "an open file": (lambda t: dk.append(t, io.BytesIO(b"id")), "field rows"),
    "Arrow's null type": (
        lambda t: dk.create_table(t.catalog, "w.n", pa.schema([("n", pa.null())])),
        "field n.*format version 3.*Arrow's null",
    ),
}  # fmt: skip


def theirs(table: dk.Table) -> Any:
    return table.require_catalog().pyiceberg.load_table("w.t")


@pytest.mark.parametrize("case", SAID)
def test_an_error_says_what_was_wrong_with_what(table: dk.Table, case: str) -> None:
    call, words = SAID[case]
    with pytest.raises(InvalidInputError, match=f"(?s){words}"):
        call(table)


def test_numbers_of_numpy_and_iterables_are_taken(table: dk.Table) -> None:
    first = table.metadata.current_snapshot
    assert first is not None
    assert dk.scan(table, snapshot_id=np.int64(first.snapshot_id)).count() == 3  # type: ignore[arg-type]
    assert dk.scan(table, columns=(n for n in ["id"])).to_arrow().column_names == ["id"]  # type: ignore[arg-type]
    assert dk.merge(table, ROWS, on={"id": None}.keys(), mode="merge-on-read").snapshot_id  # type: ignore[arg-type]


# --- what the door lets through ---------------------------------------------------------------------------------------


@public
def documented(number: int, *names: str, switch: bool = False, **options: int) -> str:
    """What help shows."""
    return f"{number} {names} {switch} {options}"


def test_the_door_cannot_be_seen() -> None:
    assert str(inspect.signature(documented)) == (
        "(number: int, *names: str, switch: bool = False, **options: int) -> str"
    )
    assert documented.__doc__ == "What help shows."
    assert documented(1, "a", switch=True, more=2) == "1 ('a',) True {'more': 2}"
    for name in dk.__all__:
        thing = getattr(dk, name)
        assert getattr(dk, name) is thing
        if inspect.isfunction(thing):
            assert pickle.loads(pickle.dumps(thing)) is thing  # noqa: S301 - our own bytes


def test_every_public_function_is_behind_the_door() -> None:
    for name, function in functions().items():
        own = inspect.unwrap(function)
        assert own is not function or name in {"spark.java_problem", "spark.java_program"}, name


def test_a_bug_stays_what_it_is(table: dk.Table) -> None:
    def bug(_: pa.Table) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        dk.update(table, {"name": bug}, where="true")


@pytest.mark.parametrize("name", ["widgets.explore", "widgets"])
def test_a_missing_extra_is_named(name: str) -> None:
    program = f"""
import sys
sys.modules["anywidget"] = None
import deletekit as dk
try:
    dk.{name}
except dk.EnvironmentMissingError as e:
    print(e)
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert "deletekit[course]" in done.stdout
    assert "anywidget" in done.stdout


WITHOUT: dict[str, tuple[tuple[str, ...], Any]] = {
    "duckdb": (("duckdb",), lambda t: dk.scan(t).to_duckdb()),
    "cloudpickle": (("cloudpickle", "pyspark.cloudpickle"), lambda _: dk.engine.executor(ThreadPoolExecutor(1))),
}


@pytest.mark.parametrize("package", WITHOUT)
def test_a_missing_package_is_named(table: dk.Table, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    modules, call = WITHOUT[package]
    for module in modules:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(dk.EnvironmentMissingError, match=f"pip install {package}") as caught:
        call(table)
    assert caught.value.field == package


DRIVERS = {
    "postgresql+psycopg2": "psycopg2",
    "mysql": "MySQLdb",
    "oracle+oracledb": "oracledb",
    "mysql+pymysql": "pymysql",
}


@pytest.mark.parametrize("scheme", DRIVERS)
def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    """And not SQLAlchemy, which is there."""
    monkeypatch.setitem(sys.modules, DRIVERS[scheme], None)
    with pytest.raises(dk.EnvironmentMissingError, match="pip install") as caught:
        dk.load_catalog("p", type="sql", uri=f"{scheme}://me:secret@h/x")
    assert (caught.value.kind, caught.value.field) == ("catalog", DRIVERS[scheme])
    assert "SQLAlchemy" not in str(caught.value)
