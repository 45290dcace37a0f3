"""The bytes of a deletion vector, part by part, and one container of it in the three forms that it could have."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from deletekit.course.svg import GAP, PAD, Canvas, Label, Svg, label, wrapped
from deletekit.course.translations import Messages
from deletekit.course.views.bitmap_bytes import vector_entry
from deletekit.course.views.byte_layout import ByteRange, blob_layout
from deletekit.course.views.byte_words import field_name, value_text
from deletekit.course.views.table_view import as_table_view, delete_of
from deletekit.errors import InvalidInputError, NotFoundError
from deletekit.formats.deletion_vector import PositionBitmap, encode_blob
from deletekit.text import runs

WIDEST = 880.0
MOST_PARTS = 60

_FILLS = {"length": "delete", "magic": "vector", "crc": "delete", "bitmap count": "good", "key": "good"}
_SHOWN_BYTES, _SHOWN_NUMBERS = 8, 8
_CONTAINERS = ("array container", "bitmap container", "run container")
_WITH_VALUE = ("length", "bitmap count", "key", "cookie", "container count")


def vector_bytes(
    source: Any, *, delete_file: str | None = None, snapshot: str | None = None, lang: str | None = None
) -> Svg:
    """Draw each part of a deletion vector with its bytes: length, magic, bitmaps, CRC.

    Parameters
    ----------
    source: a table, or the bytes of a `deletion-vector-v1` blob.
    delete_file, snapshot: of a table, the vector as `V1` and the snapshot as `S2`; None is the first, the current one.

    Raises NotFoundError for a table without the vector, FormatError for bytes that are no vector.
    """
    say = Messages(lang)
    name, blob = ("", source) if isinstance(source, bytes) else _stored(source, delete_file, snapshot)
    parts = blob_layout(blob)
    title = say("draw-bytes-title", name=name or "deletion-vector-v1", count=f"{len(blob):,}")
    canvas = Canvas(title, say.lang)
    x, y, bottom = GAP, canvas.below, canvas.below
    for part in parts[:MOST_PARTS]:
        what = _part(say, part, blob)
        if x > GAP and x + what.size[0] > WIDEST:
            x, y = GAP, bottom + PAD
        box = canvas.box(x, y, what)
        x, bottom = box.x + box.width + PAD, max(bottom, box.y + box.height)
    left = len(parts) - MOST_PARTS
    more = [say("draw-more", count=f"{left:,}")] if left > 0 else []
    canvas.lines(GAP, canvas.below + GAP, more)
    return canvas.finish([*(_fact(say, part, blob) for part in parts[:MOST_PARTS]), *more])


def roaring_container(positions: Iterable[int], *, container: int = 0, lang: str | None = None) -> Svg:
    """Draw one container of a set of positions as array, as bitmap and as runs, and mark the form that is stored.

    Parameters
    ----------
    positions: the set; a container holds 65,536 of them.
    container: the number of the container; the positions of the first are below 65,536.

    Raises InvalidInputError for a container that has no positions.
    """
    say = Messages(lang)
    every = positions if isinstance(positions, PositionBitmap) else PositionBitmap(positions)
    first = container << 16
    held = every.to_numpy()
    held = held[(held >= first) & (held < first + (1 << 16))] - first
    if not len(held):
        raise InvalidInputError("container has no positions", kind="container", field="container", found=container)
    stored = next(p.field for p in blob_layout(encode_blob(PositionBitmap(held))) if p.field in _CONTAINERS)
    starts = held[np.flatnonzero(np.diff(held, prepend=-2) != 1)]
    ends = held[np.flatnonzero(np.diff(held, append=1 << 17) != 1)]
    bits = np.zeros(1 << 16, dtype=np.bool_)
    bits[held] = True
    pairs = [f"{a}+{b - a}" for a, b in zip(starts[:4].tolist(), ends[:4].tolist(), strict=True)]
    shown = np.packbits(bits[:32], bitorder="little").tolist()
    forms = (
        ("array", 2 * len(held), ", ".join(map(str, held[:_SHOWN_NUMBERS].tolist())), len(held) > _SHOWN_NUMBERS),
        ("bitmap", 8192, " ".join(f"{byte:08b}" for byte in shown), True),
        ("run", 2 + 4 * len(starts), ", ".join(pairs), len(starts) > 4),
    )
    canvas = Canvas(say("draw-container-title", number=container), say.lang)
    y, facts = canvas.below, list[str]()
    canvas.lines(GAP, y + PAD, [say("draw-container-counts", count=f"{len(held):,}", runs=f"{len(starts):,}")])
    facts.append(say("draw-container-counts", count=f"{len(held):,}", runs=f"{len(starts):,}"))
    boxes, y = [], canvas.below
    for kind, size, text, cut in forms:
        chosen = stored == f"{kind} container"
        lines = [say(f"byte-{kind}-container"), text + (" …" if cut else ""), *wrapped(say(f"draw-form-{kind}"), 60)]
        lines.append(say("draw-byte-count", count=f"{size:,}") + (f": {say('draw-stored')}" if chosen else ""))
        boxes.append(label(*lines, fill="good" if chosen else "plain", mark="chosen" if chosen else "", mono=1))
        facts.append(f"{lines[0]}: {lines[1]}; {lines[-1]}")
    width = max(one.size[0] for one in boxes)
    for one in boxes:
        y = canvas.box(GAP, y, one, width).at(0, 1)[1] + PAD
    first_runs = ", ".join([text for text, _ in zip(runs(held.tolist()), range(4), strict=False)])
    return canvas.finish([*facts, say("draw-container-first", runs=first_runs + (" …" if len(starts) > 4 else ""))])


def _stored(source: Any, delete_file: str | None, snapshot: str | None) -> tuple[str, bytes]:
    """Return the name and the blob of a vector of a table."""
    view = as_table_view(source)
    at = view.snapshot(snapshot)
    entry = vector_entry(view, at, delete_file) if at is not None else None
    if entry is None:
        raise NotFoundError("no such vector", "vector", "delete_file", delete_file or "V1", "none")
    vector = delete_of(entry)
    offset, size = vector.content_offset, vector.content_size_in_bytes
    assert offset is not None
    assert size is not None
    return view.aliases.of(entry), view.table.io.read(vector.file_path, offset, size)


def _part(say: Messages, part: ByteRange, blob: bytes) -> Label:
    data = blob[part.start : part.stop]
    hexes = data[:_SHOWN_BYTES].hex(" ") + (" …" if len(data) > _SHOWN_BYTES else "")
    fill = "data" if part.field in _CONTAINERS else _FILLS.get(part.field, "plain")
    lines = (field_name(say, part.field), f"{part.start:,}-{part.stop - 1:,}", hexes, _value(say, part))
    return label(*lines, fill="bad" if part.is_wrong else fill, mark="wrong" if part.is_wrong else "", mono=2)


def _fact(say: Messages, part: ByteRange, blob: bytes) -> str:
    value = _value(say, part) or blob[part.start : part.stop][:_SHOWN_BYTES].hex(" ")
    return say(
        "byte-is", first=f"{part.start:,}", last=f"{part.stop - 1:,}", field=field_name(say, part.field), value=value
    )


def _value(say: Messages, part: ByteRange) -> str:
    """Return what bytes mean, as short as it can be; a wrong value is beside the right one."""
    if part.is_wrong:
        return f"{part.value} ≠ {part.computed}"
    if part.cardinality is not None:
        return value_text(say, part)
    return part.value if part.field in _WITH_VALUE else ""
