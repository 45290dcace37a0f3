"""Write a Delta table by hand, version by version, as lesson 14 does: each action goes into the log as it is given.

Nothing is checked, so that a lesson can also write what is wrong.
"""

import json
import shutil
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deletekit.delta.deletion_vector import FRAME_BYTES
from deletekit.errors import InvalidInputError
from deletekit.formats.deletion_vector import PositionBitmap, encode_blob

Json = dict[str, Any]

_MARK = ".by-hand"
"""A file that says who wrote what is in the folder."""
_VECTORS = ["deletionVectors"]
_FIELDS = [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]


class DeltaByHand:
    """A folder with a Delta table of one column, `id`. What another one wrote into the folder before is removed.

    Attributes
    ----------
    protocol, table: the actions that begin the log: the features that a reader must know, and the schema.

    Raises InvalidInputError for a folder with anything else in it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.protocol: Json = {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": _VECTORS,
                "writerFeatures": _VECTORS,
            }
        }
        self.table: Json = {
            "metaData": {
                "id": "by-hand",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": _FIELDS}),
                "partitionColumns": [],
                "configuration": {"delta.enableDeletionVectors": "true"},
            }
        }
        if folder.is_dir() and any(folder.iterdir()) and not (folder / _MARK).is_file():
            message = "folder is not empty, and not written by hand"
            raise InvalidInputError(message, kind="delta-by-hand", field="folder", found=str(folder))
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / _MARK).touch()
        self._log.mkdir()

    def commit(self, version: int, *actions: Json) -> None:
        """Write the actions of a version. A version that is there already is replaced."""
        (self._log / f"{version:020d}.json").write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")

    def write_rows(self, name: str, ids: Iterable[int]) -> None:
        """Write a data file. It belongs to the table when a version adds it."""
        pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), self.folder / name)

    def write_vector(self, name: str, positions: Collection[int]) -> Json:
        """Write a file with one vector, and return the descriptor of the vector."""
        frame = encode_blob(PositionBitmap(positions))
        file = self.folder / name
        file.write_bytes(b"\x01" + frame)  # the version of the file's form
        return {"storageType": "p", "pathOrInlineDv": file.as_uri(), "offset": 1, **_counts(frame, positions)}

    def add(self, name: str, vector: Json | None = None, *, data_change: bool = True) -> Json:
        """Return the action that adds a data file, with a vector or without."""
        file = self.folder / name
        stats = json.dumps({"numRecords": pq.read_metadata(file).num_rows})
        action = {"path": name, "partitionValues": {}, "size": file.stat().st_size, "stats": stats}
        return {"add": {**action, "dataChange": data_change, **_with(vector)}}

    def remove(self, name: str, vector: Json | None = None, *, data_change: bool = True) -> Json:
        """Return the action that removes a data file and the vector that it had."""
        return {"remove": {"path": name, "dataChange": data_change, **_with(vector)}}

    def log(self) -> list[Json]:
        """Return a row for each action on a data file: its version, type, path, and the file of the vector."""
        rows = []
        for file in sorted(self._log.iterdir()):
            for line in file.read_text(encoding="utf-8").splitlines():
                ((kind, action),) = json.loads(line).items()
                if kind in ("add", "remove"):
                    vector = action.get("deletionVector")
                    vector_file = vector["pathOrInlineDv"].rpartition("/")[2] if vector else None
                    row = {"Type": f"{kind.title()}File", "Path": action["path"], "DV Path": vector_file}
                    rows.append({"version": int(file.stem), **row})
        return rows

    @property
    def _log(self) -> Path:
        return self.folder / "_delta_log"


def _counts(frame: bytes, positions: Collection[int]) -> Json:
    return {"sizeInBytes": len(frame) - FRAME_BYTES, "cardinality": len(positions)}


def _with(vector: Mapping[str, Any] | None) -> Json:
    return {} if vector is None else {"deletionVector": vector}
