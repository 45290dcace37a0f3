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
# Delta Lake and Iceberg mark deleted rows with the same bytes. What differs is where it is written down which vector belongs to which data file. In this lesson you write a Delta table by hand, and an Iceberg table follows it, version by version, without a data file being copied.
#
# You will be able to
#
# - read a Delta log, and say which files and vectors a version has
# - turn a vector of Delta into one of Iceberg, byte by byte
# - predict what a second delete, an OPTIMIZE and a RESTORE do to the Iceberg table
# - say what a converter has to check, and what it has to refuse

# %% [markdown]
# ## Predict
#
# A Delta table has one data file, `file_a.parquet`, with the ids 0 to 999. Version 1 deletes the rows with `id < 100`: the log removes `file_a.parquet`, and adds it again with a deletion vector.
#
# **14.1** A converter knows data files only: it follows what is added and removed, and does not look at vectors. How many rows has its Iceberg table?

# %% tags=["exercise"] exercise="14.1"
from deletekit.course import predict

predict("14.1", ...)

# %% tags=["solution"] exercise="14.1"
from deletekit.course import predict

predict("14.1", 1000)

# %% [markdown]
# ## A Delta table, by hand
#
# A Delta table is a folder of Parquet files, with a log in `_delta_log`: one file of JSON lines for each version. Each line is an action. `add` and `remove` are about data files; a vector is a field of both.

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
# Version 0 also says what the table is: the features that a reader has to know, and the schema.

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
# A vector is written as Delta writes it: one byte for the version of the file, and behind it, for each vector, its length, the vector, and a checksum. The log has a descriptor: where the vector is, how long it is, and how many rows it deletes.


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
# `sync_delta` brings an Iceberg table to a version of a Delta table; the first time it creates it. Beside it is the converter from above.


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


dk.sync_delta(root, here.catalog, "course.from_delta", version=0)
synced = dk.sync_delta(root, here.catalog, "course.from_delta")
iceberg = synced.table
names = Aliases(iceberg)
print("by data files only:", rows_by_data_files())
print("synced to version", synced.version, "·", synced.commit.operation, "· rows:", dk.scan(iceberg).count())

# %%
check("14.1")

# %% [markdown]
# A hundred deleted rows came back, and nothing failed: the converter calls this a success, and its table is well-formed.
#
# ## Look inside: the log
#
# This is the log so far. Further down it is shown once more, with a second delete and a compaction.


# %%
def shown(kind, action):
    vector = action.get("deletionVector")
    vector_file = vector["pathOrInlineDv"].rpartition("/")[2] if vector else None
    return {"Type": {"add": "AddFile", "remove": "RemoveFile"}[kind], "Path": action["path"], "DV Path": vector_file}


show([{"version": version, **shown(kind, action)} for version, kind, action in actions()])

# %% [markdown]
# A log is no list of files, but a story that has to be told to its end. The rules of it:
#
# - a file is live with the vector of its last `add`
# - within one version the actions have no order: first all that is removed goes, then all that is added comes
# - a `remove` may name a file that is not there (any more); it is ignored
# - an `add` of a file that is live already brings no second copy of its rows
#
# **14.2** Write the reader of a log. It is given a list of versions, each a list of `(kind, path, vector)`, and returns a dict of the live files, each with its vector or `None`.


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
# Delta has the descriptor in the action of the data file. Iceberg has an entry of its own, in a delete manifest, and the entry names its data file.

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
# `sizeInBytes` counts the magic and the bitmap. `content_size_in_bytes` counts the length before them and the checksum behind them too, four bytes each.
#
# **14.3** Write the conversion. The function is given what Delta counts, magic and bitmap, and returns the bytes of Iceberg's blob.


# %% tags=["exercise"] exercise="14.3"
def blob_of(vector): ...


check("14.3", blob_of)


# %% tags=["solution"] exercise="14.3"
def blob_of(vector):
    return struct.pack(">I", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))


check("14.3", blob_of)

# %% [markdown]
# That is the very frame that Delta's file has around the vector. Nothing has to be decoded and nothing encoded: the bytes can be copied, once they have been checked.

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
# Version 2 deletes the rows with `id >= 990` as well. Delta's vectors are cumulative: the new one holds what the old one held, and the log removes the file with the old one and adds it with the new one.
#
# **14.4** How many delete files has the Iceberg table after the next sync?

