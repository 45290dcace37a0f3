"""DeltaBridge: a Delta table's actions, the Iceberg entries they became, and the bytes of a vector in both, aligned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deletekit.course.translations import Messages
from deletekit.course.views.build import (
    MOST_OPTIONS,
    error_facts,
    error_sentence,
    first_bytes,
    line,
    make_page,
    number,
    paging,
    select,
)
from deletekit.course.views.byte_layout import ByteRange
from deletekit.course.views.delta_bytes import Part, Side, VectorPair, aligned, deletes_of, vector_pair
from deletekit.course.views.delta_view import DeltaAction, DeltaVersion, DeltaView, Following
from deletekit.course.views.page import Block, Facts, Grid, Line, Mark, Page
from deletekit.delta.paths import plain_path
from deletekit.errors import DeletekitError, NotFoundError
from deletekit.formats.content_file import ManifestEntry
from deletekit.formats.manifest_list import ManifestContent
from deletekit.safe_text import brief

_ENTRIES = 25
_LONGEST_DETAIL = 1_000


def delta_bridge(
    source: DeltaView,
    *,
    version: int | None = None,
    vector: str | None = None,
    start: int = 0,
    entry_start: int = 0,
    part_start: int = 0,
    lang: str | None = None,
) -> Page:
    """Make the page of a Delta table.

    Parameters
    ----------
    source: the Delta table, and the Iceberg table that follows it.
    version: of the Delta table; None is the one that the Iceberg table is at, or the newest.
    vector: the selected vector, as `V1`; None is the first live one.
    start, entry_start, part_start: first action, data file and part of the vector shown.

    What prevents the sync to Iceberg, or reading a vector, is shown beside the rest. Raises NotFoundError for a version
    or vector that does not exist, FormatError naming what is damaged in the log, UnsupportedError naming an unknown
    table feature.
    """
    messages = Messages(lang)
    shown = source.at(source.version(version))
    name = vector or shown.first_live_vector()
    if name is not None and name not in shown.adds:
        raise NotFoundError("no such vector", kind="vector", field="vector", found=name, expected="V1, V2, ...")
    pair = vector_pair(source, shown, shown.adds[name]) if name is not None else None
    problems = _problems(shown, pair)
    state = {"version": version, "vector": name, "start": start, "entry_start": entry_start, "part_start": part_start}
    return make_page(
        messages,
        delta_bridge,
        _sentence(messages, shown, name, pair, problems),
        source="path" if source.table is None else "path, table",
        state=state,
        chosen={"vector": name},
        blocks=_blocks(messages, shown, name, pair, problems, state),
        controls=[
            select("vector", messages("vector"), name, list(shown.adds)[:MOST_OPTIONS] or [None]),
            number("version", messages("version"), shown.state.version, source.log.latest),
        ],
        error=bool(problems),
    )


def _problems(shown: DeltaVersion, pair: VectorPair | None) -> list[DeletekitError]:
    """Return what is wrong, each thing once: a damaged vector stops the sync, too."""
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
        return messages("delta-summary", version=shown.state.version, actions=len(shown.actions))
    parts = aligned(pair)
    same = sum(_is_same(pair, part) for part in parts)
    verdict = messages(_verdict(pair.same_positions))
    return messages("delta-sentence", vector=name, positions=verdict, same=same, parts=len(parts))


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


def _action(shown: DeltaVersion, key: int, action: DeltaAction) -> Line:
    mark: Mark = "live" if action.live else "removed" if action.action == "remove" else ""
    if not action.path:
        detail = brief(action.detail or "-", _LONGEST_DETAIL)
        return line(key, action.version, action.action, detail, *(None,) * 6, mark=mark)
    descriptor = action.add.deletion_vector if action.add is not None else None
    facts: tuple[object, ...] = (None,) * 4
    if descriptor is not None:
        facts = (descriptor.storage_type, descriptor.offset, descriptor.size_in_bytes, descriptor.cardinality)
    name, vector = shown.file(action.path), shown.vector(action.path, action.vector_id)
    records = action.add.num_records if action.add is not None else None
    return line(key, action.version, action.action, name, vector, *facts, records, mark=mark)


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
        for entry in live[first:stop]:
            lines += _entry(shown, following, entry)
    caption = messages("delta-entries")
    return Grid(name="entries", caption=caption, columns=columns, lines=tuple(lines), numbers=(4, 5, 6, 7), **more)


def _entry(shown: DeltaVersion, following: Following, entry: ManifestEntry) -> Iterator[Line]:
    """Make the lines of a data file, by Delta's name for it, and of the deletes that apply to it."""
    file = entry.data_file
    add = shown.live.get(plain_path(file.file_path))
    name = shown.file(add.path) if add is not None else following.view.shown_path(file.file_path)
    records = add.num_records if add is not None else None
    wrong = add is None or (records is not None and records != file.record_count)
    cells = (name, "0 DATA", file.file_format, None, None, None, file.record_count, entry.sequence_number or 0)
    yield line(name, *cells, mark="wrong" if wrong else "live")
    vector = shown.vector(add.path, add.vector_id) if add is not None else "-"
    deletes = deletes_of(following, entry)
    for i, delete in enumerate(deletes):
        own = vector if len(deletes) == 1 and add is not None and delete.record_count == add.deleted else "?"
        yield line(
            f"{name}:{i}",
            *(own, f"{int(delete.content)} {delete.content.name}", delete.file_format, name),
            *(delete.content_offset, delete.content_size_in_bytes, delete.record_count, None),
            mark="wrong" if own == "?" else "hidden",
        )


