"""DeltaBridge: a Delta table's actions, the Iceberg entries they become, and the bytes of a vector in both, aligned."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

from deletekit.errors import DeletekitError, FormatError, NotFoundError
from deletekit.formats.byte_layout import ByteRange, blob_layout
from deletekit.formats.deletion_vector import MAGIC, decode_vector, encode_blob
from deletekit.views.build import code_line, paging, words
from deletekit.views.delta_log import Action, read_actions, vector_bytes
from deletekit.views.messages import Messages
from deletekit.views.page import Block, Control, Grid, Line, Page
from deletekit.views.text import plain

__all__ = ["delta_bridge"]


def delta_bridge(
    path: str | Path,
    *,
    version: int | None = None,
    vector: str | None = None,
    start: int = 0,
    lang: str | None = None,
) -> Page:
    """The page of a Delta table.

    Parameters
    ----------
    path: the table's directory.
    version: of the table; None is the newest.
    vector: the selected vector, as `V1`; None is the first live one.
    start: first action shown.

    Raises NotFoundError for what is not there, FormatError naming what is damaged, UnsupportedError for a log that
    needs a checkpoint.
    """
    messages = Messages(lang)
    root = Path(str(path).removeprefix("file://"))
    actions = read_actions(root, version)
    names = _Names(actions)
    shown = vector or next((names.vector(a) for a in actions if a.live and a.vector is not None), None)
    state = {"version": version, "vector": shown, "start": start}
    blocks: list[Block] = [_actions(messages, actions, names, start), _entries(messages, actions, names)]
    sentence = messages(
        "delta-summary", version=str(actions[-1].version) if actions else "0", actions=str(len(actions))
    )
    if shown is not None:
        action = names.action(shown)
        blocks.append(aligned := _bytes(messages, root, action, shown))
        same = sum(line.cells[-1] == messages("same") for line in aligned.lines)
        sentence = messages("delta-sentence", vector=shown, same=str(same), parts=str(len(aligned.lines)))
    return Page(
        view="DeltaBridge",
        title=messages("title-DeltaBridge"),
        sentence=sentence,
        lang=messages.lang,
        code=code_line("DeltaBridge", "path", state, {"version": None, "vector": None, "start": 0}),
        blocks=tuple(blocks),
        controls=_controls(messages, names, shown, version, actions),
        state={"vector": shown},
        words=words(messages),
    )


class _Names:
    """D1 for a data file and V1 for a vector, in the order of the log."""

    def __init__(self, actions: list[Action]) -> None:
        self._files: dict[str, str] = {}
        self._vectors: dict[Any, str] = {}
        self.actions: dict[str, Action] = {}
        for action in actions:
            self._files.setdefault(action.path, f"D{len(self._files) + 1}")
            if action.vector is not None and action.vector not in self._vectors:
                name = f"V{len(self._vectors) + 1}"
                self._vectors[action.vector] = name
                self.actions[name] = action

    def file(self, action: Action) -> str:
        return self._files[action.path]

    def vector(self, action: Action) -> str:
        return self._vectors[action.vector] if action.vector is not None else "-"

    def action(self, name: str) -> Action:
        if name not in self.actions:
            raise NotFoundError("no such vector", kind="vector", field="vector", found=name, expected="V1, V2, ...")
        return self.actions[name]


def _actions(messages: Messages, actions: list[Action], names: _Names, start: int) -> Grid:
    first, stop, more = paging(messages, "start", start, len(actions))
    lines = []
    for number, a in enumerate(actions[first:stop], first):
        facts = ("-", "-", "-", "-")
        if (v := a.vector) is not None:
            offset = "-" if v.offset is None else str(v.offset)
            facts = (v.storage_type, offset, str(v.size_in_bytes), str(v.cardinality))
        lines.append(
            Line(
                key=number,
                cells=(str(a.version), a.kind, names.file(a), names.vector(a), *facts),
                mark="live" if a.live else "removed" if a.kind == "remove" else "",
            )
        )
    columns = (messages("version"), messages("action"), "path", "deletionVector", "storageType", "offset")
    return Grid(
        name="actions",
        caption=messages("delta-actions"),
        columns=(*columns, "sizeInBytes", "cardinality"),
        lines=tuple(lines),
        numbers=(0, 5, 6, 7),
        **more,
    )


def _entries(messages: Messages, actions: list[Action], names: _Names) -> Grid:
    live = [a for a in actions if a.live]
    lines = []
    for a in live[:100]:
        records = str(a.records) if a.records is not None else "-"
        lines.append(Line(key=names.file(a), cells=(names.file(a), "0 DATA", "PARQUET", "-", "-", records)))
        if a.vector is not None:
            size = str(a.vector.size_in_bytes + 8)
            cells = (names.vector(a), "1 POSITION_DELETES", "PUFFIN", names.file(a), size, str(a.vector.cardinality))
            lines.append(Line(key=names.vector(a), cells=cells))
    columns = (
        messages("file"),
        "content",
        "file_format",
        "referenced_data_file",
        "content_size_in_bytes",
        "record_count",
    )
    left = len(live) - 100
    return Grid(
        name="entries",
        caption=messages("delta-entries"),
        columns=columns,
        lines=tuple(lines),
        numbers=(4, 5),
        shown=messages("page-shown", first="1", last="100", total=str(len(live))) if left > 0 else "",
    )


def _bytes(messages: Messages, root: Path, action: Action, name: str) -> Grid:
    """The frame of Delta and the blob of Iceberg, part by part."""
    assert action.vector is not None
    raw = vector_bytes(root, action.vector)
    if raw[:4] != MAGIC:
        raise FormatError("not a portable deletion vector", kind="delta-magic", field=name, found=raw[:4].hex())
    try:
        positions = decode_vector(raw[4:])
    except DeletekitError as e:
        raise e.in_file(name) from e
    delta = struct.pack(">i", len(raw)) + raw + struct.pack(">I", zlib.crc32(raw))
    iceberg = encode_blob(positions)
    left, right = blob_layout(delta), blob_layout(iceberg)
    lines = []
    for i in range(max(len(left), len(right))):
        a, b = (part[i] if i < len(part) else None for part in (left, right))
        one, two = _hex(delta, a), _hex(iceberg, b)
        same = a is not None and b is not None and delta[a.start : a.stop] == iceberg[b.start : b.stop]
        field = (a or b or left[0]).field
        verdict = messages("same") if same else messages("different")
        lines.append(Line(key=i, cells=(field, one, two, verdict), mark="" if same else "wrong"))
    columns = (messages("field"), "Delta", "Iceberg", messages("verdict"))
    return Grid(name="bytes", caption=messages("delta-bytes", vector=name), columns=columns, lines=tuple(lines[:200]))


def _hex(data: bytes, found: ByteRange | None) -> str:
    if found is None:
        return "-"
    text = data[found.start : min(found.stop, found.start + 12)].hex(" ")
    return text + (" …" if found.length > 12 else "")


def _controls(
    messages: Messages, names: _Names, shown: str | None, version: int | None, actions: list[Action]
) -> tuple[Control, ...]:
    options: tuple[tuple[Any, str], ...] = tuple((n, plain(n)) for n in list(names.actions)[:200])
    newest = max((a.version for a in actions), default=0)
    return (
        Control(
            kind="select", trait="vector", label=messages("vector"), value=shown, options=options or ((None, "-"),)
        ),
        Control(
            kind="number", trait="version", label=messages("version"), value=version, maximum=max(newest, version or 0)
        ),
    )
