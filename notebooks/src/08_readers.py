# ---
# jupyter:
#   deletekit:
#     lesson: "08"
#     minutes: {teach: 20, exercise: 15}
#     needs: plain
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 08 · Readers
#
# **20 minutes to read and run, 15 for the exercises.** Before it: [07 · Roaring bitmaps](07_roaring_bitmaps.ipynb).
#
# A snapshot may have every kind of delete at once, and the reader must combine them with the data files. Here is a table that has them all. You decide which delete applies to which file. Then a reader of sixty lines reads the table without deletekit.
#
# You will be able to
#
# - follow a reader from the table metadata to the live rows
# - decide whether a delete applies to a data file
# - say which rows a wrong reader loses or brings back, rule by rule

# %% [markdown]
# ## Predict
#
# The table `orders` is partitioned by `shop`. This is what happens to it:
#
# | sequence number | what is committed | files |
# |---|---|---|
# | 1 | orders 0 to 5 of the shop north, and 4 to 9 of the shop south | `D1`, `D2` |
# | 2 | orders 10, 11 and 12 of north | `D3` |
# | 3 | a position delete file deletes orders 1 and 11 of north | `P1` |
# | 4 | an update, with an equality delete, changes the item of order 2 of north | `E1`, `D4` |
# | | the table is upgraded to format version 3 | |
# | 5 | a deletion vector deletes order 3 of north | `V1` |
# | 6 | an equality delete deletes orders 4, 7 and 99 in all shops | `E2` |
#
# **08.1** How many rows does a reader see?

# %% tags=["exercise"] exercise="08.1"
from deletekit.course import predict

predict("08.1", ...)

# %% tags=["solution"] exercise="08.1"
from deletekit.course import predict

predict("08.1", 9)

# %% [markdown]
# ## Run

# %%
import pyarrow as pa

import deletekit as dk
from deletekit.course import Aliases, check, drawings, hint, lesson, show, solution

here = lesson("08")


def of_shop(shop, ids):
    return pa.table({"shop": [shop] * len(ids), "id": pa.array(ids, pa.int32()), "item": ["tea"] * len(ids)})


both = pa.concat_tables([of_shop("north", range(6)), of_shop("south", range(4, 10))])
orders = here.table("orders", both, of_shop("north", [10, 11, 12]), partition_by=["shop"])

# %% [markdown]
# These are the first two commits. Now the deletes. One thread and `granularity="partition"` write the positions of both data files into one position delete file, `P1`:

# %%
here.rewind("deletes", orders)
with dk.engine.local(threads=1):
    dk.delete(orders, "shop = 'north' and id in (1, 11)", mode="position-delete", granularity="partition")
dk.update(orders, {"item": "coffee"}, where="shop = 'north' and id = 2", mode="equality-delete")
dk.upgrade_format_version(orders, 3)
dk.delete(orders, "shop = 'north' and id = 3", mode="deletion-vector")
dk.delete_keys(orders, [{"id": 4}, {"id": 7}, {"id": 99}])

live = dk.scan(orders).to_arrow().sort_by([("shop", "ascending"), ("id", "ascending")])
show(live)

# %%
check("08.1")

# %% [markdown]
# ## Look inside: what the snapshot lists
#
# Now we write the first half of our reader. It begins as in lesson 01: table metadata, manifest list, manifests. Lists and manifests are Avro, which any Avro library reads.

# %%
import json
from pathlib import Path

import fastavro


def records(path):
    with open(path, "rb") as file:
        return list(fastavro.reader(file))


metadata = json.loads(Path(orders.metadata_location).read_text(encoding="utf-8"))
(snapshot,) = [s for s in metadata["snapshots"] if s["snapshot-id"] == metadata["current-snapshot-id"]]
manifests = records(snapshot["manifest-list"])
for content in (0, 1):
    numbers = sorted(manifest["sequence_number"] for manifest in manifests if manifest["content"] == content)
    print(f"manifests with content {content} have the sequence numbers {numbers}")

# %% [markdown]
# Content 0 is a manifest of data files, content 1 a manifest of deletes.
#
# In the manifests, two things are easy to forget. Entries with status 2, deleted, are not part of the snapshot. And a new entry has no sequence number of its own: it inherits the one that the manifest list has for its manifest. An entry in a merged manifest keeps the number that it had.


# %%
def kind(file):
    if file["content"] == 1:
        return "deletion-vector" if file["file_format"].upper() == "PUFFIN" else "position-delete"
    return "equality-delete" if file["content"] == 2 else "data"


