"""Read the patterns of LIKE: `%` stands for any text, `_` for any character; after the escape they are themselves."""

import re

_WILDCARDS = {"%": ".*", "_": "."}


def split_pattern(pattern: str, escape: str = "\\") -> tuple[str, str]:
    """Return the text before the first wildcard of a pattern, and the rest.

    Raises ValueError, as Spark does, if `escape` comes before anything but `%`, `_` and itself.
    """
    signs = _signs(pattern, escape)
    first = next((i for i, sign in enumerate(signs) if sign in _WILDCARDS), len(signs))
    return "".join(sign[-1] for sign in signs[:first]), "".join(signs[first:])


def like_regex(pattern: str, escape: str = "\\") -> str:
    """Return the regular expression of a LIKE pattern. Raises as `split_pattern`."""
    return "".join(_WILDCARDS.get(sign) or f"\\x{{{ord(sign[-1]):x}}}" for sign in _signs(pattern, escape))


def _signs(pattern: str, escape: str) -> list[str]:
    """Return the characters of a pattern, each with its escape character."""
    signs = re.findall(f"{re.escape(escape)}.?|.", pattern, re.DOTALL)
    for sign in signs:
        if sign[0] == escape and sign[1:] not in ("%", "_", escape):
            raise ValueError(f"{sign} in a LIKE pattern; after {escape} comes %, _ or {escape}")
    return signs