# %% tags=["exercise"] exercise="14.4"
predict("14.4", ...)

# %% tags=["solution"] exercise="14.4"
predict("14.4", 1)

# %%
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
# The data file was removed and added in Delta's log. In Iceberg its entry was not touched: only the vector is another one. So the file keeps its sequence number and the ids of its rows.
#
# ## Into format version 2
#
# A table of format version 2 has no deletion vectors, so each vector is decoded into a position delete file. **14.5** How many lines will there be in all position delete files of the table, at version 2 of Delta?

# %% tags=["exercise"] exercise="14.5"
predict("14.5", ...)

# %% tags=["solution"] exercise="14.5"
predict("14.5", 110)

# %%
for version in (0, 1, 2):
    older = dk.sync_delta(root, here.catalog, "course.from_delta_v2", version=version, format_version=2).table
of_older = Aliases(older)
of_older.show(of_older.deletes(), "name", "kind", "data_file.record_count", "data_file.referenced_data_file")
print("rows:", dk.scan(older).count())

# %%
check("14.5")

# %% [markdown]
# Texts from before Iceberg's version 3 know only this way, and tell that Delta's UPDATE and MERGE rewrite whole files. Both were true once. Today UPDATE and MERGE of Delta write vectors too, and a table of version 3 takes them as they are.
#
# ## OPTIMIZE
#
# Compaction puts the 890 live rows into `file_d.parquet`. With `file_a.parquet` its vector leaves the table. The actions say that no row has changed: `dataChange` is false.
#
# **14.6** How many delete files has the Iceberg table then?

# %% tags=["exercise"] exercise="14.6"
predict("14.6", ...)

# %% tags=["solution"] exercise="14.6"
predict("14.6", 0)

# %%
write_rows("file_d.parquet", range(100, 990))
commit(3, remove("file_a.parquet", dv_2, data_change=False), add("file_d.parquet", data_change=False))

synced = dk.sync_delta(root, here.catalog, "course.from_delta")
iceberg.refresh()
show([{"version": version, **shown(kind, action)} for version, kind, action in actions()])
print("operation:", synced.commit.operation, "· delete files:", len(names.deletes()))

# %%
check("14.6")

# %% [markdown]
# A delete file whose data file has left the table is called a dangling delete. It hides nothing, and every scan reads its entry for nothing. A converter that never removes what it has added leaves one behind at each compaction.
#
# ## RESTORE
#
# Version 4 takes the table back to version 1. The log removes `file_d.parquet`, and adds `file_a.parquet` with its first vector. **14.7** How many rows has the Iceberg table?

# %% tags=["exercise"] exercise="14.7"
predict("14.7", ...)

# %% tags=["solution"] exercise="14.7"
predict("14.7", 900)

# %%
commit(4, remove("file_d.parquet"), add("file_a.parquet", dv_1))

synced = dk.sync_delta(root, here.catalog, "course.from_delta")
iceberg.refresh()
names.show(names.deletes(), "name", "kind", "data_file.record_count", "data_file.referenced_data_file")
print("rows:", dk.scan(iceberg).count())

# %%
check("14.7")

# %% [markdown]
# Vectors do not only grow. Here one came back; and where the data file is still live, a `RESTORE` makes its vector smaller. Whoever adds up deletes and never takes one away hides rows that Delta has.
#
# ## How far is the table?
#
# The summary of each snapshot says which version of Delta it is. So a sync knows where to go on, and when the Iceberg table is rolled back, the sync goes back with it. Where there is nothing to do, there is no commit.

# %%
print("delta-version:", iceberg.current_snapshot.summary["deletekit.delta-version"])
print("commits of another sync:", len(dk.sync_delta(root, here.catalog, "course.from_delta").commits))

# %% [markdown]
# A table that is at version 1 has the versions 2, 3 and 4 before it. By default they become one commit at most, the difference between two states: what came and went in between need not even be there any more. With `commits="each"` every version becomes a commit of its own.
#
# **14.8** How many delete files does each way write for versions 2 to 4? Answer with a dict whose keys are `"coalesce"` and `"each"`. Version 1 has the vector `dv_1`, and so has version 4.

# %% tags=["exercise"] exercise="14.8"
predict("14.8", ...)

# %% tags=["solution"] exercise="14.8"
predict("14.8", {"coalesce": 0, "each": 2})

