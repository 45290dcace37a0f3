"""A content file for people, out of its fields as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from deletekit.cli.text import count, size

__all__ = ["file_facts", "key_columns"]

Json = Mapping[str, Any]


def file_facts(file: Json, columns: Mapping[int, str]) -> Iterator[str]:
    """What a data file or delete file holds, and how large it is; `columns` are names by field id."""
    number = file["record_count"]
    if file["content"] == 1 and file["file_format"] == "PUFFIN":
        yield f"deletion vector: {count(number, 'position')}"
        yield f"{size(file.get('content_size_in_bytes'))} at offset {file.get('content_offset')}"
        return
    if file["content"] == 0:
        yield count(number, "row")
    elif file["content"] == 1:
        yield f"position delete: {count(number, 'position')}"
    else:
        yield f"equality delete: {count(number, 'key')} of {key_columns(file, columns)}"
    yield f"{file['file_format'].lower()}, {size(file['file_size_in_bytes'])}"


def key_columns(file: Json, columns: Mapping[int, str]) -> str:
    """The key columns of an equality delete file, with their field ids."""
    return ", ".join(f"{columns.get(i, 'unknown column')} ({i})" for i in file.get("equality_ids") or ())