def live_files(manifest):
    for entry in records(manifest["manifest_path"]):
        number = entry["sequence_number"]
        file = {**entry["data_file"], "kind": kind(entry["data_file"]), "spec_id": manifest["partition_spec_id"]}
        file["sequence_number"] = manifest["sequence_number"] if number is None else number
        if entry["status"] != 2:
            yield file


files = [file for manifest in manifests for file in live_files(manifest)]

# %%
names = Aliases(orders)
files.sort(key=lambda file: names.of(file["file_path"]))
fields = ("file_path", "kind", "sequence_number", "spec_id", "partition", "referenced_data_file")
show([{field: names.of(file.get(field)) for field in fields} for file in files])

# %% [markdown]
# ## Which delete applies to which data file
#
# | delete | sequence numbers | data files |
# |---|---|---|
# | deletion vector | data file ≤ delete | the one in `referenced_data_file` |
# | position delete | data file ≤ delete | same spec and same partition; with a `referenced_data_file` only that one |
# | equality delete, with a partition | data file < delete | same spec and same partition |
# | equality delete, under a spec without fields | data file < delete | all of the table |
#
# Spec and partition together are the *place* of a file.
#
# **08.2** Write the rule: return whether the delete applies to the data file. Both arguments are dicts, as in the list above. A delete has `kind`, `sequence_number`, `spec_id`, `partition` and `referenced_data_file`, which may be `None`. A data file has `file_path`, `sequence_number`, `spec_id` and `partition`. A spec without fields makes the partition `{}`.


# %% tags=["exercise"] exercise="08.2"
def applies(delete, data): ...


check("08.2", applies)


# %% tags=["solution"] exercise="08.2"
def applies(delete, data):
    same_place = (delete["spec_id"], delete["partition"]) == (data["spec_id"], data["partition"])
    if delete["kind"] == "equality-delete":
        return data["sequence_number"] < delete["sequence_number"] and (delete["partition"] == {} or same_place)
    if data["sequence_number"] > delete["sequence_number"]:
        return False
    if delete["referenced_data_file"] is not None:
        return delete["referenced_data_file"] == data["file_path"]
    return same_place


check("08.2", applies)

# %% [markdown]
# There is one more rule. If a data file has a deletion vector, a reader ignores position delete files for it. The vector already holds those positions.
#
# **08.3** Which deletes must a reader apply to `D1`? Answer with a set of names from `"P1"`, `"E1"`, `"V1"` and `"E2"`.

# %% tags=["exercise"] exercise="08.3"
check("08.3", ...)

# %% tags=["solution"] exercise="08.3"
check("08.3", {"V1", "E1", "E2"})

# %% [markdown]
# In the drawing, an arrow leads from each delete to every data file for which a reader must open it. By the rules, `E1` also applies to `D3`, and `E2` to `D4`, but their bounds show that no row can match.

# %%
drawings.sequence_axis(orders)

# %% [markdown]
# ## Is this row hidden?
#
# A row is hidden if any of these deletes hides it, in whatever order you check them. But the position must be right. It counts all rows of the file, even rows that a filter or another delete has already removed.
#
# **08.4** Write `is_hidden`. It gets the position of a row, the row as a dict, and a list of the deletes that apply. It returns `True` or `False`. A delete is a set of positions or a list of dicts. The dicts are the lines of an equality delete, each with the columns that it compares. For example, these are the deletes of `D1`:

# %%
deletes_of_one_file = [{1, 3}, [{"shop": "north", "id": 2}], [{"id": 4}, {"id": 7}, {"id": 99}]]


# %% tags=["exercise"] exercise="08.4"
def is_hidden(position, row, deletes): ...


check("08.4", is_hidden)


# %% tags=["solution"] exercise="08.4"
def is_hidden(position, row, deletes):
    for delete in deletes:
        if isinstance(delete, set):
            if position in delete:
                return True
        elif any(all(row[column] == value for column, value in line.items()) for line in delete):
            return True
    return False


check("08.4", is_hidden)

# %% [markdown]
# ## A reader in sixty lines
#
# `live_files` above is the first half. Here is the second half, in four small steps. First, the positions in a vector. A reader checks length, magic, checksum and number of positions before it trusts them:

# %%
import struct
import zlib

from pyroaring import BitMap64


def positions_in(vector):
    with open(vector["file_path"], "rb") as file:
        file.seek(vector["content_offset"])
        blob = file.read(vector["content_size_in_bytes"])
    assert struct.unpack(">I", blob[:4])[0] == len(blob) - 8, "length"
    assert blob[4:8].hex() == "d1d33964", "magic"
    assert struct.unpack(">I", blob[-4:])[0] == zlib.crc32(blob[4:-4]), "checksum"
    found = set(BitMap64.deserialize(blob[8:-4]))
    assert len(found) == vector["record_count"], "cardinality"
    return found


