"""List the table properties that deletekit knows: name, type, default and meaning of each, in one table.

A wrong value is refused by name, when it is set and when it is read. Unknown properties are kept as they are.
Spec: https://iceberg.apache.org/docs/latest/configuration/
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from deletekit.errors import InvalidInputError
from deletekit.formats.metrics import metrics_mode
from deletekit.table.modes import DELETE_MODES

_MIB = 1 << 20
_FOREVER = 2**63 - 1

NAME_MAPPING = "schema.name-mapping.default"


@dataclass(frozen=True, slots=True)
class Kind:
    """The type of a property. `parse` raises ValueError for a wrong text; `expected` describes the right ones."""

    expected: str
    parse: Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class Property:
    """One property. `default` is None if there is none, or if it depends on the table, as `does` then says."""

    name: str
    kind: Kind
    default: str | None
    does: str


def _number(least: int) -> Kind:
    def parse(text: str) -> int:
        # Not int() alone, which takes "1_000", " 7" and the digits of every script.
        if not re.fullmatch(r"-?[0-9]{1,19}", text) or int(text) < least:
            raise ValueError(text)
        return int(text)

    return Kind(f"a whole number, {least} or more", parse)


def _one_of(*values: str) -> Kind:
    def parse(text: str) -> str:
        if text.lower() not in values:
            raise ValueError(text)
        return text.lower()

    return Kind(", ".join(values[:-1]) + f" or {values[-1]}", parse)


def _location(text: str) -> str:
    if not text.strip("/"):
        raise ValueError(text)
    return text.rstrip("/")


def _json_list(text: str) -> str:
    if not text.lstrip().startswith("["):
        raise ValueError(text)
    json.loads(text)
    return text


_BOOLEAN = Kind("true or false", lambda text: _one_of("true", "false").parse(text) == "true")
_LOCATION = Kind("a location", _location)
_MODE = _one_of(*DELETE_MODES)
_ISOLATION = _one_of("serializable", "snapshot")
_FORMAT = _one_of("parquet", "orc", "avro")
_METRICS = Kind("none, counts, truncate(N) or full", metrics_mode)
_CODEC = _one_of("zstd", "gzip", "snappy", "lz4", "brotli", "none", "uncompressed")
_AVRO_CODEC = _one_of("gzip", "deflate", "zstd", "snappy", "uncompressed")

_PARQUET = (
    ("compression-codec", _CODEC, "zstd", "codec of column chunks"),
    ("compression-level", _number(-100), None, "level of the codec; the codec's own without it"),
    ("row-group-limit", _number(1), str(_MIB), "most rows of a row group"),
    ("row-group-size-bytes", _number(1), str(128 * _MIB), "most bytes of a row group in memory, before it is encoded"),
    ("page-size-bytes", _number(1), str(_MIB), "bytes of a page"),
    ("dict-size-bytes", _number(1), str(2 * _MIB), "most bytes of a dictionary page"),
)
_TABLE: tuple[tuple[str, Kind, str | None, str], ...] = (
    *((f"write.{v}.mode", _MODE, "copy-on-write", f"how {v} deletes rows") for v in ("delete", "update", "merge")),
    *(
        (f"write.{v}.isolation-level", _ISOLATION, "serializable", f"what {v} sees of commits meanwhile")
        for v in ("delete", "update", "merge")
    ),
    ("write.delete.granularity", _one_of("file", "partition"), "partition", "what a position delete file covers"),
    ("write.format.default", _FORMAT, "parquet", "format of data files; deletekit writes parquet"),
    ("write.delete.format.default", _FORMAT, "parquet", "format of delete files; deletekit writes parquet"),
    ("write.target-file-size-bytes", _number(1), str(512 * _MIB), "bytes of a data file, encoded"),
    ("write.delete.target-file-size-bytes", _number(1), str(64 * _MIB), "bytes of a delete file"),
    ("write.distribution-mode", _one_of("none", "hash", "range"), None, "hash for partitioned tables, else none"),
    ("write.data.path", _LOCATION, None, "where data files go: <location>/data"),
    ("write.metadata.path", _LOCATION, None, "where metadata files go: <location>/metadata"),
    *(("write.parquet." + name, kind, default, does) for name, kind, default, does in _PARQUET),
    *(
        ("write.delete.parquet." + name, kind, None, f"{does} in delete files; as write.parquet.{name}")
        for name, kind, _, does in _PARQUET
    ),
    ("write.manifest.compression-codec", _AVRO_CODEC, "gzip", "codec of manifests"),
    ("write.metadata.compression-codec", _one_of("none", "gzip"), "none", "codec of metadata files"),
    ("write.metadata.previous-versions-max", _number(0), "100", "metadata files that a table remembers"),
    ("write.metadata.delete-after-commit.enabled", _BOOLEAN, "false", "remove metadata files that are forgotten"),
    ("write.metadata.metrics.default", _METRICS, "truncate(16)", "metrics of a column in manifests"),
    ("write.summary.partition-limit", _number(0), "0", "most changed partitions that a summary describes"),
    ("commit.retry.num-retries", _number(0), "4", "how often a lost race is tried again"),
    ("commit.retry.min-wait-ms", _number(0), "100", "first wait before that"),
    ("commit.retry.max-wait-ms", _number(0), "60000", "longest wait before that"),
    ("commit.retry.total-timeout-ms", _number(0), "1800000", "when trying again ends"),
    ("commit.status-check.num-retries", _number(0), "3", "how often to look whether a commit landed"),
    ("commit.status-check.min-wait-ms", _number(0), "1000", "first wait before that"),
    ("commit.status-check.max-wait-ms", _number(0), "60000", "longest wait before that"),
    ("commit.status-check.total-timeout-ms", _number(0), "1800000", "when looking ends"),
    ("commit.manifest.target-size-bytes", _number(1), str(8 * _MIB), "bytes of a rewritten manifest"),
    ("history.expire.max-snapshot-age-ms", _number(0), str(5 * 24 * 3_600_000), "age at which snapshots expire"),
    ("history.expire.min-snapshots-to-keep", _number(1), "1", "newest snapshots of a branch that never do"),
    ("history.expire.max-ref-age-ms", _number(0), str(_FOREVER), "age at which branches and tags expire"),
    ("gc.enabled", _BOOLEAN, "true", "whether files may be removed: no other table uses them"),
    ("read.split.target-size", _number(1), str(128 * _MIB), "bytes that one Spark task reads"),
    ("read.split.open-file-cost", _number(1), str(4 * _MIB), "bytes that opening a file counts as"),
    (NAME_MAPPING, Kind("a JSON list", _json_list), None, "ids of columns in files without ids"),
)
PROPERTIES: Mapping[str, Property] = {row[0]: Property(*row) for row in _TABLE}
"""Every property that deletekit reads, by name."""

COLUMN_METRICS = "write.metadata.metrics.column."
_RESERVED = {
    "format-version": "format_version= of create_table, or upgrade_format_version",
    "uuid": "nothing: it is fixed",
}


def value_of(properties: Mapping[str, str], name: str) -> Any:
    """Return a known property's value, or its default. Raises InvalidInputError for a wrong value."""
    known = _known(name)
    assert known is not None, name
    text = properties.get(name, known.default)
    return None if text is None else _parsed(name, text, known.kind)


def check_properties(properties: Mapping[str, Any]) -> None:
    """Raise InvalidInputError for a wrong value of a known property, or a name that is no table property."""
    for name, text in properties.items():
        if not isinstance(text, str):
            raise InvalidInputError("properties are text", kind="property", field=name, found=text, expected="str")
        if name in _RESERVED:
            raise InvalidInputError(
                "this is no property of a table", kind="property", field=name, found=text, expected=_RESERVED[name]
            )
        known = _known(name)
        if known is not None:
            _parsed(name, text, known.kind)


def _known(name: str) -> Property | None:
    if name.startswith(COLUMN_METRICS):
        return Property(name, _METRICS, None, "metrics of one column in manifests")
    return PROPERTIES.get(name)


def _parsed(name: str, text: str, kind: Kind) -> Any:
    try:
        return kind.parse(text)
    except ValueError as e:
        raise InvalidInputError("bad property", kind="property", field=name, found=text, expected=kind.expected) from e
