"""Recordings: run the real writers on temporary tables, so that widgets can show what they do."""
