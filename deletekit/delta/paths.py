"""Convert between paths in a Delta log and storage paths.

A path in the log is a URI reference, percent-encoded once. A storage path is used character for character. Each file
has one spelling, which follows that of the table's root, including the scheme of the local disk.
Spec: Delta protocol, "Add File and Remove File" (`path`: RFC 2396).
"""

import re
from urllib.parse import quote, unquote

from deletekit.errors import FormatError

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
# Escapes only of what `quote` escapes: ASCII is written plainly or with an escape, never both ways.
_CHARACTER = "[A-Za-z0-9_=~-]|%(?:[0189A-F][0-9A-F]|2[0-9A-C]|3[ABCEF]|40|5[B-E]|60|7[BCDF])"
_PART = rf"(?:{_CHARACTER})(?:{_CHARACTER}|\.)*"
# Matches paths that are `spelling_free` of themselves.
_ONE_SPELLING = re.compile(rf"{_PART}(?:/{_PART})*")
_LOCAL = re.compile(r"file:(?://(?:localhost)?)?(?=/)")


def storage_path(path: str, root: str) -> str:
    """Return the storage path of a log's `path` in the table at `root`.

    Raise FormatError for a path that leaves the table by `..`, and for escapes that are not UTF-8.
    """
    try:
        decoded = unquote(path, errors="strict")
    except UnicodeDecodeError as e:
        raise FormatError("bad path in the Delta log", kind="delta-path", field="path", found=path) from e
    if not decoded or "\x00" in decoded:
        raise FormatError("bad path in the Delta log", kind="delta-path", field="path", found=path)
    if ".." in decoded.split("/"):
        raise FormatError("path in the Delta log leads out of its folder", kind="delta-path", field="path", found=path)
    if _URI.match(path) is None and not decoded.startswith("/"):
        return f"{root.rstrip('/')}/{decoded}"
    local = _LOCAL.match(decoded)
    if local is None and not decoded.startswith("/"):
        return decoded
    plain = decoded[local.end() :] if local else decoded
    root_match = _LOCAL.match(root)
    if root.startswith("/"):
        return plain
    if root_match is not None:
        return root[: root_match.end()] + plain
    # A path without a scheme, in a table that is not on the local disk, is on the table's own storage.
    authority = re.match(r"[^:]+://[^/]*", root)
    return decoded if local or authority is None else authority[0] + plain


def spelling_free(path: str) -> str:
    """Return one form for all spellings of a log's `path`: one for escapes, no `.` parts, one for a local disk."""
    if _ONE_SPELLING.fullmatch(path):
        return path
    plain = plain_path(unquote(path, errors="surrogateescape"))
    if _URI.match(plain) is None:  # object stores tell `a//b` from `a/b`
        parts = [part for part in plain.split("/") if part not in ("", ".")]
        plain = ("/" if plain.startswith("/") else "") + "/".join(parts)
    return quote(plain, safe="/=", errors="surrogateescape")


def delta_path(path: str, root: str) -> str:
    """Return the log's `path` of a storage path: percent-encoded, and relative if it is below the table.

    S3 has three schemes. A path gets the one of the table's root, because a reader that opens one need not know others.
    """
    if {path.partition("://")[0], root.partition("://")[0]} <= {"s3", "s3a", "s3n"}:
        path = f"{root.partition('://')[0]}://{path.partition('://')[2]}"
    below = path_below(path, root)
    if below is not None:
        return quote(below, safe="/=-_.~!*'()@&+$,;:" if ":" not in below.split("/")[0] else "/=-_.~!*'()@&+$,;")
    if path.startswith("/"):
        return "file://" + quote(path)
    scheme, _, rest = path.partition(":")
    return f"{scheme}:{quote(rest)}"


def path_below(path: str, folder: str) -> str | None:
    """Return what follows `folder`/ in a storage path, "" for the folder itself, or None if the path is elsewhere."""
    plain, base = plain_path(path), plain_path(folder)
    if plain == base:
        return ""
    return plain[len(base) + 1 :] if plain.startswith(base + "/") else None


def is_hidden_below(below: str) -> bool:
    """Return whether Delta's VACUUM skips a path below the table's root: a part begins with `_` or `.`.

    A part that names a partition (`_a=1`) is not skipped (DeltaTableUtils.isHiddenDirectory).
    """
    return any(part.startswith(("_", ".")) and "=" not in part for part in below.split("/"))


def plain_path(path: str) -> str:
    """Return a storage path without the scheme of the local disk, so that two spellings of a file are equal."""
    local = _LOCAL.match(path)
    return (path[local.end() :] if local else path).rstrip("/")
