"""DeltaBridge: a Delta table's actions, the Iceberg entries they became, and the bytes of a vector in both, aligned."""

from collections.abc import Iterator
from typing import Any

from deletekit.course.translations import Messages
from deletekit.course.views import page
from deletekit.course.views.byte_layout import ByteRange
from deletekit.course.views.byte_words import field_name
from deletekit.course.views.delta_view import (
    DeltaAction,
    DeltaVersion,
    DeltaView,
    Following,
    Part,
    Side,
    VectorPair,
    aligned,
    deletes_of,
    vector_pair,
)
from deletekit.course.views.page import Block, Facts, Grid, Line, Mark, Page
from deletekit.delta.actions import AddFile
from deletekit.delta.paths import plain_path
from deletekit.errors import DeletekitError, NotFoundError
from deletekit.formats.content_file import ManifestEntry
from deletekit.formats.manifest_list import ManifestContent
from deletekit.text import brief

_ENTRIES = 25
_LONGEST_DETAIL = 1_000
_DESCRIPTOR = {"storageType": "storage_type", "sizeInBytes": "size_in_bytes"}


@page.view_page()
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
    # A damaged vector stops the sync, too: each problem is shown once.
    following = [shown.following] if isinstance(shown.following, DeletekitError) else []
    problems = list({str(e): e for e in (*following, *(pair.problems if pair else ()))}.values())
    blocks: list[Block] = [page.error_facts(e, messages, shown.root, f"error-{i}") for i, e in enumerate(problems)]
    blocks.append(_actions(messages, shown, start))
    if isinstance(shown.following, Following):
        blocks += [_entries(messages, shown, shown.following, entry_start), _counters(messages, shown, shown.following)]
    if pair is not None and name is not None:
        blocks.append(_vector(messages, name, shown.adds[name], pair))
        if pair.delta.ranges or pair.iceberg.ranges:
            blocks.append(_bytes(messages, name, pair, part_start))
    return Page(
        sentence=_sentence(messages, shown, name, pair, problems),
        source=("path",) if source.alone else ("path", "table"),
        state={"vector": name},
        blocks=blocks,
        controls=[
            page.select("vector", messages("vector"), name, list(shown.adds)[: page.MOST_OPTIONS] or [None]),
            page.number("version", messages("version"), shown.state.version, source.log.latest),
        ],
        error=bool(problems),
    )


def _sentence(
    messages: Messages, shown: DeltaVersion, name: str | None, pair: VectorPair | None, problems: list[DeletekitError]
) -> str:
    if problems:
        return page.error_sentence(problems[0], messages, shown.root)
    if pair is None:
        return messages("delta-summary", version=shown.state.version, actions=len(shown.actions))
    parts = aligned(pair)
    same = sum(_is_same(pair, part) for part in parts)
    verdict = messages(_verdict(pair.same_positions))
    return messages("delta-sentence", vector=name, positions=verdict, same=same, parts=len(parts))


def _actions(messages: Messages, shown: DeltaVersion, start: int) -> Grid:
    first, stop, more = page.paging(messages, "start", start, len(shown.actions))
    lines = (_action(shown, number, a) for number, a in enumerate(shown.actions[first:stop], first))
    columns = (messages("delta-version"), messages("action"), "path", "deletionVector", "cardinality", "numRecords")
    return page.grid("actions", messages("delta-actions"), columns, lines, numbers=(0, 4, 5), **more)


def _action(shown: DeltaVersion, key: int, action: DeltaAction) -> Line:
    mark: Mark = "live" if action.live else "removed" if action.action == "remove" else ""
    if not action.path:
        detail = brief(action.detail or "-", _LONGEST_DETAIL)
        return page.line(key, action.version, action.action, detail, None, None, None, mark=mark)
    descriptor = action.add.deletion_vector if action.add is not None else None
    name, vector = shown.file(action.path), shown.vector(action.path, action.vector_id)
    deleted = descriptor.cardinality if descriptor is not None else None
    records = action.add.num_records if action.add is not None else None
    return page.line(key, action.version, action.action, name, vector, deleted, records, mark=mark)


def _entries(messages: Messages, shown: DeltaVersion, following: Following, start: int) -> Grid:
    columns = (messages("file"), "content", "referenced_data_file", "record_count", "sequence_number")
    lines: list[Line] = []
    more: dict[str, Any] = {}
    if following.snapshot is not None:
        live = following.view.live(following.snapshot, ManifestContent.DATA)
        first, stop, more = page.paging(messages, "entry_start", start, len(live), _ENTRIES)
        for entry in live[first:stop]:
            lines += _entry(shown, following, entry)
    return page.grid("entries", messages("delta-entries"), columns, lines, numbers=(3, 4), **more)


