# ---
# jupyter:
#   deletekit:
#     lesson: "01"
#     minutes: {teach: 15, exercise: 15}
#     needs: plain
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 01 · The anatomy of a table
#
# **15 minutes to read and run, 15 for the exercises.** Before it: [00 · Start here](00_start_here.ipynb).
#
# An Iceberg table without deletes has four kinds of files, and each names the next: table metadata, manifest list, manifest, data file. None of them ever changes. In this lesson you open all four by hand.
#
# You will be able to
#
# - follow a reader from the table metadata to a row
# - say which file lists the snapshots, and which one holds the bounds of the columns
# - predict what a commit writes, and what it does not touch

# %% [markdown]
# ## Predict
#
# The table `users` exists and is empty. We append four rows in one commit. **01.1** After that, how many new files will be on the disk?

# %% tags=["exercise"] exercise="01.1"
from deletekit.course import predict

predict("01.1", ...)

# %% tags=["solution"] exercise="01.1"
from deletekit.course import predict

predict("01.1", 4)

# %% [markdown]
# ## Run
#
# A new table is one file, its first table metadata. The append adds more files. We count all files of the table by their kind.

# %%
import deletekit as dk
from deletekit.course import Aliases, check, drawings, hint, lesson, show, solution

here = lesson("01")
users = here.table("users", dk.datasets.users())

show(dk.scan(users).to_arrow())


# %%
def kind(path):
    if path.name.endswith(".metadata.json"):
        return "table metadata"
    if path.name.startswith("snap-"):
        return "manifest list"
    return "manifest" if path.suffix == ".avro" else "data file"


from collections import Counter

files = [p for p in (here.folder / "course" / "users").rglob("*.*") if p.is_file() and not p.name.endswith(".crc")]
show([{"file": name, "on the disk": number} for name, number in sorted(Counter(map(kind, files)).items())])

# %% [markdown]
# There are two table metadata files: one of the empty table and one of the append. Only the second one is new.

# %%
check("01.1")

# %% [markdown]
# Here are the other three. `S1` is the snapshot, `L1` its manifest list, `M1` the manifest, `D1` the data file. The lessons show these short names in place of the long ones in the files.

# %%
drawings.file_tree(users, after="S1")

# %% [markdown]
# ## Look inside: the table metadata
#
# It is JSON. The **catalog** is the list of the tables. For each table it keeps only the location of this file. A commit is the moment when the catalog swaps this location for the next one.

# %%
import json
from pathlib import Path

names = Aliases(users)
metadata = json.loads(Path(users.metadata_location).read_text())
names.show(metadata, "format-version", "last-sequence-number", "last-column-id", "current-snapshot-id")
names.show(metadata["schemas"][0]["fields"], "id", "name", "type", "required")

# %% [markdown]
# Every column has a **field id**. Files use this number to name a column, never its name. So you can rename a column at any time.
#
# The table metadata also lists the **snapshots**. A snapshot is the state of the table after one commit. Its **sequence number** is the number of that commit: each commit of the table gets the next one. In the names of Iceberg, such as `added-records`, a record is a row.

# %%
names.show(
    metadata["snapshots"],
    "sequence-number",
    "snapshot-id",
    "summary.operation",
    "summary.added-data-files",
    "summary.added-records",
    "manifest-list",
)

# %% [markdown]
# **01.2** Which file lists the snapshots of a table: `"table metadata"`, `"manifest list"`, `"manifest"` or `"data file"`?

# %% tags=["exercise"] exercise="01.2"
check("01.2", ...)

# %% tags=["solution"] exercise="01.2"
check("01.2", "table metadata")

# %% [markdown]
# ## Look inside: the manifest list
#
# Each snapshot has one manifest list, in Avro. Each Avro record in it names one manifest. `content` says what is in that manifest: 0 is data files, 1 is deletes. Deletes are files that say which rows no longer count.

# %%
import fastavro


def records(alias):
    with open(names.path(alias), "rb") as file:
        return list(fastavro.reader(file))


names.show(records("L1"), "manifest_path", "content", "sequence_number", "added_files_count", "added_rows_count")

# %% [markdown]
# ## Look inside: the manifest
#
# A manifest is also Avro. It has one Avro record for each file, called an entry. `status` 1 is added. `data_file.content` 0 is a data file, and `record_count` is the number of its rows. The sequence number of a new entry is NULL: when the manifest was written, another writer could still commit first and take the number. A reader takes the number from the manifest list.

