"""Functions, tasks and results as bytes, on their way to workers and back.

Law: a WriteContext arrives as one of the same operation, whose file names carry the attempt that writes them, so that
two attempts never write one path; what its files are is for the attempt to report. Arrow data comes back as IPC. The
text of an error is never unpickled: a file's name may be in it.
Needs pyspark, for its cloudpickle.
"""

from __future__ import annotations

import io
import json
import pickle
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle

from deletekit import errors
from deletekit.deletes.write_context import WriteContext
from deletekit.errors import DeletekitError, UnsupportedError

__all__ = ["Sender", "error_in_text", "pack_result", "told_in_text", "unpack", "unpack_result"]

_PROTOCOL = 5


class Sender:
    """Packs what one job sends, and remembers the WriteContexts in it: `contexts`, numbered as workers report them."""

    def __init__(self) -> None:
        self.contexts: list[WriteContext] = []

    def pack(self, value: Any) -> bytes:
        """A function, closures included, or tasks. Raises UnsupportedError for what cannot leave this process."""
        stream = io.BytesIO()
        try:
            pickler: Any = _Pickler(stream, self._number)
            pickler.dump(value)
        except (pickle.PicklingError, TypeError, AttributeError) as e:
            raise UnsupportedError(
                "the function or its data cannot be sent to Spark's workers", kind="not-picklable", found=str(e)
            ) from e
        return stream.getvalue()

    def _number(self, context: WriteContext) -> int:
        for number, known in enumerate(self.contexts):
            if known is context:
                return number
        self.contexts.append(context)
        return len(self.contexts) - 1


def unpack(data: bytes, attempt: str, contexts: dict[int, WriteContext]) -> Any:
    """What `Sender.pack` packed; its WriteContexts go into `contexts` by number, one for each."""
    return _Unpickler(io.BytesIO(data), attempt, contexts).load()


def pack_result(value: Any) -> bytes:
    """A result of a task."""
    stream = io.BytesIO()
    _ResultPickler(stream, _PROTOCOL).dump(value)
    return stream.getvalue()


def unpack_result(data: bytes | memoryview) -> Any:
    """What `pack_result` packed: only ever bytes that this job's own workers made."""
    return pickle.loads(data)  # noqa: S301  # from workers that run this driver's code


@contextmanager
def told_in_text() -> Iterator[None]:
    """Where an error has no way back but the text of Spark's: ours as text that `error_in_text` finds."""
    try:
        yield
    except DeletekitError as e:
        told = {"message": e.message, "kind": e.kind, "file": e.file, "field": e.field}
        told["found"] = None if e.found is None else str(e.found)
        told["expected"] = None if e.expected is None else str(e.expected)
        text = json.dumps([type(e).__name__, told]).encode()
        raise RuntimeError(f"<deletekit-error {b64encode(text).decode()}>") from e


def error_in_text(text: str) -> DeletekitError | None:
    """Our error that made a Spark job fail; its `found` and `expected` are text."""
    match = re.search(r"<deletekit-error ([A-Za-z0-9+/=]+)>", text)
    if match is None:
        return None
    name, told = json.loads(b64decode(match[1]))
    kind = getattr(errors, name) if name in errors.__all__ else DeletekitError
    made: DeletekitError = kind(told.pop("message"), **told)
    return made


class _Pickler(cloudpickle.CloudPickler):
    def __init__(self, stream: io.BytesIO, number: Callable[[WriteContext], int]) -> None:
        super().__init__(stream, _PROTOCOL)  # type: ignore[no-untyped-call]
        self._number = number

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, WriteContext):
            return None
        return self._number(obj), obj.io, obj.metadata, obj.operation_id


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, attempt: str, contexts: dict[int, WriteContext]) -> None:
        super().__init__(stream)
        self._attempt = attempt
        self._contexts = contexts

    def persistent_load(self, pid: Any) -> WriteContext:
        number, files, metadata, operation_id = pid
        if number not in self._contexts:
            self._contexts[number] = WriteContext(files, metadata, f"{operation_id}-{self._attempt}")
        return self._contexts[number]


class _ResultPickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, pa.Table):
            return _table, (_stream(obj),)  # pyarrow's own pickle of a slice is of all it was cut from
        return NotImplemented


def _stream(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _table(data: pa.Buffer) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()
