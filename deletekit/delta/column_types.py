"""Map primitive column types between Delta and Iceberg, in both directions.

Spec: Delta protocol, "Primitive Types", "Type Widening"; Iceberg, "Primitive Types", "Schema Evolution".
"""

import re
from collections.abc import Iterable

from pyiceberg import types as it

from deletekit.errors import DeletekitError, UnsupportedError

_PRIMITIVES: dict[str, it.IcebergType] = {
    "string": it.StringType(),
    "long": it.LongType(),
    "integer": it.IntegerType(),
    "short": it.IntegerType(),
    "byte": it.IntegerType(),
    "float": it.FloatType(),
    "double": it.DoubleType(),
    "boolean": it.BooleanType(),
    "binary": it.BinaryType(),
    "date": it.DateType(),
    "timestamp": it.TimestamptzType(),
    "timestamp_ntz": it.TimestampType(),
}
# Reversed, so that the last name of an Iceberg type is the first one of the table above.
_DELTA_NAMES = {type(kind): name for name, kind in reversed(_PRIMITIVES.items())}
_INTEGERS = ("byte", "short", "integer", "long")
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")


def iceberg_type(name: str, column: str) -> it.IcebergType:
    """Return the Iceberg type for a Delta type name. Raise UnsupportedError, naming the column, if there is none."""
    if name in _PRIMITIVES:
        return _PRIMITIVES[name]
    if name == "void":
        return it.UnknownType()
    if match := _DECIMAL.fullmatch(name):
        return it.DecimalType(int(match[1]), int(match[2]))
    if re.fullmatch(r"(var)?char\(\d+\)", name) or name.startswith("string collate UTF8_BINARY"):
        return it.StringType()
    raise UnsupportedError("Delta column type is not supported", kind="delta-type", field=column, found=name)


def delta_type(kind: it.IcebergType, column: str) -> str:
    """Return the Delta type name for an Iceberg type. Raise UnsupportedError, naming the column, if there is none."""
    if isinstance(kind, it.DecimalType):
        return f"decimal({kind.precision},{kind.scale})"
    if type(kind) in _DELTA_NAMES:
        return _DELTA_NAMES[type(kind)]
    raise UnsupportedError("Delta has no such type", kind="delta-type", field=column, found=str(kind))


def is_promotion(before: str, after: str) -> bool:
    """Return whether Iceberg readers read old files right after Delta widened one type name to another."""
    if before in _INTEGERS and after in _INTEGERS:
        return _INTEGERS.index(before) <= _INTEGERS.index(after)
    old, new = _DECIMAL.fullmatch(before), _DECIMAL.fullmatch(after)
    if old is not None and new is not None:
        return old[2] == new[2] and int(old[1]) <= int(new[1])
    return (before, after) == ("float", "double")


def can_be_promoted(old: it.IcebergType, new: it.IcebergType) -> bool:
    """Return whether Iceberg lets a column change from one type to another. Fields of structs are not compared."""
    if isinstance(old, it.UnknownType):
        return True
    if not (old.is_primitive and new.is_primitive):
        return type(old) is type(new)
    if isinstance(old, it.DecimalType) and isinstance(new, it.DecimalType):
        return old.scale == new.scale and old.precision <= new.precision
    promoted = (type(old), type(new)) in ((it.IntegerType, it.LongType), (it.FloatType, it.DoubleType))
    return old == new or promoted


def check_case(names: Iterable[str], error: type[DeletekitError], message: str) -> None:
    """Raise an error if two columns of one struct differ only in case. Delta's readers refuse such tables."""
    spelled: dict[str, str] = {}
    for name in names:
        other = spelled.setdefault(name.lower(), name)
        if other != name:
            raise error(message, kind="delta-schema", field=name, found=f"{other} and {name}")
