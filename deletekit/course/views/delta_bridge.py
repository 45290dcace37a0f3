"""DeltaBridge: a Delta table's actions, the Iceberg entries they became, and the bytes of a vector in both, aligned."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deletekit.course.views.build import code_line, error_facts, error_sentence, paging, words
from deletekit.course.views.byte_layout import ByteRange
from deletekit.course.views.delta_bytes import Part, VectorPair, aligned, deletes_of, vector_pair
from deletekit.course.views.delta_view import DeltaAction, DeltaVersion, DeltaView, Following, as_delta_view
from deletekit.course.views.messages import Messages
from deletekit.course.views.page import Block, Control, Facts, Grid, Line, Mark, Page
from deletekit.errors import DeletekitError, NotFoundError
from deletekit.formats.content_file import DeleteFile, ManifestEntry
from deletekit.formats.manifest_list import ManifestContent
from deletekit.formats.safe_text import brief

__all__ = ["delta_bridge"]

_DEFAULTS = {"version": None, "vector": None, "start": 0, "entry_start": 0, "part_start": 0}
_ENTRIES = 25
_HEX_BYTES = 12
_LONGEST_DETAIL = 1_000


def delta_bridge(
    path: str | Path | DeltaView,
    table: Any = None,
    *,
    version: int | None = None,
    vector: str | None = None,
    start: int = 0,
    entry_start: int = 0,
    part_start: int = 0,
    lang: str | None = None,
) -> Page:
    """The page of a Delta table.

    Parameters
    ----------
    path: the Delta table's folder.
    table: an Iceberg table that `sync_delta` made of it; None: one is made now, on trial, and removed afterwards.
    version: of the Delta table; None is the one that `table` is at, or the newest.
    vector: the selected vector, as `V1`; None is the first live one.
    start, entry_start, part_start: first action, data file and part of the vector shown.

    What keeps the Iceberg side from being made, or a vector from being read, is shown beside the rest. Raises
    NotFoundError for what is not there, FormatError naming what is damaged in the log, UnsupportedError naming a table
    feature that is not known.
    """
    messages = Messages(lang)
    source = as_delta_view(path, table)
    shown = source.at(source.version(version))
    name = vector or shown.first_live_vector()
    if name is not None and name not in shown.adds:
        raise NotFoundError("no such vector", kind="vector", field="vector", found=name, expected="V1, V2, ...")
    pair = vector_pair(source, shown, shown.adds[name]) if name is not None else None
    problems = _problems(shown, pair)
    state = {"version": version, "vector": name, "start": start, "entry_start": entry_start, "part_start": part_start}
    return Page(
        view="DeltaBridge",
        title=messages("title-DeltaBridge"),
        sentence=_sentence(messages, shown, name, pair, problems),
        lang=messages.lang,
        code=code_line("DeltaBridge", "path" if source.table is None else "path, table", state, _DEFAULTS),
        blocks=tuple(_blocks(messages, shown, name, pair, problems, state)),
        controls=_controls(messages, source, shown, name),
        error=bool(problems),
        state={"vector": name},
        words=words(messages),
    )


def _problems(shown: DeltaVersion, pair: VectorPair | None) -> list[DeletekitError]:
    """What is wrong, each thing once: a damaged vector stops the sync, too."""
    found = [shown.following] if isinstance(shown.following, DeletekitError) else []
    known = {str(e) for e in found}
    return found + [e for e in (pair.problems if pair else ()) if str(e) not in known]


def _blocks(
    messages: Messages,
    shown: DeltaVersion,
    name: str | None,
    pair: VectorPair | None,
    problems: list[DeletekitError],
    state: dict[str, Any],
) -> Iterator[Block]:
    for i, problem in enumerate(problems):
        yield error_facts(problem, messages, shown.root, f"error-{i}")
    yield _actions(messages, shown, state["start"])
    if isinstance(shown.following, Following):
        yield _entries(messages, shown, shown.following, state["entry_start"])
        yield _counters(messages, shown, shown.following)
    if pair is not None and name is not None:
        yield _vector(messages, name, pair)
        if pair.delta.ranges or pair.iceberg.ranges:
            yield _bytes(messages, name, pair, state["part_start"])


def _sentence(
    messages: Messages, shown: DeltaVersion, name: str | None, pair: VectorPair | None, problems: list[DeletekitError]
) -> str:
    if problems:
        return error_sentence(problems[0], messages, shown.root)
    if pair is None:
        return messages("delta-summary", version=str(shown.state.version), actions=str(len(shown.actions)))
    parts = aligned(pair)
    same = sum(_is_same(pair, part) for part in parts)
    verdict = messages(_verdict(pair.same_positions))
    return messages("delta-sentence", vector=name, positions=verdict, same=str(same), parts=str(len(parts)))


def _actions(messages: Messages, shown: DeltaVersion, start: int) -> Grid:
    first, stop, more = paging(messages, "start", start, len(shown.actions))
    lines = tuple(_action(shown, number, a) for number, a in enumerate(shown.actions[first:stop], first))
    return Grid(
        name="actions",
        caption=messages("delta-actions"),
        columns=(
            messages("version"),
            messages("action"),
            "path",
            "deletionVector",
            "storageType",
            "offset",
            "sizeInBytes",
            "cardinality",
            "numRecords",
        ),
        lines=lines,
        numbers=(0, 5, 6, 7, 8),
        **more,
    )


def _action(shown: DeltaVersion, number: int, action: DeltaAction) -> Line:
    mark: Mark = "live" if action.live else "removed" if action.action == "remove" else ""
    if not action.path:
        cells = (str(action.version), action.action, brief(action.detail or "-", _LONGEST_DETAIL), *("-",) * 6)
        return Line(key=number, cells=cells, mark=mark)
    descriptor = action.add.deletion_vector if action.add is not None else None
    facts = ("-",) * 4
    if descriptor is not None:
        offset = "-" if descriptor.offset is None else str(descriptor.offset)
        facts = (descriptor.storage_type, offset, str(descriptor.size_in_bytes), str(descriptor.cardinality))
    records = action.add.num_records if action.add is not None else None
    name, vector = shown.file(action.path), shown.vector(action.path, action.vector_id)
    cells = (str(action.version), action.action, name, vector, *facts, "-" if records is None else str(records))
    return Line(key=number, cells=cells, mark=mark)


def _entries(messages: Messages, shown: DeltaVersion, following: Following, start: int) -> Grid:
    columns = (
        messages("file"),
        "content",
        "file_format",
        "referenced_data_file",
        "content_offset",
        "content_size_in_bytes",
        "record_count",
        "sequence_number",
    )
    lines: list[Line] = []
    more: dict[str, Any] = {}
    if following.snapshot is not None:
        live = following.view.live(following.snapshot, ManifestContent.DATA)
        first, stop, more = paging(messages, "entry_start", start, len(live), _ENTRIES)
        for entry in live.some(first, stop):
            lines += _entry(shown, following, entry)
    caption = messages("delta-entries")
    return Grid(name="entries", caption=caption, columns=columns, lines=tuple(lines), numbers=(4, 5, 6, 7), **more)


def _entry(shown: DeltaVersion, following: Following, entry: ManifestEntry) -> Iterator[Line]:
    """A data file by Delta's name for it, and the deletes that apply to it."""
    file, number = entry.data_file, str(entry.sequence_number or 0)
    add = shown.live.get(shown.key_at(file.file_path))
    name = shown.file(add.path) if add is not None else following.view.shown_path(file.file_path)
    records = add.num_records if add is not None else None
    wrong = add is None or (records is not None and records != file.record_count)
    cells = (name, "0 DATA", file.file_format, "-", "-", "-", str(file.record_count), number)
    yield Line(key=name, cells=cells, mark="wrong" if wrong else "live")
    vector = shown.vector(add.path, add.vector_id) if add is not None else "-"
    deletes = deletes_of(following, entry)
    for i, delete in enumerate(deletes):
        own = vector if len(deletes) == 1 and add is not None and delete.record_count == add.deleted else "?"
        yield Line(
            key=f"{name}:{i}",
            cells=(own, *_delete(delete, name), str(delete.record_count), "-"),
            mark="wrong" if own == "?" else "hidden",
        )


