"""Write the changes of a table as Debezium's change events: one JSON envelope a line, with its schema.

| change                                                  | `op`                                                   |
|---------------------------------------------------------|--------------------------------------------------------|
| `insert`, `delete`                                      | c with the row in `after`, d with the row in `before`  |
| `update_before` and its `update_after`, of the same key | one u with both rows                                   |
| the two, if the key changed or there is no key          | d and c; all d of a commit come first                  |
| `update_after` in mode `upsert`                         | u with the row in `after`                              |

A reader applies one event after another, and finds rows by a key. Let one update move a row from key 1 to key 2, and
another from 2 to 1: the second would then delete what the first has written. Debezium too writes d and c if a key
changes. The types are Kafka Connect's with Debezium's names, so each value keeps its meaning.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from itertools import groupby
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from deletekit.rows.keys import same_keys
from deletekit.stream.sources import source_types as st
from deletekit.table.python_values import python_values
from deletekit.text import json_ready, moment_text
from deletekit.tools.changes import Changes
from deletekit.version import __version__

_ROWS = 10_000
"""So many rows are Python's values at once."""
_ORIGIN = {
    "version": "string",
    "connector": "string",
    "db": "string",
    "table": "string",
    "ts_ms": "int64",
    "snapshot_id": "int64",
    "ordinal": "int32",
}
"""What an event's `source` has: the table, and the time, id and number of the commit."""
_UNITS = {"ms": "", "us": "Micro", "ns": "Nano"}


class DebeziumLines:
    """Makes lines of the batches that a `Changes` gives."""

    def __init__(self, changes: Changes) -> None:
        self._snapshots = changes.table.metadata.snapshots
        self._names = changes.columns
        key = changes.pairing.key
        self._key = key if {*key} <= {*self._names} else ()
        *space, table = changes.table.identifier
        self._table = {"version": __version__, "connector": "deletekit", "db": ".".join(space), "table": table}
        fields = [changes.arrow_schema.field(name) for name in self._names]
        self._columns = [_written(f.type) for f in fields]
        row = {"type": "struct", "fields": [_member(f, c) for f, c in zip(fields, self._columns, strict=True)]}
        origin = {"type": "struct", "fields": [{"field": n, "type": t} for n, t in _ORIGIN.items()]}
        parts = [{**row, "field": side, "optional": True} for side in ("before", "after")]
        parts += [{**origin, "field": "source"}, {"field": "op", "type": "string"}]
        envelope = {"type": "struct", "name": f"{changes.table.name}.Envelope", "fields": parts}
        self._head = f'{{"schema":{_json(envelope)},"payload":'

    def lines(self, batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
        """Yield the events of batches. Each batch has rows of one commit and one type, as `Changes` gives them."""
        before: list[pa.RecordBatch] = []
        for (kind, commit, ordinal), group in groupby((b for b in batches if len(b)), _about):
            source = {
                **self._table,
                "ts_ms": self._snapshots[commit].timestamp_ms,
                "snapshot_id": commit,
                "ordinal": ordinal,
            }
            if kind == "update_before":
                before = list(group)
            elif kind == "update_after" and before:
                yield from self._updates(pa.Table.from_batches(before), pa.Table.from_batches(group), source)
                before = []
            else:
                op = {"insert": "c", "delete": "d"}.get(kind, "u")
                for batch in group:
                    yield from self._events(op, source, **{"before" if op == "d" else "after": batch})

    def _updates(self, before: pa.Table, after: pa.Table, source: Mapping[str, Any]) -> Iterator[str]:
        stays = np.zeros(len(before), np.bool_)
        if self._key:
            stays = same_keys(*([rows.column(name) for name in self._key] for rows in (before, after)))
        same, other = pa.array(stays), pa.array(~stays)
        yield from self._events("d", source, before=before.filter(other))
        yield from self._events("u", source, before=before.filter(same), after=after.filter(same))
        yield from self._events("c", source, after=after.filter(other))

    def _events(self, op: str, source: Mapping[str, Any], **sides: Any) -> Iterator[str]:
        """Yield an event for each row; `sides` are `before`, `after` or both, equally long."""
        for start in range(0, len(next(iter(sides.values()))), _ROWS):
            rows = {side: self._rows(table.slice(start, _ROWS)) for side, table in sides.items()}
            nothing = [None] * len(next(iter(rows.values())))
            for old, new in zip(rows.get("before", nothing), rows.get("after", nothing), strict=True):
                yield f"{self._head}{_json({'before': old, 'after': new, 'source': source, 'op': op})}}}"

    def _rows(self, table: Any) -> list[dict[str, Any]]:
        columns = [c.values(table.column(n)) for n, c in zip(self._names, self._columns, strict=True)]
        return [dict(zip(self._names, row, strict=True)) for row in zip(*columns, strict=True)]


def _about(batch: pa.RecordBatch) -> tuple[str, int, int]:
    kind, commit, ordinal = (
        batch.column(name)[0].as_py() for name in ("_change_type", "_commit_snapshot_id", "_change_ordinal")
    )
    return kind, commit, ordinal


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


# --- types ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Written:
    """How the values of an Arrow type are written.

    Attributes
    ----------
    storage: the Arrow type to cast to first, whose values Python has whatever they are.
    kind, name, more: the type in Kafka Connect, what it means, and the rest of its schema.
    made: makes JSON of a value of `storage`.
    """

    storage: pa.DataType
    kind: str
    name: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict)
    made: Callable[[Any], Any] = lambda value: value

    @property
    def schema(self) -> dict[str, Any]:
        named = {} if self.name is None else {"name": self.name, "version": 1}
        return {"type": self.kind, **named, **self.more}

    def one(self, value: Any) -> Any:
        return None if value is None else self.made(value)

    def values(self, column: Any) -> list[Any]:
        return [self.one(value) for value in python_values(column.cast(self.storage))]


