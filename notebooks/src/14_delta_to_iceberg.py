# ---
# jupyter:
#   deletekit:
#     lesson: "14"
#     minutes: {teach: 35, exercise: 30}
#     needs: plain
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 14 · From Delta to Iceberg
#
# **35 minutes to read and run, 30 for the exercises.** It builds on [06 · Deletion vectors](06_deletion_vectors.ipynb).
#
# Delta Lake and Iceberg mark deleted rows with the same bytes. They differ in where they record which vector belongs to which data file. In this lesson you write a Delta table by hand. An Iceberg table follows it, version by version, and no data file is copied.
#
# You will be able to
#
# - read a Delta log, and say which files and vectors a version has
# - turn a Delta vector into an Iceberg vector, byte by byte
# - predict what a second delete, an OPTIMIZE and a RESTORE do to the Iceberg table
# - say what a converter must check, and what it must refuse

# %% [markdown]
# ## Predict
#
# A Delta table has one data file, `file_a.parquet`, with the ids 0 to 999. Version 1 deletes the rows with `id < 100`: the log removes `file_a.parquet`, and adds it again with a deletion vector.
#
# **14.1** A converter knows only data files: it follows added and removed files, and does not look at vectors. How many rows does its Iceberg table have?

# %% tags=["exercise"] exercise="14.1"
from deletekit.course import predict

predict("14.1", ...)

# %% tags=["solution"] exercise="14.1"
from deletekit.course import predict

predict("14.1", 1000)

# %% [markdown]
# ## A Delta table, by hand
#
# A Delta table is a folder of Parquet files, with a log in `_delta_log`. The log has one file of JSON lines for each version. Each line is an action. `add` and `remove` are about data files, and both can have a vector as a field.

# %%
import json
import struct
import zlib

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

import deletekit as dk
from deletekit.course import Aliases, check, hint, lesson, show, solution

here = lesson("14")
root = here.folder / "delta_table"
log = root / "_delta_log"
log.mkdir(parents=True)


def commit(version, *actions):
    (log / f"{version:020d}.json").write_text("\n".join(json.dumps(action) for action in actions))


def write_rows(name, ids):
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), root / name)


def add(name, vector=None, data_change=True):
    stats = json.dumps({"numRecords": pq.read_metadata(root / name).num_rows})
    action = {"path": name, "partitionValues": {}, "size": (root / name).stat().st_size}
    action |= {"dataChange": data_change, "stats": stats}
    return {"add": action | ({"deletionVector": vector} if vector else {})}


def remove(name, vector=None, data_change=True):
    action = {"path": name, "dataChange": data_change}
    return {"remove": action | ({"deletionVector": vector} if vector else {})}


# %% [markdown]
# Version 0 also says what the table is: the features that a reader must know, and the schema.

# %%
feature = ["deletionVectors"]
protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": feature, "writerFeatures": feature}
fields = [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]
table = {
    "id": "lesson-14",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": json.dumps({"type": "struct", "fields": fields}),
    "partitionColumns": [],
    "configuration": {"delta.enableDeletionVectors": "true"},
}

write_rows("file_a.parquet", range(1000))
commit(0, {"protocol": protocol}, {"metaData": table}, add("file_a.parquet"))

# %% [markdown]
# We write a vector as Delta does. First comes one byte for the version of the file. Then, for each vector, come its length, the vector, and a checksum. The log has a descriptor: where the vector is, how long it is, and how many rows it deletes.


# %%
def write_vector(name, positions):
    vector = struct.pack("<I", 1681511377) + BitMap64(positions).serialize()
    frame = struct.pack(">I", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))
    (root / name).write_bytes(b"\x01" + frame)
    place = {"storageType": "p", "pathOrInlineDv": (root / name).as_uri(), "offset": 1}
    return {**place, "sizeInBytes": len(vector), "cardinality": len(positions)}


dv_1 = write_vector("file_a_dv_1.bin", range(100))
commit(1, remove("file_a.parquet"), add("file_a.parquet", dv_1))

# %% [markdown]
# ## Run
#
# `sync_delta` brings an Iceberg table to a version of a Delta table. The first call creates the table. Next to it is the converter from above.


