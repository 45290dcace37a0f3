"""StreamStepper: a change stream batch by batch through the real sink: what each batch did, what a stop leaves behind.

Law: everything shown is read from the record's table; only what ought to be seen comes from elsewhere, a replay of the
changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from deletekit.course.recordings.stream_crashes import CRASHES
from deletekit.course.recordings.stream_steps import BATCHES, STREAM_MODES, StreamCall, StreamRecord, record_stream
from deletekit.course.views.aliases import alias_number
from deletekit.course.views.build import code_line, words
from deletekit.course.views.fates import fates
from deletekit.course.views.messages import Messages
from deletekit.course.views.page import Control, Facts, Grid, Line, Mark, Page
from deletekit.course.views.table_view import TableView, delete_of
from deletekit.deletes.scope import referenced_path
from deletekit.deletes.verdict import Rules
from deletekit.formats.content_file import FileContent, ManifestEntry
from deletekit.formats.manifest_list import ManifestContent
from deletekit.formats.safe_text import literal, runs
from deletekit.table.metadata import Snapshot

__all__ = ["stream_stepper", "stream_table"]

_DEFAULTS = {"step": 1, "mode": "auto", "format_version": 3, "crash": "", "resumed": False, "checkpoint_check": True}
_COUNTERS = (
    "added-data-files",
    "deleted-data-files",
    "added-equality-delete-files",
    "added-position-delete-files",
    "added-dvs",
)


def stream_stepper(
    *,
    step: int = 1,
    mode: str = "auto",
    format_version: int = 3,
    crash: str = "",
    resumed: bool = False,
    checkpoint_check: bool = True,
    lang: str | None = None,
) -> Page:
    """The page of a stream after `step` batches, applied now to a table of its own.

    Parameters
    ----------
    step: batches applied, 0 to 4.
    mode: of the sink: `auto`, `flink`, `eq-only` or `index-only`.
    format_version: of the table, 2 or 3.
    crash: where the sink is stopped in the last batch, one of `CRASHES`, or nowhere; see `record_stream`.
    resumed: another process goes on, and is sent that batch again.
    checkpoint_check: False for a writer that is no sink, and does not look which batch was the last.

    Raises InvalidInputError for a step, mode, version or crash that there is not.
    """
    messages = Messages(lang)
    state = {"step": step, "mode": mode, "format_version": format_version, "crash": crash, "resumed": resumed}
    state["checkpoint_check"] = checkpoint_check
    record, view = _recorded(**state)
    return Page(
        view="StreamStepper",
        title=messages("title-StreamStepper"),
        sentence=_sentence(messages, record, view, state),
        lang=messages.lang,
        code=code_line("StreamStepper", "", state, _DEFAULTS),
        blocks=(
            _changes(messages, record, step),
            _calls(messages, record, view),
            _files(messages, record, view),
            _rows(messages, view),
            _replay(messages, record),
        ),
        controls=_controls(messages, record, state),
        words=words(messages),
    )


def stream_table(**state: Any) -> TableView:
    """The table that the page of a state is about, to be looked at with the other views."""
    return _recorded(**{**_DEFAULTS, **state})[1]


@lru_cache(maxsize=8)
def _recorded(
    *, step: int, mode: Any, format_version: int, crash: Any, resumed: bool, checkpoint_check: bool
) -> tuple[StreamRecord, TableView]:
    record = record_stream(
        step,
        mode=mode,
        format_version=format_version,
        crash=crash,
        resumed=resumed,
        checkpoint_check=checkpoint_check,
    )
    return record, TableView(record.table)


def _sentence(messages: Messages, record: StreamRecord, view: TableView, state: Mapping[str, Any]) -> str:
    right = record.rows == record.expected
    key = ("stream-waits" if right else "stream-waits-wrong") if record.waits else "stream-right"
    said = messages(
        key if record.waits or right else "stream-wrong",
        step=str(state["step"]),
        batch=str(state["step"] - 1),
        snapshots=str(len(view.metadata.snapshots)),
        rows=str(len(record.rows)),
        orphans=str(len(record.orphans)),
    )
    if state["crash"] not in ("", "answer-lost") and not record.stopped:
        return f"{said} {messages('stream-not-reached')}"
    return said


def _changes(messages: Messages, record: StreamRecord, step: int) -> Grid:
    lines = []
    waits = step - 1 if record.waits else -1
    for number, batch in enumerate(BATCHES):
        text = "stream-ahead" if number >= step else "stream-stopped" if number == waits else "stream-read"
        mark: Mark = "" if number >= step else "wrong" if number == waits else "live"
        for i, change in enumerate(batch):
            cells = (str(number), change["_change_type"], str(change["id"]), change["value"] or "-", messages(text))
            lines.append(Line(key=f"{number}.{i}", cells=cells, mark=mark))
    columns = ("batch_id", "_change_type", "id", "value", messages("state-of"))
    return Grid(name="changes", caption=messages("stream-changes"), columns=columns, lines=tuple(lines))


def _calls(messages: Messages, record: StreamRecord, view: TableView) -> Grid:
    lines = tuple(
        Line(
            key=i,
            cells=_call(messages, call, view),
            mark="wrong" if call.stopped else "added" if call.snapshot else "",
        )
        for i, call in enumerate(record.calls)
    )
    columns = (
        messages("stream-process"),
        messages("stream-call"),
        "batch_id",
        "status",
        "hits",
        "misses",
        messages("snapshot"),
        *_COUNTERS,
        "read_files",
        "index_rows",
        "index_bytes",
    )
    numbers = (0, 2, 4, 5, *range(7, len(columns)))
    return Grid(name="calls", caption=messages("stream-calls"), columns=columns, lines=lines, numbers=numbers)


def _call(messages: Messages, call: StreamCall, view: TableView) -> tuple[str, ...]:
    done = call.progress
    status = messages("stream-stopped") if call.stopped else done.status if done else "-"
    summary = call.snapshot.summary if call.snapshot else {}
    alias = view.aliases.snapshot(call.snapshot.snapshot_id) if call.snapshot else "-"
    return (
        str(call.process),
        call.name,
        "-" if call.batch_id is None else str(call.batch_id),
        status,
        *((f"{done.hits}", f"{done.misses}") if done else ("-", "-")),
        alias,
        *(summary.get(name, "0") if call.snapshot else "-" for name in _COUNTERS),
        *((f"{done.read_files}", f"{done.index_rows}", f"{done.index_bytes}") if done else ("-", "-", "-")),
    )


def _files(messages: Messages, record: StreamRecord, view: TableView) -> Grid:
    """What is live, and what nothing leads to."""
    lines = []
    for content in (ManifestContent.DATA, ManifestContent.DELETES):
        for entry in _live(view, content):
            cells = (view.aliases.file(entry), _kind(messages, entry), str(entry.sequence_number or 0))
            lines.append(
                Line(
                    key=view.aliases.file(entry),
                    cells=(*cells, str(entry.data_file.record_count), _holds(view, entry)),
                    mark="live" if content == ManifestContent.DATA else "hidden",
                )
            )
    for i, path in enumerate(sorted(record.orphans, key=_orphan)):
        unknown = (messages("orphan"), _orphan(path), "-", "-", "-")
        lines.append(Line(key=f"orphan-{i}", cells=unknown, mark="wrong"))
    columns = (messages("file"), messages("kind"), "sequence_number", "record_count", messages("stream-holds"))
    return Grid(name="files", caption=messages("stream-files"), columns=columns, lines=tuple(lines), numbers=(2, 3))


def _kind(messages: Messages, entry: ManifestEntry) -> str:
    if entry.data_file.content == FileContent.DATA:
        return messages("kind-data-file")
    return messages(f"kind-{delete_of(entry).kind}")


def _orphan(path: str) -> str:
    """What kind of file it is, by its place and ending: its name is another one every time."""
    folder, name = path.rsplit("/", 2)[-2:]
    kind = "snap-*" if name.startswith("snap-") else "*"
    return f"{folder}/{kind}.{name.rsplit('.', 1)[-1]}"


def _holds(view: TableView, entry: ManifestEntry) -> str:
    """Positions or keys of a delete."""
    if entry.data_file.content == FileContent.DATA:
        return "-"
    delete = delete_of(entry)
    if delete.content == FileContent.EQUALITY_DELETES:
        ids = tuple(sorted(delete.equality_ids or ()))
        (keys,) = view.context.loader.key_columns(ids, delete)
        return ", ".join(f"id = {literal(key)}" for key in sorted(keys.to_pylist()))
    said = []
    for data in _live(view, ManifestContent.DATA):
        path = data.data_file.file_path
        if referenced_path(delete) not in (None, path):
            continue  # a vector has the same positions whatever file is asked about
        positions = view.context.loader.positions_of(delete, path)
        if len(positions):
            said.append(f"{view.aliases.file(data)}: {', '.join(runs(positions))}")
    return "; ".join(said) or "-"


def _live(view: TableView, content: ManifestContent) -> list[ManifestEntry]:
    snapshot = view.snapshot(None)
    if snapshot is None:
        return []
    live = view.live(snapshot, content)
    return sorted(live.some(0, len(live)), key=lambda e: alias_number(view.aliases.file(e)))


def _rows(messages: Messages, view: TableView) -> Grid:
    snapshot = view.snapshot(None)
    lines = tuple(_lines(messages, view, snapshot)) if snapshot is not None else ()
    columns = (messages("row"), "id", "value", messages("verdict"), messages("deletes"))
    return Grid(name="rows", caption=messages("stream-rows"), columns=columns, lines=lines)


def _lines(messages: Messages, view: TableView, snapshot: Snapshot) -> Iterator[Line]:
    fields = view.metadata.schema.fields
    for entry in _live(view, ManifestContent.DATA):
        name = view.aliases.file(entry)
        for fate in fates(view, snapshot, entry, fields, 0, entry.data_file.record_count, Rules()).rows:
            place = f"{name}:{fate.position}"
            hides = " ".join(view.aliases.file(hit.entry) for hit in fate.hits if hit.hides) or "-"
            verdict = messages("live") if fate.live else messages("hidden")
            cells = (place, *(str(value) for value in fate.values), verdict, hides)
            yield Line(key=place, cells=cells, mark="live" if fate.live else "hidden")


def _replay(messages: Messages, record: StreamRecord) -> Facts:
    right = record.rows == record.expected
    items = (
        (messages("stream-replayed"), _as_text(record.expected)),
        (messages("stream-seen"), _as_text(record.rows)),
        (messages("verdict"), messages("same") if right else messages("different")),
    )
    return Facts(name="replay", caption=messages("stream-replay"), items=items, mark="" if right else "wrong")


def _as_text(rows: tuple[tuple[int, str], ...]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in rows) or "-"


def _controls(messages: Messages, record: StreamRecord, state: Mapping[str, Any]) -> tuple[Control, ...]:
    step, last = state["step"], len(BATCHES)
    modes = tuple((m, m) for m in STREAM_MODES)
    versions = tuple((v, str(v)) for v in (2, 3))
    crashes = tuple((c, messages(f"crash-{c or 'none'}")) for c in ("", *CRASHES))
    back, on = max(step - 1, 0), min(step + 1, last)
    return (
        Control(kind="select", trait="mode", label=messages("mode"), value=state["mode"], options=modes),
        Control(
            kind="select",
            trait="format_version",
            label=messages("format-version"),
            value=state["format_version"],
            options=versions,
        ),
        Control(kind="button", trait="step", label=messages("step-back"), value=back, disabled=step == 0),
        Control(kind="button", trait="step", label=messages("step-on"), value=on, disabled=step == last),
        Control(kind="select", trait="crash", label=messages("crash"), value=state["crash"], options=crashes),
        Control(kind="button", trait="resumed", label=messages("resume"), value=True, disabled=not record.waits),
        Control(
            kind="check", trait="checkpoint_check", label=messages("checkpoint-check"), value=state["checkpoint_check"]
        ),
    )
