# ---
# jupyter:
#   deletekit:
#     lesson: "14"
#     minutes: {teach: 20, exercise: 20}
#     needs: plain
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 14 · From Delta to Iceberg
#
# **20 minutes to read and run, 20 for the exercises.** It builds on [06 · Deletion vectors](06_deletion_vectors.ipynb).
#
# Delta Lake and Iceberg mark deleted rows with the same bytes. They differ in where they record which vector belongs to which data file. In this lesson you write a Delta table by hand. An Iceberg table follows it, version by version, and no data file is copied.
#
# You will be able to
#
# - read a Delta log, and say which files and vectors a version has
# - turn a Delta vector into an Iceberg vector, byte by byte
# - predict what a second delete, a compaction (OPTIMIZE) and a return to an older version (RESTORE) do to the Iceberg table
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
#
# `DeltaByHand` writes files and actions as we give them, and checks nothing. Version 0 also says what the table is: the features that a reader must know, and the schema.

# %%
import struct
import zlib

import pyarrow.parquet as pq

import deletekit as dk
from deletekit.course import Aliases, check, hint, lesson, show, solution
from deletekit.course.delta_by_hand import DeltaByHand

here = lesson("14")
root = here.folder / "delta_table"
delta = DeltaByHand(root)

delta.write_rows("file_a.parquet", range(1000))
delta.commit(0, delta.protocol, delta.table, delta.add("file_a.parquet"))
show({**delta.protocol, **delta.table})

# %% [markdown]
# A file of vectors begins with one byte for the version of its format. Then, for each vector, come its length, the vector, and a checksum. The log has a descriptor: where the vector is (`p` means a path), how long it is, and how many rows it deletes.

# %%
dv_1 = delta.write_vector("file_a_dv_1.bin", range(100))
delta.commit(1, delta.remove("file_a.parquet"), delta.add("file_a.parquet", dv_1))
print({key: dv_1[key] for key in ("storageType", "offset", "sizeInBytes", "cardinality")})

# %% [markdown]
# ## Run
#
# `sync_delta` brings an Iceberg table to a version of a Delta table. The first call creates the table. The first line below is the answer of the converter from above: it counts the rows of the live data file.

# %%
here.rewind("first sync", "from_delta", root)
dk.sync_delta(root, here.catalog, "course.from_delta", version=0)
synced = dk.sync_delta(root, here.catalog, "course.from_delta")
iceberg = synced.table
names = Aliases(iceberg)
print("by data files only:", pq.read_metadata(root / "file_a.parquet").num_rows)
print("synced to version", synced.version, "·", synced.commit.operation, "· rows:", dk.scan(iceberg).count())

# %%
check("14.1")

# %% [markdown]
# A hundred deleted rows came back, and nothing failed. The converter calls this a success, and its table is well-formed.
#
# ## Look inside: the log
#
# This is the log so far: `AddFile` is an `add`, `RemoveFile` is a `remove`, and `DV Path` is the file of the vector.

# %%
show(delta.log())

# %% [markdown]
# A log is not a list of files. It is a story that you must read to its end. These are its rules:
#
# - a file is live with the vector of its last `add`
# - actions within one version have no order: first apply all removes, then all adds
# - a `remove` may name a file that is not there (any more); ignore it
# - an `add` of a file that is already live adds no second copy of its rows
#
# **14.2** Write the reader of a log. It gets a list of versions. Each version is a list of `(kind, path, vector)`, where `kind` is `"add"` or `"remove"`. It returns a dict from the path of each live file to its vector, or to `None`.


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
fields = ("content_offset", "content_size_in_bytes", "record_count", "referenced_data_file")
names.show(names.deletes(), "name", "kind", *(f"data_file.{field}" for field in fields))

# %% [markdown]
# `sizeInBytes` counts the magic and the bitmap. `content_size_in_bytes` also counts the length before them and the checksum after them, four bytes each. The offsets differ too: Delta's file begins with one byte of version, and Iceberg's with the four bytes `PFA1`.
#
# **14.3** Write the conversion. The function gets what Delta counts, magic and bitmap, and returns the bytes of Iceberg's blob. Its frame is as in [06](06_deletion_vectors.ipynb).


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

# %% [markdown]
# The widget compares both sides: actions and entries, positions and bytes.

# %%
dk.widgets.DeltaBridge(root, version=1)

# %% [markdown]
# ## A second delete
#
# Version 2 also deletes the rows with `id >= 990`. Delta's vectors are cumulative: the new one also holds what the old one held. The log removes the file with the old vector and adds it with the new one.

# %%
here.rewind("version 2", iceberg, root)
dv_2 = delta.write_vector("file_a_dv_2.bin", [*range(100), *range(990, 1000)])
delta.commit(2, delta.remove("file_a.parquet", dv_1), delta.add("file_a.parquet", dv_2))

