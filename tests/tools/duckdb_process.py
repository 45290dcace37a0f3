"""DuckDB with its Delta and Iceberg extensions in a process of its own, which a crash or a hang of it may end."""

from __future__ import annotations

import importlib
import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa

_SECONDS = 120
_EXTENSIONS = ("icu", "avro", "httpfs", "iceberg", "delta")


class DuckDB:
    """Answer queries. The process is started when it is needed, and again after its end."""

    def __init__(self) -> None:
        self._process: Any = None
        self._pipe: Any = None

    def arrow(self, query: str) -> pa.Table:
        """Return rows. Raise RuntimeError with what DuckDB says, or if it dies or takes too long."""
        if self._process is None or not self._process.is_alive():
            context = multiprocessing.get_context("spawn")
            self._pipe, other = context.Pipe()
            self._process = context.Process(target=_answer, args=(other,), daemon=True)
            self._process.start()
            other.close()
        try:
            self._pipe.send(query)
            answered = self._pipe.poll(_SECONDS)
            rows, problem = self._pipe.recv() if answered else (b"", "no answer")
        except (EOFError, OSError):
            answered, rows, problem = False, b"", "DuckDB died"
        if not answered or "FATAL" in problem:  # after a fatal error it answers nothing else
            self._process.kill()
            self._process.join()
        if problem:
            raise RuntimeError(problem)
        return pa.ipc.open_stream(rows).read_all()


def _answer(pipe: Connection) -> None:
    import duckdb  # noqa: PLC0415  # a peer

    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute("SET enable_progress_bar = false")
    for name in _EXTENSIONS:
        try:
            package = Path(str(importlib.import_module(f"duckdb_extension_{name}").__file__)).parent
        except ImportError:
            continue  # its queries fail
        connection.execute(f"LOAD '{next(package.glob('extensions/*/*.duckdb_extension'))}'")
    connection.execute("SET TimeZone = 'UTC'")
    while True:
        try:
            query = pipe.recv()
        except EOFError:
            return
        try:
            table = connection.execute(query).to_arrow_table()
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as stream:
                stream.write_table(table)
            pipe.send((sink.getvalue().to_pybytes(), ""))
        except Exception as e:  # noqa: BLE001  # the caller is told
            pipe.send((b"", f"{type(e).__name__}: {e}"))
