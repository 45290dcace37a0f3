# ---
# jupyter:
#   deletekit:
#     lesson: "11"
#     minutes: {teach: 20, exercise: 20}
#     needs: plain
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 11 · Compaction and erasure
#
# **20 minutes to read and run, 20 for the exercises.** Before it: [09 · Commits and conflicts](09_commits_and_conflicts.ipynb).
#
# Merge-on-read postpones work, and compaction does it later: it writes data files again, without the rows that deletes hide. It changes no row of the table. That is harder than it sounds, because other writers go on deleting meanwhile. And a row that is gone from the table is not yet gone from the disk.
#
# You will be able to
#
# - say which files and deletes compaction removes, and which it leaves
# - explain why new files get an old sequence number
# - decide whether you may drop a delete file
# - prove that a row is gone from storage, and not only from the result of a scan

# %% [markdown]
# ## Predict
#
# `readings` has six data files of ten rows each. One deletion vector hides a row of the first file, another hides two rows of the second, and an equality delete hides id 42. So there are three deletes.
#
# **11.1** We compact all six files into one. After that, how many data files and how many deletes are live? Answer with a dict, such as `{"data": 6, "deletes": 3}`.

# %% tags=["exercise"] exercise="11.1"
from deletekit.course import predict

predict("11.1", ...)

# %% tags=["solution"] exercise="11.1"
from deletekit.course import predict

predict("11.1", {"data": 1, "deletes": 1})

# %% [markdown]
# ## Run

# %%
import pyarrow as pa

import deletekit as dk
from deletekit.course import Aliases, Meanwhile, check, drawings, hint, lesson, show, solution

here = lesson("11")
parts = [pa.table({"id": pa.array(range(start, start + 10), pa.int32())}) for start in range(0, 60, 10)]
readings = here.table("readings", *parts, format_version=3)
dk.delete(readings, "id in (3, 14, 15)", mode="deletion-vector")
dk.delete_keys(readings, [{"id": 42}])


def live(table):
    summary = table.current_snapshot.summary
    counts = {"data files": int(summary["total-data-files"]), "deletes": int(summary["total-delete-files"])}
    return {**counts, "rows": dk.scan(table).count()}


before = live(readings)
compacted = dk.compact(readings)
show([{"": "before", **before}, {"": "after", **live(readings)}])

# %%
check("11.1")

# %% [markdown]
# The vectors left the table with their data files: a vector is about one file and means nothing without it. An equality delete is about values. It no longer hides anything, but nothing in it says so. We will come back to it.
#
# ## Look inside
#
# The operation is `replace`: files come and go, and no row changes. Readers that follow changes, such as streams, skip such a snapshot.

# %%
(commit,) = compacted.commits
print("operation:", commit.operation)
for counter in ("added-data-files", "deleted-data-files", "removed-dvs", "added-records", "deleted-records"):
    print(f"{counter}: {commit.summary[counter]}")

# %% [markdown]
# The six appends have the sequence numbers 1 to 6, the vectors 7, the equality delete 8, and the compaction 9.

# %%
names = Aliases(readings)
for manifest in dk.inspect(readings)["manifests"]:
    for entry in manifest["entries"]:
        if entry["status"] == 1 and entry["data_file"]["content"] == 0:
            names.show(entry, "data_file.file_path", "sequence_number", "file_sequence_number")

# %% [markdown]
# An entry has two numbers. `file_sequence_number` says which commit added the file, 9. `sequence_number` says how old its rows are. For an append both are the same. Compaction says: these rows are as they were at 8, in the snapshot that I read.

# %% [markdown]
# After the compaction, no arrow leads from `E1` to the new file, because 8 is not smaller than 8:

# %%
drawings.sequence_axis(readings, snapshot="S9")

# %% [markdown]
# ## Others do not wait
#
# Why not simply 9? Compaction of a big table takes hours, and others write meanwhile. `Meanwhile` of lesson 09 lets another writer commit between the read and the commit. `engine.tasks` counts how many groups of files it has rewritten.


# %%
def compact_while(name, delete):
    table = here.table(name, *parts, format_version=3)
    other = dk.load_table(here.catalog, table.name)
    engine = Meanwhile(lambda: delete(other))
    dk.compact(table, engine=engine)
    return table, engine