# %%
names.show(
    records("M1"),
    "status",
    "snapshot_id",
    "sequence_number",
    "data_file.content",
    "data_file.file_path",
    "data_file.file_format",
    "data_file.record_count",
)

# %% [markdown]
# An entry stores the smallest and the largest value of each column, its **bounds**, by field id, as bytes. With them a reader can skip files that cannot hold the rows it looks for.

# %%
bounds = records("M1")[0]["data_file"]
for which in ("lower_bounds", "upper_bounds"):
    stored = {bound["key"]: bound["value"] for bound in bounds[which]}
    print(which, "of field 1:", stored[1].hex(" "))

# %% [markdown]
# **01.3** Write a function. It gets a bound of an `int` column as bytes and returns the number. The output above shows the order of the bytes. The check tries several bounds, one of them negative.


# %% tags=["exercise"] exercise="01.3"
def number_of(value): ...


check("01.3", number_of)


# %% tags=["solution"] exercise="01.3"
def number_of(value):
    return int.from_bytes(value, "little", signed=True)


check("01.3", number_of)

# %% [markdown]
# ## Look inside: the data file
#
# It is Parquet, with the field ids in its schema. It knows nothing of snapshots, sequence numbers or deletes. That is why a delete does not have to touch it.

# %%
import pyarrow.parquet as pq

schema = pq.read_schema(names.path("D1"))
show([{"column": field.name, "field id": int(field.metadata[b"PARQUET:field_id"])} for field in schema])

# %% [markdown]
# ## Three commits
#
# A second table gets its rows in three commits, four rows in each. We look at the bounds of `id` in the three data files.

# %%
import pyarrow as pa

parts = [pa.table({"id": pa.array(ids, pa.int32())}) for ids in ([1, 2, 9, 10], [5, 6, 7, 8], [11, 12, 13, 14])]
numbers = here.table("numbers", *parts)
names = Aliases(numbers)

rows = []
for alias in ("D1", "D2", "D3"):
    file = names.file(alias)
    lower, upper = (int.from_bytes(b[1], "little") for b in (file.lower_bounds, file.upper_bounds))
    rows.append({"file": alias, "lower bound": lower, "upper bound": upper, "rows": file.record_count})
show(rows)

# %% [markdown]
# **01.4** Which file holds the row with id 7? Answer with its short name, such as `"D3"`. You can open `names.path("D3")` with `pq.read_table`.

# %% tags=["exercise"] exercise="01.4"
check("01.4", ...)

# %% tags=["solution"] exercise="01.4"
holds = [a for a in ("D1", "D2", "D3") if 7 in pq.read_table(names.path(a), partitioning=None)["id"].to_pylist()]
check("01.4", holds[0])

# %% [markdown]
# `TableTree` shows the whole path in one place: the table metadata, every snapshot, its manifest list, the manifests, and an entry for each file. Open any part with the mouse or the arrow keys.

# %%
dk.widgets.TableTree(numbers, node="snapshots/S3/manifest-list/1/entries/D3/sequence_number")

# %% [markdown]
# ## Break it
#
# Let us read the table and forget the first manifest of the list. There is no error: only the manifest list says which manifests a snapshot has.

# %%
listed = [record["manifest_path"] for record in records("L3")]
read = []
for path in listed[1:]:
    with open(path, "rb") as file:
        entries = list(fastavro.reader(file))
    for entry in entries:
        read += pq.read_table(entry["data_file"]["file_path"], partitioning=None)["id"].to_pylist()
print("rows read:", len(read), "of", dk.scan(numbers).count())

# %% [markdown]
# ## Key points
#
# - The table metadata names snapshots, a snapshot names one manifest list, the list names manifests, and a manifest names files: [Iceberg table spec, overview](https://iceberg.apache.org/spec/#overview).
# - The snapshots are listed in the [table metadata](https://iceberg.apache.org/spec/#table-metadata-fields), not in a manifest. A [manifest](https://iceberg.apache.org/spec/#manifests) lists files, either of data or of deletes.
# - A file gets the [sequence number](https://iceberg.apache.org/spec/#sequence-numbers) of the commit that adds it. Every rule for deletes compares these numbers.
#
# Next: [02 · Copy-on-write, and which mode to choose](02_copy_on_write.ipynb)

# %%
here.close()