# %%
def actions():
    for file in sorted(log.iterdir()):
        for line in file.read_text().splitlines():
            for kind, action in json.loads(line).items():
                if kind in ("add", "remove"):
                    yield int(file.stem), kind, action


def rows_by_data_files():
    live = {}
    for _, kind, action in actions():
        if kind == "add":
            live[action["path"]] = json.loads(action["stats"])["numRecords"]
        else:
            live.pop(action["path"], None)
    return sum(live.values())


here.rewind("first sync", "from_delta", root)
dk.sync_delta(root, here.catalog, "course.from_delta", version=0)
synced = dk.sync_delta(root, here.catalog, "course.from_delta")
iceberg = synced.table
names = Aliases(iceberg)
print("by data files only:", rows_by_data_files())
print("synced to version", synced.version, "·", synced.commit.operation, "· rows:", dk.scan(iceberg).count())

# %%
check("14.1")

# %% [markdown]
# A hundred deleted rows came back, and nothing failed. The converter calls this a success, and its table is well-formed.
#
# ## Look inside: the log
#
# This is the log so far. You will see it again below, with a second delete and a compaction.


# %%
def shown(kind, action):
    vector = action.get("deletionVector")
    vector_file = vector["pathOrInlineDv"].rpartition("/")[2] if vector else None
    return {"Type": {"add": "AddFile", "remove": "RemoveFile"}[kind], "Path": action["path"], "DV Path": vector_file}


show([{"version": version, **shown(kind, action)} for version, kind, action in actions()])

# %% [markdown]
# A log is not a list of files. It is a story that you must read to its end. These are its rules:
#
# - a file is live with the vector of its last `add`
# - actions within one version have no order: first apply all removes, then all adds
# - a `remove` may name a file that is not there (any more); ignore it
# - an `add` of a file that is already live adds no second copy of its rows
#
# **14.2** Write the reader of a log. It gets a list of versions. Each version is a list of `(kind, path, vector)`. It returns a dict of the live files, each with its vector or `None`.


# %% tags=["exercise"] exercise="14.2"
def live_files(versions): ...


check("14.2", live_files)


# %% tags=["solution"] exercise="14.2"
def live_files(versions):
    live = {}
    for version in versions:
        for kind, path, _ in version:
            if kind == "remove":
                live.pop(path, None)
        for kind, path, vector in version:
            if kind == "add":
                live[path] = vector
    return live


check("14.2", live_files)

# %% [markdown]
# ## Look inside: the bytes
#
# Delta keeps the descriptor in the action of the data file. Iceberg has a separate entry in a delete manifest, and the entry names its data file.

# %%
print("Delta  :", {key: dv_1[key] for key in ("offset", "sizeInBytes", "cardinality")})
names.show(
    names.deletes(),
    "name",
    "kind",
    "data_file.content_offset",
    "data_file.content_size_in_bytes",
    "data_file.record_count",
    "data_file.referenced_data_file",
)

# %% [markdown]
# `sizeInBytes` counts the magic and the bitmap. `content_size_in_bytes` also counts the length before them and the checksum after them, four bytes each.
#
# **14.3** Write the conversion. The function gets what Delta counts, magic and bitmap, and returns the bytes of Iceberg's blob.


# %% tags=["exercise"] exercise="14.3"
def blob_of(vector): ...


check("14.3", blob_of)


# %% tags=["solution"] exercise="14.3"
def blob_of(vector):
    return struct.pack(">I", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))


check("14.3", blob_of)

# %% [markdown]
# Delta's file has exactly this frame around the vector. You need not decode or encode anything: check the bytes, and copy them.

# %%
from pathlib import Path

entry = names.file("V1")
puffin = Path(entry.file_path).read_bytes()
blob = puffin[entry.content_offset : entry.content_offset + entry.content_size_in_bytes]
print("the same bytes:", blob == (root / "file_a_dv_1.bin").read_bytes()[1:])

# %%
dk.widgets.DeltaBridge(root, version=1)

