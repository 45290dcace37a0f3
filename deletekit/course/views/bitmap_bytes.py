"""BitmapBytes: every byte of a Puffin or Delta `.bin` file, and a map of the positions in one of its vectors.

The bytes are laid out before anything is decoded, so the bytes of a vector that cannot be decoded are shown too. Edits
change a copy in memory; the bytes shown for it are those of a new deletion vector. A table's Puffin file has paths in
its footer: what depends on their length is shown as `…`, and in full with `raw` and in a live widget.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from deletekit.course.translations import Messages
from deletekit.course.views import page
from deletekit.course.views.byte_layout import ByteRange, blob_layout, layout
from deletekit.course.views.byte_words import field_name, part_name, value_text
from deletekit.course.views.page import Block, Cells, Control, Facts, Grid, Mark, Page
from deletekit.course.views.table_view import TableView, as_table_view, delete_of
from deletekit.delta.deletion_vector import decode_body
from deletekit.errors import DeletekitError, FormatError, InvalidInputError, NotFoundError, UnsupportedError
from deletekit.formats.content_file import ManifestEntry
from deletekit.formats.deletion_vector import PositionBitmap, encode_blob
from deletekit.formats.manifest_list import ManifestContent
from deletekit.table.metadata import Snapshot

MAP_WIDTH, MAP_LINES = 32, 8
ZOOMS = tuple(4**n for n in range(17))
MOST_EDITS = 10_000
LARGEST_FILE = 1 << 28
_FILES_LOOKED_AT = 2_000
_SIGNS = {".": "map-none", ":": "map-25", "-": "map-50", "+": "map-75", "*": "map-99", "#": "map-all"}


@page.view_page(ignored={"start": "byte"})
def bitmap_bytes(
    source: Any,
    *,
    delete_file: str | None = None,
    byte: int | None = None,
    start: int = 0,
    position: int | None = None,
    zoom: int | None = None,
    edits: Sequence[int] = (),
    raw: bool | None = None,
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
    zoom: a cell of the map stands for 1 position for 0, 4 for 1, 16 for 2, and so on; None shows the whole file.
    edits: positions to remove from the vector, or to add if they are not in it.
    raw: show the size of a table file's footer, and what depends on it; None does so outside of lessons.
    snapshot: as `S2`; None is the current one.

    Raises FormatError naming what is wrong in the file, InvalidInputError for a byte, position or edit out of range,
    UnsupportedError for a file above 256 MB or with too many parts to show.
    """
    messages = Messages(lang)
    shown = open_vector_file(source, delete_file, snapshot)
    if shown is None:
        return Page(sentence=messages("no-vectors"))
    edited = _edited(shown, edits)
    selected = _range_at(edited, byte)
    first, stop, more = page.paging(
        messages, "start", edited.ranges.index(selected) if selected else start, len(edited.ranges)
    )
    footer = _footer_payload(edited)
    known = None if raw or (raw is None and not shown.in_lesson) else footer
    size = f"{len(edited.data):,}" if known is None else page.Varying(f"{len(edited.data):,}")
    blocks: list[Block] = [_facts(messages, shown, edited, size)]
    if shown.problem is not None:
        blocks.insert(0, page.error_facts(shown.problem, messages, shown.location))
    if edited.bitmap is not None:
        limit = max(shown.limit or 0, edited.bitmap.highest + 1, 1)
        zoom = _whole(limit) if zoom is None else zoom
        blocks.append(_map(messages, edited.bitmap, position, zoom, limit))
    blocks.append(_bytes(messages, edited.data, edited.ranges[first:stop], known, selected, more))
    controls = list(_controls(messages, edited, position, zoom, edits))
    controls += [page.check("raw", messages("raw"), known is None)] if footer is not None else []
    return Page(
        sentence=_sentence(messages, edited, selected, position, size),
        source=(shown.source,),
        state={"delete_file": shown.name, "start": first},
        blocks=blocks,
        controls=controls,
        error=shown.problem is not None,
    )


