"""The sentences of `explain`, with places for values, so that they can be said in another language."""

from collections.abc import Callable

Say = Callable[..., str]
"""Put values into a sentence, perhaps in another language: `say("{file} cannot be read", file="D1")`."""

SENTENCES = {
    "live": "live",
    "hidden": "HIDDEN",
    "unknown": "UNKNOWN",
    "verdict": "verdict",
    "why": "why",
    "none": "{table}: no version of such a row in snapshot {snapshot}",
    "counts": "{table}, snapshot {snapshot}: {live} live, {hidden} hidden",
    "counts-unknown": "{table}, snapshot {snapshot}: {live} live, {hidden} hidden, {unknown} unknown",
    "unread": "cannot be read: {file}: {error}",
    "unread-delete": "{file} cannot be read",
    "row-hidden": "row {position} of {file} (written at sequence {sequence}) is hidden: {why}",
    "row-unknown": "row {position} of {file} (written at sequence {sequence}) may be live or hidden: {why}",
    "row-spared": (
        "row {position} of {file} (written at sequence {sequence}) is live, although its key is deleted: {why}"
    ),
    "row-live": "row {position} of {file} (written at sequence {sequence}) is live: no delete applies to it",
    "deletion-vector": "the deletion vector of its data file, in {file}, has its position, and {data} <= {delete}",
    "position-delete-file": "position delete {file} names its data file and position, and {data} <= {delete}",
    "position-delete-partition": (
        "position delete {file} of its partition names its data file and position, and {data} <= {delete}"
    ),
    "equality-delete-table": "equality delete {file} holds its {key} and covers the whole table, and {data} < {delete}",
    "equality-delete-partition": (
        "equality delete {file} holds its {key} and covers its partition, and {data} < {delete}"
    ),
    "too-old": "equality delete {file} holds its {key}, but does not apply: {data} < {delete} is false",
    "dropped": "{column} (dropped)",
}
"""By what they are about. The course's catalogs have them in other languages."""
