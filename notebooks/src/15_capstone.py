# ---
# jupyter:
#   deletekit:
#     lesson: "15"
#     minutes: {teach: 15, exercise: 55}
#     needs: plain
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 15 · Capstone: rows came back on Tuesday
#
# **15 minutes to read and run, 55 for the exercises.** You can use everything from the lessons before, above all [04](04_equality_deletes.ipynb), [05](05_position_deletes_v2.ipynb), [06](06_deletion_vectors.ipynb) and [13](13_streaming_deletes.ipynb).
#
# On Monday a customer asked to be forgotten. Somebody deleted the rows with the ids 3 and 6 from five tables, and counted: they were gone. On Tuesday the customer is back, in all five tables. No file has changed, no job has failed, and each table has a different cause.
#
# You will be able to
#
# - find the snapshot in which a row came back, and the file that it came from
# - tell a lost delete from one that is there but does not apply
# - name the cause from the evidence, repair the table, and say what prevents it next time
#
# Work as you would at night: first the history, then the row, then the deletes. Do not repair anything before you know the cause.

# %% [markdown]
# ## The tables
#
# Each table has eight rows in two data files, `D1` and `D2`, from two appends. The third commit is Monday's delete. Everything after it is Tuesday.

# %%
import deletekit as dk
from deletekit.course import Aliases, check, hint, lesson, predict, show, solution
from deletekit.course.incident import five_tables, flights_on_tuesday, history, live_deletes

here = lesson("15")
tables = five_tables(here)


def ids(table, **which):
    return sorted(dk.scan(table, columns=["id"], **which).to_arrow()["id"].to_pylist())


for name, table in tables.items():
    print(f"{name:9}", ids(table))

# %% [markdown]
# ## Predict
#
# `dk.verify` reads every metadata file, manifest, data file and delete of a table, and checks them against the rules of the specification. **15.1** For how many of the five tables does it report an error?

# %% tags=["exercise"] exercise="15.1"
predict("15.1", ...)

# %% tags=["solution"] exercise="15.1"
predict("15.1", 0)

# %%
for name, table in tables.items():
    report = dk.verify(table, level="data")
    print(f"{name:9} ok: {report.ok}", [f"{finding.severity}: {finding.kind}" for finding in report.findings])

# %%
check("15.1")

# %% [markdown]
# There is no error. Remember the two warnings: a dangling delete hides no row of the table. No file says what a table should hold. So a check of the files cannot know that a row should be gone.
#
# ## The causes
#
# These are the suspects. Five of them are guilty, each in one table.
#
# | code | what happened |
# |---|---|
# | `delete-file-removed` | the delete file was removed from the table, though rows still needed it |
# | `inserted-again` | the rows were written again after the delete |
# | `not-folded` | a deletion vector was added without the position deletes of its data file, and these no longer count |
# | `on-a-branch` | the delete was committed to another branch and never reached `main` |
# | `rewritten-as-new` | old rows were copied into a file with a new sequence number, and the delete is too old for it |
# | `rolled-back` | `main` was moved to a snapshot from before the delete, and continued from there |
# | `vector-not-merged` | a new deletion vector replaced the old one, without its positions |
# | `wrong-scope` | the delete was written for a partition that does not hold the row |
#
# These are your tools. `history` shows every snapshot, and how many rows with id 3 a reader finds in it. `dk.explain` shows every version of the row, with the deletes that hide it or do not. `live_deletes` lists the deletes that are live now.


# %%
def look(name):
    show(history(tables[name], "id = 3"))
    Aliases(tables[name]).show(dk.explain(tables[name], "id = 3"))
    show(live_deletes(tables[name]))


# %% [markdown]
# ## Table one

# %%
look("accounts")

# %% [markdown]
# **15.2** What is the cause? Answer with its code from the table of causes, as a text. Do the same in 15.3 to 15.6.

# %% tags=["exercise"] exercise="15.2"
check("15.2", ...)

# %% tags=["solution"] exercise="15.2"
check("15.2", "rolled-back")

# %% [markdown]
# ## Table two

# %%
look("baskets")

# %% [markdown]
# **15.3** What is the cause?

# %% tags=["exercise"] exercise="15.3"
check("15.3", ...)

# %% tags=["solution"] exercise="15.3"
check("15.3", "inserted-again")

# %% [markdown]
# ## Table three

# %%
look("contacts")

# %%
dk.widgets.RowFate(tables["contacts"], data_file="D3", row=2)

# %% [markdown]
# **15.4** What is the cause?

# %% tags=["exercise"] exercise="15.4"
check("15.4", ...)

