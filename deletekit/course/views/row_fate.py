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
from deletekit.deletes.plan import plan_scan
from deletekit.deletes.read import ReadRequest, kept_open, read_task, rows_at
from deletekit.deletes.scan_task import ScanTask
from deletekit.deletes.verdict import NamingDelete, Rules, named_positions, reason_of
from deletekit.deletes.which_apply import referenced_path
from deletekit.errors import InvalidInputError, NotFoundError
from deletekit.filters.filter import bound_filter, unbound_filter
from deletekit.formats.content_file import FileContent, ManifestEntry
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.formats.manifest_list import ManifestContent
from deletekit.table.metadata import Snapshot
from deletekit.table.python_values import python_values
from deletekit.text import brief, literal

MOST_OTHERS = 200
"""Limit on non-applying deletes that are still opened to see whether they contain the row."""

MOST_SEARCHED, MOST_HITS = 5_000_000, 1_000
"""Rows that a filter looks at, and rows that it finds; there may be more."""
_MOST_COLUMNS = 12
_FILES_LOOKED_AT = 2_000
_MOST_NEIGHBOURS = 100


@page.view_page(ignored={"start": "row", "row": "where", "data_file": "where"})
def row_fate(
    table: Any,
    *,
    where: str | None = None,
    hit: int = 0,
    data_file: str | None = None,
    row: int | None = None,
    start: int = 0,
    hidden_only: bool = False,
    snapshot: str | None = None,
    sequence_rule: bool = True,
    scope_rule: bool = True,
    vector_rule: bool = True,
    lang: str | None = None,
) -> Page:
    """Make the page of one data file's rows.

    Parameters
    ----------
    where, hit: a filter, as in `dk.scan`, and which of the rows found is chosen, from 0; hidden ones are found too.
    data_file: as `D1`; None is the first with a delete.
    row: position of the selected row.
    start, hidden_only: number of the first row shown, ignored if `row` is given; leave out live rows.
    snapshot: as `S2`; None is the current one.
    sequence_rule, scope_rule, vector_rule: see `Rules`; without them the page shows what would go wrong.

    Raises NotFoundError for a file or snapshot that does not exist, InvalidInputError for a bad filter or a row that is
    not in the file, FormatError naming a damaged file.
    """
    view, say = as_table_view(table), Messages(lang)
    at = view.snapshot(snapshot)
    hits = Hits.of(view, at, where) if at is not None and where else Hits()
    if hits.rows:
        data_file, row = hits.rows[hit % len(hits.rows)]
    data = _data_file(view, at, data_file) if at is not None else None
    if at is None or data is None:
        return Page(sentence=say("no-rows", table=view.name))
    name, count = view.aliases.of(data), data.data_file.record_count
    _check_row(name, row, count)
    switches = {"sequence_rule": sequence_rule, "scope_rule": scope_rule, "vector_rule": vector_rule}
    rules = Rules(sequence=sequence_rule, scope=scope_rule, vector_wins=vector_rule)
    fields = view.metadata.schema.fields[:_MOST_COLUMNS]
    candidates = candidates_of(view, at, data, rules)
    hidden = candidates.hidden(view, data) if hidden_only else None
    first, wanted, more = _shown(say, count, hidden, row, start)
    found = fates(view, data, fields, wanted, candidates)
    more = page.without_columns(say, more, len(view.metadata.schema.fields) - _MOST_COLUMNS)
    words = _Words(view, say, data)
    return Page(
        sentence=" ".join(filter(None, [hits.sentence(say, hit), words.sentence(found, row, rules)])),
        state={"data_file": name, "row": row, "start": first},
        blocks=[words.rows(found, [f.name for f in fields], row, more), *words.deletes(found)],
        controls=[
            page.text("where", say("row-find"), where),
            *([page.button("hit", say("row-next"), (hit + 1) % len(hits.rows))] if len(hits.rows) > 1 else []),
            page.select("data_file", say("data-file"), name, _neighbours(view, at, name)),
            page.check("hidden_only", say("hidden-only"), hidden_only),
            *(page.check(name, say(f"rule-{name}"), on) for name, on in switches.items()),
        ],
    )


def _check_row(name: str, row: int | None, count: int) -> None:
    if row is not None and not 0 <= row < count:
        raise InvalidInputError("no such row in this file", "row", "row", row, f"0 .. {count - 1}", file=name)


