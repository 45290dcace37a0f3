"""A Delta table beside the Iceberg table that follows it: the same data files, and each vector in both."""

from pathlib import Path
from typing import Any

from deletekit.course.drawings.svg import GAP, PAD, Canvas, Label, Svg, label
from deletekit.course.translations import Messages
from deletekit.course.views.delta_view import DeltaVersion, DeltaView, vector_pair
from deletekit.course.views.table_view import as_table_view
from deletekit.delta.actions import AddFile
from deletekit.errors import DeletekitError
from deletekit.table.table import Table

MOST_FILES = 6

Row = tuple[Label, Label, Label]


def delta_beside_iceberg(path: str | Path, table: Any, *, version: int | None = None, lang: str | None = None) -> Svg:
    """Draw the live data files and vectors of a Delta table, and what the Iceberg table has of them.

    Parameters
    ----------
    path: the folder of the Delta table.
    table: the Iceberg table that `sync_delta` made of it.
    version: of the Delta table; None is the one that the Iceberg table is at.

    Raises NotFoundError for a version that does not exist, FormatError for a damaged log.
    """
    say, view = Messages(lang), as_table_view(table)
    source = DeltaView(path, view, _no_sync)
    shown = source.at(source.version(version))
    if isinstance(shown.following, DeletekitError):
        raise shown.following
    at = shown.following.snapshot
    snapshot = view.aliases.snapshot_name(at.snapshot_id if at else None)
    canvas = Canvas(say("draw-delta-title", version=shown.state.version, snapshot=snapshot), say.lang)
    adds = sorted(shown.live.values(), key=lambda add: (len(shown.file(add.path)), shown.file(add.path)))
    rows: list[Row] = [tuple(label(say(f"draw-delta-{side}"), fill="paper") for side in ("log", "both", "list"))]  # type: ignore[list-item]
    facts = []
    for add in adds[:MOST_FILES]:
        name, vector = shown.file(add.path), shown.vector(add.path, add.vector_id)
        records = "?" if add.num_records is None else f"{add.num_records:,}"
        file = label(name, say("kind-data-file"), fill="data")
        rows.append((label(f"add {name}", f"numRecords {records}"), file, label(f"manifest_entry {name}")))
        verdict = say("draw-delta-none")
        if add.deletion_vector is not None:
            verdict, row = _vector(say, source, shown, add)
            rows.append(row)
        facts.append(say("draw-delta-file", file=name, records=records, vector=vector, verdict=verdict))
    _draw(canvas, rows)
    left = len(adds) - MOST_FILES
    more = [say("draw-more", count=f"{left:,}")] if left > 0 else []
    canvas.lines(GAP, canvas.below + GAP, more)
    return canvas.finish([*facts, *more])


def _vector(say: Messages, source: DeltaView, shown: DeltaVersion, add: AddFile) -> tuple[str, Row]:
    """Return whether a vector has the same positions on both sides, and its row."""
    descriptor, pair = add.deletion_vector, vector_pair(source, shown, add)
    assert descriptor is not None
    name, vector = shown.file(add.path), shown.vector(add.path, add.vector_id)
    key = {None: "unknown", True: "same", False: "different"}[pair.same_positions]
    verdict, good = say(f"draw-delta-{key}"), pair.same_positions is True
    held = "-" if pair.iceberg.positions is None else f"{len(pair.iceberg.positions):,}"
    delta = (f"storageType {descriptor.storage_type}", f"offset {pair.delta.offset:,}")
    iceberg = (f"referenced_data_file {name}", f"content_offset {pair.iceberg.offset:,}")
    return verdict, (
        label(f"deletionVector {vector}", *delta, f"cardinality {descriptor.cardinality:,}", fill="vector"),
        label(verdict, fill="good" if good else "bad", mark="chosen" if good else "wrong"),
        label(f"manifest_entry {vector}", *iceberg, f"record_count {held}", fill="vector"),
    )


def _draw(canvas: Canvas, rows: list[Row]) -> None:
    """Draw rows of three boxes; both sides point to what is between them."""
    widths = [max(row[i].size[0] for row in rows) for i in range(3)]
    y = canvas.below
    for i, row in enumerate(rows):
        height, x, boxes = max(one.size[1] for one in row), GAP, []
        for one, width in zip(row, widths, strict=True):
            boxes.append(canvas.box(x, y, one, width, height))
            x += width + 3 * GAP
        if i:
            canvas.arrow(boxes[0].at(1, 0.5), boxes[1].at(0, 0.5))
            canvas.arrow(boxes[2].at(0, 0.5), boxes[1].at(1, 0.5))
        y += height + PAD


def _no_sync(_path: str, _version: int) -> Table:
    raise AssertionError("the Iceberg table is given")
