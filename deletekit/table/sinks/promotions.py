"""Find what a staging branch and its target had in common when the branch was last promoted.

The next promotion compares the branch with it. The tag `deletekit-promoted-<branch>`, for another target than `main`
`deletekit-promoted-<branch>@<target>`, keeps it from expiring, and replaces the history that expired.
"""

from deletekit.table.metadata import MAIN, Snapshot, TableMetadata
from deletekit.table.sinks.batches import PROMOTED_BRANCH, SINK_ID, promoted_snapshot

_TAG = "deletekit-promoted-"


def promoted_tag(branch: str, ref: str = MAIN) -> str:
    """Return the name of the tag on what a branch and its target had in common after the last promotion."""
    return f"{_TAG}{branch}" if ref == MAIN else f"{_TAG}{branch}@{ref}"


def promotion_base(metadata: TableMetadata, branch: str, ref: str = MAIN) -> Snapshot | None:
    """Return the newest snapshot whose rows the target `ref` has and the branch started from; None if it is unknown.

    It is the newest event in the target's history: a snapshot that the branch has too, or a promotion of the branch. If
    the event has expired, or the branch's history, in which a newer common snapshot may be, the tag says what it was.
    """
    target, head = (metadata.snapshot_of_ref(name) for name in (ref, branch))
    theirs, ours = (list(metadata.ancestors(s.snapshot_id if s else None)) for s in (target, head))
    own = {s.snapshot_id for s in ours}
    known: set[int] = set()
    for snapshot in theirs:
        if snapshot.snapshot_id in own:
            return snapshot
        known.add(snapshot.snapshot_id)
        promoted = promoted_snapshot(snapshot) if snapshot.summary.get(PROMOTED_BRANCH) == branch else None
        if promoted is not None:
            known.add(promoted)
            if promoted in own or (promoted in metadata.snapshots and not _may_follow(ours, None)):
                return metadata.snapshots[promoted]
            break
    else:
        promoted = None
    tag = metadata.refs.get(promoted_tag(branch, ref))
    if tag is None:
        return None
    base = metadata.snapshots[int(tag["snapshot-id"])]
    in_target = base.snapshot_id in known or (promoted is None and _may_follow(theirs, base))
    return base if in_target and (base.snapshot_id in own or _may_follow(ours, base)) else None


def promotion_tags(metadata: TableMetadata) -> dict[str, int | None]:
    """Return the tags that must move before history expires, each with its snapshot; None: it must be dropped.

    Only the history shows that a branch was rolled back, made again or moved by hand. A branch gets its tag for `main`
    here if a sink writes to it, or if it was promoted only to others.
    """
    branches = [name for name, ref in metadata.refs.items() if ref.get("type") == "branch"]
    tags = {name: name.removeprefix(_TAG).partition("@") for name in metadata.refs if name.startswith(_TAG)}
    pairs = {name: (branch, ref or MAIN) for name, (branch, _, ref) in tags.items()}
    promoted = {branch for branch, _ in pairs.values()}
    staging = [b for b in branches if b != MAIN and (b in promoted or _has_own_batch(metadata, b))]
    pairs |= {promoted_tag(branch): (branch, MAIN) for branch in staging}
    moved: dict[str, int | None] = {}
    for name, (branch, ref) in pairs.items():
        is_there = branch in branches and ref in branches
        base = promotion_base(metadata, branch, ref) if is_there else None
        tag = metadata.refs.get(name)
        found = None if tag is None else int(tag["snapshot-id"])
        wanted = None if base is None else base.snapshot_id
        if wanted != found:
            moved[name] = wanted
    return moved


def _has_own_batch(metadata: TableMetadata, branch: str) -> bool:
    """Tell whether a sink has written to a branch since it left main."""
    main = metadata.snapshot_of_ref(MAIN)
    theirs = {s.snapshot_id for s in metadata.ancestors(main.snapshot_id if main else None)}
    ours = metadata.ancestors(int(metadata.refs[branch]["snapshot-id"]))
    return any(SINK_ID in s.summary for s in ours if s.snapshot_id not in theirs)


def _may_follow(line: list[Snapshot], older: Snapshot | None) -> bool:
    """Tell whether ancestors behind a line have expired, and a snapshot may be one of them."""
    oldest = line[-1] if line else None
    if oldest is None or oldest.parent_snapshot_id is None:
        return False
    return older is None or oldest.sequence_number == 0 or older.sequence_number < oldest.sequence_number
