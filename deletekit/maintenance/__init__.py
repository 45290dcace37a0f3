"""Maintain a table: compact, convert, expire, erase, repair and clean up.

Every verb returns what it did as a value, does nothing in a dry run, and never loses a live row or brings back a
deleted one. Names, options and defaults are those of Iceberg's own procedures.
"""
