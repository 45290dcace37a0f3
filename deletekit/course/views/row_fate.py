"""RowFate: the rows of a data file in order, each delete that has them, and why each row is hidden or not."""

from __future__ import annotations

from typing import Any

from deletekit.course.views.aliases import alias_number
from deletekit.course.views.build import code_line, paging, without_columns, words
from deletekit.course.views.fates import Fate, Fates, fates
from deletekit.course.views.messages import Messages
from deletekit.course.views.page import Block, Control, Grid, Line, Page
from deletekit.course.views.table_view import TableView, as_table_view, delete_of
from deletekit.deletes.verdict import NamingDelete, Rules
from deletekit.errors import InvalidInputError, NotFoundError
from deletekit.formats.content_file import FileContent, ManifestEntry
from deletekit.formats.manifest_list import ManifestContent
from deletekit.formats.safe_text import brief, literal
from deletekit.table.metadata import Snapshot

__all__ = ["row_fate"]

_MOST_COLUMNS = 12
_FILES_LOOKED_AT = 2_000


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
    """The page of one data file's rows.

    Parameters
    ----------
    data_file: as `D1`; None is the first with a delete.
    row: position of the selected row.
    start: position of the first row shown; ignored where `row` is given.
    snapshot: as `S2`; None is the current one.
    sequence_rule, scope_rule, vector_rule: see `Rules`; without them the page shows what would go wrong.

    Raises NotFoundError for a file or snapshot that is not there, InvalidInputError for a row that is not in the file,
    FormatError naming a damaged file.
    """
    view = as_table_view(table)
    messages = Messages(lang)
    state: dict[str, Any] = {"data_file": data_file, "row": row, "snapshot": snapshot}
    state |= {"sequence_rule": sequence_rule, "scope_rule": scope_rule, "vector_rule": vector_rule}
    at = view.snapshot(snapshot)
    data = _data_file(view, at, data_file) if at is not None else None
    if at is None or data is None:
        return _empty(view, messages)
    name = view.aliases.file(data)
    count = data.data_file.record_count
    if row is not None and not 0 <= row < count:
        raise InvalidInputError(
            "no such row in this file", kind="row", file=name, field="row", found=row, expected=f"0 .. {count - 1}"
        )
    first, stop, more = paging(messages, "start", start if row is None else row, count)
    if row is None and first:
        state["start"] = first
    more = without_columns(messages, more, len(view.metadata.schema.fields) - _MOST_COLUMNS)
    rules = Rules(sequence=sequence_rule, scope=scope_rule, vector_wins=vector_rule)
    fields = view.metadata.schema.fields[:_MOST_COLUMNS]
    found = fates(view, at, data, fields, first, stop, rules)
    teller = _Teller(view, messages, data)
    defaults = {"data_file": None, "sequence_rule": True, "scope_rule": True, "vector_rule": True}
    return Page(
        view="RowFate",
        title=messages("title-RowFate"),
        sentence=teller.sentence(found, row, rules),
        lang=messages.lang,
        code=code_line("RowFate", "table", state | {"data_file": name}, defaults),
        blocks=(teller.rows(found, [f.name for f in fields], row, more), *teller.deletes(found)),
        controls=(*_file_controls(view, at, messages, name), *_rule_controls(messages, rules)),
        state={"data_file": name, "row": row, "start": first},
        words=words(messages),
    )