# %% [markdown]
# Second, the rules of the table above. Each is a small function, so that we can replace one by a wrong one later:


# %%
def older(data, delete):
    return data["sequence_number"] < delete["sequence_number"]


def not_newer(data, delete):
    return data["sequence_number"] <= delete["sequence_number"]


def same_place(data, delete):
    return (data["spec_id"], data["partition"]) == (delete["spec_id"], delete["partition"])


def everywhere_or_here(data, delete):
    return delete["partition"] == {} or same_place(data, delete)


def of_this_file(data, vector):
    return vector["referenced_data_file"] == data["file_path"]


# %% [markdown]
# Third, the positions that are hidden in a data file: by its vector or, without one, by position delete files.

# %%
import pyarrow.parquet as pq


def of_kind(files, kind):
    return [file for file in files if file["kind"] == kind]


def lines_of(file):
    return pq.read_table(file["file_path"], partitioning=None).to_pylist()


def hidden_positions(data, files, vector_wins):
    vectors = of_kind(files, "deletion-vector")
    hidden = set()
    for vector in vectors:
        if of_this_file(data, vector) and not_newer(data, vector):
            hidden |= positions_in(vector)
    if any(vector_wins(data, vector) for vector in vectors):
        return hidden
    for delete in of_kind(files, "position-delete"):
        if same_place(data, delete) and not_newer(data, delete):
            hidden |= {line["pos"] for line in lines_of(delete) if line["file_path"] == data["file_path"]}
    return hidden


# %% [markdown]
# Fourth, the keys of equality deletes, and the scan itself. A key hides a row if the row has all the values of the key.


# %%
def deleted_keys(data, files, number, scope):
    deletes = of_kind(files, "equality-delete")
    return [key for d in deletes if scope(data, d) and number(data, d) for key in lines_of(d)]


def read(files, number=older, scope=everywhere_or_here, vector_wins=of_this_file):
    live = []
    for data in of_kind(files, "data"):
        hidden = hidden_positions(data, files, vector_wins)
        keys = deleted_keys(data, files, number, scope)
        for position, row in enumerate(lines_of(data)):
            if position not in hidden and not any(key.items() <= row.items() for key in keys):
                live.append((row["shop"], row["id"], row["item"]))
    return sorted(live)


mine = read(files)
for row in mine:
    print(*row)

# %% [markdown]
# Do other readers agree? The cell asks deletekit, and Spark if it is installed.

# %%
assert mine == [tuple(row.values()) for row in live.to_pylist()]
if here.spark is not None:
    asked = here.spark.sql(f"SELECT shop, id, item FROM {here.catalog.name}.course.orders ORDER BY shop, id")
    assert mine == [tuple(row) for row in asked.collect()]
print("readers agree:", len(mine), "rows")

# %% [markdown]
# ## Break it
#
# Each of these readers has one wrong rule. Real readers have had mistakes like these. Which rows are lost, and which ones come back?


# %%
def orders_in(rows):
    return " ".join(f"{shop} {number}" for shop, number, _ in sorted(rows)) or "-"


wrong = {
    "equality deletes by <=": read(files, number=not_newer),
    "equality deletes only in their own place": read(files, scope=same_place),
    "any vector switches position deletes off": read(files, vector_wins=lambda data, vector: True),
    "sequence numbers not inherited": read([{**file, "sequence_number": 0} for file in files]),
    "equality deletes ignored": read([file for file in files if file["kind"] != "equality-delete"]),
}
show(
    [
        {"mistake": mistake, "lost": orders_in({*mine} - {*found}), "back": orders_in({*found} - {*mine})}
        for mistake, found in wrong.items()
    ]
)

# %% [markdown]
# With the first mistake the new version of order 2 is lost. With the last two the old version comes back.

# %% [markdown]
# No reader reported an error. A reader that applies deletes wrongly is worse than one that refuses them.

# %% [markdown]
# ## Key points
#
# - A reader uses only the live entries of the snapshot's manifests, with inherited sequence numbers: [sequence number inheritance](https://iceberg.apache.org/spec/#sequence-number-inheritance).
# - Deletes by position apply to data files that are not newer, deletes by value to files that are older. Each stays within its partition; equality deletes without a partition apply everywhere: [scan planning](https://iceberg.apache.org/spec/#scan-planning).
# - A vector replaces position delete files for its data file only, and never replaces equality deletes: [deletion vectors](https://iceberg.apache.org/spec/#deletion-vectors).
#
# Next: [09 · Commits and conflicts](09_commits_and_conflicts.ipynb)

# %%
here.close()
