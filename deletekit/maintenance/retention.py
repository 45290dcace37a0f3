"""Decide which snapshots and refs have expired, by the table's retention policy and what a call overrides.

The head of a retained ref never expires.
Spec: "Snapshot Retention Policy"; properties `history.expire.*`; Java RemoveSnapshots.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deletekit.errors import InvalidInputError
from deletekit.table.metadata import MAIN, Snapshot, TableMetadata
from deletekit.table.properties import value_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryRequest:
    """What a call asks for. None means the table's property. `now_ms` is when the call began.

    Without `by_policy`, only `snapshot_ids` expire, except heads.
    """

    now_ms: int
    older_than_ms: int | None = None
    retain_last: int | None = None
    snapshot_ids: tuple[int, ...] = ()
    by_policy: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """Snapshots and refs to remove, in the metadata's order."""

    snapshots: tuple[Snapshot, ...] = ()
    refs: tuple[str, ...] = ()


def plan_expiry(metadata: TableMetadata, request: ExpiryRequest) -> Expiry:
    """Decide what expires, as Java's RemoveSnapshots does.

    A ref expires by the age of its head; `main` never does. A branch keeps its newest ancestors: as many as its
    `min-snapshots-to-keep`, and all that are young enough. A tag keeps its one snapshot. A snapshot that no ref leads
    to (staged, or rolled back from) is kept while it is young. Named ids expire whatever their age.

    Raises InvalidInputError for a named snapshot that is the head of a retained ref, or a property that is no number.
    """
    if not request.by_policy:
        wanted = set(request.snapshot_ids) - {int(ref["snapshot-id"]) for ref in metadata.refs.values()}
        return Expiry(snapshots=tuple(s for i, s in metadata.snapshots.items() if i in wanted))
    older_than = request.older_than_ms
    if older_than is None:
        older_than = request.now_ms - value_of(metadata.properties, "history.expire.max-snapshot-age-ms")
    keep = request.retain_last or value_of(metadata.properties, "history.expire.min-snapshots-to-keep")
    refs = _retained_refs(metadata, request.now_ms)
    heads = {int(ref["snapshot-id"]): name for name, ref in refs.items()}
    for snapshot_id in request.snapshot_ids:
        if snapshot_id in heads:
            raise InvalidInputError(
                "snapshot is the head of a branch or tag, and cannot expire",
                kind="referenced-snapshot",
                field="snapshot_ids",
                found=f"{snapshot_id}, of {heads[snapshot_id]}",
            )
    retained, referenced = set(heads), set(heads)
    for ref in refs.values():
        if ref.get("type") == "branch":
            limit = _cut_off(ref, request.now_ms, older_than)
            retained |= set(_kept_by_branch(metadata, ref, limit, keep))
            referenced |= {s.snapshot_id for s in metadata.ancestors(int(ref["snapshot-id"]))}
    retained |= {i for i, s in metadata.snapshots.items() if i not in referenced and s.timestamp_ms >= older_than}
    named = set(request.snapshot_ids)
    expired = tuple(s for i, s in metadata.snapshots.items() if i not in retained or i in named)
    return Expiry(snapshots=expired, refs=tuple(name for name in metadata.refs if name not in refs))


def _retained_refs(metadata: TableMetadata, now_ms: int) -> dict[str, Mapping[str, Any]]:
    longest = value_of(metadata.properties, "history.expire.max-ref-age-ms")
    out = {}
    for name, ref in metadata.refs.items():
        allowed = ref.get("max-ref-age-ms")
        age = now_ms - metadata.snapshots[int(ref["snapshot-id"])].timestamp_ms
        if name == MAIN or age <= (longest if allowed is None else int(allowed)):
            out[name] = ref
    return out


def _cut_off(branch: Mapping[str, Any], now_ms: int, default: int) -> int:
    own = branch.get("max-snapshot-age-ms")
    return default if own is None else now_ms - int(own)


def _kept_by_branch(metadata: TableMetadata, branch: Mapping[str, Any], older_than: int, keep: int) -> Iterator[int]:
    """Yield the kept ancestors, newest first. The first that is neither among the newest nor young ends them (Java)."""
    own = branch.get("min-snapshots-to-keep")
    least = keep if own is None else int(own)
    for i, snapshot in enumerate(metadata.ancestors(int(branch["snapshot-id"]))):
        if i >= least and snapshot.timestamp_ms < older_than:
            return
        yield snapshot.snapshot_id
