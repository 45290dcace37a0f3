"""Delta checkpoints: classic, in several parts, and V2 with sidecars; the names of log files.

Law: names and bytes -> values. Parquet is read through the file object that is given; nothing is opened.
Spec: Delta protocol, "Checkpoints", "Checkpoint naming schemes", "Sidecar File".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deletekit.delta.actions import Actions, parse_actions, parse_commit
from deletekit.errors import FormatError, is_storage_failure

__all__ = ["CheckpointFiles", "LogFiles", "log_files", "read_checkpoint_json", "read_checkpoint_parquet"]

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKSUM = re.compile(r"(\d{20})\.crc")
_CLASSIC = re.compile(r"(\d{20})\.checkpoint\.parquet")
_PART = re.compile(r"(\d{20})\.checkpoint\.(\d{10})\.(\d{10})\.parquet")
_V2 = re.compile(r"(\d{20})\.checkpoint\.[0-9a-fA-F-]{36}\.(?:json|parquet)")
# Each action has a path of its own, and paths and statistics do not compress to a hundredth.
_FREE_BYTES = 1 << 24
_MAX_RATIO = 100
_WANTED = ("add", "metaData", "protocol", "sidecar")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFiles:
    """A whole checkpoint: the files of `_delta_log` that it consists of, sidecars apart."""

    version: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFiles:
    """What `_delta_log` has, by version. `checkpoints` are ascending; incomplete ones are left out."""

    commits: Mapping[int, str]
    checkpoints: tuple[CheckpointFiles, ...]
    checksums: Mapping[int, str]

    @property
    def latest(self) -> int | None:
        """The newest version that commits and checkpoints know of; None for no table."""
        versions = [*self.commits, *(c.version for c in self.checkpoints)]
        return max(versions, default=None)


def log_files(names: Iterable[str]) -> LogFiles:
    """Sort the file names of `_delta_log` (without its subfolders); others are ignored."""
    commits: dict[int, str] = {}
    checksums: dict[int, str] = {}
    whole: list[CheckpointFiles] = []
    parts: dict[tuple[int, int], dict[int, str]] = {}
    for name in sorted(names):
        if match := _COMMIT.fullmatch(name):
            commits[int(match[1])] = name
        elif match := _CHECKSUM.fullmatch(name):
            checksums[int(match[1])] = name
        elif match := _CLASSIC.fullmatch(name) or _V2.fullmatch(name):
            whole.append(CheckpointFiles(version=int(match[1]), names=(name,)))
        elif match := _PART.fullmatch(name):
            parts.setdefault((int(match[1]), int(match[3])), {})[int(match[2])] = name
    for (version, count), found in parts.items():
        if sorted(found) == list(range(1, count + 1)):
            whole.append(CheckpointFiles(version=version, names=tuple(found[i] for i in sorted(found))))
    return LogFiles(commits=commits, checkpoints=tuple(sorted(whole, key=lambda c: c.version)), checksums=checksums)


def read_checkpoint_parquet(source: Any) -> Actions:
    """Add, metaData, protocol and sidecar actions of a checkpoint or sidecar file. Raises FormatError."""
    try:
        size = source.seek(0, 2)
        footer = pq.read_metadata(source)
        _check_limit("rows", footer.num_rows, size)
        # INT96 in `stats_parsed`, in years that nanoseconds do not reach.
        file = pq.ParquetFile(source, metadata=footer, coerce_int96_timestamp_unit="us", read_dictionary=_texts(footer))
        names = [n for n in _WANTED if n in file.schema_arrow.names]
        rows: list[Mapping[str, Any]] = []
        left = _FREE_BYTES + _MAX_RATIO * size
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=names)
            left -= sum(_spread(chunk) for column in table.columns for chunk in column.chunks)
            _check_limit("text", -left, 0)
            for name in names:
                column = table.column(name)
                rows += [{name: value} for value in column.filter(pc.is_valid(column)).to_pylist()]
    except FormatError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError, TypeError) as e:
        if is_storage_failure(e):
            raise
        raise FormatError("damaged Delta checkpoint", kind="delta-checkpoint", found=f"{type(e).__name__}: {e}") from e
    return parse_actions(rows)


def _texts(footer: Any) -> list[str]:
    """Columns of text. They are kept as dictionaries until it is known how much their rows come to."""
    if not footer.num_row_groups:
        return []
    columns = (footer.row_group(0).column(i) for i in range(footer.num_columns))
    return [c.path_in_schema for c in columns if c.physical_type == "BYTE_ARRAY"]


def _spread(array: pa.Array) -> int:
    """Bytes of an array's text, a value counted each time that a row has it."""
    if pa.types.is_dictionary(array.type):
        return pc.sum(pc.binary_length(array.dictionary).take(array.indices)).as_py() or 0
    if pa.types.is_struct(array.type):
        return sum(_spread(array.field(i)) for i in range(array.type.num_fields))
    if pa.types.is_map(array.type):
        return _spread(array.keys) + _spread(array.items)
    return _spread(array.values) if pa.types.is_list(array.type) else 0


def _check_limit(field: str, found: int, limit: int) -> None:
    if found > limit:
        raise FormatError(
            "Delta checkpoint says more than a file of its size can",
            kind="delta-checkpoint",
            field=field,
            found=f"{found} over the limit" if not limit else found,
            expected=f"<= {limit}" if limit else None,
        )


def read_checkpoint_json(data: bytes) -> Actions:
    """The same of a V2 checkpoint in JSON. Raises FormatError."""
    return parse_commit(data)
