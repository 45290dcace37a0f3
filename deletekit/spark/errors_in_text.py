"""Return our errors through the text of a Spark error, which is all that some jobs return of one.

The text must never be unpickled, because it may contain a file's name.
"""

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager

from deletekit import errors
from deletekit.errors import DeletekitError


@contextmanager
def told_in_text() -> Iterator[None]:
    """Raise our errors as text that `error_in_text` finds, where only the text of Spark's error is returned."""
    try:
        yield
    except DeletekitError as e:
        told = {"message": e.message, "kind": e.kind, "file": e.file, "field": e.field}
        told |= {n: None if getattr(e, n) is None else str(getattr(e, n)) for n in ("found", "expected")}
        text = json.dumps([type(e).__name__, told]).encode()
        raise RuntimeError(f"<deletekit-error {b64encode(text).decode()}>") from e


def error_in_text(text: str) -> DeletekitError | None:
    """Return our error that made a Spark job fail, with `found` and `expected` as text; None if it was not ours."""
    match = re.search(r"<deletekit-error ([A-Za-z0-9+/=]+)>", text)
    if match is None:
        return None
    name, told = json.loads(b64decode(match[1]))
    kind = getattr(errors, name) if name in errors.__all__ else DeletekitError
    made: DeletekitError = kind(told.pop("message"), **told)
    return made
