"""Positions in topics of Kafka: the offset of each partition, with the ids of cluster and topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from deletekit.stream.sources.source import check_same, lost, position_text, read_position

Partition = tuple[str, int]
KIND = "kafka"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """The offsets that are read next.

    Attributes
    ----------
    cluster: the cluster's id.
    topics: the id of each topic. Brokers before Kafka 2.8 have none, and give the same id for all.
    partitions: the offset of each partition.
    is_first: whether nothing was read before, so that partitions begin at whatever they still have.
    """

    cluster: str
    topics: Mapping[str, str]
    partitions: Mapping[Partition, int]
    is_first: bool = False

    def text(self) -> str:
        """Return the position as text: for each topic its id, and the offsets of partitions 0, 1, ..."""
        topics = {
            name: {"id": topic_id, "offsets": [o for (t, _), o in sorted(self.partitions.items()) if t == name]}
            for name, topic_id in self.topics.items()
        }
        return position_text(KIND, {"cluster": self.cluster, "topics": topics})

    @classmethod
    def parse(cls, position: str) -> Offsets:
        """Read a position. Raise InvalidInputError for one of another kind of source."""
        place = read_position(position, KIND)
        topics = place["topics"]
        return cls(
            cluster=place["cluster"],
            topics={name: topic["id"] for name, topic in topics.items()},
            partitions={(name, p): o for name, topic in topics.items() for p, o in enumerate(topic["offsets"])},
        )

    def moved(self, partitions: Mapping[Partition, int]) -> Offsets:
        """Return the position after what was read."""
        return replace(self, partitions=dict(partitions), is_first=False)


def first_offsets(found: Offsets, position: str | None) -> Offsets:
    """Return where to begin in topics as they were found: at the position or, without one, at the beginning.

    Raise InvalidInputError if the position is of other topics or of another cluster, or a topic was made again.
    """
    return replace(found, is_first=True) if position is None else next_offsets(found, Offsets.parse(position))


def next_offsets(found: Offsets, last: Offsets) -> Offsets:
    """Return the position with the partitions that were found; new ones begin at 0. Raise as `first_offsets`."""
    check_same({"cluster": last.cluster}, cluster=found.cluster)
    check_same({"topics": sorted(last.topics)}, topics=sorted(found.topics))
    for name, topic_id in found.topics.items():
        if topic_id != last.topics[name]:
            message = "the topic was deleted and made again; what it had before may be lost"
            raise lost(message, "topics", f"{name} with id {topic_id}", f"id {last.topics[name]}, or another sink id")
    gone = [p for p in last.partitions if p not in found.partitions]
    if gone:
        raise lost("the topic has fewer partitions than before", "topics", f"no partition {gone[0][1]}", gone[0][0])
    return replace(found, partitions={**found.partitions, **last.partitions})