def _shown(
    say: Messages, count: int, hidden: PositionBitmap | None, row: int | None, start: int
) -> tuple[int, PositionBitmap, dict[str, Any]]:
    """Return the number and the positions of the rows shown, and a grid's arguments; `hidden` are all that may be."""
    if hidden is not None and row is not None:
        start, hidden = (hidden.count_in(0, row), hidden) if row in hidden else (row, None)
    elif row is not None:
        start = row
    first, stop, more = page.paging(say, "start", start, count if hidden is None else len(hidden))
    return first, PositionBitmap.from_range(first, stop) if hidden is None else _nth(hidden, first, stop), more


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
        for naming in found.candidates.deletes:
            entry, reason = naming.entry, str(naming.reason)
            name, kind = self._view.aliases.of(entry), say("kind-" + delete_of(entry).kind)
            if reason == "applies" and entry.data_file.identity in found.candidates.unopened:
                reason = "bounds"
            cells = (entry.sequence_number or 0, self._columns(entry) or None, say("reason-" + reason))
            lines.append(page.line(name, name, kind, *cells))
        shown = say("deletes-left-out", count=f"{found.candidates.left_out:,}") if found.candidates.left_out else ""
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
class Candidates:
    """The deletes that may name rows of a data file.

    Attributes
    ----------
    deletes: all that apply by the rules, and some of the others; `left_out` says how many are not among them.
    unopened: those that a reader need not open, because their bounds are outside the file's.
    """

    deletes: Sequence[NamingDelete]
    unopened: frozenset[Any]
    left_out: int

    def hidden(self, view: TableView, data: ManifestEntry) -> PositionBitmap:
        """Return the positions of all hidden rows of the file."""
        return PositionBitmap.union(named_positions(view.context, data, d.entry) for d in self.deletes if d.hides)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fates:
    """Some rows of a data file, and the deletes that were looked into."""

    rows: Sequence[Fate]
    candidates: Candidates


def fates(
    view: TableView,
    data: ManifestEntry,
    fields: tuple[NestedField, ...],
    wanted: PositionBitmap,
    candidates: Candidates,
) -> Fates:
    """Return the fate of some rows of a data file. Raises as `rows_at`."""
    with kept_open(view.context, ScanTask(data)):
        naming = [(d, named_positions(view.context, data, d.entry, wanted)) for d in candidates.deletes]
        found = rows_at(view.context, ScanTask(data), ReadRequest(fields), wanted)
    columns = [python_values(found.column(i), f.name) for i, f in enumerate(fields)] if found.num_columns else []
    rows = []
    for i, position in enumerate(wanted):
        hits = tuple(delete for delete, positions in naming if position in positions)
        rows.append(Fate(position=position, values=tuple(column[i] for column in columns), hits=hits))
    return Fates(rows=rows, candidates=candidates)


def _nth(positions: PositionBitmap, first: int, stop: int) -> PositionBitmap:
    """Return the positions from one place in their order to another."""
    found, passed = list[int](), 0
    for key, bitmap in sorted(positions.by_key.items()):
        here = range(max(first - passed, 0), min(stop - passed, len(bitmap)))
        found += [(key << 32) + bitmap[i] for i in here]
        passed += len(bitmap)
    return PositionBitmap(found)


def candidates_of(view: TableView, snapshot: Snapshot, data: ManifestEntry, rules: Rules | None = None) -> Candidates:
    """Return deletes that may name rows of the file: all that apply by the specification, and some of the others."""
    opened = view.index(snapshot).for_data_file(data)
    known = {e.data_file.identity for e in opened}
    has_vector = any(delete_of(e).is_deletion_vector for e in opened)
    found = [NamingDelete(entry=e, reason="applies") for e in opened]
    live = view.live(snapshot, ManifestContent.DELETES)
    left_out = len(live) - len(opened)
    if len(live) <= MOST_OTHERS * 50:
        about = (None, data.data_file.file_path)
        others = [e for e in live if referenced_path(e.data_file) in about and e.data_file.identity not in known]
        left_out = max(len(others) - MOST_OTHERS, 0)
        for entry in others[:MOST_OTHERS]:
            reason = reason_of(entry, data, view.metadata.specs, has_vector=has_vector, rules=rules)
            found.append(NamingDelete(entry=entry, reason=reason))
    ordered = sorted(found, key=lambda d: (d.entry.sequence_number or 0, view.aliases.order(d.entry)))
    unopened = {d.entry.data_file.identity for d in found if d.reason == "applies"} - known
    return Candidates(deletes=ordered, unopened=frozenset(unopened), left_out=left_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    """The rows that a filter finds, each by the name of its data file and its position; `whole` if those are all."""

    rows: Sequence[tuple[str, int]] = ()
    where: str = ""
    whole: bool = True

    @classmethod
    def of(cls, view: TableView, snapshot: Snapshot, where: str) -> Hits:
        """Search the data files of a snapshot. Raises InvalidInputError for a bad filter."""
        schema, read = view.metadata.schema, 0
        chosen = unbound_filter(where, schema)
        request, rows = ReadRequest((), bound_filter(chosen, schema)), list[tuple[str, int]]()
        tasks = plan_scan(view.metadata, snapshot, view.reader, chosen, schema)
        for task in sorted(tasks, key=lambda task: view.aliases.order(task.data)):
            if read >= MOST_SEARCHED or len(rows) >= MOST_HITS:
                return cls(rows=rows[:MOST_HITS], where=where, whole=False)
            read += task.data_file.record_count
            name = view.aliases.of(task.data)
            for batch in read_task(view.context, ScanTask(task.data), request):
                rows += [(name, int(position)) for position in batch.positions(batch.selected)]
        return cls(rows=rows[:MOST_HITS], where=where, whole=len(rows) <= MOST_HITS)

    def sentence(self, say: Messages, hit: int) -> str:
        """Say which of the rows is shown."""
        key = "row-found" if self.rows else "row-not-found"
        count = f"{len(self.rows):,}" + ("" if self.whole else "+")
        number = f"{hit % max(len(self.rows), 1) + 1:,}"
        return say(key, where=self.where, number=number, count=count) if self.where else ""