def _edited(shown: VectorFile, edits: Sequence[int]) -> VectorFile:
    """Return the file, or the blob that its vector would be with the edits."""
    if not edits or shown.bitmap is None:
        return shown
    if len(edits) > MOST_EDITS:
        raise InvalidInputError("too many edits", kind="edits", field="edits", found=len(edits), expected=MOST_EDITS)
    chosen = PositionBitmap(edits)
    bitmap = (shown.bitmap | chosen) - PositionBitmap([p for p in chosen if p in shown.bitmap])
    data = encode_blob(bitmap)
    return replace(shown, data=data, ranges=blob_layout(data), bitmap=bitmap)


def _range_at(shown: VectorFile, byte: int | None) -> ByteRange | None:
    if byte is None:
        return None
    _check_range("byte", byte, len(shown.data))
    return next(r for r in shown.ranges if r.start <= byte < r.stop)


def _check_range(name: str, value: int, stop: int) -> None:
    if not 0 <= value < stop:
        raise InvalidInputError(f"no such {name}", kind=name, field=name, found=value, expected=f"0 .. {stop - 1}")


def _facts(messages: Messages, shown: VectorFile, edited: VectorFile, size: str) -> Facts:
    kinds = {kind: sum(r.field == f"{kind} container" for r in edited.ranges) for kind in ("array", "bitmap", "run")}
    items = [
        (messages("bytes"), size),
        (messages("byte-ranges"), f"{len(edited.ranges):,}"),
        *((messages(f"containers-{kind}"), f"{count:,}") for kind, count in kinds.items()),
    ]
    if edited.bitmap is not None:
        items.append((messages("positions"), f"{len(edited.bitmap):,}"))
    if edited is not shown and shown.bitmap is not None:
        items.append((messages("positions-before"), f"{len(shown.bitmap):,}"))
        items.append((messages("bytes-before"), f"{len(encode_blob(shown.bitmap)):,}"))
    return Facts(name="file", caption=messages("bytes-caption", name=shown.name), items=tuple(items))


def _whole(limit: int) -> int:
    """Return the finest zoom that shows all positions."""
    return next((z for z, step in enumerate(ZOOMS) if MAP_WIDTH * MAP_LINES * step >= limit), len(ZOOMS) - 1)


def _map(messages: Messages, bitmap: PositionBitmap, position: int | None, zoom: int, limit: int) -> Cells:
    _check_range("zoom", zoom, len(ZOOMS))
    step = ZOOMS[zoom]
    if position is not None:
        _check_range("position", position, limit)
    screen = MAP_WIDTH * MAP_LINES * step
    first = (position or 0) // screen * screen
    last = min(first + screen, limit)
    cells = [(at, min(at + step, limit)) for at in range(first, last, step)]
    counts = tuple(bitmap.count_in(at, stop) for at, stop in cells)
    return Cells(
        name="map",
        caption=messages("map-caption", first=f"{first:,}", last=f"{last - 1:,}", limit=f"{limit:,}"),
        first=first,
        per_cell=step,
        width=MAP_WIDTH,
        signs="".join(_sign(n, stop - at) for (at, stop), n in zip(cells, counts, strict=True)),
        limit=limit,
        select="position",
        selected=position,
        legend=messages("map-legend", step=f"{step:,}"),
        meanings=tuple((sign, messages(meaning)) for sign, meaning in _SIGNS.items() if step > 1 or sign in ".#"),
        labels=tuple(
            messages("map-cell", first=f"{at:,}", last=f"{stop - 1:,}", count=f"{n:,}")
            for (at, stop), n in zip(cells, counts, strict=True)
        ),
    )