# %% [markdown]
# ## A second delete
#
# Version 2 also deletes the rows with `id >= 990`. Delta's vectors are cumulative: the new one also holds what the old one held. The log removes the file with the old vector and adds it with the new one.
#
# **14.4** How many delete files does the Iceberg table have after the next sync?

# %% tags=["exercise"] exercise="14.4"
predict("14.4", ...)

# %% tags=["solution"] exercise="14.4"
predict("14.4", 1)

# %%
here.rewind("version 2", iceberg, root)
dv_2 = write_vector("file_a_dv_2.bin", [*range(100), *range(990, 1000)])
commit(2, remove("file_a.parquet", dv_1), add("file_a.parquet", dv_2))

synced = dk.sync_delta(root, here.catalog, "course.from_delta")
iceberg.refresh()
names.show(names.deletes(), "name", "kind", "data_file.record_count", "data_file.referenced_data_file")
print({key: synced.commit.summary[key] for key in ("added-dvs", "removed-dvs")})
print("data files added:", len(synced.commit.added_data_files), "· rows:", dk.scan(iceberg).count())

# %%
check("14.4")

# %% [markdown]
# Delta's log removed and added the data file. Iceberg did not touch its entry: only the vector is new. So the file keeps its sequence number and its row ids.
#
# ## Into format version 2
#
# A table of format version 2 has no deletion vectors, so each vector is decoded into a position delete file. **14.5** At version 2 of Delta, how many lines do all position delete files of the table have together?

# %% tags=["exercise"] exercise="14.5"
predict("14.5", ...)

# %% tags=["solution"] exercise="14.5"
predict("14.5", 110)

# %%
here.rewind("format version 2", "from_delta_v2")
for version in (0, 1, 2):
    older = dk.sync_delta(root, here.catalog, "course.from_delta_v2", version=version, format_version=2).table
of_older = Aliases(older)
of_older.show(of_older.deletes(), "name", "kind", "data_file.record_count", "data_file.referenced_data_file")
print("rows:", dk.scan(older).count())

# %%
check("14.5")

# %% [markdown]
# Texts from before Iceberg's version 3 know only this way. They also say that Delta's UPDATE and MERGE rewrite whole files. Both were true once. Today UPDATE and MERGE of Delta write vectors too, and a table of version 3 takes them without change.
#
# ## OPTIMIZE
#
# Compaction puts the 890 live rows into `file_d.parquet`. `file_a.parquet` leaves the table, and its vector goes with it. The actions say that no row has changed: `dataChange` is false.
#
# **14.6** How many delete files does the Iceberg table have then?

# %% tags=["exercise"] exercise="14.6"
predict("14.6", ...)

# %% tags=["solution"] exercise="14.6"
predict("14.6", 0)

# %%
here.rewind("version 3", iceberg, root)
write_rows("file_d.parquet", range(100, 990))
commit(3, remove("file_a.parquet", dv_2, data_change=False), add("file_d.parquet", data_change=False))

synced = dk.sync_delta(root, here.catalog, "course.from_delta")
iceberg.refresh()
show([{"version": version, **shown(kind, action)} for version, kind, action in actions()])
print("operation:", synced.commit.operation, "· delete files:", len(names.deletes()))

# %%
check("14.6")

# %% [markdown]
# A delete file whose data file has left the table is called a dangling delete. It hides nothing, but every scan reads its entry. If a converter never removes its deletes, each compaction leaves one behind.
#
# ## RESTORE
#
# Version 4 takes the table back to version 1. The log removes `file_d.parquet`, and adds `file_a.parquet` with its first vector. **14.7** How many rows does the Iceberg table have?

# %% tags=["exercise"] exercise="14.7"
predict("14.7", ...)

# %% tags=["solution"] exercise="14.7"
predict("14.7", 900)

# %%
here.rewind("version 4", iceberg, root)
commit(4, remove("file_d.parquet"), add("file_a.parquet", dv_1))

synced = dk.sync_delta(root, here.catalog, "course.from_delta")
iceberg.refresh()
names.show(names.deletes(), "name", "kind", "data_file.record_count", "data_file.referenced_data_file")
print("rows:", dk.scan(iceberg).count())

