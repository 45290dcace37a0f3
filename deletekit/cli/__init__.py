"""The command line: parse arguments, call verbs, print their results.

Text from a table, a path or an error is printed as text only: never as markup, never as a terminal's command.
"""

from deletekit.cli.app import main

__all__ = ["main"]
