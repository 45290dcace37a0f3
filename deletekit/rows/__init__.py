"""Rows in and out of data files: sources, fitting, projection, sort order, keys, row ids, the data file writer."""