# %%
check("14.7")

# %% [markdown]
# Vectors do not only grow. Here one came back. And if the data file is still live, a `RESTORE` makes its vector smaller. A converter that only adds deletes, and never removes one, hides rows that Delta has.
#
# ## How far has the sync come?
#
# The summary of each snapshot says which version of Delta it is. So a sync knows where to continue. If you roll back the Iceberg table, the sync goes back with it. If there is nothing to do, there is no commit.

# %%
print("delta-version:", iceberg.current_snapshot.summary["deletekit.delta-version"])
print("commits of another sync:", len(dk.sync_delta(root, here.catalog, "course.from_delta").commits))

# %% [markdown]
# A table at version 1 still needs the versions 2, 3 and 4. By default they become at most one commit, the difference between two states. Files that came and went in between need not even exist any more. With `commits="each"` every version becomes its own commit.
#
# **14.8** How many delete files does each way write for versions 2 to 4? Answer with a dict whose keys are `"coalesce"` and `"each"`. Version 1 has the vector `dv_1`, and so does version 4.

# %% tags=["exercise"] exercise="14.8"
predict("14.8", ...)

# %% tags=["solution"] exercise="14.8"
predict("14.8", {"coalesce": 0, "each": 2})

# %%
here.rewind("two ways", "by_coalesce", "by_each")
for way in ("coalesce", "each"):
    dk.sync_delta(root, here.catalog, f"course.by_{way}", version=1)
    late = dk.sync_delta(root, here.catalog, f"course.by_{way}", commits=way)
    written = sum(len(commit.added_delete_files) for commit in late.commits)
    print(f"{way}: {len(late.commits)} commits, {written} delete files, {dk.scan(late.table).count()} rows")

# %%
check("14.8")

# %% [markdown]
# The first table needed no commit at all. Its summary still says version 1. The next sync begins there, and finds again that nothing has changed.
#
# ## Copy or refer?
#
# The bytes are the same, so why copy them? An entry can also point into Delta's own file: `deletion_vectors="reference"`. We read both tables with pyiceberg, a reader that knows nothing of deletekit.


# %%
def rows_of_pyiceberg(name):
    try:
        return len(here.catalog.pyiceberg.load_table(f"course.{name}").scan().to_arrow())
    except ValueError:
        return "cannot be read"


here.rewind("references", "copied", "referred")
dk.sync_delta(root, here.catalog, "course.copied")
referring = dk.sync_delta(root, here.catalog, "course.referred", deletion_vectors="reference").table
print("copied  :", rows_of_pyiceberg("copied"))
print("referred:", rows_of_pyiceberg("referred"))
print("verify  :", [finding.kind for finding in dk.verify(referring).findings])

if here.spark is not None:
    for name in ("copied", "referred"):
        assert here.spark.table(f"{here.catalog.name}.course.{name}").where("id >= 0").count() == 900

# %% [markdown]
# A reader that uses only `content_offset`, like Iceberg's Java library, finds the vector in both files. If Java is installed, the last lines of the cell have checked this. A reader that opens the file as Puffin finds nothing: Delta's file has no magic `PFA1` and no footer, and the specification requires both. Also, Delta's VACUUM would remove the file some day. `repack` copies such vectors into Puffin files later.

# %%
here.rewind("repack", referring)
dk.repack(referring)
print("repacked:", rows_of_pyiceberg("referred"))

# %% [markdown]
# ## Inline vectors
#
# The log itself can hold a small vector. Then `storageType` is `i`, and the text is the magic and bitmap in Z85, which writes four bytes as five characters. Zero bytes pad the data to a multiple of four, and `sizeInBytes` says where the vector ends.
#
# **14.9** `dv_1` has a `sizeInBytes` of 31. How many characters does it have inline?

# %% tags=["exercise"] exercise="14.9"
check("14.9", ...)

