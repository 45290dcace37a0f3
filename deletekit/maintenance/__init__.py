"""MAINTENANCE: what a table's snapshots, manifests and files need once in a while.

Law: every verb says what it did as a value, does nothing in a dry run, and never loses a live row or brings back a
deleted one. Names, options and defaults are those of Iceberg's own procedures.
"""
