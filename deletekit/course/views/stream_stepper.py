"""StreamStepper: a change stream batch by batch through the real sink: what each batch did, what a stop leaves behind.

Everything shown is read from the record's table. Only the expected rows come from replaying the changes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from deletekit.course.translations import Messages
from deletekit.course.views import page
from deletekit.course.views.page import Control, Facts, Grid, Line, Mark, Page
from deletekit.course.views.row_fate import candidates_of, fates
from deletekit.course.views.table_view import TableView, delete_of, kind_of
from deletekit.deletes.which_apply import referenced_path
from deletekit.formats.content_file import FileContent, ManifestEntry
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.formats.manifest_list import ManifestContent
from deletekit.table.metadata import Snapshot
from deletekit.table.table import Table
from deletekit.text import literal, runs

_COUNTERS = (
    "added-data-files",
    "deleted-data-files",
    "added-equality-delete-files",
    "added-position-delete-files",
    "added-dvs",
)
"""Counters of a snapshot's summary, added up for a call. Those are shown that one of the calls has counted."""


# --- what a stream consists of: the batches, the calls on the sink, and the table they leave --------------------------

Change = Mapping[str, Any]
Row = tuple[int, str]
Crash = Literal[
    "before-files",
    "before-manifests",
    "before-commit",
    "answer-lost",
    "after-commit",
    "in-conversion",
    "markers-expired",
]
CRASHES: tuple[Crash, ...] = get_args(Crash)
"""Where a sink can be stopped; see `record_stream`."""
STREAM_MODES = ("auto", "flink", "eq-only", "index-only")
"""Modes of the sink, and `flink`, a writer of its own: `write_checkpoint`."""


def _change(kind: str, number: int, value: str | None = None) -> Change:
    return {"id": number, "value": value, "_change_type": kind}


