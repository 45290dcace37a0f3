# ---
# jupyter:
#   deletekit:
#     lesson: "09"
#     minutes: {teach: 25, exercise: 25}
#     needs: plain
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 09 · Commits and conflicts
#
# **25 minutes to read and run, 25 for the exercises.** Before it: [08 · Readers](08_readers.ipynb).
#
# Writers take their time to write data files and deletes. None of it counts until the catalog swaps one metadata location for another. This lesson is about two writers who change the same rows and commit at the same time.
#
# You will be able to
#
# - say what a commit swaps, and why two writers cannot both win
# - decide what to do after a lost race: commit the change as it is, unite it, or replan it
# - explain how two deletes of one data file end in one vector
# - say why you cannot simply combine two commits into one

# %% [markdown]
# ## Predict
#
# A table of format version 3 has ids 0 to 9 in one data file. Two writers read it at the same time. The first one deletes id 1 with a deletion vector and commits. Meanwhile the second one has found id 2 and written its vector, and now commits too.
#
# **09.1** After both commits, which positions are in the live vector?

# %% tags=["exercise"] exercise="09.1"
from deletekit.course import predict

predict("09.1", ...)

# %% tags=["solution"] exercise="09.1"
from deletekit.course import predict

predict("09.1", {1, 2})

# %% [markdown]
# ## Run
#
# We want a race with the same result every time. So we need a slow writer: it has found its rows but not committed them when another writer commits. deletekit reads through an engine, which maps a function over the data files. This engine lets somebody else go first, once.

# %%
import pyarrow as pa

import deletekit as dk
from deletekit.course import Aliases, check, hint, lesson, show, solution

here = lesson("09")


class Slow:
    def __init__(self, someone_else):
        self.someone_else = someone_else

    def map(self, work, data_files):
        done = [work(data_file) for data_file in data_files]
        if self.someone_else is not None:
            self.someone_else()
            self.someone_else = None
        yield from done


def ids(*numbers):
    return pa.table({"id": pa.array(numbers, pa.int32())})


def race(name, ours, theirs, *parts):
    properties = {
        "write.delete.mode": "merge-on-read",
        "write.update.mode": "merge-on-read",
        "commit.retry.min-wait-ms": "1",
    }
    table = here.table(name, *parts, format_version=3, properties=properties)
    their_view = dk.load_table(here.catalog, table.name)
    return table, ours(table, Slow(lambda: theirs(their_view)))


def rows(table):
    return sorted(dk.scan(table).to_arrow()["id"].to_pylist())


table, commit = race(
    "numbers",
    lambda table, slow: dk.delete(table, "id = 2", engine=slow),
    lambda table: dk.delete(table, "id = 1"),
    ids(*range(10)),
)
names = Aliases(table)
names.show(names.deletes(), "name", "kind", "positions")
print("rows:", rows(table))
print("offered to the catalog:", commit.attempts, "times; rows searched:", commit.plans, "time")

# %%
check("09.1")

# %% [markdown]
# The second writer lost the race, and noticed. It did not search again. It united its vector with the one already committed, and committed the result in place of both.

# %% [markdown]
# `SnapshotDiff` shows what the second commit changed: one vector went, one came, and one more row is hidden.

# %%
dk.widgets.SnapshotDiff(table)

# %% [markdown]
# ## Look inside: the swap
#
# The catalog of this lesson is a SQLite file. It has one row for each table, and the important value in it is one location.

# %%
import sqlite3
from contextlib import closing
from pathlib import Path


def catalog_row(connection):
    return connection.execute(
        "SELECT metadata_location, previous_metadata_location FROM iceberg_tables WHERE table_name = 'numbers'"
    ).fetchone()


def number_of(location):
    return Path(location).name.split("-")[0]


with closing(sqlite3.connect(here.folder / "catalog.db")) as connection:
    now, before = catalog_row(connection)
print("now:", number_of(now), " before:", number_of(before))

# %% [markdown]
# A writer reads this location, writes a new metadata file, and asks the catalog: put my location in place of the one I read. If the catalog has another location by now, nothing happens, and the writer is told. Let us be two writers, on a copy of the catalog.

