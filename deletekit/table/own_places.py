"""Which folders are a table's own, so that files there may be removed for it.

Law: metadata may name any file; only what lies in the table's location, or in a folder that its `write.*.path`
properties name, is the table's to remove.
"""

from __future__ import annotations

from collections.abc import Iterable

from deletekit.errors import InvalidInputError
from deletekit.table.locations import WRITE_PATHS, KnownFiles, Location, SpellingRules, is_ambiguous
from deletekit.table.metadata import TableMetadata
from deletekit.table.metadata_file import logged_files, metadata_folder
from deletekit.table.properties import value_of

__all__ = ["OwnPlaces", "check_own_metadata", "is_below", "unlogged_files"]

_METADATA_FILES = (".metadata.json", ".metadata.json.gz")


class OwnPlaces:
    """The folders of a table, and others that the caller says are the table's too."""

    def __init__(self, metadata: TableMetadata, rules: SpellingRules | None = None, others: Iterable[str] = ()) -> None:
        self.rules = SpellingRules() if rules is None else rules
        named = [metadata.properties[name] for name in WRITE_PATHS if metadata.properties.get(name)]
        self.folders = tuple(dict.fromkeys([metadata.location, *named, *others]))
        self._keys = [key for folder in self.folders for key in self._readings(folder, self.rules.folder(folder))]

    def hold(self, path: str) -> bool:
        """Whether a file lies below one of the folders; a path that may be of two files does not."""
        if is_ambiguous(path):
            return False
        return any(is_below(key, home) for key in self._readings(path, self.rules.key(path)) for home in self._keys)

    def _readings(self, text: str, key: Location) -> set[Location]:
        """As its links lead, and by its letters: a folder of the table may be a link to another disk."""
        letters = self.rules.parse(text)
        return {key, letters._replace(scheme=letters.scheme or "file", path=letters.path.rstrip("/"))}


def is_below(place: Location, home: Location) -> bool:
    """Whether a location is a folder, or lies in it."""
    same = (place.scheme, place.authority) == (home.scheme, home.authority)
    return same and (place.path == home.path or place.path.startswith(home.path.rstrip("/") + "/"))


def check_own_metadata(
    metadata: TableMetadata, metadata_location: str, others: Iterable[str] = (), rules: SpellingRules | None = None
) -> OwnPlaces:
    """The table's folders, and `others`, of which files may be removed.

    Raises InvalidInputError when the current metadata file does not lie where its own metadata says, so that another
    table's folder may be named there; and for a folder that readers take for two.
    """
    places = OwnPlaces(metadata, rules, others)
    for folder in places.folders:
        if is_ambiguous(folder):
            raise InvalidInputError(
                "location is not the same folder to all who read it: no file of the table may be removed",
                kind="location",
                field="location",
                found=folder,
                expected="a location without . and ..",
            )
    own = metadata_folder(metadata)
    if places.rules.folder(metadata_location.rpartition("/")[0]) != places.rules.folder(own):
        raise InvalidInputError(
            "the table's metadata names another location than where its metadata file lies: "
            "no file may be removed, for it may be another table's",
            kind="metadata-elsewhere",
            file=metadata_location,
            field="location",
            found=own,
            expected=metadata_location.rpartition("/")[0],
        )
    return places


def unlogged_files(before: TableMetadata, after: TableMetadata, metadata_location: str) -> set[str]:
    """Metadata files that `after` no longer remembers and may go, by `write.metadata.delete-after-commit.enabled`.

    Anyone may log any file: one that is no metadata file, lies elsewhere, or is still needed, stays.
    """
    if not value_of(after.properties, "write.metadata.delete-after-commit.enabled"):
        return set()
    places = OwnPlaces(after)
    needed = KnownFiles(places.rules, (metadata_location, *logged_files(after)))
    return {
        path
        for path in logged_files(before)
        if path.endswith(_METADATA_FILES) and path not in needed and places.hold(path)
    }