# %% tags=["solution"] exercise="15.4"
check("15.4", "rewritten-as-new")

# %% [markdown]
# ## Table four

# %%
look("devices")

# %% [markdown]
# The widget shows what came and went between two snapshots: files, deletes and rows. On Tuesday somebody deleted id 4.

# %%
dk.widgets.SnapshotDiff(tables["devices"], before="S3", after="S4")

# %% [markdown]
# **15.5** What is the cause?

# %% tags=["exercise"] exercise="15.5"
check("15.5", ...)

# %% tags=["solution"] exercise="15.5"
check("15.5", "vector-not-merged")

# %% [markdown]
# ## Table five
#
# In this table too somebody deleted id 4 on Tuesday, after an upgrade to format version 3.

# %%
look("events")

# %% [markdown]
# **15.6** What is the cause?

# %% tags=["exercise"] exercise="15.6"
check("15.6", ...)

# %% tags=["solution"] exercise="15.6"
check("15.6", "not-folded")

# %% [markdown]
# ## The report
#
# The report of an incident has five lines: what was seen, since when, why, what was done, what prevents it. The history gives the second line: the oldest snapshot after Monday's delete in which a reader finds id 3.
#
# Now that you know the causes, you can repair all five tables in the same way: delete the rows again. A new delete is newer than everything in the table. But this does not remove the cause: you must also repair the writer.
#
# | cause | what prevents it |
# |---|---|
# | `rolled-back` | before a rollback, list what else it undoes; undo a bad load by deleting its rows, or by picking the good commits again |
# | `inserted-again` | keep progress in the commit itself, so that a repeated batch is skipped |
# | `rewritten-as-new` | the new file of a rewrite keeps the sequence number of what was read, or the rewrite starts again after a new delete |
# | `vector-not-merged` | the writer reads the existing vector, and a check ensures that no new vector lacks positions of the old one |
# | `not-folded` | the same, with the position delete files of an upgraded table |

# %%
here.rewind("delete again", *tables.values())
for name, table in tables.items():
    dk.delete(table, "id in (3, 6)")
    print(f"{name:9}", ids(table))

# %% [markdown]
# ## The real flights
#
# Now a table of a real size: the flights of 2013, in three data files. On Monday one commit deleted the 8,255 flights that never took off. On Tuesday a writer had one task: delete the flights of the carrier OO, 32 of them. On Wednesday cancelled flights are in the reports.

# %%
flights = flights_on_tuesday(here)
names = Aliases(flights)
show(history(flights, "dep_time is null"))

# %%
for delete in names.deletes():
    file = delete["data_file"]
    print(f"{delete['name']}: {file['record_count']:,} positions of {names.of(file['referenced_data_file'])}")

# %% [markdown]
# Two causes from the table above are at work, in two commits. Find them first: `dk.scan(flights, "dep_time is null", columns=["_file"])` says in which data file each cancelled flight is.
#
# **15.7** Repair the table: no cancelled flight, none of the carrier OO, no flight twice, and no other flight missing. How many rows does it have then? Work on `flights`, and answer with its count.

# %% tags=["exercise"] exercise="15.7"
check("15.7", ...)

# %% tags=["solution"] exercise="15.7"
dk.rollback(flights, names.snapshot_id("S5"))
dk.delete(flights, "dep_time is null")
check("15.7", dk.scan(flights).count())

# %% [markdown]
# ## Break it
#
# At night you might blame the readers. For `events` you could say that a reader should have used both, the vector and the position deletes. Here a reader without the rule that the vector wins reads the row in Tuesday's snapshot.

# %%
dk.widgets.RowFate(tables["events"], snapshot="S4", data_file="D1", row=2, vector_rule=False)

# %% [markdown]
# Then the row is hidden, and this table would be right. But thanks to the rule, no reader has to open the old files. The rule works only because writers merge the old positions into the vector. The specification requires that of the writer.

# %% [markdown]
# ## Key points
#
# - A row is there because a data file has it and no delete *applies*. Ask two questions: which file has it, and which delete does not apply, by which rule: [scan planning](https://iceberg.apache.org/spec/#scan-planning).
# - History is a tree. A snapshot that is not an ancestor of `main` has no effect on it: [snapshot references](https://iceberg.apache.org/spec/#snapshot-references).
# - The writer of a vector is responsible for all earlier deletes from its data file: [deletion vectors](https://iceberg.apache.org/spec/#deletion-vectors).
#
# Next: [16 · Exactly once](16_exactly_once.ipynb)

# %%
here.close()
