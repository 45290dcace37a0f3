"""Turn values of messages into columns of the table's types. A value that does not fit is refused, never changed.

What a value means is said by the type in the message's schema. Without one the table's column says it, where that is
certain: a whole number in a column of times may be anything, so an option must tell its unit.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import pyarrow as pa
from pyiceberg import types as it

from deletekit.errors import InvalidInputError
from deletekit.formats.decimals import EXACT
from deletekit.rows.projection import repeated
from deletekit.stream.sources.decimals import decimal_values, decimals
from deletekit.stream.sources.format_options import FormatOptions, OptionError, UnfitError, check_types, each
from deletekit.stream.sources.left_out import unavailable, unavailable_at
from deletekit.stream.sources.source_types import DECIMAL, DURATIONS, VARIABLE_DECIMAL, SourceType
from deletekit.stream.sources.times import dates, times, timestamps
from deletekit.table.types import arrow_type

Values = Sequence[Any]

_LIBRARY = (pa.ArrowException, TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError)
_UUID_TEXT = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""How Kafka's JSON converter writes doubles that JSON has no numbers for."""


def column_of(
    values: Values, source: SourceType | None, name: str, kind: it.IcebergType, options: FormatOptions
) -> pa.Array:
    """Return values of a source as a column of a table's type, with None as null.

    Raises InvalidInputError, naming the column, for a value that the type cannot hold.
    """
    if isinstance(options.time_unit, Mapping):
        options = replace(options, time_unit=options.time_unit.get(name))
    if unavailable_at(values, options.unavailable):
        raise unavailable(options.unavailable, name, "a part of a column is not taken from the stored row")
    if not any(v is not None for v in values):
        return repeated(None, arrow_type(kind), len(values))
    try:
        return _array(values, source, kind, options)
    except UnfitError as e:
        found = e.found if e.found is not None else _example(values)
        message, expected = str(e), e.expected or f"a value of {kind}"
        error = InvalidInputError(message, kind=e.kind, field=name, found=_shown(found, source), expected=expected)
        raise (error if e.option is None else OptionError.of(error, {e.option: [name]})) from e
    except InvalidInputError:
        raise  # of a field of a struct
    except _LIBRARY as e:
        message = f"a value does not fit the column ({str(e)[:150]})"
        found = _shown(_example(values), source)
        raise InvalidInputError(message, kind="message-value", field=name, found=found, expected=str(kind)) from e


def _array(values: Values, source: SourceType | None, kind: it.IcebergType, options: FormatOptions) -> pa.Array:
    if source is not None and source.name in DURATIONS:
        expected = "interval.handling.mode=string in the source"
        raise UnfitError("a duration has no type in a table", found=source.name, expected=expected)
    if isinstance(kind, it.DecimalType):
        return decimals(values, source, kind, options)
    if isinstance(kind, it.StructType | it.ListType | it.MapType):
        return _nested(values, source, kind, options)
    if isinstance(kind, it.DateType):
        return dates(values, source)
    if isinstance(kind, it.TimeType):
        return times(values, source, options)
    if isinstance(kind, it.TimestampType | it.TimestamptzType | it.TimestampNanoType | it.TimestamptzNanoType):
        return timestamps(values, source, arrow_type(kind), options)
    made = _PLAIN.get(type(kind))
    if made is None:
        if all(v is None for v in values):
            return pa.nulls(len(values), arrow_type(kind))
        raise UnfitError("no value of a message fits this type")
    return made(_Column(values, source, kind, options))


# --- plain values -----------------------------------------------------------------------------------------------------


class _Column(NamedTuple):
    values: Values
    source: SourceType | None
    kind: it.IcebergType
    options: FormatOptions


def _booleans(column: _Column) -> pa.Array:
    values = column.values
    # MySQL has no booleans: a column BOOLEAN is TINYINT(1) there.
    if int in check_types(values, bool, int):
        values = each(values, _boolean)
    return pa.array(values, pa.bool_())