# %% [markdown]
# The table `racing` has six files with the sequence numbers 1 to 6 and no deletes. While compaction rewrites them, somebody deletes id 7 with an equality delete. That commit gets 7, and the compaction gets 8.
#
# **11.3** After both commits, how many of the 60 rows does a reader find?

# %% tags=["exercise"] exercise="11.3"
predict("11.3", ...)

# %% tags=["solution"] exercise="11.3"
predict("11.3", 59)

# %%
racing, engine = compact_while("racing", lambda other: dk.delete_keys(other, [{"id": 7}]))
names = Aliases(racing)
names.show(dk.explain(racing, "id = 7"))
print(dk.scan(racing).count(), "rows; groups of files rewritten:", engine.tasks)

# %%
check("11.3")

# %% [markdown]
# The row with id 7 was read before the delete, and so it was written into the new file. The new file has the number 6, the equality delete 7, and 6 < 7: the delete applies. With the number 8 the row would come back.
#
# This does not help with a delete by position: its positions are those of the old file. If somebody deletes rows of a file by position meanwhile, compaction must rewrite the group of that file again.

# %%
by_position, engine = compact_while("by_position", lambda other: dk.delete(other, "id = 7", mode="deletion-vector"))
print(dk.scan(by_position).count(), "rows; groups of files rewritten:", engine.tasks)

# %% [markdown]
# ## Deletes that dangle
#
# A delete that applies to no live data file is called *dangling*. Every scan must look at its entry, and its file stays on the disk with all its values. `readings` has one.
#
# **11.4** Write the rule for equality deletes. You get the sequence number of the delete, and a list with the numbers of the live data files in its *scope*: its partition, or the table if it has none. Return whether the delete dangles.


# %% tags=["exercise"] exercise="11.4"
def dangles(delete, data): ...


check("11.4", dangles)


# %% tags=["solution"] exercise="11.4"
def dangles(delete, data):
    return not any(number < delete for number in data)


check("11.4", dangles)

# %% [markdown]
# `remove_dangling_deletes` follows this rule. It removes the delete of `readings`. It keeps that of `racing`, which still hides id 7:

# %%
here.rewind("dangling deletes", readings, racing)
for name, table in (("readings", readings), ("racing", racing)):
    removed = dk.remove_dangling_deletes(table)
    print(f"{name}: {len(removed.equality_delete_files)} equality delete files removed, rows: {dk.scan(table).count()}")

# %% [markdown]
# ## Gone from the table, not from the disk
#
# Now somebody asks to be forgotten. We want to know which files have the e-mail address. So we open every file in the folder of the table, also files that no snapshot lists:

# %%
from collections import Counter
from datetime import datetime, timedelta, timezone
from pathlib import Path

import fastavro
import pyarrow.parquet as pq

LATER = datetime.now(timezone.utc) + timedelta(days=1)


def content(file):
    if file.suffix == ".parquet":
        return str(pq.read_table(file, partitioning=None).to_pylist())
    if file.suffix == ".avro":
        with file.open("rb") as stream:
            return str(list(fastavro.reader(stream)))
    return file.read_text(encoding="utf-8", errors="replace")


def where_is(table, text):
    files = [file for file in Path(table.location).rglob("*") if file.is_file()]
    found = Counter(file.suffix for file in files if text in content(file))
    return {suffix: found[suffix] for suffix in (".parquet", ".avro", ".json", ".puffin")}


# %%
emails = ["ann@example.org", "bob@example.org", "zoe@example.org"]
addresses = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "email": emails})
people = here.table("people", addresses, format_version=3)
print(where_is(people, "zoe@example.org"))

# %% [markdown]
# One Parquet file has it, and one Avro file: the manifest, whose upper bound for each column is the greatest value.
#
# **11.6** We delete the row with a deletion vector, then compact, then expire the older snapshots. Which step removes the address from the last Parquet file? Answer with `"delete"`, `"compact"` or `"expire"`.

# %% tags=["exercise"] exercise="11.6"
predict("11.6", ...)

# %% tags=["solution"] exercise="11.6"
predict("11.6", "expire")

# %%
here.rewind("delete, compact, expire", people)
steps = {
    "delete": lambda: dk.delete(people, "email = 'zoe@example.org'", mode="deletion-vector"),
    "compact": lambda: dk.compact(people, rewrite_all=True),
    "expire": lambda: dk.expire_snapshots(people, older_than=LATER, retain_last=1),
}
rows = []
for step, run in steps.items():
    run()
    rows.append({"step": step, "rows": dk.scan(people).count(), **where_is(people, "zoe@example.org")})
