"""Why a row is live or hidden: the deletes that name it, and the rule that decides for each.

A verdict trusts nothing: it applies each delete file on its own and then judges the outcome by the rules.

Spec: "Scan Planning", "Row-level Deletes", https://iceberg.apache.org/spec/#row-level-deletes
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pyiceberg.partitioning import PartitionSpec

from deletekit.deletes.read import ReadContext, deleted_positions
from deletekit.deletes.scan_task import ScanTask
from deletekit.deletes.which_apply import covers, is_old_enough, is_superseded
from deletekit.formats.content_file import DeleteFile, FileContent, ManifestEntry
from deletekit.formats.deletion_vector import PositionBitmap

Reason = Literal["applies", "older", "scope", "vector-wins"]
"""`applies`, or the rule that keeps a delete from applying to a data file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules of the specification. Each can be switched off, to show what it is for.

    Attributes
    ----------
    sequence: an equality delete applies to strictly older data files (`<`), not to those of its own commit (`<=`).
    scope: an equality or position delete of a partition applies to that partition only.
    vector_wins: position delete files do not apply beside a deletion vector.
    """

    sequence: bool = True
    scope: bool = True
    vector_wins: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class NamingDelete:
    """A delete that names rows of a data file by position or key, and whether it hides them."""

    entry: ManifestEntry
    reason: Reason

    @property
    def hides(self) -> bool:
        return self.reason == "applies"


def reason_of(
    delete: ManifestEntry,
    data: ManifestEntry,
    specs: Mapping[int, PartitionSpec],
    *,
    has_vector: bool = False,
    rules: Rules | None = None,
) -> Reason:
    """Return why a delete applies to a data file, or does not.

    Parameters
    ----------
    specs: the table's partition specs by id.
    has_vector: whether the data file has a deletion vector.
    rules: the rules that hold; None is all of them.
    """
    rules = rules or Rules()
    file = delete.data_file
    assert isinstance(file, DeleteFile)
    if rules.scope and not covers(file, data.data_file, specs):
        return "scope"
    is_of_same_commit = (delete.sequence_number or 0) == (data.sequence_number or 0)
    if not is_old_enough(data, delete) and (rules.sequence or not is_of_same_commit):
        return "older"
    if rules.vector_wins and is_superseded(file, has_vector=has_vector):
        return "vector-wins"
    return "applies"


def named_positions(
    context: ReadContext, data: ManifestEntry, delete: ManifestEntry, within: PositionBitmap | None = None
) -> PositionBitmap:
    """Return the positions of the rows that one delete names by position or key, whether it applies or not.

    `within` limits the read to row groups that hold some of these positions. Raises FormatError or NotFoundError,
    naming the file that is damaged or missing.
    """
    file = delete.data_file
    if isinstance(file, DeleteFile) and file.content == FileContent.POSITION_DELETES:
        return context.loader.positions_of(file, data.data_file.file_path)
    return deleted_positions(context, ScanTask(data, (delete,)), within)