BATCHES: tuple[tuple[Change, ...], ...] = (
    (_change("INSERT", 1, "a"), _change("INSERT", 2, "b"), _change("INSERT", 3, "c"), _change("INSERT", 6, "f")),
    (_change("UPDATE_BEFORE", 2, "b"), _change("UPDATE_AFTER", 2, "b2"), _change("DELETE", 3)),
    (_change("INSERT", 4, "d"), _change("UPDATE_AFTER", 4, "d2"), _change("UPDATE_AFTER", 1, "a2")),
    (_change("DELETE", 2), _change("INSERT", 5, "e")),
)
"""The stream: change rows, batch by batch. The key is `id`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCall:
    """One call on a sink, or one of maintenance between two sinks.

    Attributes
    ----------
    process: 1, or 2 after the first one was stopped.
    name: `write`, `convert`, `compact` or `expire_snapshots`.
    batch_id: of a write.
    progress: the `BatchProgress` that a write returned; None for other calls, and for one that was stopped.
    snapshots: those that the call put on `main`, the oldest first.
    stopped: the process was stopped in this call.
    """

    process: int
    name: Literal["write", "convert", "compact", "expire_snapshots"]
    batch_id: int | None = None
    progress: Any = None
    snapshots: tuple[Snapshot, ...] = ()
    stopped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRecord:
    """What the first batches did.

    Attributes
    ----------
    table: the table, read-only; its files exist as long as this object does.
    calls: in order.
    orphans: paths of orphan files, as `remove_orphan_files` finds them.
    rows: what a reader sees, sorted.
    expected: the rows after replaying the changes into a dict, sorted.
    """

    table: Table = field(repr=False)
    calls: tuple[StreamCall, ...]
    orphans: tuple[str, ...]
    rows: tuple[Row, ...]
    expected: tuple[Row, ...]

    @property
    def stopped(self) -> bool:
        """Whether the sink reached the point where it should stop."""
        return any(call.stopped for call in self.calls)

    @property
    def waits(self) -> bool:
        """Whether the sink was stopped and has not been started again."""
        return self.stopped and all(call.process == 1 for call in self.calls)


# --- the page ---------------------------------------------------------------------------------------------------------


@page.view_page()
def stream_stepper(
    record: StreamRecord,
    *,
    step: int = 1,
    mode: str = "auto",
    format_version: int = 3,
    crash: str = "",
    resumed: bool = False,
    checkpoint_check: bool = True,
    lang: str | None = None,
) -> Page:
    """Make the page of a stream after `step` batches.

    Parameters
    ----------
    record: what the batches did, as `record_stream` returns it for the other arguments.
    step: batches applied, 0 to 4.
    mode: of the sink, `auto`, `eq-only` or `index-only`; or `flink`, which writes as Flink's sink does.
    format_version: of the table, 2 or 3.
    crash: where the sink is stopped in the last batch, one of `CRASHES`, or nowhere; see `record_stream`.
    resumed: another process goes on and gets that batch again.
    checkpoint_check: False for a writer that is not a sink and does not check which batch was the last.
    """
    del resumed  # the record tells what followed from it
    messages = Messages(lang)
    view = TableView(record.table)
    state = {"mode": mode, "format_version": format_version, "crash": crash, "checkpoint_check": checkpoint_check}
    return Page(
        sentence=_sentence(messages, record, view, step, crash),
        source=(),
        blocks=[
            _changes(messages, record, step),
            _calls(messages, record, view),
            _files(messages, record, view),
            _rows(messages, view),
            _replay(messages, record),
        ],
        controls=list(_controls(messages, record, step, state)),
    )


def _sentence(messages: Messages, record: StreamRecord, view: TableView, step: int, crash: str) -> str:
    right = record.rows == record.expected
    key = ("stream-waits" if right else "stream-waits-wrong") if record.waits else "stream-right"
    said = messages(
        key if record.waits or right else "stream-wrong",
        step=step,
        batch=step - 1,
        snapshots=len(view.metadata.snapshots),
        rows=len(record.rows),
        orphans=len(record.orphans),
    )
    if crash not in ("", "answer-lost") and not record.stopped:
        return f"{said} {messages('stream-not-reached')}"
    return said


def _changes(messages: Messages, record: StreamRecord, step: int) -> Grid:
    lines = []
    waits = step - 1 if record.waits else -1
    for batch_id, batch in enumerate(BATCHES):
        text = "stream-ahead" if batch_id >= step else "stream-stopped" if batch_id == waits else "stream-read"
        mark: Mark = "" if batch_id >= step else "wrong" if batch_id == waits else "live"
        for i, change in enumerate(batch):
            cells = (batch_id, change["_change_type"], change["id"], change["value"], messages(text))
            lines.append(page.line(f"{batch_id}.{i}", *cells, mark=mark))
    columns = ("batch_id", "_change_type", "id", "value", messages("state-of"))
    return page.grid("changes", messages("stream-changes"), columns, lines)


def _calls(messages: Messages, record: StreamRecord, view: TableView) -> Grid:
    lines = []
    counted = [{name: _counted(call, name) for name in _COUNTERS} for call in record.calls]
    counters = [name for name in _COUNTERS if any(counts[name] for counts in counted)]
    for key, (call, counts) in enumerate(zip(record.calls, counted, strict=True)):
        status = messages("stream-stopped") if call.stopped else getattr(call.progress, "status", None)
        cells = (
            *(call.process, call.name, call.batch_id, status),
            ", ".join(view.aliases.snapshot_name(s.snapshot_id) for s in call.snapshots) or None,
            *(counts[name] if call.snapshots else None for name in counters),
        )
        lines.append(page.line(key, *cells, mark="wrong" if call.stopped else "added" if call.snapshots else ""))
    columns = (
        *(messages("stream-process"), messages("stream-call"), "batch_id", "status"),
        *(messages("snapshot"), *counters),
    )
    numbers = (0, 2, *range(5, len(columns)))
    return page.grid("calls", messages("stream-calls"), columns, lines, numbers=numbers)


def _counted(call: StreamCall, counter: str) -> int:
    return sum(int(snapshot.summary.get(counter, "0")) for snapshot in call.snapshots)


def _files(messages: Messages, record: StreamRecord, view: TableView) -> Grid:
    """Show the live files and the orphan files."""
    lines = []
    for content in (ManifestContent.DATA, ManifestContent.DELETES):
        for entry in _live(view, content):
            name, kind = view.aliases.of(entry), messages("kind-" + kind_of(entry))
            cells = (entry.sequence_number or 0, entry.data_file.record_count, _holds(view, entry))
            mark: Mark = "live" if content == ManifestContent.DATA else "hidden"
            lines.append(page.line(name, name, kind, *cells, mark=mark))
    for i, path in enumerate(sorted(record.orphans, key=_orphan)):
        lines.append(page.line(f"orphan-{i}", messages("orphan"), _orphan(path), None, None, None, mark="wrong"))
    columns = (messages("file"), messages("kind"), "sequence_number", "record_count", messages("stream-holds"))
    return page.grid("files", messages("stream-files"), columns, lines, numbers=(2, 3))


def _orphan(path: str) -> str:
    """Return what kind of file it is, by its folder and suffix: its name is different every time."""
    folder, name = path.rsplit("/", 2)[-2:]
    kind = "snap-*" if name.startswith("snap-") else "*"
    return f"{folder}/{kind}.{name.rsplit('.', 1)[-1]}"


def _holds(view: TableView, entry: ManifestEntry) -> str | None:
    """Return the positions or keys of a delete."""
    if entry.data_file.content == FileContent.DATA:
        return None
    delete = delete_of(entry)
    if delete.content == FileContent.EQUALITY_DELETES:
        ids = tuple(sorted(delete.equality_ids or ()))
        (keys,) = view.context.loader.key_columns(ids, delete)
        return ", ".join(f"id = {literal(key)}" for key in sorted(keys.to_pylist()))
    said = []
    for data in _live(view, ManifestContent.DATA):
        path = data.data_file.file_path
        if referenced_path(delete) not in (None, path):
            continue  # a vector gives the same positions for every data file
        positions = view.context.loader.positions_of(delete, path)
        if len(positions):
            said.append(f"{view.aliases.of(data)}: {', '.join(runs(positions))}")
    return "; ".join(said) or None


def _live(view: TableView, content: ManifestContent) -> list[ManifestEntry]:
    snapshot = view.snapshot(None)
    return sorted(view.live(snapshot, content), key=lambda e: view.aliases.order(e)[1]) if snapshot else []


def _rows(messages: Messages, view: TableView) -> Grid:
    columns = (messages("row"), "id", "value", messages("verdict"), messages("deletes"))
    return page.grid("rows", messages("stream-rows"), columns, _lines(messages, view))


def _lines(messages: Messages, view: TableView) -> Iterator[Line]:
    snapshot = view.snapshot(None)
    if snapshot is None:
        return
    fields = view.metadata.schema.fields
    for entry in _live(view, ManifestContent.DATA):
        name = view.aliases.of(entry)
        whole = PositionBitmap.from_range(0, entry.data_file.record_count)
        for fate in fates(view, entry, fields, whole, candidates_of(view, snapshot, entry)).rows:
            place = f"{name}:{fate.position}"
            hides = " ".join(view.aliases.of(hit.entry) for hit in fate.hits if hit.hides) or None
            state: Mark = "live" if fate.live else "hidden"
            yield page.line(place, place, *map(str, fate.values), messages(state), hides, mark=state)


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


def _controls(messages: Messages, record: StreamRecord, step: int, state: Mapping[str, Any]) -> Iterator[Control]:
    last, crashes = len(BATCHES), ("", *CRASHES)
    labels = (messages(f"crash-{crash or 'none'}") for crash in crashes)
    yield page.select("mode", messages("mode"), state["mode"], STREAM_MODES)
    yield page.select("format_version", messages("format-version"), state["format_version"], (2, 3))
    yield page.button("step", messages("step-back"), max(step - 1, 0), disabled=step == 0)
    yield page.button("step", messages("step-on"), min(step + 1, last), disabled=step == last)
    yield page.select("crash", messages("crash"), state["crash"], crashes, labels)
    yield page.button("resumed", messages("resume"), True, disabled=not record.waits)  # the trait's value
    yield page.check("checkpoint_check", messages("checkpoint-check"), state["checkpoint_check"])