# %%
for way in ("coalesce", "each"):
    dk.sync_delta(root, here.catalog, f"course.by_{way}", version=1)
    late = dk.sync_delta(root, here.catalog, f"course.by_{way}", commits=way)
    written = sum(len(commit.added_delete_files) for commit in late.commits)
    print(f"{way}: {len(late.commits)} commits, {written} delete files, {dk.scan(late.table).count()} rows")

# %%
check("14.8")

# %% [markdown]
# The first table needed no commit at all. Its summary still says version 1; the next sync begins there, and finds again that all is equal.
#
# ## Copy or refer?
#
# The bytes are the same, so why copy them? An entry may as well point into Delta's own file: `deletion_vectors="reference"`. Here is pyiceberg, a reader that knows nothing of deletekit, with both tables.


# %%
def rows_of_pyiceberg(name):
    try:
        return len(here.catalog.pyiceberg.load_table(f"course.{name}").scan().to_arrow())
    except ValueError:
        return "cannot be read"


dk.sync_delta(root, here.catalog, "course.copied")
referring = dk.sync_delta(root, here.catalog, "course.referred", deletion_vectors="reference").table
print("copied  :", rows_of_pyiceberg("copied"))
print("referred:", rows_of_pyiceberg("referred"))
print("verify  :", [finding.kind for finding in dk.verify(referring).findings])

if here.spark is not None:
    for name in ("copied", "referred"):
        assert here.spark.table(f"{here.catalog.name}.course.{name}").where("id >= 0").count() == 900

# %% [markdown]
# A reader that goes by `content_offset` alone, as Iceberg's Java library does, finds the vector in either file; where Java is installed, the last lines of the cell have asked it. A reader that opens the file as Puffin finds nothing: Delta's file has no magic `PFA1` and no footer, and the specification asks for both. And Delta's VACUUM would remove the file some day. `repack` copies such vectors into Puffin files later.

# %%
dk.repack(referring)
print("repacked:", rows_of_pyiceberg("referred"))

# %% [markdown]
# ## Inline vectors
#
# A small vector may stand in the log itself: `storageType` is `i` then, and the text is the magic and bitmap in Z85, which writes four bytes as five characters. What is no multiple of four is padded with zero bytes, and `sizeInBytes` says where it ends.
#
# **14.9** `dv_1` has a `sizeInBytes` of 31. How many characters has it inline?

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


three = struct.pack("<I", 1681511377) + BitMap64([3, 5, 8]).serialize()
inline = {"storageType": "i", "pathOrInlineDv": z85(three), "sizeInBytes": len(three), "cardinality": 3}
print(inline)

commit(5, remove("file_a.parquet", dv_1), add("file_a.parquet", inline))
dk.sync_delta(root, here.catalog, "course.from_delta")
iceberg.refresh()
names.show(names.deletes(), "name", "kind", "positions")

# %% [markdown]
# There was no frame around it, so length and checksum were computed. The public writers of Delta put no vector inline today; the protocol allows it, so a reader has to know it.
#
# ## Break it
#
# What must a converter refuse? Version 6 is damaged in three ways, one after another: a flipped bit in a vector, a vector of which the log promises another number of rows, and a feature that nobody knows.


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
# Each of them was found before anything was committed, and the table is at version 5 as before. Last, a danger that no check of bytes finds: Delta's VACUUM deletes whatever lies in the table's folder, is older than a week, and is not known to its log. Iceberg's metadata would be such files. A folder whose name begins with `_` is spared.

# %%
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
# - In Delta a vector is a field of the data file's action; in Iceberg it is an entry of its own in a delete manifest, with `referenced_data_file`: [manifests](https://iceberg.apache.org/spec/#manifests).
# - The bytes are the same: length, magic, bitmap, checksum. `content_size_in_bytes` is `sizeInBytes` + 8: [deletion-vector-v1](https://iceberg.apache.org/puffin-spec/#deletion-vector-v1-blob-type).
# - A converter that ignores vectors brings deleted rows back, and reports success.
# - Every vector has one successor or none: whatever a version no longer has leaves the Iceberg table in the same commit, so that there is [at most one for each data file](https://iceberg.apache.org/spec/#deletion-vectors), and none that dangles.
# - The version that a table is at belongs in the [snapshot](https://iceberg.apache.org/spec/#snapshots); what cannot be read for certain is refused by name.
#
# Next: [15 · Capstone: rows came back on Tuesday](15_capstone.ipynb)
