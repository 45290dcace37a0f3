"""Widgets for notebooks: each shows one thing of a table, and with `explore` they are shown together, linked."""

from deletekit.widgets.tables import BitmapBytes, RowFate, TableTree

__all__ = ["BitmapBytes", "RowFate", "TableTree"]
