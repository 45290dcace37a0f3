"""Say what the bytes of a file of deletion vectors are, for every view and drawing that shows them."""

from deletekit.course.translations import Messages
from deletekit.course.views.byte_layout import ByteRange

_COUNTED = {"payload": "byte-blobs", "run flags": "byte-runs"}


def field_name(say: Messages, field: str) -> str:
    """Return the name of a field of a byte range."""
    return say("byte-" + field.replace(" ", "-"))


def part_name(say: Messages, part: str) -> str:
    """Return the name of the part of a file that a byte range belongs to; the number of a blob stands last."""
    name, _, number = part.partition(" ")
    return f"{say(f'byte-part-{name}')} {number}".rstrip()


def value_text(say: Messages, found: ByteRange) -> str:
    """Return what bytes mean; of a wrong value, what it should be too."""
    if found.first_position is not None and found.cardinality is not None:
        first, last = f"{found.first_position:,}", f"{found.first_position + 0xFFFF:,}"
        return say("container-holds", count=f"{found.cardinality:,}", first=first, last=last)
    if found.is_wrong:
        return say("byte-wrong", stored=found.value, computed=found.computed)
    said = [found.value] if found.value else []
    if found.counted is not None:
        said.append(say(_COUNTED.get(found.field, "byte-containers"), count=f"{found.counted:,}"))
    return ", ".join(said)
