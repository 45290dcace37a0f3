# ---
# jupyter:
#   deletekit:
#     lesson: "01"
#     minutes: {teach: 20, exercise: 15}
#     needs: plain
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 01 · The anatomy of a table
#
# **20 minutes to read and run, 15 for the exercises.** Before it: [00 · Start here](00_start_here.ipynb).
#
# An Iceberg table is four kinds of files, each of which names the next: table metadata, manifest list, manifest, data file. None of them is ever changed. This lesson opens all four by hand.
#
# You will be able to
#
# - go the way of a reader from the table metadata to a row
# - say which file holds the snapshots, and which ones the statistics
# - predict what a commit writes, and what it leaves alone

# %% [markdown]
# ## Predict
#
# The table `users` exists and is empty. We append four rows, in one commit. **01.1** How many new files will lie on the disk afterwards?

# %% tags=["exercise"] exercise="01.1"
from deletekit.course import predict

predict("01.1", ...)

# %% tags=["solution"] exercise="01.1"
from deletekit.course import predict

predict("01.1", 4)

# %% [markdown]
# ## Run
#
# A new table is one file, its first table metadata. The append comes on top of it.

# %%
import deletekit as dk
from deletekit.course import Aliases, check, hint, lesson, show, solution

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
# Two table metadata files: that of the empty table, and that of the append.

# %%
check("01.1")

# %% [markdown]
# ## Look inside: the table metadata
#
# It is JSON. Its location is the only thing that the catalog keeps for a table: a commit is the moment at which the catalog exchanges one location for the next.

# %%
import json
from pathlib import Path

names = Aliases(users)
metadata = json.loads(Path(users.metadata_location).read_text())
names.show(metadata, "format-version", "last-sequence-number", "last-column-id", "current-snapshot-id")
names.show(metadata["schemas"][0]["fields"], "id", "name", "type", "required")

# %% [markdown]
# Every column has a **field id**. Files refer to columns by this number, never by name, so a column may be renamed at any time.

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
# One for each snapshot, in Avro. Each record names one manifest. `content` says what is in that manifest: 0 is data files, 1 is deletes.

# %%
import fastavro


def records(alias):
    with open(names.path(alias), "rb") as file:
        return list(fastavro.reader(file))


names.show(records("L1"), "manifest_path", "content", "sequence_number", "added_files_count", "added_rows_count")

# %% [markdown]
# ## Look inside: the manifest
#
# Also Avro; one record, called entry, for each file. `status` 1 is added. The sequence number is NULL in an entry that was just added: when the manifest was written, nobody knew yet whether the commit would win and which number it would get. A reader takes the number from the manifest list.

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

# %%
bounds = records("M1")[0]["data_file"]
for which in ("lower_bounds", "upper_bounds"):
    stored = {bound["key"]: bound["value"] for bound in bounds[which]}
    print(which, "of field 1:", stored[1].hex(" "))

# %% [markdown]
# An entry has the smallest and the largest value of each column, by field id, as bytes. With these a reader leaves files out that cannot hold what it looks for.
#
# **01.3** Write a function that turns such a bound of an `int` column into a number. It is tried on several, one of them negative.


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
# Parquet, with the field ids in its schema. It knows nothing of snapshots, sequence numbers or deletes: that is why a delete can be written without touching it.

# %%
import pyarrow.parquet as pq

schema = pq.read_schema(names.path("D1"))
show([{"column": field.name, "field id": int(field.metadata[b"PARQUET:field_id"])} for field in schema])

# %% [markdown]
# ## Three commits
#
# A second table gets its rows in three commits.

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
# **01.4** Which file holds the row with id 7? Answer with its short name, such as `"D3"`. `names.path("D3")` can be opened with `pq.read_table`.

# %% tags=["exercise"] exercise="01.4"
check("01.4", ...)

# %% tags=["solution"] exercise="01.4"
holds = [a for a in ("D1", "D2", "D3") if 7 in pq.read_table(names.path(a), partitioning=None)["id"].to_pylist()]
check("01.4", holds[0])

# %% [markdown]
# **01.5** How many manifests does the manifest list of the third snapshot, `L3`, name?

# %% tags=["exercise"] exercise="01.5"
check("01.5", ...)

# %% tags=["solution"] exercise="01.5"
check("01.5", len(records("L3")))

# %% [markdown]
# Since nothing is changed, every older snapshot can still be read: its manifest list names what was there then.

# %%
for alias in ("S1", "S2", "S3"):
    ids = dk.scan(numbers, snapshot_id=names.snapshot_id(alias)).to_arrow()["id"].to_pylist()
    print(alias, sorted(ids))

# %% [markdown]
# `TableTree` has the whole way in one place: the table metadata, every snapshot, its manifest list, the manifests, and an entry for each file, under the names that are stored. Unfold what you like with the mouse or the arrow keys.

# %%
dk.widgets.TableTree(numbers, node="snapshots/S3/manifest-list/1/entries/D3/status")

# %% [markdown]
# ## Break it
#
# Let us read the table with one manifest forgotten. There is no error: nothing in the other files says that rows are missing. It is the manifest list alone that makes a snapshot whole, and a delete is safe only because it is listed there too.

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
# - Table metadata names snapshots, a snapshot one manifest list, this manifests, these files: [Iceberg table spec, overview](https://iceberg.apache.org/spec/#overview).
# - The snapshots are listed in the [table metadata](https://iceberg.apache.org/spec/#table-metadata-fields), not in a manifest. A [manifest](https://iceberg.apache.org/spec/#manifests) lists files, either of data or of deletes.
# - A file that a commit adds takes over the [sequence number](https://iceberg.apache.org/spec/#sequence-numbers) of the commit. Every rule of deletes compares these numbers.
# - Files are never changed, so a delete can only write a new file, or say in another one what no longer counts.
#
# Next: [02 · Copy-on-write](02_copy_on_write.ipynb)
