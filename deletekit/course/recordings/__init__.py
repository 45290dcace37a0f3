"""Recordings: the real writers run on temporary tables, for widgets to show."""
