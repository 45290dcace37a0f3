"""Read Delta checkpoints (classic, multi-part, and V2 with sidecars), and recognise log files by their names.

`log.py` begins at a checkpoint instead of the commits before it. This module opens no file: Parquet is read through a
file object.
Spec: Delta protocol, "Checkpoints", "Checkpoint naming schemes", "Sidecar File".
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deletekit.delta.actions import Actions, parse_actions
from deletekit.errors import DeletekitError, FormatError, is_storage_failure

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKSUM = re.compile(r"(\d{20})\.crc")
_CLASSIC = re.compile(r"(\d{20})\.checkpoint\.parquet")
_PART = re.compile(r"(\d{20})\.checkpoint\.(\d{10})\.(\d{10})\.parquet")
_V2 = re.compile(r"(\d{20})\.checkpoint\.[0-9a-fA-F-]{36}\.(?:json|parquet)")
# Each action has a path of its own, and paths and statistics do not compress to a hundredth.
_FREE_BYTES = 1 << 24
_MAX_RATIO = 100
_ROWS_AT_A_TIME = 4096
_WANTED = ("add", "metaData", "protocol", "sidecar")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFiles:
    """A complete checkpoint: its files in `_delta_log`, without sidecars."""

    version: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFiles:
    """The files of `_delta_log` by version. `checkpoints` are ascending; incomplete ones are left out."""

    commits: Mapping[int, str]
    checkpoints: tuple[CheckpointFiles, ...]
    checksums: Mapping[int, str]


def log_files(names: Iterable[str]) -> LogFiles:
    """Sort the file names of `_delta_log` (without its subfolders) by what they are. Ignore other files."""
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
    """Read the add, metaData, protocol and sidecar actions of a checkpoint or sidecar file.

    Raise FormatError, or UnsupportedError for an unknown storage type of a deletion vector.
    """
    try:
        return parse_actions(_rows(source))
    except DeletekitError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError, TypeError) as e:
        if is_storage_failure(e):
            raise
        raise FormatError("damaged Delta checkpoint", kind="delta-checkpoint", found=f"{type(e).__name__}: {e}") from e


def _rows(source: Any) -> Iterator[Mapping[str, Any]]:
    size = source.seek(0, 2)
    footer = pq.read_metadata(source)
    _check_limit("rows", footer.num_rows, size)
    names = [n for n in _WANTED if n in footer.schema.to_arrow_schema().names]
    text = [c.path for c in footer.schema if c.physical_type == "BYTE_ARRAY"]
    # INT96 in `stats_parsed` may be in years that nanoseconds cannot express. Text is kept as dictionaries until its
    # size is known: one long value may be in each row.
    file = pq.ParquetFile(source, metadata=footer, coerce_int96_timestamp_unit="us", read_dictionary=text)
    left = _FREE_BYTES + _MAX_RATIO * size
    for batch in file.iter_batches(_ROWS_AT_A_TIME, columns=names):
        left -= sum(map(_text_bytes, batch.columns))
        _check_limit("text", -left, 0)
        for name in names:
            yield from ({name: value} for value in batch.column(name).drop_null().to_pylist())


def _text_bytes(array: pa.Array) -> int:
    """Count the bytes of an array's text. A value counts once for each row that has it."""
    if pa.types.is_dictionary(array.type):
        return pc.sum(pc.binary_length(array.dictionary).take(array.indices)).as_py() or 0
    if pa.types.is_struct(array.type):
        return sum(map(_text_bytes, array.flatten()))
    if pa.types.is_map(array.type):
        return _text_bytes(array.keys) + _text_bytes(array.items)
    if pa.types.is_string(array.type):
        return pc.sum(pc.binary_length(array)).as_py() or 0
    return _text_bytes(array.values) if pa.types.is_list(array.type) else 0


def _check_limit(field: str, found: int, limit: int) -> None:
    if found > limit:
        message = "Delta checkpoint holds more than a file of its size can"
        shown, expected = (found, f"<= {limit}") if limit else (f"{found} over the limit", None)
        raise FormatError(message, kind="delta-checkpoint", field=field, found=shown, expected=expected)