def _boolean(value: int) -> bool:
    if value not in (0, 1):
        raise UnfitError("a number is not a boolean", found=value, expected="0 or 1")
    return bool(value)


def _integers(column: _Column) -> pa.Array:
    values, source, kind = column.values, column.source, column.kind
    if source is not None and source.name in (DECIMAL, VARIABLE_DECIMAL):  # MySQL's BIGINT UNSIGNED
        values = each(decimal_values(values, source), _integer_of_decimal)
    check_types(values, int)
    return pa.array(values, arrow_type(kind))


def _integer_of_decimal(value: Decimal) -> int:
    if value != value.to_integral_value(context=EXACT):
        raise UnfitError("a number with decimals is not an integer", found=value)
    return int(value)


def _floats(column: _Column) -> pa.Array:
    values, source, kind, options = column.values, column.source, column.kind, column.options
    is_decimal = source is not None and source.name in (DECIMAL, VARIABLE_DECIMAL)
    if is_decimal and source is not None:
        values = each(decimal_values(values, source), _exact_double)
    found = check_types(values, int, float, Decimal, str)
    if str in found:
        values = each(values, lambda v: _NOT_FINITE.get(v, v) if isinstance(v, str) else v)
        check_types(values, int, float, Decimal)
    elif float in found and not options.infinities and any(map(math.isinf, (v for v in values if type(v) is float))):
        raise UnfitError("a number is too large for a double", found=math.inf)
    if Decimal in found:
        values = each(values, _double)
    made = pa.array(values, pa.float64())
    return made if isinstance(kind, it.DoubleType) else _floats32(made)


def _floats32(made: pa.Array) -> pa.Array:
    small = made.cast(pa.float32())
    for before, after in zip(made, small, strict=True) if any(map(_is_infinite, small.to_pylist())) else ():
        if _is_infinite(after.as_py()) and not _is_infinite(before.as_py()):
            raise UnfitError("a number is too large for float", found=before.as_py())
    return small


def _is_infinite(value: float | None) -> bool:
    return value is not None and math.isinf(value)


def _double(value: Any) -> Any:
    if isinstance(value, Decimal):
        made = float(value)
        if math.isinf(made):
            raise UnfitError("a number is too large for a double", found=value)
        return made
    return value


def _exact_double(value: Decimal) -> float:
    made: float = _double(value)
    if Decimal(made) != value:
        expected = "a decimal column, or decimal.handling.mode=double in the source"
        raise UnfitError("a decimal has no equal double", found=value, expected=expected)
    return made


def _texts(column: _Column) -> pa.Array:
    values, source = column.values, column.source
    if source is not None and source.kind not in ("string", "unknown"):
        check_types(values)
    check_types(values, str)
    return pa.array(values, pa.string())


def _uuids(column: _Column) -> pa.Array:
    values = column.values
    check_types(values, str, bytes)
    stored = pa.array(each(values, _uuid), pa.binary(16))
    return pa.ExtensionArray.from_storage(pa.uuid(), stored)


def _uuid(value: str | bytes) -> bytes:
    if isinstance(value, bytes):
        return value
    if _UUID_TEXT.fullmatch(value) is None:
        raise UnfitError("a text is not a UUID", found=value)
    return UUID(value).bytes


def _bytes(column: _Column) -> pa.Array:
    values, source, kind, options = column.values, column.source, column.kind, column.options
    form = "base64" if source is not None and source.kind == "bytes" else options.binary
    if form is None and str in set(map(type, values)):
        # Many texts are both hex and base64, and binary.handling.mode says which.
        raise UnfitError(
            "it is not known how a text writes bytes",
            expected="option binary, or bytes in the schema",
            option="binary",
        )
    if source is not None and source.kind not in ("string", "bytes"):
        check_types(values)
    check_types(values, str, bytes)
    return pa.array(each(values, lambda v: v if isinstance(v, bytes) else _bytes_of(v, str(form))), arrow_type(kind))


