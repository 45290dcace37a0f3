"""Random change events of Debezium as PostgreSQL sends them, and the dict of rows that they mean.

A large value that an update leaves alone is a placeholder in the event. A deleted key is `d` and a tombstone, or only
one of the two: compaction of the topic leaves the tombstone.
"""

import base64
import json
import random
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from deletekit.stream import Message

PLACEHOLDER = "__debezium_unavailable_value"
LARGE = {
    "bio": PLACEHOLDER,
    "data": base64.b64encode(PLACEHOLDER.encode()).decode(),
    "tags": [PLACEHOLDER],
}
"""The columns that may be left out, and what Debezium puts there."""
ROWS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("bio", pa.string(), nullable=False),
        pa.field("data", pa.binary()),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("n", pa.int64()),
        pa.field("_sequence", pa.int64()),
    ]
)
Row = dict[str, Any]


@dataclass(slots=True)
class Events:
    """A source with its rows, and the messages of its changes.

    Attributes
    ----------
    compacted: of some deletes only the tombstone is left.
    leaves_out: updates leave large values out.
    """

    random: random.Random
    keys: int = 6
    compacted: bool = True
    leaves_out: bool = True
    rows: dict[int, Row] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    lsn: int = 0

    def step(self) -> None:
        """Make one random change."""
        key = self.random.randrange(self.keys)
        if key not in self.rows:
            self._put("c", key, self._row(key), None, ())
        elif self.random.random() < 0.3:
            self._delete(key)
        else:
            self._update(key)

    def _row(self, key: int) -> Row:
        large = {
            "bio": f"bio {self.random.random()}",
            "data": self.random.choice([None, self.random.randbytes(3)]),
            "tags": self.random.choice([None, [], ["a", f"{self.random.random()}"]]),
        }
        return {"id": key, **large, "n": self.random.randrange(99)}

    def _update(self, key: int) -> None:
        old, free = self.rows[key], [k for k in range(self.keys) if k not in self.rows]
        moves = free and self.random.random() < 0.25
        new = self._row(self.random.choice(free) if moves else key)
        alone = [name for name in LARGE if old[name] is not None and self._leaves_out()]
        new |= {name: old[name] for name in alone}
        before = {"id": key, "bio": "", "data": None, "tags": None, "n": None} if moves else None
        if moves:
            del self.rows[key]
        self._put("u", key, new, before, alone)

    def _leaves_out(self) -> bool:
        return self.leaves_out and self.random.random() < 0.6

    def _put(self, op: str, key: int, row: Row, before: Row | None, alone: Any) -> None:
        self.rows[row["id"]] = row
        data = row["data"]
        after = {**row, "data": None if data is None else base64.b64encode(data).decode()}
        self._send(key, {"op": op, "before": before, "after": after | {name: LARGE[name] for name in alone}})

    def _delete(self, key: int) -> None:
        del self.rows[key]
        how = self.random.choice(["both", "event", "tombstone"] if self.compacted else ["both", "event"])
        if how != "tombstone":
            before = {"id": key, "bio": "", "data": None, "tags": None, "n": None}
            self._send(key, {"op": "d", "before": before, "after": None})
        if how != "event":
            self._send(key, None)

    def _send(self, key: int, event: Any) -> None:
        self.lsn += 1
        value = None
        if event is not None:
            value = json.dumps({**event, "source": {"connector": "postgresql", "name": "db", "lsn": self.lsn}}).encode()
        self.messages.append(Message(json.dumps({"id": key}).encode(), value, "t", 0, len(self.messages)))

    def cut(self, start: int) -> list[list[Message]]:
        """Return the messages from one on, in batches of random lengths."""
        batches = []
        while start < len(self.messages):
            end = start + self.random.randrange(1, 9)
            batches.append(self.messages[start:end])
            start = end
        return batches