# %% tags=["solution"] exercise="14.9"
check("14.9", -(-31 // 4) * 5)

# %%
ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def z85(data):
    data += bytes(-len(data) % 4)
    words = struct.unpack(f">{len(data) // 4}I", data)
    return "".join(ALPHABET[word // 85**power % 85] for word in words for power in (4, 3, 2, 1, 0))


here.rewind("version 5", iceberg, root)
three = struct.pack("<I", 1681511377) + BitMap64([3, 5, 8]).serialize()
inline = {"storageType": "i", "pathOrInlineDv": z85(three), "sizeInBytes": len(three), "cardinality": 3}
print(inline)

commit(5, remove("file_a.parquet", dv_1), add("file_a.parquet", inline))
dk.sync_delta(root, here.catalog, "course.from_delta")
iceberg.refresh()
names.show(names.deletes(), "name", "kind", "positions")

# %% [markdown]
# The inline vector has no frame, so length and checksum were computed. The public writers of Delta write no inline vectors today. But the protocol allows them, so a reader must know them.
#
# ## Break it
#
# What must a converter refuse? We damage version 6 in three ways, one after another: a flipped bit in a vector, a wrong number of rows for a vector in the log, and a feature that nobody knows.


# %%
def outcome_of(*actions):
    commit(6, *actions)
    try:
        dk.sync_delta(root, here.catalog, "course.from_delta")
    except dk.DeletekitError as error:
        return f"{type(error).__name__}: {error.kind}"
    return "nothing found"


def with_vector(vector):
    return remove("file_a.parquet", inline), add("file_a.parquet", vector)


here.rewind("damage", iceberg, root)
dv_3 = write_vector("file_a_dv_3.bin", range(100))
broken = bytearray((root / "file_a_dv_3.bin").read_bytes())
broken[-6] ^= 1
(root / "file_a_dv_3.bin").write_bytes(broken)
unknown = {"protocol": {**protocol, "readerFeatures": [*feature, "rowsFromTheFuture"]}}

show(
    [
        {"damage": "a flipped bit", "found": outcome_of(*with_vector(dv_3))},
        {"damage": "another cardinality", "found": outcome_of(*with_vector({**dv_2, "cardinality": 111}))},
        {"damage": "an unknown feature", "found": outcome_of(unknown)},
    ]
)
iceberg.refresh()
print(
    "delta-version:", iceberg.current_snapshot.summary["deletekit.delta-version"], "· rows:", dk.scan(iceberg).count()
)

# %% [markdown]
# The sync found each damage before it committed anything, and the table is still at version 5. Last, a danger that no check of bytes can find. Delta's VACUUM deletes every file in the table's folder that is older than a week and not in the log. Iceberg's metadata would be such files. VACUUM skips a folder whose name begins with `_`.

# %%
here.rewind("places", "in_metadata", "in_deletion_vectors", "in_iceberg", root)
commit(6, {"commitInfo": {"operation": "VACUUM END"}})
for folder in ("metadata", "deletion-vectors", "_iceberg"):
    try:
        dk.sync_delta(
            root, here.catalog, f"course.in_{folder.strip('_').replace('-', '_')}", location=str(root / folder)
        )
        print(f"{folder}: synced")
    except dk.InvalidInputError as error:
        print(f"{folder}: {error.kind}")

# %% [markdown]
# ## Key points
#
# - In Delta a vector is a field of the data file's action. In Iceberg it is a separate entry in a delete manifest, with `referenced_data_file`: [manifests](https://iceberg.apache.org/spec/#manifests).
# - The bytes are the same: length, magic, bitmap, checksum. `content_size_in_bytes` is `sizeInBytes` + 8: [deletion-vector-v1](https://iceberg.apache.org/puffin-spec/#deletion-vector-v1-blob-type).
# - A converter that ignores vectors brings deleted rows back, and reports success.
# - Every vector has one successor or none. A vector that a version no longer has leaves the Iceberg table in the same commit. So there is [at most one for each data file](https://iceberg.apache.org/spec/#deletion-vectors), and none that dangles.
# - Keep the version of the table in the [snapshot](https://iceberg.apache.org/spec/#snapshots). If you cannot read something with certainty, refuse it by name.
#
# Next: [15 · Capstone: rows came back on Tuesday](15_capstone.ipynb)

# %%
here.close(...)