class _Teller:
    """Puts fates into words."""

    def __init__(self, view: TableView, messages: Messages, data: ManifestEntry) -> None:
        self._view = view
        self._say = messages
        self._data = data
        self._name = view.aliases.file(data)

    def rows(self, found: Fates, columns: list[str], row: int | None, more: dict[str, Any]) -> Block:
        say = self._say
        lines = tuple(
            Line(
                key=fate.position,
                cells=(
                    f"{fate.position:,}",
                    say("live") if fate.live else say("hidden"),
                    " ".join(self._short(hit) for hit in fate.hits) or "-",
                    *(literal(v, 120) for v in fate.values),
                ),
                mark="live" if fate.live else "hidden",
            )
            for fate in found.rows
        )
        return Grid(
            name="rows",
            caption=say("rows-caption", file=self._name, sequence=str(self._data.sequence_number or 0)),
            columns=("_pos", say("verdict"), say("deletes"), *(brief(c) for c in columns)),
            lines=lines,
            select="row",
            selected=row,
            numbers=(0,),
            **more,
        )

    def deletes(self, found: Fates) -> tuple[Block, ...]:
        say = self._say
        lines = []
        for naming in found.candidates:
            entry, delete = naming.entry, delete_of(naming.entry)
            ids = ", ".join(self._column(i) for i in delete.equality_ids or ())
            lines.append(
                Line(
                    key=self._view.aliases.file(entry),
                    cells=(
                        self._view.aliases.file(entry),
                        say("kind-" + delete.kind),
                        str(entry.sequence_number or 0),
                        ids or "-",
                        say("reason-" + naming.reason),
                    ),
                )
            )
        shown = say("deletes-left-out", count=f"{found.left_out:,}") if found.left_out else ""
        if not lines and not shown:
            return ()
        columns = (say("delete"), say("kind"), "sequence_number", "equality_ids", say("applies"))
        caption = say("deletes-caption", file=self._name)
        return (Grid(name="deletes", caption=caption, columns=columns, lines=tuple(lines), numbers=(2,), shown=shown),)

    def sentence(self, found: Fates, row: int | None, rules: Rules) -> str:
        fate = next((f for f in found.rows if f.position == row), None)
        if fate is None:
            hidden = sum(not f.live for f in found.rows)
            text = self._say("rows-summary", file=self._name, rows=str(len(found.rows)), hidden=str(hidden))
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
        values = {
            "delete": self._view.aliases.file(hit.entry),
            "columns": ", ".join(self._column(i) for i in delete.equality_ids or ()),
            "data": str(self._data.sequence_number or 0),
            "sequence": str(hit.entry.sequence_number or 0),
            "rule": "<" if self._data.sequence_number != hit.entry.sequence_number else "<=",  # the rule that is broken
        }
        kind = "equality" if delete.content == FileContent.EQUALITY_DELETES else delete.kind
        return self._say(f"because-{kind}" if hit.hides else f"spared-{hit.reason}", **values)

    def _short(self, hit: NamingDelete) -> str:
        name = self._view.aliases.file(hit.entry)
        return name if hit.hides else f"({name})"

    def _column(self, field_id: int) -> str:
        field = self._view.metadata.all_fields.get(field_id)
        return brief(self._view.metadata.schema.find_column_name(field_id) or (field.name if field else field_id))


def _data_file(view: TableView, snapshot: Snapshot, name: str | None) -> ManifestEntry | None:
    if name is not None:
        return view.data_file(snapshot, name)
    live = view.live(snapshot, ManifestContent.DATA)
    some = sorted(live.some(0, _FILES_LOOKED_AT), key=lambda e: alias_number(view.aliases.file(e)))
    index = view.index(snapshot)
    has_deletes = len(view.live(snapshot, ManifestContent.DELETES)) > 0
    return next((e for e in some if has_deletes and index.for_data_file(e)), some[0] if some else None)


def _file_controls(view: TableView, snapshot: Snapshot, messages: Messages, name: str) -> tuple[Control, ...]:
    """The files beside the one shown, and a place to type any."""
    names = _neighbours(view, snapshot, name)
    return (
        Control(
            kind="select",
            trait="data_file",
            label=messages("data-file"),
            value=name,
            options=tuple((n, n) for n in names),
        ),
    )


def _neighbours(view: TableView, snapshot: Snapshot, name: str, most: int = 100) -> list[str]:
    """Aliases of at most `most` live data files around one, by number."""
    live = view.live(snapshot, ManifestContent.DATA)
    if len(live) <= most:
        found = [view.aliases.file(e) for e in live.some(0, len(live))]
        return sorted(found, key=alias_number)
    number = alias_number(name)
    near = []
    for n in range(max(number - most // 2, 1), number + most // 2):
        try:
            view.aliases.identity(f"D{n}")
        except NotFoundError:
            break
        near.append(f"D{n}")
    return near


def _rule_controls(messages: Messages, rules: Rules) -> tuple[Control, ...]:
    return tuple(
        Control(kind="check", trait=trait, label=messages(f"rule-{trait}"), value=value)
        for trait, value in (
            ("sequence_rule", rules.sequence),
            ("scope_rule", rules.scope),
            ("vector_rule", rules.vector_wins),
        )
    )


def _empty(view: TableView, messages: Messages) -> Page:
    return Page(
        view="RowFate",
        title=messages("title-RowFate"),
        sentence=messages("no-rows", table=view.name),
        lang=messages.lang,
        code=code_line("RowFate", "table", {}, {}),
        words=words(messages),
    )
