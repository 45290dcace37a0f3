"""Other manifests for the same files, as one value, and the snapshot they become.

Law: every live entry is carried on as it was read: sequence numbers, ids, first row id, partition values. No file comes
or goes, so no row does.
Spec: "Snapshots" (operation `replace`), "Manifest Entry Fields"; Java BaseRewriteManifests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deletekit.commit.change import Base, Produced, RowDelta, finish, new_identity
from deletekit.commit.manifests import write_entries
from deletekit.commit.summary import summarise
from deletekit.deletes.write_context import WriteContext
from deletekit.errors import InvalidInputError
from deletekit.formats.content_file import ManifestEntry
from deletekit.formats.manifest_list import ManifestContent, ManifestFile

__all__ = ["ManifestRewrite", "produce_rewrite"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRewrite:
    """Which manifests of a snapshot are replaced, and what the new ones hold.

    `replaced` are rows of the manifest list that the change was planned on; `manifests` the live entries of all of
    them, one group for each new manifest, each group of one partition spec and one kind of content.
    """

    replaced: tuple[ManifestFile, ...] = ()
    manifests: tuple[tuple[ManifestEntry, ...], ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.replaced


def produce_rewrite(
    base: Base, rewrite: ManifestRewrite, context: WriteContext, properties: Mapping[str, str] | None = None
) -> Produced:
    """Write the new manifests and the manifest list.

    Raises InvalidInputError when the new manifests do not hold exactly what the replaced ones hold; nothing is written
    then.
    """
    _check_same(base, rewrite)
    identity = new_identity(base.metadata)
    old = base.reader.manifests(base.snapshot) if base.snapshot else ()
    paths = {m.manifest_path for m in rewrite.replaced}
    kept = [m for m in old if m.manifest_path not in paths and m.has_live_files]
    written = [write_entries(context, [e.existing() for e in group], *identity) for group in rewrite.manifests]
    both = [*written, *kept]
    listed = [m for content in ManifestContent for m in both if m.content == content]
    counts = {"created": len(written), "kept": len(kept), "replaced": len(paths)}
    delta = RowDelta(operation="replace")
    processed = {"entries-processed": str(sum(map(len, rewrite.manifests)))}
    summary = summarise(delta, base.metadata, base.snapshot, counts, processed | dict(properties or {}))
    return finish(base, delta, context, identity, listed, summary)


def _check_same(base: Base, rewrite: ManifestRewrite) -> None:
    old = sorted(repr(e.data_file.identity) for m in rewrite.replaced for e in base.reader.entries(m) if e.is_live)
    new = sorted(repr(e.data_file.identity) for group in rewrite.manifests for e in group)
    if old != new:
        raise InvalidInputError(
            "a rewrite of manifests may not add or lose a file",
            kind="manifest-rewrite",
            found=f"{len(new)} entries",
            expected=f"the {len(old)} live ones of the replaced manifests",
        )