def _delete(delete: DeleteFile, data: str) -> tuple[str, ...]:
    offset, size = delete.content_offset, delete.content_size_in_bytes
    return (
        f"{int(delete.content)} {delete.content.name}",
        delete.file_format,
        data,
        "-" if offset is None else str(offset),
        "-" if size is None else str(size),
    )


def _counters(messages: Messages, shown: DeltaVersion, following: Following) -> Grid:
    """What both sides have in all, counted anew on each."""
    adds = list(shown.state.files.values())
    records = [add.num_records for add in adds]
    known = [r for r in records if r is not None]
    deleted = [add.deleted for add in adds if add.deleted]
    delta = (len(adds), sum(known) if len(known) == len(adds) else None, len(deleted), sum(deleted))
    data, deletes = (_count(following, content) for content in (ManifestContent.DATA, ManifestContent.DELETES))
    names = ("counter-data-files", "counter-rows", "counter-deletes", "counter-deleted-rows")
    lines = []
    for name, left, right in zip(names, delta, (*data, *deletes), strict=True):
        same = left is None or left == right
        cells = (messages(name), "-" if left is None else f"{left:,}", f"{right:,}", messages(_verdict(same)))
        lines.append(Line(key=name, cells=cells, mark="" if same else "wrong"))
    columns = (messages("counter"), "Delta", "Iceberg", messages("verdict"))
    caption = messages("delta-counters")
    return Grid(name="counters", caption=caption, columns=columns, lines=tuple(lines), numbers=(1, 2))