# %%
exchange = "UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = 'numbers' AND metadata_location = ?"
with closing(sqlite3.connect(here.folder / "catalog.db")) as kept, closing(sqlite3.connect(":memory:")) as copy:
    kept.backup(copy)
    read, _ = catalog_row(copy)
    for writer in ("first", "second"):
        changed = copy.execute(exchange, (f"{writer}.metadata.json", read)).rowcount
        print(
            f"{writer} writer: {changed} row changed; the catalog has",
            catalog_row(copy)[0].replace(read, "what was read"),
        )

# %% [markdown]
# This is called compare-and-swap. A REST catalog and Hive have other forms of it. Everything else is already on the disk, under names that nobody else uses: data files, deletes, manifests and the metadata file. A writer that is killed before the swap has changed nothing. It only leaves files that no snapshot lists.
#
# **09.2** Write the swap. It gets the location in the catalog, the location that the writer has read, and the new one. It returns the location that is in the catalog afterwards.


# %% tags=["exercise"] exercise="09.2"
def exchanged(there, read, new): ...


check("09.2", exchanged)


# %% tags=["solution"] exercise="09.2"
def exchanged(there, read, new):
    return new if there == read else there


check("09.2", exchanged)

# %% [markdown]
# Each attempt takes the next sequence number. When the second writer began, the last number was 1. Its first attempt would have got 2; its second attempt got 3. A manifest can still be used in the next attempt, because entries of added files have no number of their own: they inherit the number in the manifest list. That is why numbers are inherited.

# %%
print("sequence number:", commit.sequence_number)

# %% [markdown]
# ## Who can reuse a change?
#
# After a lost race, a writer looks at the new commits. Then it does one of three things. It commits its files **as they are** on the new head. It commits them **united** with the new deletes. Or it throws them away and plans again from the start (the output says **anew**). The last is always right. The first two save work, but are right only if nothing the plan depends on has changed.
#
# Here are five races. The table has ids 0 to 4 in one data file and 5 to 9 in another.
#
# | race | our change | somebody else, meanwhile |
# |---|---|---|
# | `other file` | delete id 1 | deletes id 8 |
# | `same file` | delete id 1 | deletes id 2 |
# | `new rows` | delete ids below 3 | appends ids 0 and 1 once more |
# | `compacted` | delete id 1 | rewrites both files into one |
# | `update` | set id 3 to 103 | deletes id 3 |
#
# **09.3** Which of these changes must be replanned? Answer with a set of names.

# %% tags=["exercise"] exercise="09.3"
predict("09.3", ...)

# %% tags=["solution"] exercise="09.3"
predict("09.3", {"new rows", "compacted", "update"})


# %%
def delete(where):
    return lambda table, slow=None: dk.delete(table, where, engine=slow)


races = {
    "other file": (delete("id = 1"), delete("id = 8")),
    "same file": (delete("id = 1"), delete("id = 2")),
    "new rows": (delete("id < 3"), lambda table: dk.append(table, ids(0, 1))),
    "compacted": (delete("id = 1"), lambda table: dk.compact(table, rewrite_all=True)),
    "update": (lambda table, slow: dk.update(table, {"id": 103}, where="id = 3", engine=slow), delete("id = 3")),
}
found = []
for name, (ours, theirs) in races.items():
    table, commit = race(name.replace(" ", "_"), ours, theirs, ids(*range(5)), ids(*range(5, 10)))
    how = "anew" if commit.plans > 1 else "united" if commit.removed_delete_files else "as it is"
    found.append({"race": name, "how": how, "attempts": commit.attempts, "rows": str(rows(table))})
show(found)

# %%
check("09.3")

# %% [markdown]
# - `other file`: the two changes have nothing to do with each other.
# - `same file`: both only add positions. Both orders of the two deletes give the same result: their union.
# - `new rows`: the delete was meant for all ids below 3, and here are two more of them. The new plan finds them too.
# - `compacted`: the vector names a data file that is gone. Its positions mean nothing in the new one.
# - `update`: we made the new version from a row that no longer exists. If we committed it as it is, a deleted row would come back.
#
# An equality delete depends on nothing: no row was read for it. So it can always be committed as it is. It hides every row with a smaller sequence number, even rows committed after it was written. That is one more reason why streams like it.
#
# ## Isolation levels
#
# `write.delete.isolation-level` says how careful a delete has to be. Updates and merges have such a property too. The default is `serializable`: the result must be the same as if the commits ran one after the other. With `snapshot`, new rows from other commits are no reason to replan.
#
# **09.4** We run the race `new rows` again, with isolation level `snapshot`. The table has ids 0 to 9, we delete ids below 3, and meanwhile ids 0 and 1 are appended. Which ids are in the table afterwards?