def _entry(shown: DeltaVersion, following: Following, entry: ManifestEntry) -> Iterator[Line]:
    """Make the lines of a data file, by Delta's name for it, and of the deletes that apply to it."""
    file = entry.data_file
    add = shown.live.get(plain_path(file.file_path))
    name = shown.file(add.path) if add is not None else following.view.shown_path(file.file_path)
    records = add.num_records if add is not None else None
    wrong = add is None or (records is not None and records != file.record_count)
    cells = (name, "0 DATA", None, file.record_count, entry.sequence_number or 0)
    yield page.line(name, *cells, mark="wrong" if wrong else "live")
    vector = shown.vector(add.path, add.vector_id) if add is not None else "-"
    deletes = deletes_of(following, entry)
    for i, delete in enumerate(deletes):
        own = vector if len(deletes) == 1 and add is not None and delete.record_count == add.deleted else "?"
        yield page.line(
            f"{name}:{i}",
            *(own, f"{int(delete.content)} {delete.content.name}", name, delete.record_count, None),
            mark="wrong" if own == "?" else "hidden",
        )


def _counters(messages: Messages, shown: DeltaVersion, following: Following) -> Grid:
    """Compare the totals of both sides, counted on each side."""
    adds = list(shown.state.files.values())
    known = [add.num_records for add in adds if add.num_records is not None]
    deleted = [add.deleted for add in adds if add.deleted]
    files, rows = _count(following, ManifestContent.DATA)
    deletes, deleted_rows = _count(following, ManifestContent.DELETES)
    lines = []
    for name, left, right in (
        ("counter-data-files", len(adds), files),
        ("counter-rows", sum(known) if len(known) == len(adds) else None, rows),
        ("counter-deletes", len(deleted), deletes),
        ("counter-deleted-rows", sum(deleted), deleted_rows),
    ):
        same = left is None or left == right
        cells = (messages(name), None if left is None else f"{left:,}", f"{right:,}", messages(_verdict(same)))
        lines.append(page.line(name, *cells, mark="" if same else "wrong"))
    columns = (messages("counter"), "Delta", "Iceberg", messages("verdict"))
    return page.grid("counters", messages("delta-counters"), columns, lines, numbers=(1, 2))


def _count(following: Following, content: ManifestContent) -> tuple[int, int]:
    """Return the number of live files, and of their records."""
    if following.snapshot is None:
        return 0, 0
    columns = list(following.view.reader.live_columns(following.snapshot, content))
    files = sum(int(c.is_live.sum()) for c in columns)
    return files, sum(int(c.record_count[c.is_live].sum()) for c in columns)


def _vector(messages: Messages, name: str, add: AddFile, pair: VectorPair) -> Facts:
    sides = (("Delta", pair.delta.positions), ("Iceberg", pair.iceberg.positions))
    counts = ((f"{side}: {messages('positions')}", "-" if p is None else f"{len(p):,}") for side, p in sides)
    descriptor = add.deletion_vector
    stored = ((f"Delta: {key}", str(getattr(descriptor, own))) for key, own in _DESCRIPTOR.items() if descriptor)
    return Facts(
        name="vector",
        caption=messages("delta-positions", vector=name),
        items=(*counts, *stored, (messages("verdict"), messages(_verdict(pair.same_positions)))),
        mark="wrong" if pair.same_positions is False else "",
    )


def _bytes(messages: Messages, name: str, pair: VectorPair, start: int) -> Grid:
    parts = aligned(pair)
    first, stop, more = page.paging(messages, "part_start", start, len(parts))
    lines = []
    for key, part in enumerate(parts[first:stop], first):
        same = _is_same(pair, part)
        verdict = messages(_verdict(same if part.delta and part.iceberg else None))
        damaged = part.delta is not None and part.delta.is_wrong
        wrong = damaged or (bool(pair.iceberg.ranges) and not same)
        left, right = _place(pair.delta, part.delta), _place(pair.iceberg, part.iceberg)
        cells = (left[0], right[0], _both(left[1], right[1]), _both(left[2], right[2]))
        lines.append(page.line(key, field_name(messages, part.field), *cells, verdict, mark="wrong" if wrong else ""))
    offset = messages("offset")
    columns = [messages("field"), f"Delta: {offset}", f"Iceberg: {offset}", messages("length"), "hex"]
    columns.append(messages("verdict"))
    return page.grid("bytes", messages("delta-bytes", vector=name), columns, lines, numbers=(1, 2, 3), **more)


def _both(delta: str | None, iceberg: str | None) -> str | None:
    """Return what both sides have, or what each has."""
    if delta is None or iceberg is None or delta == iceberg:
        return delta or iceberg
    return f"Delta: {delta}, Iceberg: {iceberg}"


def _place(side: Side, found: ByteRange | None) -> tuple[str | None, str | None, str | None]:
    """Return where the part is in its file, its length, and its first bytes."""
    if found is None:
        return None, None, None
    return f"{side.offset + found.start:,}", f"{found.length:,}", page.first_bytes(side.data, found.start, found.length)


def _is_same(pair: VectorPair, part: Part) -> bool:
    a, b = part.delta, part.iceberg
    if a is None or b is None:
        return False
    return pair.delta.data[a.start : a.stop] == pair.iceberg.data[b.start : b.stop]


def _verdict(same: bool | None) -> str:
    return "none-to-compare" if same is None else "same" if same else "different"