def _counters(messages: Messages, shown: DeltaVersion, following: Following) -> Grid:
    """Compare the totals of both sides, counted on each side."""
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
        shown_left = None if left is None else f"{left:,}"
        cells = (messages(name), shown_left, f"{right:,}", messages(_verdict(same)))
        lines.append(line(name, *cells, mark="" if same else "wrong"))
    columns = (messages("counter"), "Delta", "Iceberg", messages("verdict"))
    caption = messages("delta-counters")
    return Grid(name="counters", caption=caption, columns=columns, lines=tuple(lines), numbers=(1, 2))


def _count(following: Following, content: ManifestContent) -> tuple[int, int]:
    """Return the number of live files, and of their records."""
    if following.snapshot is None:
        return 0, 0
    columns = list(following.view.reader.live_columns(following.snapshot, content))
    files = sum(int(c.is_live.sum()) for c in columns)
    return files, sum(int(c.record_count[c.is_live].sum()) for c in columns)


def _vector(messages: Messages, name: str, pair: VectorPair) -> Facts:
    sides = (("Delta", pair.delta.positions), ("Iceberg", pair.iceberg.positions))
    counts = ((f"{side}: {messages('positions')}", "-" if p is None else f"{len(p):,}") for side, p in sides)
    return Facts(
        name="vector",
        caption=messages("delta-positions", vector=name),
        items=(*counts, (messages("verdict"), messages(_verdict(pair.same_positions)))),
        mark="wrong" if pair.same_positions is False else "",
    )


def _bytes(messages: Messages, name: str, pair: VectorPair, start: int) -> Grid:
    parts = aligned(pair)
    first, stop, more = paging(messages, "part_start", start, len(parts))
    lines = []
    for key, part in enumerate(parts[first:stop], first):
        same = _is_same(pair, part)
        both = part.delta is not None and part.iceberg is not None
        verdict = messages(_verdict(same if both else None))
        damaged = part.delta is not None and part.delta.is_wrong
        wrong = damaged or (bool(pair.iceberg.ranges) and not same)
        places = (*_place(pair.delta, part.delta), *_place(pair.iceberg, part.iceberg))
        lines.append(line(key, part.field, *places, verdict, mark="wrong" if wrong else ""))
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


def _place(side: Side, found: ByteRange | None) -> tuple[str | None, str | None, str | None]:
    """Return where the part is in its file, its length, and its first bytes."""
    if found is None:
        return None, None, None
    return f"{side.offset + found.start:,}", f"{found.length:,}", first_bytes(side.data, found.start, found.length)


def _is_same(pair: VectorPair, part: Part) -> bool:
    a, b = part.delta, part.iceberg
    if a is None or b is None:
        return False
    return pair.delta.data[a.start : a.stop] == pair.iceberg.data[b.start : b.stop]


def _verdict(same: bool | None) -> str:
    return "none-to-compare" if same is None else "same" if same else "different"
