"""Pack functions, tasks and results as bytes for other processes, and unpack them.

A worker's WriteContext belongs to the same operation. Its file names contain the attempt that writes them, so two
attempts never write the same path; the attempt reports which files it wrote. Arrow data is sent back as IPC.
"""

import copyreg
import io
import pickle
from typing import Any

import pyarrow as pa

from deletekit.errors import UnsupportedError
from deletekit.rows.write_context import WriteContext

_PROTOCOL = 5


def pack(value: Any, contexts: list[WriteContext], cloudpickle: Any) -> bytes:
    """Pack a function with its closures, or tasks. Raises UnsupportedError for what cannot leave this process.

    Parameters
    ----------
    contexts: gets the WriteContexts in it. Workers report what they wrote by the numbers in this list.
    cloudpickle: the package of this name, or PySpark's copy of it; workers must have the same.
    """
    stream = io.BytesIO()
    pickler: Any = type("_Pickler", (_Numbering, cloudpickle.CloudPickler), {})(stream, _PROTOCOL)
    pickler.contexts = contexts
    try:
        pickler.dump(value)
    except Exception as e:  # pickle calls the methods of what it packs, which may raise anything
        message = "the function or its data cannot be sent to other processes"
        raise UnsupportedError(message, "not-picklable", found=str(e)) from e
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
    return pickle.loads(data)  # noqa: S301  # from workers that run this process's code


def sendable(error: Exception) -> Exception:
    """Return an error that a task raised, or one that tells of it if it cannot be packed, or not be unpacked again."""
    try:
        unpack_result(pack_result(error))
    except Exception as e:  # noqa: BLE001  # of whatever kind
        return not_sendable(error, e)
    return error


def not_sendable(value: Any, reason: Exception) -> UnsupportedError:
    """Return the error that stands for what a task returned or raised, which cannot be sent back."""
    message = "what the task returned or raised cannot be sent back"
    return UnsupportedError(message, kind="not-picklable", found=f"{value!r}: {reason}")


class _Numbering:
    """Packs a WriteContext as its number and what a worker needs to make one like it."""

    contexts: list[WriteContext]

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, WriteContext):
            return None
        if obj not in self.contexts:
            self.contexts.append(obj)
        return self.contexts.index(obj), obj.io, obj.metadata, obj.operation_id


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