synced = dk.sync_delta(root, here.catalog, "course.from_delta")
iceberg.refresh()
names.show(names.deletes(), "name", "kind", "data_file.record_count", "data_file.referenced_data_file")
print({key: synced.commit.summary[key] for key in ("added-dvs", "removed-dvs")})
print("data files added:", len(synced.commit.added_data_files), "· rows:", dk.scan(iceberg).count())

# %% [markdown]
# Delta's log removed and added the data file. Iceberg did not touch its entry: only the vector is new. So the file keeps its sequence number and its row ids.

# %% [markdown]
# ## OPTIMIZE
#
# Compaction puts the 890 live rows into `file_d.parquet`. `file_a.parquet` leaves the table, and its vector goes with it. The actions say that no row has changed: `dataChange` is false.

# %%
here.rewind("version 3", iceberg, root)
delta.write_rows("file_d.parquet", range(100, 990))
delta.commit(
    3,
    delta.remove("file_a.parquet", dv_2, data_change=False),
    delta.add("file_d.parquet", data_change=False),
)

synced = dk.sync_delta(root, here.catalog, "course.from_delta")
iceberg.refresh()
show(delta.log())
print("operation:", synced.commit.operation, "· delete files:", len(names.deletes()))

# %% [markdown]
# No row has changed, so the commit is a `replace`. A delete file whose data file has left the table is called a dangling delete. It hides nothing, but every scan reads its entry. If a converter never removes its deletes, each compaction leaves one behind.
#
# ## RESTORE
#
# Version 4 takes the table back to version 1. The log removes `file_d.parquet`, and adds `file_a.parquet` with its first vector. **14.6** How many rows does the Iceberg table have?

# %% tags=["exercise"] exercise="14.6"
predict("14.6", ...)

# %% tags=["solution"] exercise="14.6"
predict("14.6", 900)

# %%
here.rewind("version 4", iceberg, root)
delta.commit(4, delta.remove("file_d.parquet"), delta.add("file_a.parquet", dv_1))

synced = dk.sync_delta(root, here.catalog, "course.from_delta")
iceberg.refresh()
names.show(names.deletes(), "name", "kind", "data_file.record_count", "data_file.referenced_data_file")
print("rows:", dk.scan(iceberg).count())

# %%
check("14.6")

# %% [markdown]
# Vectors do not only grow. Here one came back. And if the data file is still live, a `RESTORE` makes its vector smaller. A converter that only adds deletes, and never removes one, hides rows that Delta has.

# %% [markdown]
# ## Break it
#
# What must a converter refuse? We damage version 5 in three ways, one after another. First we flip one bit in a vector.


# %%
def outcome_of(*actions):
    delta.commit(5, *actions)
    try:
        dk.sync_delta(root, here.catalog, "course.from_delta")
    except dk.DeletekitError as error:
        return f"{type(error).__name__}: {error.kind}"
    return "nothing found"


here.rewind("a flipped bit", iceberg, root)
dv_3 = delta.write_vector("file_a_dv_3.bin", range(100))
broken = bytearray((root / "file_a_dv_3.bin").read_bytes())
broken[-6] ^= 1
(root / "file_a_dv_3.bin").write_bytes(broken)
print(outcome_of(delta.remove("file_a.parquet", dv_1), delta.add("file_a.parquet", dv_3)))

# %% [markdown]
# Then the log gives a vector a wrong number of rows. Last, the table needs a feature that no reader knows.

# %%
here.rewind("a log that is wrong", iceberg, root)
wrong = {**dv_2, "cardinality": 111}
print(outcome_of(delta.remove("file_a.parquet", dv_1), delta.add("file_a.parquet", wrong)))

protocol = delta.protocol["protocol"]
print(outcome_of({"protocol": {**protocol, "readerFeatures": ["deletionVectors", "rowsFromTheFuture"]}}))

iceberg.refresh()
version = iceberg.current_snapshot.summary["deletekit.delta-version"]
print("delta-version:", version, "· rows:", dk.scan(iceberg).count())

# %% [markdown]
# The sync found each damage before it committed anything, and the table is still at version 4.

# %% [markdown]
# ## Key points
#
# - In Delta a vector is a field of the data file's action. In Iceberg it is a separate entry in a delete manifest, with `referenced_data_file`: [manifests](https://iceberg.apache.org/spec/#manifests).
# - The bytes are the same: length, magic, bitmap, checksum. `content_size_in_bytes` is `sizeInBytes` + 8: [deletion-vector-v1](https://iceberg.apache.org/puffin-spec/#deletion-vector-v1-blob-type).
# - Every vector has one successor or none. A vector that a version no longer has leaves the Iceberg table in the same commit. So there is [at most one for each data file](https://iceberg.apache.org/spec/#deletion-vectors), and none that dangles.
# - Keep the version of the table in the [snapshot](https://iceberg.apache.org/spec/#snapshots). If you cannot read something with certainty, refuse it by name.
#
# Next: [15 · Capstone: rows came back on Tuesday](15_capstone.ipynb)

# %%
here.close()
