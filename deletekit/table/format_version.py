"""What each format version of a table may hold: the one place that compares format versions.

`TableMetadata.version` is the `FormatVersion` of a table.
Spec: "Format Versioning", https://iceberg.apache.org/spec/#format-versioning
"""

from dataclasses import dataclass
from typing import Literal

from deletekit.errors import InvalidInputError, UnsupportedError


@dataclass(frozen=True, slots=True)
class FormatVersion:
    """A format version and its rules."""

    number: int

    @property
    def has_sequence_numbers(self) -> bool:
        """Whether commits and files have sequence numbers."""
        return self.number >= 2

    @property
    def has_deletes(self) -> bool:
        """Whether there are delete files. Without them the only delete is copy-on-write."""
        return self.number >= 2

    @property
    def has_counted_manifests(self) -> bool:
        """Whether a new manifest list must count the files and rows of each manifest; older ones may leave it out."""
        return self.number >= 2

    @property
    def has_deletion_vectors(self) -> bool:
        """Whether rows are deleted by position with deletion vectors instead of position delete files."""
        return self.number >= 3

    @property
    def has_row_lineage(self) -> bool:
        """Whether rows have a `_row_id` and a `_last_updated_sequence_number`."""
        return self.number >= 3

    @property
    def keeps_removed_partition_fields(self) -> bool:
        """Whether a removed partition field stays in the spec, with the transform `void`."""
        return self.number == 1

    @property
    def keeps_single_schema(self) -> bool:
        """Whether the metadata also has the `schema` and `partition-spec` that the first readers look for."""
        return self.number == 1

    @property
    def has_snapshot_id_for_none(self) -> bool:
        """Whether `current-snapshot-id` is -1 without a snapshot, as Java writes it."""
        return self.number < 3

    @property
    def pyiceberg_writes_it(self) -> bool:
        """Whether pyiceberg's own catalogs can store the metadata; version 3 needs a REST or SQL catalog."""
        return self.number < 3

    @property
    def position_delete_kind(self) -> Literal["position-delete", "deletion-vector"]:
        """The kind of delete that hides rows by position: what the mode `merge-on-read` writes."""
        return "deletion-vector" if self.has_deletion_vectors else "position-delete"

    @property
    def delete_kinds(self) -> tuple[str, ...]:
        """The kinds of deletes that may be added: position-delete, deletion-vector, equality-delete."""
        return (self.position_delete_kind, "equality-delete") if self.has_deletes else ()

    def next_sequence_number(self, last: int) -> int:
        """Return the sequence number of the next commit; always 0 where commits have none."""
        return last + 1 if self.has_sequence_numbers else 0

    def check_delete_kind(self, kind: str) -> None:
        """Raise InvalidInputError if a table may not get this kind of delete."""
        if kind not in self.delete_kinds:
            message = f"format version {self.number} does not take this kind of delete"
            expected = ", ".join(("copy-on-write", *self.delete_kinds))
            raise InvalidInputError(message, kind="delete-kind", field="mode", found=kind, expected=expected)


FORMAT_VERSIONS = (1, 2, 3)
NEWEST = max(FORMAT_VERSIONS)


def later_version(found: int) -> UnsupportedError:
    """Return the refusal of a table whose format version is later than these, such as the drafts of version 4."""
    message, expected = "table format version is not supported", "1, 2 or 3"
    return UnsupportedError(message, kind="format-version", field="format-version", found=found, expected=expected)
