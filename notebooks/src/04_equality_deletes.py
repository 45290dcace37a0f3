# ---
# jupyter:
#   deletekit:
#     lesson: "04"
#     minutes: {teach: 25, exercise: 20}
#     needs: plain
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 04 · Equality deletes
#
# **25 minutes to read and run, 20 for the exercises.** Before it: [02 · Copy-on-write, and which mode to choose](02_copy_on_write.ipynb).
#
# An equality delete says "rows with these values are deleted", and readers have to find those rows. The values for one row, such as id 1, are called a **key**. The writer reads nothing, which is why streaming writers like it. But it makes every later read more expensive.
#
# You will be able to
#
# - read an equality delete file and its entry in the manifest
# - use sequence numbers to decide which rows a delete hides, also in an update
# - say what NULL and several columns mean in an equality delete

# %% [markdown]
# ## Predict
#
# `users` has ids 1, 2, 3 and 4 in one data file. **04.1** We delete ids 1 and 3 with an equality delete. How many data files does that open?

# %% tags=["exercise"] exercise="04.1"
from deletekit.course import predict

predict("04.1", ...)

# %% tags=["solution"] exercise="04.1"
from deletekit.course import predict

predict("04.1", 0)

# %% [markdown]
# ## Run
#
# `delete_keys` takes the keys themselves. It reads no data file. To prove it, we move the only data file away while it works.

# %%
from pathlib import Path

import deletekit as dk
from deletekit.course import Aliases, check, drawings, hint, lesson, show, solution

here = lesson("04")
users = here.table("users", dk.datasets.users())
names = Aliases(users)

data_file = Path(names.path("D1"))
elsewhere = data_file.rename(data_file.with_suffix(".away"))
dk.delete_keys(users, [{"id": 1}, {"id": 3}])
elsewhere.rename(data_file)

show(dk.scan(users).to_arrow())

# %%
check("04.1")

# %% [markdown]
# ## Look inside
#
# The table metadata now has two snapshots. One added four rows. The other added one delete file, an equality delete file with two keys. `added-equality-deletes` counts the keys. In these lessons, *equality delete* means the file.

# %%
names.show(
    users.metadata.raw["snapshots"],
    "sequence-number",
    "snapshot-id",
    "summary.operation",
    "summary.added-data-files",
    "summary.added-records",
    "summary.added-equality-delete-files",
    "summary.added-delete-files",
    "summary.added-equality-deletes",
    "summary.total-delete-files",
)

# %% [markdown]
# The manifest list of the second one has two manifests: the same data manifest as before (`content` 0), and a delete manifest (`content` 1).

# %%
inside = dk.inspect(users)
names.show(inside["manifest-list"], "content", "manifest_path", "added_rows_count")

# %% [markdown]
# This is the entry in the delete manifest. Here `content` has another meaning than in the manifest list: 0 is data, 1 position deletes (lesson 05), 2 equality deletes. `equality_ids` are the field ids of the columns to compare. In the bounds, `key` is a field id too, and the value is the bytes in base64.

# %%
(entry,) = inside["manifests"][1]["entries"]
names.show(
    entry,
    "status",
    "snapshot_id",
    "data_file.content",
    "data_file.file_format",
    "data_file.file_path",
    "data_file.equality_ids",
    "data_file.record_count",
    "data_file.lower_bounds",
    "data_file.upper_bounds",
)

# %% [markdown]
# **04.2** The upper bound of field 1 is `AwAAAA==`. Which number is it?

# %% tags=["exercise"] exercise="04.2"
check("04.2", ...)

# %% tags=["solution"] exercise="04.2"
import base64

check("04.2", int.from_bytes(base64.b64decode("AwAAAA=="), "little"))

# %% [markdown]
# The delete file itself holds one key in each row:

# %%
import pyarrow.parquet as pq

show(pq.read_table(names.path("E1"), partitioning=None))

# %% [markdown]
# The data file is the same as before. The new file `E1` applies to it, and readers hide the rows that have one of its keys.

# %%
drawings.file_tree(users)

# %% [markdown]
# ## Updates and sequence numbers
#
# An update is a delete and an insert. One commit writes both, so they have the same sequence number. The new row has exactly the key that the delete names. What keeps it alive?
#
# We take a new table. Its append has sequence number 1. Number 2 goes to a commit on another branch, `elsewhere`: a second line of snapshots, which readers of the table do not see. All branches share one count, so the update gets 3. A reader of one branch may see gaps between the numbers.

# %%
users = here.table("users_updated", dk.datasets.users())
names = Aliases(users)
dk.create_branch(users, "elsewhere")
dk.append(users, dk.datasets.users(), ref="elsewhere")

update = dk.update(users, {"value": 999.0}, where="id = 1", mode="equality-delete")
print("sequence number of the update:", update.sequence_number)

# %% [markdown]
# These are the files that a reader of the table finds.

# %%
rows = []
for manifest in dk.inspect(users)["manifests"]:
    for entry in manifest["entries"]:
        file = entry["data_file"]
        content = pq.read_table(file["file_path"], columns=["id"], partitioning=None)["id"].to_pylist()
        kind = "equality delete" if file["content"] == 2 else "data file"
        rows.append({"sequence number": entry["sequence_number"], "file type": kind, "ids": str(content)})
show(sorted(rows, key=lambda row: (row["sequence number"], row["file type"] == "data file")))

# %% [markdown]
# Id 1 is in two data files. `explain` says which of the two rows is live, and why.

# %%
names.show(dk.explain(users, "id = 1", columns=["id", "value"]))