def _bytes_of(text: str, form: str) -> bytes:
    try:
        if form == "hex":
            return binascii.unhexlify(text)
        standard = text.translate({45: 43, 95: 47}) if form == "base64-url-safe" else text
        return base64.b64decode(standard, validate=True)
    except ValueError as e:
        raise UnfitError(f"a text is not {form}", found=text, expected=form) from e


_PLAIN: dict[type, Callable[[_Column], pa.Array]] = {
    it.BooleanType: _booleans,
    it.IntegerType: _integers,
    it.LongType: _integers,
    it.FloatType: _floats,
    it.DoubleType: _floats,
    it.StringType: _texts,
    it.UUIDType: _uuids,
    it.BinaryType: _bytes,
    it.FixedType: _bytes,
}


# --- nested values ----------------------------------------------------------------------------------------------------


def _nested(values: Values, source: SourceType | None, kind: it.IcebergType, options: FormatOptions) -> pa.Array:
    if isinstance(kind, it.StructType):
        return _structs(values, source, kind, options)
    nulls = [v is None for v in values]
    if isinstance(kind, it.ListType):
        check_types(values, list)
        items = [item for value in values if value is not None for item in value]
        inner = _array_of(items, source and source.items, kind.element_field, options)
        offsets = _offsets(values)
        return pa.ListArray.from_arrays(offsets, inner, type=arrow_type(kind), mask=pa.array(nulls))
    assert isinstance(kind, it.MapType)
    check_types(values, dict, list)
    pairs = [pair for value in values if value is not None for pair in _pairs(value)]
    keys = _array_of([k for k, _ in pairs], source and source.keys, kind.key_field, options)
    items = _array_of([v for _, v in pairs], source and source.items, kind.value_field, options)
    return pa.MapArray.from_arrays(_offsets(values, nulls), keys, items, type=arrow_type(kind))


def _offsets(values: Values, nulls: list[bool] | None = None) -> pa.Array:
    ends = [0]
    for value in values:
        ends.append(ends[-1] + (0 if value is None else len(value)))
    return pa.array(ends, pa.int32(), mask=None if nulls is None else pa.array([*nulls, False]).to_numpy(False))


def _pairs(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.items())
    if any(type(pair) is not list or len(pair) != 2 for pair in value):
        raise UnfitError("a value is not a map", found=value)
    return value  # type: ignore[no-any-return]


def _structs(values: Values, source: SourceType | None, kind: it.StructType, options: FormatOptions) -> pa.Array:
    check_types(values, dict)
    names = {f.name for f in kind.fields}
    for value in values:
        if value is not None and not value.keys() <= names:
            raise UnfitError("a struct has a field that the column does not", found=sorted(value.keys() - names))
    made = []
    for field in kind.fields:
        inner = [None if v is None else v.get(field.name) for v in values]
        own = None if source is None else source.fields.get(field.name)
        column = column_of(inner, own, field.name, field.field_type, options)
        if field.required and any(i is None and v is not None for i, v in zip(inner, values, strict=True)):
            raise UnfitError("null in a required field of a struct", found=field.name)
        made.append(column)
    mask = pa.array([v is None for v in values])
    return pa.StructArray.from_arrays(made, fields=list(arrow_type(kind)), mask=mask)


def _array_of(values: Values, source: SourceType | None, field: it.NestedField, options: FormatOptions) -> pa.Array:
    if field.required and any(v is None for v in values):
        raise UnfitError("null in a required place of a list or map")
    return _array(values, source, field.field_type, options)


def _example(values: Values) -> Any:
    return next((v for v in values if v is not None), None)


def _shown(value: Any, source: SourceType | None) -> str:
    try:
        text = repr(value)[:100]
    except (ValueError, RecursionError):  # an integer of more digits than Python prints
        text = type(value).__name__
    return text if source is None else f"{text} of {source.shown}"
