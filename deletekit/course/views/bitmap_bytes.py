"""BitmapBytes: every byte of a Puffin or Delta `.bin` file, and a map of the positions in one of its vectors.

Edits change a copy in memory; the bytes shown for it are those of a new deletion vector. A table's Puffin file has
paths in its footer: what depends on their length is shown as `…`, and in full with `raw`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from deletekit.course.translations import Messages
from deletekit.course.views.build import (
    button,
    check,
    error_facts,
    error_sentence,
    first_bytes,
    line,
    make_page,
    number,
    paging,
    select,
)
from deletekit.course.views.byte_layout import ByteRange, blob_layout
from deletekit.course.views.page import Block, Cells, Control, Facts, Grid, Mark, Page
from deletekit.course.views.vector_file import VectorFile, open_vector_file
from deletekit.errors import InvalidInputError
from deletekit.formats.deletion_vector import PositionBitmap, encode_blob

MAP_WIDTH, MAP_LINES = 32, 8
ZOOMS = (1, 16, 256, 4_096, 65_536, 1 << 20, 1 << 24)
MOST_EDITS = 10_000
_MASK = "…"


def bitmap_bytes(
    source: Any,
    *,
    delete_file: str | None = None,
    byte: int | None = None,
    start: int = 0,
    position: int | None = None,
    zoom: int = 0,
    edits: Sequence[int] = (),
    raw: bool = False,
    snapshot: str | None = None,
    lang: str | None = None,
) -> Page:
    """Make the page of one file of deletion vectors.

    Parameters
    ----------
    source: a table, or the bytes or path of a `.puffin` or `.bin` file.
    delete_file: of a table, the deletion vector as `V1`; of a file, its number as `0`. None is the first.
    byte: offset of the selected byte.
    start: number of the first byte range shown; ignored if `byte` is given.
    position: the selected row position; the map is drawn around it.
    zoom: how many positions a cell of the map stands for: 1 for 0, 16 for 1, and so on to 16,777,216 for 6.
    edits: positions to remove from the vector, or to add if they are not in it.
    raw: show the size of a table file's footer, and what depends on it.
    snapshot: as `S2`; None is the current one.

    A vector whose bytes can be laid out but whose content is wrong is shown, with what is wrong.

    Raises FormatError naming what is wrong in the file, InvalidInputError for a byte, position or edit out of range,
    UnsupportedError for a file above 256 MB or with too many parts to show.
    """
    messages = Messages(lang)
    shown = open_vector_file(source, delete_file, snapshot)
    if shown is None:
        return make_page(messages, bitmap_bytes, messages("no-vectors"))
    ranges, data, bitmap = _laid_out(shown, edits)
    selected = _range_at(ranges, byte, len(data))
    first, stop, more = paging(messages, "start", ranges.index(selected) if selected else start, len(ranges))
    state: dict[str, Any] = {"delete_file": shown.name, "byte": byte, "position": position, "zoom": zoom}
    state |= {"edits": tuple(edits), "raw": raw, "snapshot": snapshot} | ({"start": first} if byte is None else {})
    footer = _footer_payload(shown, ranges)
    known, size = (None, f"{len(data):,}") if raw or footer is None else (footer, _MASK)
    blocks: list[Block] = [error_facts(shown.problem, messages, shown.location)] if shown.problem is not None else []
    blocks.append(_facts(messages, shown, bitmap, size, ranges))
    blocks += [_map(messages, bitmap, position, zoom, shown.limit)] if bitmap is not None else []
    blocks.append(_bytes(messages, data, ranges[first:stop], known, selected, more))
    controls = list(_controls(messages, shown, bitmap, position, zoom, edits))
    controls += [check("raw", messages("raw"), raw)] if footer is not None else []
    return make_page(
        messages,
        bitmap_bytes,
        _sentence(messages, shown, selected, bitmap, position, size),
        source=shown.source,
        state=state,
        chosen={"delete_file": shown.name, "start": first},
        blocks=blocks,
        controls=controls,
        error=shown.problem is not None,
    )


def _laid_out(shown: VectorFile, edits: Sequence[int]) -> tuple[Sequence[ByteRange], bytes, PositionBitmap | None]:
    """Return the parts of the file, or of the blob that its vector would be with the edits."""
    if not edits or shown.bitmap is None:
        return shown.ranges, shown.data, shown.bitmap
    bitmap = _edited(shown.bitmap, edits)
    data = encode_blob(bitmap)
    return blob_layout(data), data, bitmap


def _edited(bitmap: PositionBitmap, edits: Sequence[int]) -> PositionBitmap:
    if len(edits) > MOST_EDITS:
        raise InvalidInputError("too many edits", kind="edits", field="edits", found=len(edits), expected=MOST_EDITS)
    chosen = PositionBitmap(edits)
    return (bitmap | chosen) - PositionBitmap([p for p in chosen if p in bitmap])


def _range_at(ranges: Sequence[ByteRange], byte: int | None, size: int) -> ByteRange | None:
    if byte is None:
        return None
    if not 0 <= byte < size:
        raise InvalidInputError("no such byte", kind="byte", field="byte", found=byte, expected=f"0 .. {size - 1}")
    return next(r for r in ranges if r.start <= byte < r.stop)


def _facts(
    messages: Messages, shown: VectorFile, bitmap: PositionBitmap | None, size: str, ranges: Sequence[ByteRange]
) -> Facts:
    base = shown.bitmap
    kinds = {kind: sum(r.field == f"{kind} container" for r in ranges) for kind in ("array", "bitmap", "run")}
    items = [
        (messages("bytes"), size),
        (messages("byte-ranges"), f"{len(ranges):,}"),
        *((messages(f"containers-{kind}"), f"{count:,}") for kind, count in kinds.items()),
    ]
    if bitmap is not None:
        items.append((messages("positions"), f"{len(bitmap):,}"))
    if bitmap is not base and base is not None:
        items.append((messages("positions-before"), f"{len(base):,}"))
        items.append((messages("bytes-before"), f"{len(encode_blob(base)):,}"))
    return Facts(name="file", caption=messages("bytes-caption", name=shown.name), items=tuple(items))


def _map(messages: Messages, bitmap: PositionBitmap, position: int | None, zoom: int, rows: int | None) -> Cells:
    if not 0 <= zoom < len(ZOOMS):
        raise InvalidInputError(
            "no such zoom", kind="zoom", field="zoom", found=zoom, expected=f"0 .. {len(ZOOMS) - 1}"
        )
    step = ZOOMS[zoom]
    highest = max(((key << 32) + b.max() for key, b in bitmap.by_key.items()), default=0)
    limit = max(rows or 0, highest + 1)
    if position is not None and not 0 <= position < max(limit, 1):
        raise InvalidInputError(
            "no such position", kind="position", field="position", found=position, expected=f"0 .. {limit - 1}"
        )
    screen = MAP_WIDTH * MAP_LINES * step
    first = (position or 0) // screen * screen
    starts = range(first, min(first + screen, limit), step)
    counts = tuple(bitmap.count_in(at, min(at + step, limit)) for at in starts)
    return Cells(
        name="map",
        caption=messages(
            "map-caption", first=f"{first:,}", last=f"{min(first + screen, limit) - 1:,}", limit=f"{limit:,}"
        ),
        first=first,
        per_cell=step,
        width=MAP_WIDTH,
        counts=counts,
        limit=limit,
        select="position",
        selected=position,
        legend=messages("map-legend", step=f"{step:,}"),
        labels=tuple(
            messages("map-cell", first=f"{at:,}", last=f"{min(at + step, limit) - 1:,}", count=f"{n:,}")
            for at, n in zip(starts, counts, strict=True)
        ),
    )


def _bytes(
    messages: Messages,
    data: bytes,
    ranges: Sequence[ByteRange],
    known: int | None,
    selected: ByteRange | None,
    more: dict[str, Any],
) -> Grid:
    """Show some byte ranges; offsets and sizes after `known` are hidden."""
    lines = []
    for r in ranges:
        start = f"{r.start:,}" if known is None or r.start <= known else _MASK
        length, value, some = f"{r.length:,}", _value(messages, r), first_bytes(data, r.start, r.length)
        if known is not None and r.field == "payload":
            length = _MASK
        elif known is not None and r.field == "payload size":
            value, some = _MASK, _MASK
        mark: Mark = "wrong" if r.is_wrong else "unused" if r.field == "unused" else ""
        lines.append(line(r.start, start, length, r.part, r.field, value, some, mark=mark))
    return Grid(
        name="bytes",
        caption=messages("ranges-caption"),
        columns=(*map(messages, ("offset", "length", "part", "field", "meaning")), "hex"),
        lines=tuple(lines),
        select="byte",
        selected=selected.start if selected is not None else None,
        numbers=(0, 1),
        figure={"lengths": [r.length for r in ranges], "fields": [r.field for r in ranges]},
        **more,
    )


def _value(messages: Messages, found: ByteRange) -> str:
    if found.first_position is None or found.cardinality is None:
        return found.value
    return messages(
        "container-holds",
        count=f"{found.cardinality:,}",
        first=f"{found.first_position:,}",
        last=f"{found.first_position + 65_535:,}",
    )


def _sentence(
    messages: Messages,
    shown: VectorFile,
    selected: ByteRange | None,
    bitmap: PositionBitmap | None,
    position: int | None,
    size: str,
) -> str:
    said = []
    if position is not None and bitmap is not None:
        key = "position-in" if position in bitmap else "position-out"
        said.append(messages(key, position=f"{position:,}", name=shown.name))
    if selected is not None:
        last = f"{selected.stop - 1:,}"
        meaning = _value(messages, selected) or "-"
        said.append(messages("byte-is", first=f"{selected.start:,}", last=last, field=selected.field, value=meaning))
    if said:
        return " ".join(said)
    if shown.problem is not None:
        return error_sentence(shown.problem, messages, shown.location)
    return messages("bytes-summary", name=shown.name, bytes=size, count=f"{len(bitmap or ()):,}")


def _controls(
    messages: Messages,
    shown: VectorFile,
    bitmap: PositionBitmap | None,
    position: int | None,
    zoom: int,
    edits: Sequence[int],
) -> Iterator[Control]:
    names = shown.names if shown.name in shown.names else [shown.name, *shown.names]
    yield select("delete_file", messages("vector"), shown.name, names)
    if bitmap is None:
        return
    yield select("zoom", messages("zoom"), zoom, range(len(ZOOMS)), (f"{step:,}" for step in ZOOMS))
    yield number("position", messages("position"), position, 1 << 62)
    if position is not None:
        toggled = [p for p in edits if p != position] if position in edits else [*edits, position]
        label = messages("edit-remove" if position in bitmap else "edit-add", position=f"{position:,}")
        yield button("edits", label, toggled)
    if edits:
        yield button("edits", messages("edit-undo"), [])


def _footer_payload(shown: VectorFile, ranges: Sequence[ByteRange]) -> int | None:
    """Return the offset of a table file's footer payload, which has paths in it; None for other files."""
    if shown.source != "table":
        return None
    return next((r.start for r in ranges if r.part == "footer" and r.field == "payload"), None)
