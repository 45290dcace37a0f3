"""List the table properties that deletekit knows: name, type, default and meaning of each, in one table.

A wrong value is refused by name, when it is set and when it is read. A property that asks for what deletekit does not
do is refused or warned of once, with the reason. Unknown properties are kept as they are.
Spec: https://iceberg.apache.org/docs/latest/configuration/; Java TableProperties. docs/properties.md is for users.
"""

import json
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from deletekit.errors import InvalidInputError
from deletekit.formats.metrics import metrics_mode
from deletekit.formats.parquet import BLOOM_FILTERS_FROM, PAGE_ROWS_FROM, PYARROW
from deletekit.table.modes import DELETE_MODES

_MIB = 1 << 20
_FOREVER = 2**63 - 1

NAME_MAPPING = "schema.name-mapping.default"
READABLE_BY = "deletekit.readable-by"


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


def _share(text: str) -> float:
    if not re.fullmatch(r"[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]{1,3})?", text) or not 0 < float(text) < 1:
        raise ValueError(text)
    return float(text)


def _location(text: str) -> str:
    if not text.strip("/"):
        raise ValueError(text)
    return text.rstrip("/")


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise ValueError(text)
    return names


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
    ("page-row-limit", _number(1), "20000", "most rows of a page"),
    ("page-version", _one_of("v1", "v2"), "v1", "version of data pages"),
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
    (
        "write.distribution-mode",
        _one_of("none", "hash", "range"),
        None,
        "range for sorted tables, hash for partitioned ones, else none",
    ),
    ("write.data.path", _LOCATION, None, "where data files go: <location>/data"),
    ("write.object-storage.enabled", _BOOLEAN, "false", "whether paths of data files begin with a hash"),
    ("write.object-storage.partitioned-paths", _BOOLEAN, "true", "whether such paths also name the partition"),
    ("write.metadata.path", _LOCATION, None, "where metadata files go: <location>/metadata"),
    *(("write.parquet." + name, kind, default, does) for name, kind, default, does in _PARQUET),
    ("write.parquet.bloom-filter-max-bytes", _number(1), str(_MIB), "most bytes of a Bloom filter of a row group"),
    *(
        ("write.delete.parquet." + name, kind, None, f"{does} in delete files; as write.parquet.{name}")
        for name, kind, _, does in _PARQUET
    ),
    ("write.manifest.compression-codec", _AVRO_CODEC, "gzip", "codec of manifests"),
    ("write.metadata.compression-codec", _one_of("none", "gzip"), "none", "codec of metadata files"),
    ("write.metadata.previous-versions-max", _number(0), "100", "metadata files that a table remembers"),
    ("write.metadata.delete-after-commit.enabled", _BOOLEAN, "false", "remove metadata files that are forgotten"),
    ("write.metadata.metrics.default", _METRICS, "truncate(16)", "metrics of a column in manifests"),
    ("write.metadata.metrics.max-inferred-column-defaults", _number(0), "100", "columns with metrics without that"),
    ("write.summary.partition-limit", _number(0), "0", "most changed partitions that a summary describes"),
    ("commit.retry.num-retries", _number(0), None, "how often a lost race is tried again"),
    ("commit.retry.min-wait-ms", _number(0), "100", "first wait before that"),
    ("commit.retry.max-wait-ms", _number(0), "2000", "longest wait before that"),
    ("commit.retry.total-timeout-ms", _number(0), "1800000", "when trying again ends"),
    ("commit.status-check.num-retries", _number(0), "3", "how often to look whether a commit landed"),
    ("commit.status-check.min-wait-ms", _number(0), "1000", "first wait before that"),
    ("commit.status-check.max-wait-ms", _number(0), "60000", "longest wait before that"),
    ("commit.status-check.total-timeout-ms", _number(0), "1800000", "when looking ends"),
    ("commit.manifest.target-size-bytes", _number(1), str(8 * _MIB), "bytes of a merged manifest"),
    ("commit.manifest-merge.enabled", _BOOLEAN, "true", "whether a commit merges small manifests"),
    ("commit.manifest.min-count-to-merge", _number(1), "100", "how many manifests the newest is merged with"),
    ("history.expire.max-snapshot-age-ms", _number(0), str(5 * 24 * 3_600_000), "age at which snapshots expire"),
    ("history.expire.min-snapshots-to-keep", _number(1), "1", "newest snapshots of a branch that never do"),
    ("history.expire.max-ref-age-ms", _number(0), str(_FOREVER), "age at which branches and tags expire"),
    ("gc.enabled", _BOOLEAN, "true", "whether files may be removed: no other table uses them"),
    ("read.split.target-size", _number(1), str(128 * _MIB), "bytes that one Spark task reads"),
    ("read.split.adaptive-size.enabled", _BOOLEAN, "true", "whether a small table is read in as many tasks as cores"),
    ("read.split.open-file-cost", _number(1), str(4 * _MIB), "bytes that opening a file counts as"),
    (READABLE_BY, Kind("names of engines, with commas", _names), None, "who must read each change of rows right"),
    (NAME_MAPPING, Kind("a JSON list", _json_list), None, "ids of columns in files without ids"),
)
PROPERTIES: Mapping[str, Property] = {row[0]: Property(*row) for row in _TABLE}
"""Every property that deletekit reads, by name."""