# %% tags=["exercise"] exercise="09.4"
predict("09.4", ...)

# %% tags=["solution"] exercise="09.4"
predict("09.4", {0, 1, 3, 4, 5, 6, 7, 8, 9})

# %%
table = here.table(
    "isolated",
    ids(*range(10)),
    format_version=3,
    properties={"write.delete.mode": "merge-on-read", "write.delete.isolation-level": "snapshot"},
)
someone_else = dk.load_table(here.catalog, table.name)
commit = dk.delete(table, "id < 3", engine=Slow(lambda: dk.append(someone_else, ids(0, 1))))
print("rows:", rows(table), "plans:", commit.plans)

# %%
check("09.4")

# %% [markdown]
# ## Give up
#
# The table property `commit.retry.num-retries` says how often a writer tries again. We set it to 0: after one lost race, the writer gives up. Then two things matter: nothing has changed, and no file stays behind.


# %%
def files_on_disk(folder):
    return sorted(str(path) for path in folder.rglob("*.*") if path.is_file() and path.suffix != ".crc")


table = here.table(
    "no_retry",
    ids(*range(10)),
    format_version=3,
    properties={"write.delete.mode": "merge-on-read", "commit.retry.num-retries": "0"},
)
someone_else = dk.load_table(here.catalog, table.name)
folder = here.folder / "course" / "no_retry"
after_theirs = []


def go_first():
    dk.compact(someone_else, rewrite_all=True)
    after_theirs.extend(files_on_disk(folder))


try:
    dk.delete(table, "id = 1", engine=Slow(go_first))
except dk.CommitConflictError as error:
    print("given up:", error.kind, "- to try again is safe:", error.retryable)
print("files left behind:", len(set(files_on_disk(folder)) - set(after_theirs)))

# %% [markdown]
# Besides yes and no, a catalog can give a third answer: none, because the connection broke. Then the commit may or may not have happened. The writer must not delete its files, and must not try again before it has looked. deletekit raises `CommitStateUnknownError`.
#
# ## Workers and a coordinator
#
# Within one job you need no race. Workers search and report, and a coordinator commits once. But two workers may get parts of the same data file, and then each writes its own vector for it. Here we make the two vectors on branches, and ask `commit_change` to commit both. All verbs of deletekit use this function.

# %%
from deletekit.commit.swap import commit as commit_change
from deletekit.commit.change import RowDelta
from deletekit.commit.planned_change import plan_change

table = here.table("workers", ids(*range(10)), format_version=3)
for worker, where in (("worker_1", "id in (0, 2)"), ("worker_2", "id in (5, 9)")):
    dk.create_branch(table, worker)
    dk.delete(table, where, mode="deletion-vector", ref=worker)

names = Aliases(table)
both = RowDelta(added_delete_files=(names.file("V1"), names.file("V2")))
try:
    commit_change(plan_change(table, lambda base: both))
except dk.InvalidInputError as error:
    print("refused:", error.kind)

# %% [markdown]
# **09.5** Write the work of the coordinator. Your function gets a list of reports. Each report is a tuple: the name of a data file, and the set of positions that a worker found in it. Return a dict of the vectors to write, from the name of a data file to the positions.

# %%
reports = [("A", {0, 2}), ("B", {5, 9}), ("A", {7}), ("C", set())]


# %% tags=["exercise"] exercise="09.5"
def vectors_of(reports): ...


check("09.5", vectors_of)


# %% tags=["solution"] exercise="09.5"
def vectors_of(reports):
    vectors = {}
    for name, positions in reports:
        if positions:
            vectors[name] = vectors.get(name, set()) | positions
    return vectors


check("09.5", vectors_of)

# %% [markdown]
# ## Two commits are not one
#
# A streaming writer has three changes of key 1: insert it with value `a`, delete it by an equality delete, insert it with value `b`. On the branch `stream` each change is its own commit. Somebody wants fewer commits, and puts exactly the same files on `main` in one commit.
#
# **09.6** How many rows with key 1 are on `main`?