# %% [markdown]
# **04.3** Write the rule. You get the sequence number of an equality delete and that of a data file. Does the delete apply to the data file? Return `True` or `False`.


# %% tags=["exercise"] exercise="04.3"
def applies(delete, data): ...


check("04.3", applies)


# %% tags=["solution"] exercise="04.3"
def applies(delete, data):
    return data < delete


check("04.3", applies)

# %% [markdown]
# Here are eight rows, each in its own data file.

# %%
eight = [
    {"row": row, "id": key, "sequence number": number}
    for row, (key, number) in enumerate([(1, 1), (1, 3), (1, 4), (2, 1), (2, 4), (2, 5), (3, 1), (2, 6)])
]
show(eight)

# %% [markdown]
# **04.4** There are two equality deletes. `E1` has sequence number 3 and holds id 1; `E2` has sequence number 5 and holds id 2. Which rows are live? Answer with a set of values of `row`.

# %% tags=["exercise"] exercise="04.4"
check("04.4", ...)

# %% tags=["solution"] exercise="04.4"
deletes = {1: 3, 2: 5}
check("04.4", {r["row"] for r in eight if not applies(deletes.get(r["id"], 0), r["sequence number"])})

# %% [markdown]
# Here are the files of the table `users_updated` on the axis of sequence numbers.

# %%
drawings.sequence_axis(users)

# %% [markdown]
# In `SequenceTimeline` you can move a delete to another sequence number. First say which rows `E1` will hide at another number. Then choose it, and the number, in the widget.

# %%
dk.widgets.SequenceTimeline(users)

# %% [markdown]
# ## NULL, and several columns
#
# In the table `animals`, two of the four animals have no category.

# %%
show(dk.datasets.animals())

# %% [markdown]
# `delete` with `mode="equality-delete"` takes the key from the filter. One value is enough to delete id 3: `equality_ids` [1], and the value 3.

# %%
animals = here.table("animals", dk.datasets.animals())
dk.delete(animals, "id = 3", mode="equality-delete")
names = Aliases(animals)
names.show(names.deletes(), "name", "data_file.equality_ids", "rows")
print("left:", dk.scan(animals).to_arrow()["name"].to_pylist())

# %% [markdown]
# Now two columns: `id = 4 AND category IS NULL`. We take a new table with all four animals.

# %%
two_columns = here.table("animals_two_columns", dk.datasets.animals())
dk.delete(two_columns, "id = 4 and category is null", mode="equality-delete")
names = Aliases(two_columns)
names.show(names.deletes(), "name", "data_file.equality_ids", "rows")
print("left:", sorted(dk.scan(two_columns).to_arrow()["id"].to_pylist()))

# %% [markdown]
# **04.6** Again we take a new table with all four animals. We delete with the category alone, `category IS NULL`. Which ids are left? Answer with a set.

# %% tags=["exercise"] exercise="04.6"
predict("04.6", ...)

# %% tags=["solution"] exercise="04.6"
predict("04.6", {1, 2})

# %%
no_category = here.table("animals_no_category", dk.datasets.animals())
dk.delete(no_category, "category is null", mode="equality-delete")
names = Aliases(no_category)
names.show(names.deletes(), "name", "data_file.equality_ids", "rows")
print("left:", sorted(dk.scan(no_category).to_arrow()["id"].to_pylist()))

# %%
check("04.6")

# %% [markdown]
# One key of the delete file, `NULL`, hides two rows.

# %% [markdown]
# ## Where a delete applies
#
# A **partition spec** says which columns divide a table into partitions, here `shop`. A delete file has a spec too. With the spec of a partitioned table, it applies to one partition. With an unpartitioned spec, it is *global*: it applies to all partitions, and `explain` says "covers the whole table". If the key says which partition the row is in, each partition gets its own file. If not, the delete has to be global.

# %%
import pyarrow as pa

sold = pa.table({"shop": ["north", "north", "south"], "id": pa.array([1, 2, 1], pa.int64())})
by_shop = here.table("sold", sold, partition_by=["shop"])
dk.delete_keys(by_shop, [{"shop": "north", "id": 1}])
print("with the shop in the key:", dk.scan(by_shop).count(), "rows left")

everywhere = here.table("sold_everywhere", sold, partition_by=["shop"])
dk.delete_keys(everywhere, [{"id": 1}])
print("without it:", dk.scan(everywhere).count(), "row left")
names = Aliases(everywhere)
names.show(dk.explain(everywhere, "id = 1"))

# %% [markdown]
# ## Break it
#
# What if a reader compares by `<=` instead of `<`? This mistake is easy to make, because that is the right rule for position deletes. We read the update from above with both rules.

# %%
versions = list(dk.explain(users, "true"))
delete_number, deleted_ids = 3, {1}


def read(hides):
    live = [v for v in versions if not (v.row["id"] in deleted_ids and hides(v.sequence_number, delete_number))]
    return sorted(v.row["id"] for v in live)


print("with < :", read(lambda data, delete: data < delete))
print("with <=:", read(lambda data, delete: data <= delete))

# %% [markdown]
# With `<=` the update becomes a delete, and the updated row is lost.
#
# ## Key points
#
# - An equality delete holds values of the columns in `equality_ids`, and its writer reads no row: [equality delete files](https://iceberg.apache.org/spec/#equality-delete-files).
# - It applies to data files with a **smaller** sequence number, in its partition or, under an unpartitioned spec, everywhere: [scan planning](https://iceberg.apache.org/spec/#scan-planning).
# - NULL matches NULL, AND joins the columns of a key, and columns are known by field id.
#
# Next: [05 · Position deletes of format version 2](05_position_deletes_v2.ipynb)

# %%
here.close()
