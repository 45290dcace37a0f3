"""As much of a Delta Lake log as DeltaBridge shows: the actions of its JSON commits, and the bytes of a vector.

Law: read-only, and thin: no checkpoint is read. A log that needs one is refused by name.
Spec: Delta PROTOCOL.md, "Actions" and "Deletion Vectors".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from deletekit.errors import FormatError, NotFoundError, UnsupportedError

__all__ = ["Action", "Descriptor", "read_actions", "vector_bytes"]

LARGEST_COMMIT = 1 << 26
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """`deletionVector`: `storage_type` is `u` (a file by its uuid), `p` (by its path) or `i` (inline)."""

    storage_type: str
    path_or_inline: str
    offset: int | None
    size_in_bytes: int
    cardinality: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """An `add` or `remove` of a data file in one commit; `live` says that no later action takes its place."""

    version: int
    kind: str
    path: str
    vector: Descriptor | None
    records: int | None
    live: bool = False


def read_actions(root: Path, version: int | None = None) -> list[Action]:
    """Adds and removes of every commit up to a version. Raises NotFoundError, FormatError, UnsupportedError."""
    log = root / "_delta_log"
    found = {int(p.stem): p for p in log.glob("*.json") if re.fullmatch(r"\d{20}", p.stem)}
    if not found:
        raise NotFoundError("no Delta log here", kind="delta-log", file=str(root), expected="_delta_log/*.json")
    newest = max(found) if version is None else version
    if newest not in found:
        raise NotFoundError("no such version", kind="delta-version", file=str(log), field="version", found=newest)
    missing = [v for v in range(newest + 1) if v not in found]
    if missing:
        raise UnsupportedError(
            "the log begins with a checkpoint",
            kind="delta-checkpoint",
            file=str(log),
            field="version",
            found=missing[0],
        )
    actions = [action for v in range(newest + 1) for action in _commit(found[v], v)]
    last = {a.path: i for i, a in enumerate(actions) if a.kind == "add"}
    # A new vector is a remove and an add of one path in one commit: there the add stays.
    gone = {a.path: a.version for a in actions if a.kind == "remove"}
    return [
        Action(
            version=a.version,
            kind=a.kind,
            path=a.path,
            vector=a.vector,
            records=a.records,
            live=a.kind == "add" and last[a.path] == i and gone.get(a.path, -1) <= a.version,
        )
        for i, a in enumerate(actions)
    ]


def vector_bytes(root: Path, vector: Descriptor) -> bytes:
    """The vector itself, magic first, without frame. Raises NotFoundError, FormatError."""
    if vector.storage_type == "i":
        return _z85(vector.path_or_inline)[: vector.size_in_bytes]
    file = _file(root, vector)
    if not file.is_file():
        raise NotFoundError("deletion vector file is missing", kind="file-not-found", file=str(file))
    with file.open("rb") as source:
        source.seek((vector.offset or 0) + 4)
        data = source.read(vector.size_in_bytes)
    if len(data) != vector.size_in_bytes:
        raise FormatError(
            "deletion vector is cut off",
            kind="delta-frame",
            file=str(file),
            found=len(data),
            expected=vector.size_in_bytes,
        )
    return data


def _file(root: Path, vector: Descriptor) -> Path:
    if vector.storage_type == "p":
        return Path(vector.path_or_inline.removeprefix("file:"))
    prefix, encoded = vector.path_or_inline[:-20], vector.path_or_inline[-20:]
    raw = _z85(encoded)
    if len(raw) != 16 or not re.fullmatch(r"[A-Za-z0-9_-]*", prefix):
        raise _bad("pathOrInlineDv", vector.path_or_inline)
    return root / prefix / f"deletion_vector_{UUID(bytes=raw)}.bin"


def _commit(file: Path, version: int) -> list[Action]:
    if file.stat().st_size > LARGEST_COMMIT:
        raise UnsupportedError("commit is too large to show", kind="size", file=str(file), found=file.stat().st_size)
    out: list[Action] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            raw = json.loads(line)
            out += [_action(raw[kind], kind, version) for kind in ("add", "remove") if raw.get(kind) is not None]
        except (ValueError, TypeError, KeyError, AttributeError) as e:
            raise FormatError("bad Delta action", kind="delta-action", file=str(file), found=str(e)) from e
    return out


def _action(raw: Mapping[str, Any], kind: str, version: int) -> Action:
    vector = raw.get("deletionVector")
    stats = raw.get("stats")
    records = json.loads(stats).get("numRecords") if isinstance(stats, str) else None
    return Action(
        version=version,
        kind=kind,
        path=str(raw["path"]),
        vector=None if vector is None else _descriptor(vector),
        records=records if isinstance(records, int) else None,
    )


def _descriptor(raw: Mapping[str, Any]) -> Descriptor:
    kind, offset = raw["storageType"], raw.get("offset")
    size, cardinality = raw["sizeInBytes"], raw["cardinality"]
    if kind not in ("u", "i", "p"):
        raise _bad("storageType", kind)
    for name, number in (("offset", offset or 0), ("sizeInBytes", size), ("cardinality", cardinality)):
        if not isinstance(number, int) or number < 0:
            raise _bad(name, number)
    return Descriptor(
        storage_type=kind,
        path_or_inline=str(raw["pathOrInlineDv"]),
        offset=offset,
        size_in_bytes=size,
        cardinality=cardinality,
    )


def _z85(text: str) -> bytes:
    """Z85 (ZeroMQ RFC 32), which is not Python's base64.b85."""
    if len(text) % 5 or any(c not in _Z85 for c in text):
        raise _bad("pathOrInlineDv", text)
    out = b""
    for i in range(0, len(text), 5):
        number = 0
        for c in text[i : i + 5]:
            number = number * 85 + _Z85.index(c)
        if number >= 1 << 32:
            raise _bad("pathOrInlineDv", text)
        out += number.to_bytes(4, "big")
    return out


def _bad(field: str, found: Any) -> FormatError:
    return FormatError("bad deletion vector descriptor", kind="delta-descriptor", field=field, found=found)