show(rows)

# %%
check("11.6")

# %% [markdown]
# The row is gone, but the address is not: an Avro file still has it, a manifest. Compaction removed the old data file. So its manifest has an entry with status 2, deleted, and that entry still has the bounds. A later commit leaves the entry out, and a later expiry removes the file. But nobody knows when.
#
# ## Erase
#
# It gets worse: an equality delete on the address writes the address once more. We take a new table and delete with an equality delete on `email`:

# %%
members = here.table("members", addresses, format_version=3)
dk.create_tag(members, "report")
dk.delete(members, "email = 'zoe@example.org'", mode="equality-delete")
print(where_is(members, "zoe@example.org"))

# %% [markdown]
# `erase` does all of it. It rewrites everything that holds the rows, hidden or not, including equality deletes and manifests. It expires the snapshots that lead to the old files. Then it checks whether anything is left. Here something is left: a tag keeps the first snapshot.

# %%
here.rewind("erase", members)
erased = dk.erase(members, "email = 'zoe@example.org'")
for ref in ("main", "report"):
    print(f"left on {ref}:", len(erased.remaining.get(ref, ())))
print(where_is(members, "zoe@example.org"))

# %% [markdown]
# It does not drop the tag by itself, because somebody put it there. Once you have decided to drop it, `unreferenced=True` lets `erase` expire the snapshot too, which no branch or tag leads to any more:

# %%
here.rewind("drop the tag", members)
dk.drop_ref(members, "report")
erased = dk.erase(members, "email = 'zoe@example.org'", unreferenced=True)
print("erased:", erased.is_erased)
print(where_is(members, "zoe@example.org"))
print("rows:", dk.scan(members).to_arrow()["email"].to_pylist())

# %% [markdown]
# ## Break it
#
# Compacted files have old numbers. A tool that drops deletes must remember that, and this one forgets it. It sees that all files were rewritten. So it drops every delete older than the newest commit before the compaction. Iceberg's Java library has a [bug of this kind](https://github.com/apache/iceberg/pull/10962).
#
# We race again, this time with two equality deletes meanwhile: id 7 is deleted with the sequence number 7, id 8 with 8. The new file has the number 6. The careless tool works on a branch, so `main` stays correct. It drops the deletes with a number below 8.


# %%
def two_deletes(other):
    dk.delete_keys(other, [{"id": 7}])
    dk.delete_keys(other, [{"id": 8}])


cleaned, _ = compact_while("cleaned", two_deletes)
dk.create_branch(cleaned, "careless")

# %% [markdown]
# And here is the careless tool:

# %%
from deletekit.commit.change import RowDelta
from deletekit.commit.planned_change import plan_change
from deletekit.commit.swap import commit
from deletekit.formats.manifest_list import ManifestContent


def careless(base):
    deletes = base.reader.live_entries(base.snapshot, ManifestContent.DELETES)
    too_old = tuple(entry for entry in deletes if entry.sequence_number < 8)
    return RowDelta(removed_delete_files=too_old, operation="replace")


here.rewind("careless tool", cleaned)
commit(plan_change(cleaned, careless, ref="careless"))
for ref in ("main", "careless"):
    there = dk.scan(cleaned, ref=ref).to_arrow()["id"].to_pylist()
    print(f"{ref}: {len(there)} rows, of ids 7 and 8 there is {sorted({7, 8} & set(there))}")

# %% [markdown]
# No error, no warning: a deleted row is back.
#
# ## Key points
#
# - Compaction is a `replace`: new files, the same rows. The new files get the data sequence number of the snapshot that was read: [sequence number inheritance](https://iceberg.apache.org/spec/#sequence-number-inheritance).
# - Vectors leave with their data file. Equality deletes and deletes of a whole partition stay until somebody proves that they dangle: [scan planning](https://iceberg.apache.org/spec/#scan-planning).
# - Delete, compaction and expiry, in this order, remove the row. Its values can remain in bounds, in keys of equality deletes, behind tags and in stray files: [manifests](https://iceberg.apache.org/spec/#manifests).
#
# Next: [12 · The engines lab](12_engines_lab.ipynb)

# %%
here.close()
