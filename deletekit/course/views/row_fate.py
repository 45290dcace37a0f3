"""RowFate: the rows of a data file in order, each delete that has them, and why each row is hidden or not.

`deletekit.deletes.verdict` decides; here the deletes to ask are chosen.
Spec: "Scan Planning", https://iceberg.apache.org/spec/#scan-planning
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyiceberg.types import NestedField

from deletekit.course.aliases import alias_number
from deletekit.course.translations import Messages
from deletekit.course.views import page
from deletekit.course.views.page import Grid, Mark, Page
from deletekit.course.views.table_view import TableView, as_table_view, delete_of
from deletekit.deletes.read import ReadRequest, read_task
from deletekit.deletes.scan_task import ScanTask
from deletekit.deletes.verdict import NamingDelete, Rules, named_positions, reason_of
from deletekit.deletes.which_apply import referenced_path
from deletekit.errors import InvalidInputError, NotFoundError
from deletekit.formats.content_file import FileContent, ManifestEntry
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.formats.manifest_list import ManifestContent
from deletekit.table.metadata import Snapshot
from deletekit.table.python_values import python_values
from deletekit.text import brief, literal

MOST_OTHERS = 200
"""Limit on non-applying deletes that are still opened to see whether they contain the row."""

_MOST_COLUMNS = 12
_FILES_LOOKED_AT = 2_000
_MOST_NEIGHBOURS = 100


@page.view_page(ignored={"start": "row"})
def row_fate(
    table: Any,
    *,
    data_file: str | None = None,
    row: int | None = None,
    start: int = 0,
    snapshot: str | None = None,
    sequence_rule: bool = True,
    scope_rule: bool = True,
    vector_rule: bool = True,
    lang: str | None = None,
) -> Page:
    """Make the page of one data file's rows.

    Parameters
    ----------
    data_file: as `D1`; None is the first with a delete.
    row: position of the selected row.
    start: position of the first row shown; ignored if `row` is given.
    snapshot: as `S2`; None is the current one.
    sequence_rule, scope_rule, vector_rule: see `Rules`; without them the page shows what would go wrong.

    Raises NotFoundError if the file or snapshot does not exist, InvalidInputError if the row is not in the file,
    FormatError naming a damaged file.
    """
    view = as_table_view(table)
    messages = Messages(lang)
    at = view.snapshot(snapshot)
    data = _data_file(view, at, data_file) if at is not None else None
    if at is None or data is None:
        return Page(sentence=messages("no-rows", table=view.name))
    name = view.aliases.of(data)
    count = data.data_file.record_count
    if row is not None and not 0 <= row < count:
        raise InvalidInputError(
            "no such row in this file", kind="row", file=name, field="row", found=row, expected=f"0 .. {count - 1}"
        )
    first, stop, more = page.paging(messages, "start", start if row is None else row, count)
    more = page.without_columns(messages, more, len(view.metadata.schema.fields) - _MOST_COLUMNS)
    rules = Rules(sequence=sequence_rule, scope=scope_rule, vector_wins=vector_rule)
    switches = {"sequence_rule": sequence_rule, "scope_rule": scope_rule, "vector_rule": vector_rule}
    fields = view.metadata.schema.fields[:_MOST_COLUMNS]
    found = fates(view, at, data, fields, first, stop, rules)
    words = _Words(view, messages, data)
    return Page(
        sentence=words.sentence(found, row, rules),
        state={"data_file": name, "row": row, "start": first},
        blocks=[words.rows(found, [f.name for f in fields], row, more), *words.deletes(found)],
        controls=[
            page.select("data_file", messages("data-file"), name, _neighbours(view, at, name)),
            *(page.check(name, messages(f"rule-{name}"), on) for name, on in switches.items()),
        ],
    )


class _Words:
    """Puts verdicts on the rows of one data file into words."""

    def __init__(self, view: TableView, messages: Messages, data: ManifestEntry) -> None:
        self._view = view
        self._say = messages
        self._data = data
        self._name = view.aliases.of(data)

    def rows(self, found: Fates, columns: list[str], row: int | None, more: dict[str, Any]) -> Grid:
        say = self._say
        lines = []
        for fate in found.rows:
            mark: Mark = "live" if fate.live else "hidden"
            hits = " ".join(self._short(hit) for hit in fate.hits) or None
            values = (literal(v, 120) for v in fate.values)
            lines.append(page.line(fate.position, f"{fate.position:,}", say(mark), hits, *values, mark=mark))
        caption = say("rows-caption", file=self._name, sequence=self._data.sequence_number or 0)
        names = ("_pos", say("verdict"), say("deletes"), *map(brief, columns))
        return page.grid("rows", caption, names, lines, select="row", selected=row, numbers=(0,), **more)

    def deletes(self, found: Fates) -> Iterator[Grid]:
        """Show the deletes that were opened, and whether each applies."""
        say = self._say
        lines = []
        for naming in found.candidates:
            entry, reason = naming.entry, naming.reason
            name, kind = self._view.aliases.of(entry), say("kind-" + delete_of(entry).kind)
            cells = (entry.sequence_number or 0, self._columns(entry) or None, say("reason-" + reason))
            lines.append(page.line(name, name, kind, *cells))
        shown = say("deletes-left-out", count=f"{found.left_out:,}") if found.left_out else ""
        if lines or shown:
            columns = (say("delete"), say("kind"), "sequence_number", "equality_ids", say("applies"))
            caption = say("deletes-caption", file=self._name)
            yield page.grid("deletes", caption, columns, lines, numbers=(2,), shown=shown)

    def sentence(self, found: Fates, row: int | None, rules: Rules) -> str:
        """Say why the selected row is hidden or live, or how many rows are."""
        fate = next((f for f in found.rows if f.position == row), None)
        if fate is None:
            hidden = sum(not f.live for f in found.rows)
            text = self._say("rows-summary", file=self._name, rows=len(found.rows), hidden=hidden)
        else:
            text = self._verdict(fate)
        return text if rules == Rules() else f"{self._say('rules-broken')} {text}"

    def _verdict(self, fate: Fate) -> str:
        if not fate.hits:
            return self._say("row-untouched", row=f"{fate.position:,}", file=self._name)
        key = "row-live" if fate.live else "row-hidden"
        because = "; ".join(self._because(hit) for hit in fate.hits if hit.hides != fate.live)
        return self._say(key, row=f"{fate.position:,}", file=self._name, because=because)

    def _because(self, hit: NamingDelete) -> str:
        delete = delete_of(hit.entry)
        kind = "equality" if delete.content == FileContent.EQUALITY_DELETES else delete.kind
        return self._say(
            f"because-{kind}" if hit.hides else f"spared-{hit.reason}",
            delete=self._view.aliases.of(hit.entry),
            columns=self._columns(hit.entry),
            data=self._data.sequence_number or 0,
            sequence=hit.entry.sequence_number or 0,
            rule="<" if self._data.sequence_number != hit.entry.sequence_number else "<=",  # the broken rule
        )

    def _short(self, hit: NamingDelete) -> str:
        name = self._view.aliases.of(hit.entry)
        return name if hit.hides else f"({name})"

    def _columns(self, entry: ManifestEntry) -> str:
        """Return the key columns of an equality delete."""
        return ", ".join(map(self._column, delete_of(entry).equality_ids or ()))

    def _column(self, field_id: int) -> str:
        field = self._view.metadata.all_fields.get(field_id)
        return brief(self._view.metadata.schema.find_column_name(field_id) or (field.name if field else field_id))


def _data_file(view: TableView, snapshot: Snapshot, name: str | None) -> ManifestEntry | None:
    if name is not None:
        return view.data_file(snapshot, name)
    live = view.live(snapshot, ManifestContent.DATA)
    some = sorted(live[:_FILES_LOOKED_AT], key=view.aliases.order)
    index = view.index(snapshot)
    has_deletes = len(view.live(snapshot, ManifestContent.DELETES)) > 0
    return next((e for e in some if has_deletes and index.for_data_file(e)), some[0] if some else None)


def _neighbours(view: TableView, snapshot: Snapshot, name: str) -> list[str]:
    """Return the aliases of the live data files around one, by number."""
    live = view.live(snapshot, ManifestContent.DATA)
    if len(live) <= _MOST_NEIGHBOURS:
        return sorted(map(view.aliases.of, live), key=alias_number)
    middle = alias_number(name)
    near = []
    for n in range(max(middle - _MOST_NEIGHBOURS // 2, 1), middle + _MOST_NEIGHBOURS // 2):
        try:
            view.aliases.identity(f"D{n}")
        except NotFoundError:
            break
        near.append(f"D{n}")
    return near


# --- the fate of rows -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """One row: its values and every delete that has it."""

    position: int
    values: tuple[Any, ...]
    hits: Sequence[NamingDelete]

    @property
    def live(self) -> bool:
        return not any(hit.hides for hit in self.hits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fates:
    """Some rows of a data file, and the deletes that were looked into; `left_out` says how many were not."""

    rows: Sequence[Fate]
    candidates: Sequence[NamingDelete]
    left_out: int


def fates(
    view: TableView,
    snapshot: Snapshot,
    data: ManifestEntry,
    fields: tuple[NestedField, ...],
    start: int,
    stop: int,
    rules: Rules,
) -> Fates:
    """Return the fate of rows `start .. stop - 1` of a data file. Raises as `read_task`."""
    candidates, left_out = _candidates(view, snapshot, data, rules)
    wanted = PositionBitmap.from_range(start, max(stop, start))
    naming = [(d, named_positions(view.context, data, d.entry, wanted)) for d in candidates]
    rows = []
    for batch in read_task(view.context, ScanTask(data), ReadRequest(fields), wanted):
        low, high = max(batch.first_position, start), min(batch.first_position + len(batch), stop)
        some = batch.table.slice(low - batch.first_position, max(high - low, 0))
        columns = [python_values(some.column(i), f.name) for i, f in enumerate(fields)]
        for position in range(low, high):
            values = tuple(column[position - low] for column in columns)
            hits = tuple(delete for delete, positions in naming if position in positions)
            rows.append(Fate(position=position, values=values, hits=hits))
    return Fates(rows=rows, candidates=candidates, left_out=left_out)


def _candidates(
    view: TableView, snapshot: Snapshot, data: ManifestEntry, rules: Rules
) -> tuple[list[NamingDelete], int]:
    """Return deletes that may name rows of the file: all that apply by the specification, and some of the others."""
    applying = view.index(snapshot).for_data_file(data)
    known = {e.data_file.identity for e in applying}
    has_vector = any(delete_of(e).is_deletion_vector for e in applying)
    found = [NamingDelete(entry=e, reason="applies") for e in applying]
    live = view.live(snapshot, ManifestContent.DELETES)
    left_out = len(live) - len(applying)
    if len(live) <= MOST_OTHERS * 50:
        about = (None, data.data_file.file_path)
        others = [e for e in live if referenced_path(e.data_file) in about and e.data_file.identity not in known]
        left_out = max(len(others) - MOST_OTHERS, 0)
        for entry in others[:MOST_OTHERS]:
            reason = reason_of(entry, data, view.metadata.specs, has_vector=has_vector, rules=rules)
            found.append(NamingDelete(entry=entry, reason=reason))
    return sorted(found, key=lambda d: (d.entry.sequence_number or 0, view.aliases.order(d.entry))), left_out