# %% tags=["exercise"] exercise="09.6"
predict("09.6", ...)

# %% tags=["solution"] exercise="09.6"
predict("09.6", 2)


# %%
def keyed(key, value):
    return pa.table({"id": pa.array([key], pa.int32()), "value": [value]})


streamed = here.table("streamed", keyed(0, "z"))
dk.create_branch(streamed, "stream")
inserted = dk.append(streamed, keyed(1, "a"), ref="stream")
deleted = dk.delete_keys(streamed, [{"id": 1}], ref="stream")
again = dk.append(streamed, keyed(1, "b"), ref="stream")
print("three commits:", dk.scan(streamed, "id = 1", ref="stream").to_arrow().to_pylist())

in_one = RowDelta(
    added_data_files=inserted.added_data_files + again.added_data_files,
    added_delete_files=deleted.added_delete_files,
)
commit_change(plan_change(streamed, lambda base: in_one))
on_main = dk.scan(streamed, "id = 1").to_arrow().sort_by("value").to_pylist()
print("one commit:   ", on_main)

# %%
check("09.6")

# %% [markdown]
# In one commit all files have one sequence number, and an equality delete applies only to smaller ones. The value `a` was deleted on the branch, but is live on `main`. To combine several commits into one, you must first work out what is left of each key. `dk.stream.promote` does that.
#
# ## Break it
#
# What if a writer skips all of this and commits its vector next to the existing one? deletekit refuses to write such a table, so we forge one. We write the delete manifest of one branch into the manifest list of another.

# %%
import fastavro

forged = here.table("forged", ids(*range(10)), format_version=3)
dk.create_branch(forged, "other")
dk.delete(forged, "id = 2", mode="deletion-vector", ref="other")
dk.delete(forged, "id = 1", mode="deletion-vector")
names = Aliases(forged)


def manifest_list(alias):
    with open(names.path(alias), "rb") as file:
        reader = fastavro.reader(file)
        return reader.writer_schema, list(reader)


schema, of_main = manifest_list("L3")
of_other = [manifest for manifest in manifest_list("L2")[1] if manifest["content"] == 1]
with open(names.path("L3"), "wb") as file:
    fastavro.writer(file, schema, of_main + of_other)

try:
    dk.scan(forged).to_arrow()
except dk.FormatError as error:
    print("a reader refuses:", error.kind)
print("verify finds:", sorted({finding.kind for finding in dk.verify(forged).findings if finding.severity == "error"}))

# %% [markdown]
# A reader that takes the first vector brings id 2 back. One that takes the last brings id 1 back. And nobody promises the order of manifests. `repair` does what the writer should have done.

# %%
here.rewind("repair", forged)
dk.repair(forged)
names = Aliases(forged)
names.show(names.deletes(), "kind", "positions")
print("rows:", rows(forged))

# %% [markdown]
# **09.7** Three writers have each added their own vector for the same data file: {1, 2}, {2, 3} and {9}. All three deletes should count. Which positions does a repair put into the one vector?

# %% tags=["exercise"] exercise="09.7"
check("09.7", ...)

# %% tags=["solution"] exercise="09.7"
check("09.7", {1, 2} | {2, 3} | {9})

# %% [markdown]
# ## Key points
#
# - A commit is one swap of a location, compare-and-swap. All files are written before it: [optimistic concurrency](https://iceberg.apache.org/spec/#optimistic-concurrency).
# - The loser may reuse its files only if nothing they depend on has changed: [commit conflict resolution and retry](https://iceberg.apache.org/spec/#commit-conflict-resolution-and-retry).
# - Deletes by position depend on their data file, deletes by value on nothing. New versions of rows depend on the old ones.
# - One data file has one vector, so the second writer unites the two: [deletion vectors](https://iceberg.apache.org/spec/#deletion-vectors).
# - Sequence numbers are the order of the changes. If you put files of two commits into one, they lose this order: [sequence numbers](https://iceberg.apache.org/spec/#sequence-numbers).
#
# Next: [10 · Time travel and lineage](10_time_travel_and_lineage.ipynb)

# %%
here.close(...)
