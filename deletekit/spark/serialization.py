"""Pack functions, tasks and results as bytes for Spark's workers, and unpack them.

A worker's WriteContext belongs to the same operation. Its file names contain the attempt that writes them, so two
attempts never write the same path; the attempt reports which files it wrote. Arrow data is sent back as IPC. The text
of an error must never be unpickled, because it may contain a file's name.
"""

import copyreg
import io
import json
import pickle
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle

from deletekit import errors
from deletekit.deletes.write_context import WriteContext
from deletekit.errors import DeletekitError, UnsupportedError

_PROTOCOL = 5


def pack(value: Any, contexts: list[WriteContext]) -> bytes:
    """Pack a function with its closures, or tasks. Raises UnsupportedError for what cannot leave this process.

    Parameters
    ----------
    contexts: gets the WriteContexts in it. Workers report what they wrote by the numbers in this list.
    """
    stream = io.BytesIO()
    try:
        pickler: Any = _Pickler(stream, contexts)
        pickler.dump(value)
    except (pickle.PicklingError, TypeError, AttributeError) as e:
        raise UnsupportedError(
            "the function or its data cannot be sent to Spark's workers", kind="not-picklable", found=str(e)
        ) from e
    return stream.getvalue()


def unpack(data: bytes, attempt: str, contexts: dict[int, WriteContext]) -> Any:
    """Unpack what `pack` packed, and put its WriteContexts into `contexts` by number."""
    return _Unpickler(io.BytesIO(data), attempt, contexts).load()


def pack_result(value: Any) -> bytes:
    """Pack the result of a task."""
    stream = io.BytesIO()
    pickler = pickle.Pickler(stream, _PROTOCOL)
    # pyarrow's own pickle of a slice is of all it was cut from.
    pickler.dispatch_table = copyreg.dispatch_table | {pa.Table: lambda table: (_table, (_ipc(table),))}
    pickler.dump(value)
    return stream.getvalue()


def unpack_result(data: bytes) -> Any:
    """Unpack what `pack_result` packed. Only allowed for bytes that this job's own workers made."""
    return pickle.loads(data)  # noqa: S301  # from workers that run this driver's code


@contextmanager
def told_in_text() -> Iterator[None]:
    """Raise our errors as text that `error_in_text` finds, where only the text of Spark's error is returned."""
    try:
        yield
    except DeletekitError as e:
        told = {"message": e.message, "kind": e.kind, "file": e.file, "field": e.field}
        told |= {n: None if getattr(e, n) is None else str(getattr(e, n)) for n in ("found", "expected")}
        text = json.dumps([type(e).__name__, told]).encode()
        raise RuntimeError(f"<deletekit-error {b64encode(text).decode()}>") from e


def error_in_text(text: str) -> DeletekitError | None:
    """Return our error that made a Spark job fail, with `found` and `expected` as text; None if it was not ours."""
    match = re.search(r"<deletekit-error ([A-Za-z0-9+/=]+)>", text)
    if match is None:
        return None
    name, told = json.loads(b64decode(match[1]))
    kind = getattr(errors, name) if name in errors.__all__ else DeletekitError
    made: DeletekitError = kind(told.pop("message"), **told)
    return made


class _Pickler(cloudpickle.CloudPickler):
    def __init__(self, stream: io.BytesIO, contexts: list[WriteContext]) -> None:
        super().__init__(stream, _PROTOCOL)  # type: ignore[no-untyped-call]
        self._contexts = contexts

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, WriteContext):
            return None
        if obj not in self._contexts:
            self._contexts.append(obj)
        return self._contexts.index(obj), obj.io, obj.metadata, obj.operation_id


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


def _ipc(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _table(data: pa.Buffer) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()
