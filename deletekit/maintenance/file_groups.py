"""Choose which files to rewrite, and group those to rewrite together.

A file is chosen for its size or for its deletes. Files are packed in the given order.
Spec: none; Java SizeBasedFileRewritePlanner and BinPackRewriteFilePlanner, whose option names and defaults these are.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypedDict, TypeVar

from deletekit.commit.manifest_merging import packed
from deletekit.deletes.scan_task import ScanTask
from deletekit.deletes.which_apply import Scope, referenced_path, scope_of
from deletekit.errors import InvalidInputError
from deletekit.formats.content_file import ManifestEntry
from deletekit.table.metadata import TableMetadata
from deletekit.table.properties import value_of

_S = TypeVar("_S")
_T = TypeVar("_T", ScanTask, ManifestEntry)

_MIN_RATIO, _MAX_RATIO = 0.75, 1.8


class SizeOptions(TypedDict, total=False):
    """Which data files or position delete files to rewrite, and how large the new ones are.

    Keys
    ----
    target_file_size_bytes: the size of the new files. Default: the table's `write.target-file-size-bytes`, 512 MB, or
        `write.delete.target-file-size-bytes`, 64 MB.
    min_file_size_bytes, max_file_size_bytes: files of other sizes are rewritten. Default: 0.75 and 1.8 times the
        target.
    min_input_files: fewer files are left alone, unless they make up a file of the target size. Default: 5.
    max_file_group_size_bytes: files are rewritten together up to this size. Default: 100 GB.
    rewrite_all: rewrite every file, whatever its size.
    """

    target_file_size_bytes: int | None
    min_file_size_bytes: int | None
    max_file_size_bytes: int | None
    min_input_files: int
    max_file_group_size_bytes: int
    rewrite_all: bool


class CompactOptions(SizeOptions, total=False):
    """Which data files to rewrite, and in which order their rows are written.

    Keys
    ----
    strategy: `binpack`, or `sort`: orders the rows of all files of a group, which takes them all in memory (see
        `max_file_group_size_bytes`). Default: `binpack`.
    sort_order: for `sort`, as `sort_by` of `create_table`, or `zorder(a, b)`. Default: the table's.
    delete_file_threshold: rewrite a file if so many deletes apply to it. Default: never.
    delete_ratio_threshold: rewrite a file if its own deletes hide this share of its rows. Default: 0.3.
    """

    strategy: str
    sort_order: str | Sequence[str]
    delete_file_threshold: int
    delete_ratio_threshold: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteOptions:
    """All options with their values."""

    target_file_size_bytes: int
    min_file_size_bytes: int
    max_file_size_bytes: int
    min_input_files: int = 5
    max_file_group_size_bytes: int = 100 * 1024**3
    rewrite_all: bool = False
    delete_file_threshold: int = 2**31 - 1
    delete_ratio_threshold: float = 0.3
    strategy: str = "binpack"
    sort_order: str | Sequence[str] = ()

    def output_files(self, input_bytes: int) -> int:
        """Return how many files to write, so that none is much smaller than the target (Java `expectedOutputFiles`)."""
        whole, rest = divmod(input_bytes, self.target_file_size_bytes)
        if not whole:
            return 1
        if rest > self.min_file_size_bytes:
            return whole + 1
        longest = self.target_file_size_bytes + (self.max_file_size_bytes - self.target_file_size_bytes) // 2
        fits = input_bytes / whole < min(1.1 * self.target_file_size_bytes, longest)
        return whole if fits or not rest else whole + 1


def rewrite_options(metadata: TableMetadata, target_property: str, given: Mapping[str, Any]) -> RewriteOptions:
    """Complete the options that a call gives (None: the default), by the table's target size.

    Parameters
    ----------
    target_property: name of the property with the target size.

    Raises InvalidInputError for options that contradict each other, or that no file can meet.
    """
    target = given.get("target_file_size_bytes")
    target = value_of(metadata.properties, target_property) if target is None else target
    values: dict[str, Any] = {
        "target_file_size_bytes": target,
        "min_file_size_bytes": int(target * _MIN_RATIO),
        "max_file_size_bytes": int(target * _MAX_RATIO),
    }
    values |= {name: value for name, value in given.items() if value is not None}
    options = RewriteOptions(**values)
    _check(options)
    return options


def _check(options: RewriteOptions) -> None:
    target, most = options.target_file_size_bytes, options.max_file_size_bytes
    allowed = {
        "target_file_size_bytes": (target >= 1, "1 or more"),
        "min_file_size_bytes": (0 <= options.min_file_size_bytes < target, f"0 or more, < target of {target}"),
        "max_file_size_bytes": (most > target, f"> target of {target}"),
        "min_input_files": (options.min_input_files >= 1, "1 or more"),
        "max_file_group_size_bytes": (options.max_file_group_size_bytes >= 1, "1 or more"),
        "delete_file_threshold": (options.delete_file_threshold >= 1, "1 or more"),
        "delete_ratio_threshold": (0 < options.delete_ratio_threshold <= 1, "more than 0, at most 1"),
    }
    for name, (fits, expected) in allowed.items():
        if not fits:
            raise InvalidInputError("bad option", "rewrite-option", name, getattr(options, name), expected)


def group_data_files(tasks: Iterable[ScanTask], options: RewriteOptions, spec_id: int) -> list[tuple[ScanTask, ...]]:
    """Group data files to rewrite together: those of one partition of spec `spec_id`, and all of other specs."""

    def place(task: ScanTask) -> Scope | None:
        return scope_of(task.data_file) if task.data_file.spec_id == spec_id else None

    return _grouped(tasks, options, place, lambda task: has_many_deletes(task, options))


def group_delete_files(entries: Iterable[ManifestEntry], options: RewriteOptions) -> list[tuple[ManifestEntry, ...]]:
    """Group position delete files to rewrite together, each group of one spec and partition."""
    return _grouped(entries, options, lambda entry: scope_of(entry.data_file), lambda _: False)


def has_many_deletes(task: ScanTask, options: RewriteOptions) -> bool:
    """Tell whether a file has many deletes, or its own deletes hide a large share of its rows."""
    if len(task.deletes) >= options.delete_file_threshold:
        return True
    own = [d for d in task.delete_files if referenced_path(d) is not None]
    rows = task.data_file.record_count
    hidden = min(sum(d.record_count for d in own), rows)
    return bool(own) and rows > 0 and hidden / rows >= options.delete_ratio_threshold


def _grouped(
    files: Iterable[_T], options: RewriteOptions, place: Callable[[_T], Any], is_due: Callable[[_T], bool]
) -> list[tuple[_T, ...]]:
    """Group files of one place. Leave out groups that are not worth it, unless one of their files is due anyway."""
    places: dict[Any, list[_T]] = {}
    for file in files:
        has_good_size = options.min_file_size_bytes <= _size(file) <= options.max_file_size_bytes
        if options.rewrite_all or not has_good_size or is_due(file):
            places.setdefault(place(file), []).append(file)
    most = options.max_file_group_size_bytes
    groups = [tuple(group) for chosen in places.values() for group in packed(chosen, most, _size)]
    return [g for g in groups if options.rewrite_all or _is_worth_it(g, options) or any(map(is_due, g))]


def in_parts(items: Sequence[_S], count: int) -> list[Sequence[_S]]:
    """Split items into as many parts, of about equal length and in their order."""
    return [items[a:b] for a, b in pairwise(len(items) * i // count for i in range(count + 1))]


def _size(file: ScanTask | ManifestEntry) -> int:
    return file.data_file.file_size_in_bytes


def _is_worth_it(group: Sequence[ScanTask | ManifestEntry], options: RewriteOptions) -> bool:
    """Tell whether there are enough files, enough bytes for a file of the target size, or a much too large file."""
    total, several = sum(map(_size, group)), len(group) > 1
    enough = several and (len(group) >= options.min_input_files or total > options.target_file_size_bytes)
    return enough or total > options.max_file_size_bytes
