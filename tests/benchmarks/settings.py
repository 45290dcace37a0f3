"""What one run of the benchmark was asked to do."""

import sys
import time
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from tests.benchmarks.tables import Tables, build, recipes


@dataclass
class Settings:
    """Sizes, peers, runs and time-outs, and the tables once they are built."""

    work: Path
    rows: int = 20_000_000
    runs: int = 5
    peers: tuple[str, ...] = ()
    only_tables: tuple[str, ...] = ()
    seconds: float = 60
    small: bool = False
    keys: tuple[int, ...] = (1_000_000,)
    batch_rows: tuple[int, ...] = (2_000,)
    batches: int = 50
    _tables: Tables | None = field(default=None, repr=False)

    def tables(self) -> Tables:
        """The tables, built when they are first asked for."""
        if self._tables is None:
            begin = time.perf_counter()
            self._tables = build(self.work, self.rows, [name for name in recipes() if self.wants_table(name)])
            self.say(f"tables in {self._tables.warehouse} after {time.perf_counter() - begin:.0f} s")
        return self._tables

    def wants_table(self, name: str) -> bool:
        return not self.only_tables or any(fnmatch(name, pattern) for pattern in self.only_tables)

    def say(self, text: str) -> None:
        """Progress, beside the report."""
        print(text, file=sys.stderr, flush=True)
