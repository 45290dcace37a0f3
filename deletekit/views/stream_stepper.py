"""StreamStepper: a change stream, batch by batch: what a commit writes, what a reader sees, what a crash does."""

from __future__ import annotations

from typing import Any, get_args

from deletekit.errors import InvalidInputError
from deletekit.views.build import code_line, words
from deletekit.views.messages import Messages
from deletekit.views.page import Control, Grid, Line, Mark, Page
from deletekit.views.stream_model import BATCHES, Commit, Crash, Mode, ModelTable, applied

__all__ = ["stream_stepper"]


def stream_stepper(
    *,
    step: int = 1,
    mode: str = "equality-and-position",
    crash: str = "",
    resumed: bool = False,
    checkpoint_check: bool = True,
    lang: str | None = None,
) -> Page:
    """The page of a stream after `step` batches.

    Parameters
    ----------
    step: batches applied, 0 to 4.
    mode: `equality-and-position` as Flink's writer does, `equality-delete`, or `deletion-vector`.
    crash: where the writer crashed in the last batch: `before-commit`, `after-commit`, or nowhere.
    resumed: it was started again.
    checkpoint_check: on start it looks which checkpoint was committed last.

    Raises InvalidInputError for a step, mode or crash that there is not.
    """
    messages = Messages(lang)
    for name, value, known in (("mode", mode, get_args(Mode)), ("crash", crash, get_args(Crash))):
        if value not in known:
            raise InvalidInputError("no such choice", kind="stream", field=name, found=value, expected=", ".join(known))
    if not 0 <= step <= len(BATCHES):
        raise InvalidInputError(
            "no such step", kind="stream", field="step", found=step, expected=f"0 .. {len(BATCHES)}"
        )
    table = applied(
        BATCHES[:step],
        mode,  # type: ignore[arg-type]
        crash=crash,  # type: ignore[arg-type]
        resumed=resumed,
        checkpoint_check=checkpoint_check,
    )
    right = applied(BATCHES[:step], mode).live()  # type: ignore[arg-type]
    waits = bool(crash) and not resumed
    state = {"step": step, "mode": mode, "crash": crash, "resumed": resumed, "checkpoint_check": checkpoint_check}
    defaults = {"step": 1, "mode": "equality-and-position", "crash": "", "resumed": False, "checkpoint_check": True}
    verdict = "stream-waits" if waits else "stream-right" if table.live() == right else "stream-wrong"
    return Page(
        view="StreamStepper",
        title=messages("title-StreamStepper"),
        sentence=messages(
            verdict,
            step=str(step),
            snapshots=str(len(table.commits)),
            rows=str(len(table.live())),
            orphans=str(len(table.orphans)),
        ),
        lang=messages.lang,
        code=code_line("StreamStepper", "", state, defaults),
        blocks=(_changes(messages, step), _commits(messages, table), _rows(messages, table)),
        controls=_controls(messages, state),
        words=words(messages),
    )


def _changes(messages: Messages, step: int) -> Grid:
    lines = []
    for number, batch in enumerate(BATCHES, 1):
        for i, change in enumerate(batch):
            state = messages("stream-read") if number <= step else messages("stream-ahead")
            cells = (str(number), change.op, str(change.id), change.value or "-", state)
            lines.append(Line(key=f"{number}.{i}", cells=cells, mark="live" if number <= step else ""))
    columns = (messages("batch"), "op", "id", "value", messages("state-of"))
    return Grid(name="changes", caption=messages("stream-changes"), columns=columns, lines=tuple(lines))


def _commits(messages: Messages, table: ModelTable) -> Grid:
    lines = [_commit(c, f"S{c.sequence}", "added") for c in table.commits]
    lines += [_commit(c, messages("orphan"), "wrong") for c in table.orphans]
    kinds = tuple(messages(f"kind-{kind}") for kind in ("equality-delete", "position-delete", "deletion-vector"))
    columns = (messages("snapshot"), "checkpoint", messages("data-rows"), *kinds)
    return Grid(name="commits", caption=messages("stream-commits"), columns=columns, lines=tuple(lines))


def _commit(commit: Commit, name: str, mark: Mark) -> Line:
    rows = ", ".join(f"{key}={value}" for key, value in commit.rows)
    keys = ", ".join(f"id={key}" for key in sorted(commit.equality))
    cells = (name, str(commit.checkpoint), rows or "-", keys or "-", _places(commit.positions), _places(commit.vectors))
    return Line(key=name, cells=cells, mark=mark)


def _places(places: frozenset[tuple[int, int]]) -> str:
    return ", ".join(f"D{s}:{p}" for s, p in sorted(places)) or "-"


def _rows(messages: Messages, table: ModelTable) -> Grid:
    lines = tuple(
        Line(
            key=f"D{sequence}:{position}",
            cells=(f"D{sequence}:{position}", str(key), value, messages("live") if seen else messages("hidden")),
            mark="live" if seen else "hidden",
        )
        for sequence, position, key, value, seen in table.rows()
    )
    columns = (messages("row"), "id", "value", messages("verdict"))
    return Grid(name="rows", caption=messages("stream-rows"), columns=columns, lines=lines)


def _controls(messages: Messages, state: dict[str, Any]) -> tuple[Control, ...]:
    step, crash = state["step"], state["crash"]
    modes = tuple((m, m) for m in get_args(Mode))
    crashes = tuple((c, messages(f"crash-{c or 'none'}")) for c in get_args(Crash))
    last = len(BATCHES)
    return (
        Control(kind="select", trait="mode", label=messages("mode"), value=state["mode"], options=modes),
        Control(kind="button", trait="step", label=messages("step-back"), value=max(step - 1, 0), disabled=step == 0),
        Control(
            kind="button", trait="step", label=messages("step-on"), value=min(step + 1, last), disabled=step == last
        ),
        Control(kind="select", trait="crash", label=messages("crash"), value=crash, options=crashes),
        Control(
            kind="button",
            trait="resumed",
            label=messages("resume"),
            value=True,
            disabled=not crash or state["resumed"],
        ),
        Control(
            kind="check", trait="checkpoint_check", label=messages("checkpoint-check"), value=state["checkpoint_check"]
        ),
    )