COLUMN_METRICS = "write.metadata.metrics.column."
BLOOM_FILTER = "write.parquet.bloom-filter-enabled.column."
BLOOM_FILTER_FPP = "write.parquet.bloom-filter-fpp.column."
BLOOM_FILTER_NDV = "write.parquet.bloom-filter-ndv.column."
DICTIONARY = "write.parquet.dict-encoding-enabled.column."
STATISTICS = "write.parquet.stats-enabled.column."
_COLUMN_TABLE: tuple[tuple[str, Kind, str | None, str], ...] = (
    (COLUMN_METRICS, _METRICS, None, "metrics of one column in manifests"),
    (BLOOM_FILTER, _BOOLEAN, "false", "whether a column has a Bloom filter"),
    (BLOOM_FILTER_FPP, Kind("a number between 0 and 1", _share), "0.01", "how often the filter may be wrong"),
    (BLOOM_FILTER_NDV, _number(1), None, "distinct values that the filter is made for; else the rows"),
    (DICTIONARY, _BOOLEAN, "true", "whether a column may be encoded by a dictionary"),
    (STATISTICS, _BOOLEAN, "true", "whether Parquet has statistics of a column"),
)
COLUMN_PROPERTIES: Mapping[str, Property] = {row[0]: Property(*row) for row in _COLUMN_TABLE}
"""Those that end in the name of a column, by how they begin."""

_JAVA_WRITER = "pyarrow's writer has no such setting"
UNHEEDED: Mapping[str, str] = {
    "write.location-provider.impl": "deletekit runs no Java class; files go where the table's other properties say",
    "write.parquet.bloom-filter-adaptive-enabled": _JAVA_WRITER,
    "write.parquet.shred-variants": "deletekit writes no variant columns",
    "write.manifest.compression-level": "manifests are written with the codec's own level",
    **{f"write.{v}.distribution-mode": f"{v} writes rows where it found them" for v in ("delete", "update", "merge")},
}
"""Properties about what deletekit does that it does not heed, and why. A table that has one is warned of, once."""

NEWER_PYARROW: Mapping[str, int] = {
    "write.parquet.page-row-limit": PAGE_ROWS_FROM,
    "write.delete.parquet.page-row-limit": PAGE_ROWS_FROM,
    BLOOM_FILTER: BLOOM_FILTERS_FROM,
}
"""Properties, or how those of columns begin, that are warned of too if pyarrow is older than this release."""

REFUSED: Mapping[str, str] = {
    "write.object-storage.path": "write.data.path; Iceberg has removed this one",
    "write.folder-storage.path": "write.data.path; Iceberg has removed this one",
    "encryption.key-id": "nothing: deletekit writes no encrypted files",
    "encryption.data-key-length": "nothing: deletekit writes no encrypted files",
}
"""Properties that no table may have that deletekit writes to, and what to set instead."""

_COMPUTED = "nothing: it is computed from the table"
RESERVED: Mapping[str, str] = {
    "format-version": "format_version= of create_table, or upgrade_format_version",
    "uuid": "nothing: it is fixed",
    "snapshot-count": _COMPUTED,
    "current-snapshot-id": _COMPUTED,
    "current-snapshot-summary": _COMPUTED,
    "current-snapshot-timestamp-ms": _COMPUTED,
    "current-schema": _COMPUTED,
    "default-partition-spec": _COMPUTED,
    "default-sort-order": "sort_by= of create_table, or set_sort_order",
}
"""Names that are not properties of a table, and what to use instead (Java TableProperties.RESERVED_PROPERTIES)."""

_warned: set[str] = set()


def value_of(properties: Mapping[str, str], name: str) -> Any:
    """Return a known property's value, or its default. Raises InvalidInputError for a wrong value."""
    known = _known(name)
    assert known is not None, name
    text = properties.get(name, known.default)
    return None if text is None else _parsed(name, text, known.kind)


def check_properties(properties: Mapping[str, Any]) -> None:
    """Raise InvalidInputError for a wrong value of a known property, or a name that is not a table property."""
    for name, text in properties.items():
        if not isinstance(text, str):
            raise InvalidInputError("properties are text", kind="property", field=name, found=text, expected="str")
        if name in RESERVED:
            raise InvalidInputError("this is not a property of a table", "property", name, text, RESERVED[name])
        known = _known(name)
        if known is not None:
            _parsed(name, text, known.kind)
    check_heeded(properties)


def check_heeded(properties: Mapping[str, str]) -> None:
    """Raise InvalidInputError for a property that no writer may pass over; warn, once a process, of one that we do."""
    for name in properties.keys() & REFUSED.keys():
        raise InvalidInputError("this property is not supported", "property", name, properties[name], REFUSED[name])
    for name in sorted(properties.keys() - _warned):
        why = _unheeded(name)
        if why and properties[name].lower() not in ("false", "none"):
            _warned.add(name)
            warnings.warn(f"the table property {name} has no effect: {why}", stacklevel=2)


def columns_with(properties: Mapping[str, str], prefix: str) -> dict[str, Any]:
    """Return the values of a property of columns, by column. Raises InvalidInputError for a wrong value."""
    names = [name for name in properties if name.startswith(prefix)]
    return {name.removeprefix(prefix): value_of(properties, name) for name in names}


def _known(name: str) -> Property | None:
    return PROPERTIES.get(name) or next((p for begin, p in COLUMN_PROPERTIES.items() if name.startswith(begin)), None)


def _unheeded(name: str) -> str | None:
    """Return why a property has no effect; None if it has, or is unknown."""
    for begin, release in NEWER_PYARROW.items():
        if release > PYARROW and (name == begin or (begin.endswith(".") and name.startswith(begin))):
            return f"pyarrow {pa.__version__} cannot write so, pyarrow {release} can"
    return UNHEEDED.get(name)


def _parsed(name: str, text: str, kind: Kind) -> Any:
    try:
        return kind.parse(text)
    except ValueError as e:
        raise InvalidInputError("bad property", kind="property", field=name, found=text, expected=kind.expected) from e
