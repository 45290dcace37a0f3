"""What "newer" means when the owner of a clock changes: refused by name, until the user puts the servers in order."""

import json
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.stream import Message, decoder
from deletekit.table.types import schema_from_arrow
from tests.tables import make, raises, refused

KEY, NAME = pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())
MYSQL = {"connector": "mysql", "name": "db", "row": 0, "ts_ms": 5}
UUIDS = [f"{n}e11fa47-71ca-11e1-9e33-c80aa9429562" for n in (1, 2)]


def mysql(server: int, file: int, pos: int, **more: Any) -> dict[str, Any]:
    return {**MYSQL, "server_id": server, "file": f"mysql-bin.{file:06d}", "pos": pos, **more}


def postgres(lsn: int, **more: Any) -> dict[str, Any]:
    return {"connector": "postgresql", "name": "db", "lsn": lsn, "ts_ms": 5, **more}


def batch(*events: tuple[str, dict[str, Any]], flat: bool = False) -> list[Message]:
    made = []
    for offset, (name, source) in enumerate(events):
        row = {"id": 1, "name": name}
        value = {**row, **{f"__source_{n}": v for n, v in source.items()}} if flat else {"op": "u", "after": row}
        value |= {} if flat else {"source": source}
        made.append(Message(b'{"id": 1}', json.dumps(value).encode(), "t", 0, offset))
    return made


# The option sequence, an event of the first owner, one of the next owner, which is newer, and the names of the owners.
OWNERS: list[tuple[str, dict[str, Any], dict[str, Any], list[str]]] = [
    ("binlog", mysql(11, 9, 500), mysql(22, 1, 4), ["11", "22"]),
    ("pos", mysql(11, 9, 500), mysql(22, 1, 4), ["11", "22"]),
    (
        "binlog",
        mysql(11, 9, 500, gtid=f"{UUIDS[0]}:7"),
        mysql(11, 1, 4, gtid=f"{UUIDS[1]}:1"),
        [f"11/{uuid}" for uuid in UUIDS],
    ),
    ("lsn", postgres(900), postgres(3, name="db2"), ["db", "db2"]),
    ("lsn", postgres(900, system_identifier="71"), postgres(3, system_identifier="72"), ["71", "72"]),
    (
        "lsn",
        postgres(900, system_identifier="71", timeline=1),
        postgres(3, system_identifier="71", timeline=2),
        ["71/1", "71/2"],
    ),
    (
        "change_lsn",
        {"connector": "sqlserver", "name": "a", "change_lsn": "00000027:00000000:0002"},
        {"connector": "sqlserver", "name": "b", "change_lsn": "00000001:00000000:0002"},
        ["a", "b"],
    ),
]


@pytest.mark.parametrize("flat", [False, True], ids=["envelopes", "flat"])
def test_another_server_is_refused_until_it_is_listed(catalog: dk.Catalog, flat: bool) -> None:
    form = "debezium-flat" if flat else "debezium-json"
    for sequence, first, second, names in OWNERS:
        kind = pa.int64() if sequence in ("pos", "lsn") else pa.string()
        table = make(catalog, schema=pa.schema([KEY, NAME, pa.field("_sequence", kind)]), format_version=3)
        plain = decoder(form, sequence=sequence)
        with dk.stream.sink(table, "cdc", on="id", sequence_by="_sequence") as sink:
            sink.write(plain.decode(batch(("old", first), flat=flat), table.schema), 0)
            sink.write(plain.decode([], table.schema), 1)
        with dk.stream.sink(table, "cdc", on="id", sequence_by="_sequence") as sink:
            with refused(table, dk.InvalidInputError, "sequence-server") as refusal:
                sink.write(plain.decode(batch(("new", second), flat=flat), table.schema), 2)
            assert f"servers={names}" in str(refusal.error), names
            with raises(dk.InvalidInputError, "sequence-server"):  # in one batch too
                plain.decode(batch(("old", first), ("new", second), flat=flat), table.schema)
            listed = decoder(form, sequence=sequence, servers=names)
            both = batch(("older", first), ("new", second), flat=flat)
            assert sink.write(listed.decode(both, table.schema), 2).late == 0
            assert sink.write(listed.decode(batch(("late", first), flat=flat), table.schema), 3).late == 1
            with refused(table, dk.InvalidInputError, "sequence-server"):  # the list is part of the order
                sink.write(plain.decode(batch(("new", second), flat=flat), table.schema), 4)
        assert dk.scan(table.refresh(), columns=["name"]).to_arrow().to_pylist() == [{"name": "new"}]


def test_what_no_server_owns(catalog: dk.Catalog) -> None:
    """Times are of any clock on the wall, and a snapshot of MySQL has the server id 0: no change of owner."""
    for sequence, first, second in [
        ("ts_ms", mysql(11, 9, 500), mysql(22, 1, 4)),
        ("binlog", mysql(0, 9, 500), mysql(11, 9, 600)),
    ]:
        kind = pa.int64() if sequence == "ts_ms" else pa.string()
        table = make(catalog, schema=pa.schema([KEY, NAME, pa.field("_sequence", kind)]), format_version=3)
        form = decoder("debezium-json", sequence=sequence)
        with dk.stream.sink(table, "cdc", on="id", sequence_by="_sequence") as sink:
            for number, (name, source) in enumerate((("old", first), ("new", second))):
                sink.write(form.decode(batch((name, source)), table.schema), number)
        assert dk.scan(table.refresh(), columns=["name"]).to_arrow().to_pylist() == [{"name": "new"}]


def test_servers_that_share_a_log_and_lists_that_are_none() -> None:
    """A replica's log has the changes of several servers."""
    schema = pa.schema([KEY, NAME, pa.field("_sequence", pa.string())])
    form = decoder("debezium-json", sequence="binlog", servers=["11|12", "22"])
    rows = form.decode(
        batch(("a", mysql(11, 9, 1)), ("b", mysql(12, 9, 2)), ("c", mysql(22, 1, 4))),
        schema_from_arrow(schema),
    )
    found = rows.column("_sequence").to_pylist()
    assert found == sorted(found)
    for servers in ("11", ["11", "11"], ["11|22", "22"], [1]):
        with raises(dk.InvalidInputError, "format-option"):
            decoder("debezium-json", servers=servers)
