"""Check the Avro schema of a file before a decoder follows it, and the types of its fields.

A schema that refers to itself makes a decoder recurse until the process ends. One whose records take no bytes makes it
run for as long as a count says.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from deletekit.errors import FormatError, UnsupportedError

_MAX_LEVELS = 256
_EMPTY_VALUES_MAX = 100
_PRIMITIVE_BYTES = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}


def strip(schema: Any, *, fixed_as_bytes: bool = False) -> Any:
    """Return the schema without logical types and defaults; `fixed_as_bytes` makes plain `fixed` types `bytes`."""
    fixed = {f["name"] for f in _definitions(schema) if _is_plain_fixed(f) and "name" in f} if fixed_as_bytes else set()
    return _strip(schema, fixed, fixed_as_bytes)


def _strip(schema: Any, fixed: set[str], fixed_as_bytes: bool) -> Any:
    if isinstance(schema, str):
        return "bytes" if schema in fixed else schema
    if isinstance(schema, list):
        return [_strip(s, fixed, fixed_as_bytes) for s in schema]
    if not isinstance(schema, dict):
        return schema
    if fixed_as_bytes and _is_plain_fixed(schema):
        return "bytes"
    out = {k: v for k, v in schema.items() if k not in ("logicalType", "default")}
    for key in ("type", "items", "values", "fields"):
        if key in out:
            out[key] = _strip(out[key], fixed, fixed_as_bytes)
    return out


def _is_plain_fixed(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "fixed" and "logicalType" not in schema


def _definitions(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of the schema that is a type or a field."""
    if isinstance(schema, list):
        for s in schema:
            yield from _definitions(s)
    elif isinstance(schema, dict):
        yield schema
        for key in ("type", "items", "values", "fields"):
            yield from _definitions(schema.get(key))


def has_plain_fixed(schema: Any) -> bool:
    """Tell whether a `fixed` without a logical type is defined anywhere in the schema."""
    return any(_is_plain_fixed(s) for s in _definitions(schema))


# --- size -------------------------------------------------------------------------------------------------------------


class _Size(NamedTuple):
    """The fewest bytes of a value, and how many of its parts, itself included, may take no bytes."""

    fewest: int
    empty: int


@dataclass(slots=True)
class _Measure:
    """The sizes of the named types so far; None for one whose definition has not ended."""

    named: dict[str, _Size | None] = field(default_factory=dict)

    def of(self, schema: Any, depth: int = 0) -> _Size:
        if depth > _MAX_LEVELS:
            raise _bad("Avro schema is nested too deeply", None, f"<= {_MAX_LEVELS} levels")
        if isinstance(schema, list):
            branches = [self.of(s, depth + 1) for s in schema]
            if not branches:
                raise _bad("Avro union without a type", schema, "one or more types")
            return _Size(1 + min(b.fewest for b in branches), max(b.empty for b in branches))
        if isinstance(schema, str):
            return self._of_name(schema)
        if not isinstance(schema, dict) or "type" not in schema:
            raise _bad("Avro type is not understood", schema, "a type")
        return self._of_definition(schema, schema["type"], depth + 1)

    def _of_name(self, name: str) -> _Size:
        if name in _PRIMITIVE_BYTES:
            return _sized(_PRIMITIVE_BYTES[name])
        if name not in self.named:
            raise _bad("unknown Avro type", name, "a type defined before")
        size = self.named[name]
        if size is None:
            raise _bad("Avro schema refers to itself", name, "a type that ends")
        return size

    def _of_definition(self, schema: Mapping[str, Any], kind: Any, depth: int) -> _Size:
        if kind in ("record", "error"):
            return self._of_record(schema, depth)
        if kind == "array" and self.of(schema["items"], depth).fewest == 0:
            raise UnsupportedError("Avro arrays of values without bytes", kind="avro-empty", found="array")
        if kind == "map":
            self.of(schema["values"], depth)
        if kind in ("array", "map"):
            return _sized(1)
        if kind not in ("enum", "fixed"):
            return self.of(kind, depth)
        size = schema["size"] if kind == "fixed" else 1
        if not isinstance(size, int) or size < 0:
            raise _bad("bad size of an Avro fixed", size, ">= 0")
        self.named[schema["name"]] = _sized(size)
        return _sized(size)

    def _of_record(self, schema: Mapping[str, Any], depth: int) -> _Size:
        self.named[schema["name"]] = None
        sizes = [self.of(f["type"], depth) for f in schema["fields"]]
        fewest, empty = sum(s.fewest for s in sizes), sum(s.empty for s in sizes)
        if empty > _EMPTY_VALUES_MAX:
            raise UnsupportedError("Avro records of many values without bytes", kind="avro-empty", found=empty)
        size = self.named[schema["name"]] = _Size(fewest, empty + (0 if fewest else 1))
        return size


def _sized(size: int) -> _Size:
    return _Size(size, 0 if size else 1)


def record_bytes(schema: Any) -> int:
    """Return the fewest bytes that one value of a schema takes, its names resolved by `fastavro.parse_schema`.

    Raises FormatError for a schema that has no end, UnsupportedError where a count alone would make any number of
    values.
    """
    return _Measure().of(schema).fewest


def _bad(message: str, found: Any, expected: str) -> FormatError:
    return FormatError(message, kind="avro-schema", field="avro.schema", found=found, expected=expected)


# --- types ------------------------------------------------------------------------------------------------------------


def check_types(schema: Any, canonical: Mapping[str, Any], names: Mapping[str, str], kind: str) -> None:
    """Raise FormatError with `kind` where a field of a record has another type than the field of `canonical`.

    Parameters
    ----------
    schema, canonical: record schemas.
    names: a field's stored name -> its canonical name, where they differ.

    int and long stand for each other, null may be added; fields that `canonical` does not have are not looked at.
    """
    named = {str(s["name"]): s for s in _definitions(schema) if s.get("type") in ("record", "fixed", "enum")}
    expected = {f["name"]: _shape(f["type"], {}) for f in canonical["fields"]}
    for stored in schema["fields"]:
        name, found = names.get(stored["name"], stored["name"]), stored["type"]
        if name in expected and _shape(found, named) != expected[name]:
            raise FormatError("field has another type", kind=kind, field=name, found=found, expected=expected[name])


def _shape(schema: Any, named: Mapping[str, Any]) -> str:
    """Name a type in short: `int`, `bytes`, `record`, `[int]`, `{int: bytes}` (a map as an array of records)."""
    if isinstance(schema, list):
        options = [s for s in schema if s != "null"]
        return _shape(options[0], named) if len(options) == 1 else "union"
    if isinstance(schema, str):
        if schema in _PRIMITIVE_BYTES:
            return "int" if schema == "long" else schema
        return _shape(named[schema], {}) if schema in named else schema
    kind = schema.get("type")
    if kind == "array":
        return _array_shape(schema.get("items"), named)
    return kind if isinstance(kind, str) and kind in ("record", "map", "fixed", "enum") else _shape(kind, named)


def _array_shape(items: Any, named: Mapping[str, Any]) -> str:
    item = named.get(items, items) if isinstance(items, str) else items
    if isinstance(item, dict) and item.get("type") == "record":
        fields = {f["name"]: _shape(f["type"], {}) for f in item["fields"]}
        if set(fields) == {"key", "value"}:
            return f"{{{fields['key']}: {fields['value']}}}"
    return f"[{_shape(item, {})}]"