def _sign(count: int, room: int) -> str:
    """Return the sign of a square: how many of its positions are in the set, in quarters."""
    return "." if not count else "#" if count >= room else ":-+*"[count * 4 // room]


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
        start, length, value = f"{r.start:,}", f"{r.length:,}", value_text(messages, r)
        some = page.first_bytes(data, r.start, r.length)
        if known is not None and r.start > known:
            start = page.Varying(start)
        if known is not None and r.field == "payload":
            length = page.Varying(length)
        elif known is not None and r.field == "payload size":
            value, some = page.Varying(value), page.Varying(some)
        mark: Mark = "wrong" if r.is_wrong else "unused" if r.field == "unused" else ""
        names = part_name(messages, r.part), field_name(messages, r.field)
        lines.append(page.line(r.start, start, length, *names, value, some, mark=mark))
    columns = (*map(messages, ("offset", "length", "part", "field", "meaning")), "hex")
    kinds = [r.field if r.field.endswith("container") else r.part.partition(" ")[0] for r in ranges]
    figure = {"lengths": [r.length for r in ranges], "kinds": kinds}
    more |= {"select": "byte", "selected": selected.start if selected else None, "numbers": (0, 1), "figure": figure}
    return page.grid("bytes", messages("ranges-caption"), columns, lines, **more)


def _sentence(
    messages: Messages, shown: VectorFile, selected: ByteRange | None, position: int | None, size: str
) -> str:
    said = []
    if position is not None and shown.bitmap is not None:
        key = "position-in" if position in shown.bitmap else "position-out"
        said.append(messages(key, position=f"{position:,}", name=shown.name))
    if selected is not None:
        last = f"{selected.stop - 1:,}"
        field, meaning = field_name(messages, selected.field), value_text(messages, selected) or "-"
        said.append(messages("byte-is", first=f"{selected.start:,}", last=last, field=field, value=meaning))
    if said:
        return " ".join(said)
    if shown.problem is not None:
        return page.error_sentence(shown.problem, messages, shown.location)
    count = f"{len(shown.bitmap or ()):,}"
    live, kept = (messages("bytes-summary", name=shown.name, bytes=b, count=count) for b in (page.live(size), size))
    return page.Varying(live, kept)


def _controls(
    messages: Messages, shown: VectorFile, position: int | None, zoom: int | None, edits: Sequence[int]
) -> Iterator[Control]:
    names = shown.names if shown.name in shown.names else [shown.name, *shown.names]
    yield page.select("delete_file", messages("vector"), shown.name, names)
    if shown.bitmap is None:
        return
    yield page.select("zoom", messages("zoom"), zoom, range(len(ZOOMS)), (f"{step:,}" for step in ZOOMS))
    yield page.number("position", messages("position"), position, 1 << 62)
    if position is not None:
        toggled = [p for p in edits if p != position] if position in edits else [*edits, position]
        label = messages("edit-remove" if position in shown.bitmap else "edit-add", position=f"{position:,}")
        yield page.button("edits", label, toggled)
    if edits:
        yield page.button("edits", messages("edit-undo"), [])


def _footer_payload(shown: VectorFile) -> int | None:
    """Return the offset of a table file's footer payload, which has paths in it; None for other files."""
    parts = shown.ranges if shown.source == "table" else ()
    return next((r.start for r in parts if r.part == "footer" and r.field == "payload"), None)


# --- the file ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorFile:
    """A file of deletion vectors and the vector of it that is mapped; `problem` is why it cannot be mapped.

    Attributes
    ----------
    name: of the vector; `names` are those that can be chosen.
    source: `table`, or `data` for bytes and paths.
    limit: rows of the vector's data file, if they are known.
    """

    data: bytes
    ranges: Sequence[ByteRange]
    name: str
    names: Sequence[str]
    source: str = "data"
    location: str = ""
    bitmap: PositionBitmap | None = None
    limit: int | None = None
    problem: DeletekitError | None = None
    in_lesson: bool = False


def is_vector_file(source: Any) -> bool:
    """Return whether a source is the bytes or path of a file, not a table."""
    return isinstance(source, bytes) or (isinstance(source, str | Path) and str(source).endswith((".puffin", ".bin")))


def open_vector_file(source: Any, delete_file: str | None, snapshot: str | None) -> VectorFile | None:
    """Open a source of `bitmap_bytes`. Return None for a table without vectors."""
    if isinstance(source, bytes):
        return _of_bytes(source, delete_file)
    if is_vector_file(source):
        path = Path(str(source).removeprefix("file://"))
        if not path.is_file():
            raise NotFoundError("file does not exist", kind="file-not-found", file=str(path))
        _check_size(str(path), path.stat().st_size)
        try:
            return _of_bytes(path.read_bytes(), delete_file, str(path))
        except (FormatError, UnsupportedError) as e:
            raise e.in_file(str(path)) from e
    view = as_table_view(source)
    at = view.snapshot(snapshot)
    entry = vector_entry(view, at, delete_file) if at is not None else None
    if at is None or entry is None:
        return None
    try:
        return _of_entry(view, at, entry)
    except (FormatError, UnsupportedError) as e:
        raise e.in_file(delete_of(entry).file_path) from e


def _of_bytes(data: bytes, wanted: str | None, path: str = "") -> VectorFile:
    """Lay out a file and decode a vector of it by its number. A blob of another type has no positions."""
    ranges = layout(data)
    names = sorted({r.part.removeprefix("blob ") for r in ranges if r.part.startswith("blob ")}, key=int)
    name = wanted if wanted is not None else names[0] if names else "0"
    if wanted is not None and wanted not in names:
        expected = f"{names[0]} .. {names[-1]}" if names else "none"
        raise InvalidInputError("no such blob", kind="blob", field="delete_file", found=wanted, expected=expected)
    shown = VectorFile(data=data, ranges=ranges, name=name, names=names[: page.MOST_OPTIONS])
    parts = [r for r in ranges if r.part == f"blob {name}"]
    if not parts or parts[0].field != "length":
        return shown
    try:
        return replace(shown, bitmap=decode_body(memoryview(data)[parts[1].start : parts[-1].start]))
    except FormatError as e:
        return replace(shown, problem=e.in_file(path) if path else e)


def _of_entry(view: TableView, snapshot: Snapshot, entry: ManifestEntry) -> VectorFile:
    delete = delete_of(entry)
    _check_size(delete.file_path, view.table.io.size(delete.file_path))
    data = view.table.io.read(delete.file_path)
    shown = VectorFile(
        data=data,
        ranges=layout(data),
        name=view.aliases.of(entry),
        names=[view.aliases.of(e) for e in _vectors(view, snapshot)[: page.MOST_OPTIONS]],
        source="table",
        location=view.metadata.location,
        in_lesson=view.in_lesson,
    )
    try:
        bitmap = view.context.loader.vector(delete)
        found = view.live(snapshot, ManifestContent.DATA).find((delete.referenced_data_file,))
    except FormatError as e:
        return replace(shown, problem=e.in_file(delete.file_path))
    return replace(shown, bitmap=bitmap, limit=found.data_file.record_count if found is not None else None)


def vector_entry(view: TableView, snapshot: Snapshot, name: str | None) -> ManifestEntry | None:
    """Return a live deletion vector by alias, or the first one. Raise InvalidInputError for another delete."""
    if name is not None:
        entry = view.delete_file(snapshot, name)
        if not delete_of(entry).is_deletion_vector:
            raise InvalidInputError("not a deletion vector", kind="delete-kind", field="delete_file", found=name)
        return entry
    return next(iter(_vectors(view, snapshot)), None)


def _vectors(view: TableView, snapshot: Snapshot) -> list[ManifestEntry]:
    """Return the first deletion vectors of a snapshot, by the number in their names."""
    live = view.live(snapshot, ManifestContent.DELETES)[:_FILES_LOOKED_AT]
    return sorted((e for e in live if delete_of(e).is_deletion_vector), key=view.aliases.order)


def _check_size(path: str, size: int) -> None:
    if size > LARGEST_FILE:
        raise UnsupportedError(
            "file is too large to lay out", kind="size", file=path, found=size, expected=f"<= {LARGEST_FILE}"
        )