def _count(following: Following, content: ManifestContent) -> tuple[int, int]:
    """Live files, and their records."""
    if following.snapshot is None:
        return 0, 0
    columns = list(following.view.reader.live_columns(following.snapshot, content))
    files = sum(int(c.is_live.sum()) for c in columns)
    return files, sum(int(c.record_count[c.is_live].sum()) for c in columns)


def _vector(messages: Messages, name: str, pair: VectorPair) -> Facts:
    counts = [side.positions for side in (pair.delta, pair.iceberg)]
    shown = ["-" if positions is None else f"{len(positions):,}" for positions in counts]
    items = (
        (f"Delta: {messages('positions')}", shown[0]),
        (f"Iceberg: {messages('positions')}", shown[1]),
        (messages("verdict"), messages(_verdict(pair.same_positions))),
    )
    wrong = pair.same_positions is False
    return Facts(
        name="vector", caption=messages("delta-positions", vector=name), items=items, mark="wrong" if wrong else ""
    )


def _bytes(messages: Messages, name: str, pair: VectorPair, start: int) -> Grid:
    parts = aligned(pair)
    first, stop, more = paging(messages, "part_start", start, len(parts))
    lines = []
    for number, part in enumerate(parts[first:stop], first):
        same = _is_same(pair, part)
        both = part.delta is not None and part.iceberg is not None
        verdict = messages(_verdict(same if both else None))
        cells = (part.field, *_place(pair.delta, part.delta), *_place(pair.iceberg, part.iceberg), verdict)
        damaged = part.delta is not None and ", but " in part.delta.value
        wrong = damaged or (bool(pair.iceberg.ranges) and not same)
        lines.append(Line(key=number, cells=cells, mark="wrong" if wrong else ""))
    offset, length = messages("offset"), messages("length")
    columns = (messages("field"), f"Delta: {offset}", length, "hex", f"Iceberg: {offset}", length, "hex")
    return Grid(
        name="bytes",
        caption=messages("delta-bytes", vector=name),
        columns=(*columns, messages("verdict")),
        lines=tuple(lines),
        numbers=(1, 2, 4, 5),
        **more,
    )


def _place(side: Any, found: ByteRange | None) -> tuple[str, str, str]:
    """Where the part is in its file, its length, and its first bytes."""
    if found is None:
        return "-", "-", "-"
    text = side.data[found.start : min(found.stop, found.start + _HEX_BYTES)].hex(" ")
    return f"{side.offset + found.start:,}", f"{found.length:,}", text + (" …" if found.length > _HEX_BYTES else "")


def _is_same(pair: VectorPair, part: Part) -> bool:
    a, b = part.delta, part.iceberg
    if a is None or b is None:
        return False
    return pair.delta.data[a.start : a.stop] == pair.iceberg.data[b.start : b.stop]


def _verdict(same: bool | None) -> str:
    return "none-to-compare" if same is None else "same" if same else "different"


def _controls(messages: Messages, source: DeltaView, shown: DeltaVersion, name: str | None) -> tuple[Control, ...]:
    options: tuple[tuple[Any, str], ...] = tuple((n, n) for n in list(shown.adds)[:200])
    return (
        Control(kind="select", trait="vector", label=messages("vector"), value=name, options=options or ((None, "-"),)),
        Control(
            kind="number",
            trait="version",
            label=messages("version"),
            value=shown.state.version,
            maximum=source.log.latest,
        ),
    )
