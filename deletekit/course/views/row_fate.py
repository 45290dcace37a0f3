"""RowFate: the rows of a data file in order, each delete that has them, and why each row is hidden or not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deletekit.course.translations import Messages
from deletekit.course.views.build import check, line, make_page, paging, select, without_columns
from deletekit.course.views.fates import Fate, Fates, fates
from deletekit.course.views.page import Block, Grid, Mark, Page
from deletekit.course.views.short_names import alias_number
from deletekit.course.views.table_view import TableView, as_table_view, delete_of
from deletekit.deletes.verdict import NamingDelete, Rules
from deletekit.errors import InvalidInputError, NotFoundError
from deletekit.formats.content_file import FileContent, ManifestEntry
from deletekit.formats.manifest_list import ManifestContent
from deletekit.safe_text import brief, literal
from deletekit.table.metadata import Snapshot

_MOST_COLUMNS = 12
_FILES_LOOKED_AT = 2_000
_MOST_NEIGHBOURS = 100


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
        return make_page(messages, row_fate, messages("no-rows", table=view.name))
    name = view.aliases.file(data)
    count = data.data_file.record_count
    if row is not None and not 0 <= row < count:
        raise InvalidInputError(
            "no such row in this file", kind="row", file=name, field="row", found=row, expected=f"0 .. {count - 1}"
        )
    first, stop, more = paging(messages, "start", start if row is None else row, count)
    state: dict[str, Any] = {"data_file": name, "row": row, "snapshot": snapshot}
    state |= {"sequence_rule": sequence_rule, "scope_rule": scope_rule, "vector_rule": vector_rule}
    state |= {"start": first} if row is None else {}
    more = without_columns(messages, more, len(view.metadata.schema.fields) - _MOST_COLUMNS)
    rules = Rules(sequence=sequence_rule, scope=scope_rule, vector_wins=vector_rule)
    fields = view.metadata.schema.fields[:_MOST_COLUMNS]
    found = fates(view, at, data, fields, first, stop, rules)
    words = _Words(view, messages, data)
    return make_page(
        messages,
        row_fate,
        words.sentence(found, row, rules),
        state=state,
        chosen={"data_file": name, "row": row, "start": first},
        blocks=(words.rows(found, [f.name for f in fields], row, more), *words.deletes(found)),
        controls=[
            select("data_file", messages("data-file"), name, _neighbours(view, at, name)),
            check("sequence_rule", messages("rule-sequence_rule"), sequence_rule),
            check("scope_rule", messages("rule-scope_rule"), scope_rule),
            check("vector_rule", messages("rule-vector_rule"), vector_rule),
        ],
    )


class _Words:
    """Puts verdicts on the rows of one data file into words."""

    def __init__(self, view: TableView, messages: Messages, data: ManifestEntry) -> None:
        self._view = view
        self._say = messages
        self._data = data
        self._name = view.aliases.file(data)

    def rows(self, found: Fates, columns: list[str], row: int | None, more: dict[str, Any]) -> Block:
        say = self._say
        lines = []
        for fate in found.rows:
            mark: Mark = "live" if fate.live else "hidden"
            hits = " ".join(self._short(hit) for hit in fate.hits) or None
            values = (literal(v, 120) for v in fate.values)
            lines.append(line(fate.position, f"{fate.position:,}", say(mark), hits, *values, mark=mark))
        return Grid(
            name="rows",
            caption=say("rows-caption", file=self._name, sequence=self._data.sequence_number or 0),
            columns=("_pos", say("verdict"), say("deletes"), *map(brief, columns)),
            lines=tuple(lines),
            select="row",
            selected=row,
            numbers=(0,),
            **more,
        )

    def deletes(self, found: Fates) -> Iterator[Block]:
        """Show the deletes that were opened, and whether each applies."""
        say = self._say
        lines = []
        for naming in found.candidates:
            entry, reason = naming.entry, naming.reason
            name, kind = self._view.aliases.file(entry), say("kind-" + delete_of(entry).kind)
            cells = (entry.sequence_number or 0, self._columns(entry) or None, say("reason-" + reason))
            lines.append(line(name, name, kind, *cells))
        shown = say("deletes-left-out", count=f"{found.left_out:,}") if found.left_out else ""
        if lines or shown:
            columns = (say("delete"), say("kind"), "sequence_number", "equality_ids", say("applies"))
            caption = say("deletes-caption", file=self._name)
            yield Grid(name="deletes", caption=caption, columns=columns, lines=tuple(lines), numbers=(2,), shown=shown)

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
            delete=self._view.aliases.file(hit.entry),
            columns=self._columns(hit.entry),
            data=self._data.sequence_number or 0,
            sequence=hit.entry.sequence_number or 0,
            rule="<" if self._data.sequence_number != hit.entry.sequence_number else "<=",  # the broken rule
        )

    def _short(self, hit: NamingDelete) -> str:
        name = self._view.aliases.file(hit.entry)
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
    some = sorted(live[:_FILES_LOOKED_AT], key=view.aliases.number)
    index = view.index(snapshot)
    has_deletes = len(view.live(snapshot, ManifestContent.DELETES)) > 0
    return next((e for e in some if has_deletes and index.for_data_file(e)), some[0] if some else None)


def _neighbours(view: TableView, snapshot: Snapshot, name: str) -> list[str]:
    """Return the aliases of the live data files around one, by number."""
    live = view.live(snapshot, ManifestContent.DATA)
    if len(live) <= _MOST_NEIGHBOURS:
        return sorted(map(view.aliases.file, live), key=alias_number)
    middle = alias_number(name)
    near = []
    for n in range(max(middle - _MOST_NEIGHBOURS // 2, 1), middle + _MOST_NEIGHBOURS // 2):
        try:
            view.aliases.identity(f"D{n}")
        except NotFoundError:
            break
        near.append(f"D{n}")
    return near
