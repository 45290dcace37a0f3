"""The command line: `deletekit inspect`, `delete`, `explain`, `doctor` and `tour`.

Law: it parses arguments and shows what operations answer. Whatever comes from a table, a path or an error is text to
show, never markup and never a terminal's command (`text.py`).
"""

from deletekit.cli.app import main

__all__ = ["main"]