def _written(kind: pa.DataType) -> _Written:
    types = pa.types
    if types.is_nested(kind):
        return _nested(kind)
    if isinstance(kind, pa.UuidType):
        return _Written(pa.binary(16), "string", st.UUID, made=lambda v: str(UUID(bytes=v)))
    if types.is_date(kind):
        return _Written(pa.int32(), "int32", "io.debezium.time.Date")
    if types.is_time(kind):
        return _Written(pa.int64(), "int64", f"io.debezium.time.{_UNITS[kind.unit]}Time")
    if types.is_timestamp(kind) and kind.tz is not None:
        made = partial(moment_text, unit=kind.unit, zone="Z")
        return _Written(pa.int64(), "string", "io.debezium.time.ZonedTimestamp", made=made)
    if types.is_timestamp(kind):
        return _Written(pa.int64(), "int64", f"io.debezium.time.{_UNITS[kind.unit]}Timestamp")
    if types.is_decimal(kind):
        parameters = {"scale": str(kind.scale), "connect.decimal.precision": str(kind.precision)}
        return _Written(kind, "bytes", st.DECIMAL, {"parameters": parameters}, _unscaled)
    if types.is_binary(kind) or types.is_fixed_size_binary(kind):
        return _Written(kind, "bytes", made=lambda v: base64.b64encode(v).decode())
    if types.is_floating(kind):
        return _Written(kind, "float" if types.is_float32(kind) else "double", made=json_ready)
    if types.is_boolean(kind) or types.is_integer(kind):
        return _Written(kind, "boolean" if types.is_boolean(kind) else str(kind))
    return _Written(kind, "string")  # and a column of unknown type, which holds only null


def _nested(kind: pa.DataType) -> _Written:
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        inner = {f.name: _written(f.type) for f in fields}
        return _Written(
            pa.struct([pa.field(name, w.storage) for name, w in inner.items()]),
            "struct",
            more={"fields": [_member(f, inner[f.name]) for f in fields]},
            made=lambda value: {name: w.one(value[name]) for name, w in inner.items()},
        )
    if pa.types.is_map(kind):
        key, item = _written(kind.key_type), _written(kind.item_type)
        is_object = pa.types.is_string(kind.key_type)  # as Kafka's JSON converter writes maps

        def pairs(value: Sequence[Any]) -> Any:
            found = [[key.one(k), item.one(v)] for k, v in value]
            return dict(found) if is_object else found

        return _Written(
            pa.map_(key.storage, item.storage),
            "map",
            more={"keys": key.schema, "values": {**item.schema, "optional": kind.item_field.nullable}},
            made=pairs,
        )
    item = _written(kind.value_type)
    return _Written(
        pa.list_(item.storage),
        "array",
        more={"items": {**item.schema, "optional": kind.value_field.nullable}},
        made=lambda value: list(map(item.one, value)),
    )


def _member(column: pa.Field, written: _Written) -> dict[str, Any]:
    return {**written.schema, "field": column.name, "optional": column.nullable}


def _unscaled(value: Decimal) -> str:
    """Return the number without its point, as big-endian bytes in base64."""
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits))) * (-1 if sign else 1)
    return base64.b64encode(number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)).decode()
