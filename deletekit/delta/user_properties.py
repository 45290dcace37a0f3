"""Tell which properties of a table are its user's own. They go from Delta to Iceberg and back.

A name that means something to Delta, to Iceberg or to deletekit stays on its side: there the same words could say
another thing, such as `gc.enabled`, or where another tool continues from.
Spec: Delta protocol, "Change Metadata" (`configuration`); Iceberg, "Configuration" (table properties).
"""

import json
from collections.abc import Mapping

from deletekit.table.properties import RESERVED

OTHER_MARKS = ("XTABLE_METADATA", "delta-version", "delta-timestamp")
"""Where XTable and UniForm continue from. A sync removes it: they would take the table back."""
USER_PROPERTIES = "deletekit.delta-properties"
"""Table property: the names of the user's properties that a sync has set, as a JSON list."""
# fmt: off
_BEGINNINGS = (
    "commit", "compatibility", "delta", "deletekit", "encryption", "engine", "gc", "history", "identifier-fields",
    "read", "schema", "write",
)
# fmt: on
_NAMES = frozenset({*RESERVED, *OTHER_MARKS, "comment"})


def user_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties whose names neither Delta nor Iceberg nor deletekit gives a meaning."""
    return {
        name: text
        for name, text in properties.items()
        if name not in _NAMES and name.partition(".")[0].lower() not in _BEGINNINGS
    }


def followed(properties: Mapping[str, str]) -> set[str]:
    """Return the names of those that a sync has set, by what it wrote down; none if that is damaged."""
    try:
        names = json.loads(properties.get(USER_PROPERTIES, "[]"))
    except (ValueError, RecursionError):
        return set()
    return set(user_properties({n: "" for n in names if isinstance(n, str)})) if isinstance(names, list) else set()


def with_names(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the user's properties, and the one that holds their names."""
    return {**properties, USER_PROPERTIES: json.dumps(sorted(properties))} if properties else {}
