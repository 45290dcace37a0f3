"""Tell which folders are a table's own. Only files in them may be removed.

Metadata may name any file. A table's own folders are its location and those that its `write.*.path` properties name.
Each may be reached through links: it is the place behind them. A link below one of them adds no place: what is behind
it is the table's only if it lies in one of the folders.
"""

from collections.abc import Iterable

from deletekit.errors import InvalidInputError
from deletekit.table.locations import WRITE_PATHS, KnownFiles, Location, SpellingRules, is_ambiguous, is_below
from deletekit.table.metadata import TableMetadata
from deletekit.table.metadata_file import METADATA_SUFFIXES, logged_files, metadata_folder
from deletekit.table.properties import value_of

DELTA_LOCATION = "deletekit.delta-location"
"""Table property of a table that follows a Delta table, whose data files are Delta's; also in snapshot summaries."""


def check_own_data(metadata: TableMetadata) -> None:
    """Raise InvalidInputError if the table's data files are those of a Delta table, which cannot be rewritten here."""
    delta = metadata.properties.get(DELTA_LOCATION)
    if delta is not None:
        message = "the data files are a Delta table's, and the next sync would refuse the table"
        expected = "OPTIMIZE of the Delta table, and then sync_delta"
        raise InvalidInputError(message, kind="delta-data-files", field=DELTA_LOCATION, found=delta, expected=expected)


def own_folders(metadata: TableMetadata) -> list[str]:
    """Return the table's location, and the folders that its properties name."""
    named = (metadata.properties.get(name) for name in WRITE_PATHS)
    return [metadata.location, *(folder for folder in named if folder)]


class OwnPlaces:
    """The folders of a table, and others that the caller names, which may be links themselves."""

    def __init__(self, metadata: TableMetadata, rules: SpellingRules | None = None, others: Iterable[str] = ()) -> None:
        self.rules = SpellingRules() if rules is None else rules
        own, others = own_folders(metadata), tuple(others)
        self.folders = tuple(dict.fromkeys([*own, *others]))
        letters = {self._letters(folder) for folder in own}
        inner = {at for at in letters if any(at != home and is_below(at, home) for home in letters)}
        outer = [folder for folder in own if self._letters(folder) not in inner]
        self._homes = {self.rules.folder(folder) for folder in (*outer, *others)}

    def hold(self, path: str) -> bool:
        """Tell whether a file or folder lies in one of the folders, after every link. An ambiguous path does not."""
        if is_ambiguous(path):
            return False
        place = self.rules.place(path)
        return any(is_below(place, home) for home in self._homes)

    def _letters(self, folder: str) -> Location:
        letters = self.rules.parse(folder)
        return letters._replace(scheme=letters.scheme or "file", path=letters.path.rstrip("/"))


def check_own_metadata(
    metadata: TableMetadata, metadata_location: str, others: Iterable[str] = (), rules: SpellingRules | None = None
) -> OwnPlaces:
    """Return the folders from which files may be removed: the table's, and `others`.

    Raises InvalidInputError if the current metadata file is not where its own metadata says, because another table's
    folder may be named there; and for a folder that readers understand differently.
    """
    places = OwnPlaces(metadata, rules, others)
    for folder in filter(is_ambiguous, places.folders):
        message = "readers understand this location differently: no file of the table may be removed"
        raise InvalidInputError(message, "location", "location", folder, "a location without . and ..")
    own, here = metadata_folder(metadata), metadata_location.rpartition("/")[0]
    if places.rules.folder(here) != places.rules.folder(own):
        message = "the metadata lies elsewhere than it says: no file may be removed, for it may be another table's"
        kind, file = "metadata-elsewhere", metadata_location
        raise InvalidInputError(message, kind=kind, file=file, field="location", found=own, expected=here)
    return places


def unlogged_files(before: TableMetadata, after: TableMetadata, metadata_location: str) -> set[str]:
    """Return metadata files to remove that `after` no longer logs, by `write.metadata.delete-after-commit.enabled`.

    The log may name any file. A file stays if it is not a metadata file, lies elsewhere, or is still needed.
    """
    if not value_of(after.properties, "write.metadata.delete-after-commit.enabled"):
        return set()
    places = OwnPlaces(after)
    needed = KnownFiles(places.rules, (metadata_location, *logged_files(after)))
    return {
        path
        for path in logged_files(before)
        if path.endswith(METADATA_SUFFIXES) and path not in needed and places.hold(path)
    }
