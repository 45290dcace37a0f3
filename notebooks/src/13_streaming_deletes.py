# ---
# jupyter:
#   deletekit:
#     lesson: "13"
#     minutes: {teach: 35, exercise: 35}
#     needs: plain
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 13 · Streaming deletes
#
# **35 minutes to read and run, 35 for the exercises.** It builds on [04 · Equality deletes](04_equality_deletes.ipynb) and [06 · Deletion vectors](06_deletion_vectors.ipynb).
#
# A stream of changes brings keys: "row 5 has a new value", "row 3 is gone". It does not say where row 3 is. This lesson is about what a streaming writer can do then, and about the crash that writes rows twice.
#
# You will be able to
#
# - predict which deletes Flink's sink writes
# - say what an index changes, and which changes it must follow
# - turn equality deletes into deletion vectors, in place or on the way from one branch to another
# - find the crash that writes rows twice, and say where to keep progress

# %% [markdown]
# ## Predict
#
# A *sink* is the part of a stream that writes to a table. Flink's sink collects changes, and commits them at every *checkpoint*: a moment, once a minute for example, when the whole stream saves its progress. The changes between two checkpoints are a *batch*.
#
# `users` has the ids 1, 2, 3 and 4. Between two checkpoints a stream sends four changes, in this order: insert 5, update 5, update 1, delete 3. Flink's sink writes them in upsert mode.
#
# In upsert mode, every incoming row may replace a row with the same key. So the writer deletes the key first, and then writes the row.
#
# **13.1** The writer has not read the table. Which ids will its equality delete file hold? Answer with a set.

# %% tags=["exercise"] exercise="13.1"
from deletekit.course import predict

predict("13.1", ...)

# %% tags=["solution"] exercise="13.1"
from deletekit.course import predict

predict("13.1", {1, 3, 5})

# %% [markdown]
# ## Run
#
# These are the four changes. A change is a row with one more column, `_change_type`: `INSERT`, `UPDATE_BEFORE` (the old row), `UPDATE_AFTER` (the new row) or `DELETE`. In upsert mode an insert and an update do the same, so `put` writes `UPDATE_AFTER` for both. To delete a row, its key is enough.

# %%
from datetime import datetime


def put(key, value):
    row = {"id": key, "name": f"User-{key}", "value": value, "timestamp": datetime(2024, 12, 25)}
    return {"_change_type": "UPDATE_AFTER", **row}


def gone(key):
    return {"_change_type": "DELETE", "id": key}


first = [put(5, 500.0), put(5, 555.0), put(1, 999.0), gone(3)]

# %% [markdown]
# Flink does not run here. `write_checkpoint` writes the changes of one checkpoint to a table, in the same way as Flink's sink does in upsert mode.

# %%
import deletekit as dk
from deletekit.course import Aliases, check, drawings, hint, lesson, show, solution
from deletekit.course.recordings.flink_writer import write_checkpoint

here = lesson("13")
users = here.table("users", dk.datasets.users(), format_version=3)
names = Aliases(users)
write_checkpoint(users, first, 0)

show(dk.scan(users, columns=["id", "value"]).to_arrow())

# %% [markdown]
# ## Look inside
#
# One commit brought three files: the data file `D2` with every incoming row, an equality delete file, and a deletion vector. These are the two deletes.

# %%
names.show(names.deletes(), "name", "kind", "rows", "positions", "sequence_number")

# %%
check("13.1")

# %% [markdown]
# Why is there a vector? The writer keeps a map in memory, from each key to the place of the row that it wrote last: id 5 is row 0 of `D2`. When id 5 comes again, the writer knows the place and deletes that row by position. A key that is not in the map gets an equality delete.
#
# Data file and deletes have the same sequence number, 2. The equality delete hides rows with a **smaller** number, so it does not touch `D2`. The vector hides rows with a smaller **or equal** number, so it can apply to `D2`. One commit can hold all this only because both rules exist. `explain` shows both of them for the two rows with id 5.

# %%
names.show(dk.explain(users, "id = 5", columns=["id", "value"]))

# %% [markdown]
# **13.2** Write the writer as a function. It gets the changes of one checkpoint: `("+", key)` puts a row, and `("-", key)` deletes a key. It returns a dict of two sets: `"equality"`, the keys that get an equality delete, and `"positions"`, the positions that it deletes in its own data file. Every `"+"` first deletes its key, and then writes one row.


# %% tags=["exercise"] exercise="13.2"
def deletes_of(changes): ...


check("13.2", deletes_of)


# %% tags=["solution"] exercise="13.2"
def deletes_of(changes):
    place, written = {}, 0
    equality, positions = set(), set()
    for change, key in changes:
        if key in place:
            positions.add(place.pop(key))
        else:
            equality.add(key)
        if change == "+":
            place[key] = written
            written += 1
    return {"equality": equality, "positions": positions}


check("13.2", deletes_of)

# %% [markdown]
# ## The map is forgotten
#
# The next checkpoint brings two changes: update 5, delete 2. The writer wrote the row of id 5 itself, in the checkpoint before. Watch whether it still knows the place.

# %%
here.rewind("second checkpoint", users)
second = [put(5, 556.0), gone(2)]
write_checkpoint(users, second, 1)
names.show(names.deletes(), "name", "kind", "rows", "positions", "sequence_number")

# %% [markdown]
# It does not: there is a second equality delete and no new vector. The map is not an index of the table. Every checkpoint throws it away. It can only undo what the same checkpoint has written. All older rows get an equality delete. So every checkpoint leaves one more equality delete file, and from then on every read compares values.
#
# ## With an index
#
# An index knows where each key of the *table* is. `dk.stream.sink` writes changes to a table, batch by batch. With an index it deletes directly by position. This is the mode `auto`, the default. It gets the same two batches.

# %%
indexed = here.table("indexed", dk.datasets.users(), format_version=3)
of_indexed = Aliases(indexed)
with_index = dk.stream.sink(indexed, "changes-of-users", equality_fields=["id"])
done = [with_index.write(first, batch_id=0), with_index.write(second, batch_id=1)]

show([{"batch": p.batch_id, "hits": p.hits, "misses": p.misses, "data files read": p.read_files} for p in done])
of_indexed.show(of_indexed.deletes(), "name", "data_file.referenced_data_file", "positions")
by_value, by_place = (sorted(dk.scan(t).to_arrow().to_pylist(), key=lambda r: r["id"]) for t in (users, indexed))
print("the same rows:", by_value == by_place)

# %% [markdown]
# There is no equality delete. A hit is a key that the index finds in the table, and a miss is a key that the table does not have. Batch 0 has three keys: 1 and 3 are hits, 5 is a miss. The index knows every key of the table, so for a miss there is nothing to delete. To fill the index the sink read `D1` once; it already knows the rows that it writes itself.
#
# Now somebody else compacts the table. Every row moves to a file that the sink has not written. **13.3** How many data files does the sink read before its next batch?

# %% tags=["exercise"] exercise="13.3"
predict("13.3", ...)

# %% tags=["solution"] exercise="13.3"
predict("13.3", 1)

# %%
here.rewind("compact", indexed)
dk.compact(indexed)
third = with_index.write([put(4, 444.0)], batch_id=2)
print("data files read:", third.read_files, "· hits:", third.hits)
of_indexed.show(of_indexed.deletes(), "name", "data_file.referenced_data_file", "positions")

# %%
check("13.3")

# %% [markdown]
# If an index names a file that has left the table, it deletes nothing, or the wrong row. So an index must say which snapshot it describes, and it must follow every commit of every writer. The same holds for races and retries: a batch planned before the compaction and committed after it must look again.
#
# ## The real flights
#
# One data file has 336,776 flights. 8,255 of them never took off. A stream deletes these month by month, in twelve batches of keys.
#
# **13.4** How many delete files are live at the end: with equality deletes only (mode `eq-only`), and with the index? A deletion vector counts as a delete file. Answer with a dict whose keys are `"eq-only"` and `"auto"`.

# %% tags=["exercise"] exercise="13.4"
predict("13.4", ...)

# %% tags=["solution"] exercise="13.4"
predict("13.4", {"eq-only": 12, "auto": 1})

# %%
import pyarrow as pa
import pyarrow.compute as pc

flights = dk.datasets.flights().select(["flight_id", "month", "carrier", "origin", "dest", "dep_time"])
cancelled = flights.filter(pc.is_null(flights["dep_time"]))
months = [cancelled.filter(pc.equal(cancelled["month"], month)) for month in range(1, 13)]
batches = [pa.table({"flight_id": m["flight_id"], "_change_type": ["DELETE"] * len(m)}) for m in months]
print("keys in each batch:", [len(batch) for batch in batches])

# %%
tables = {}
for mode in ("eq-only", "auto"):
    tables[mode] = here.table(f"flights_{mode[:2]}", flights, format_version=3)
    with dk.stream.sink(tables[mode], "cancelled", equality_fields=["flight_id"], mode=mode) as by_month:
        list(by_month.run(batches))
    live = Aliases(tables[mode]).deletes()
    print(f"{mode}: {len(live)} delete files, {dk.scan(tables[mode]).count():,} flights left")

# %%
check("13.4")

# %% [markdown]
# ## Equality in, vectors out
#
# Values are cheap to write but expensive to read. So let the writer write values, and convert them into positions before many readers come. `dk.stream.convert` does this in place, in one commit.

# %%
written_by_value = tables["eq-only"]
here.rewind("convert", written_by_value)
converted = dk.stream.convert(written_by_value)
of_flights = Aliases(written_by_value)
of_flights.show(of_flights.deletes(), "kind", "data_file.record_count", "data_file.referenced_data_file")
print("operation:", converted.operation, "· flights:", f"{dk.scan(written_by_value).count():,}")

# %% [markdown]
# One vector holds the 8,255 positions that twelve files hid by value. The operation is `replace`: no row has changed, only the form of the deletes.
#
# ## A branch for the stream
#
# The other way uses two branches. The stream writes to its own branch, by value and as fast as it comes. From time to time you *promote* its rows to `main`, and every delete becomes a delete by position. Readers of `main` never meet an equality delete.

# %%
staged = here.table("staged", dk.datasets.users(), format_version=3)
of_staged = Aliases(staged)
dk.create_branch(staged, "ingestion")
with dk.stream.sink(staged, "changes-of-users", equality_fields=["id"], mode="eq-only", ref="ingestion") as to_branch:
    list(to_branch.run([first, second, [put(6, 600.0)]]))

for branch in ("main", "ingestion"):
    print(f"{branch}: ids {sorted(dk.scan(staged, columns=['id'], ref=branch).to_arrow()['id'].to_pylist())}")

# %% [markdown]
# There are three batches, so three snapshots on the branch. **13.5** After one promotion, how many new snapshots does `main` have, and how many equality delete files? Answer with a dict whose keys are `"snapshots"` and `"equality"`.

# %% tags=["exercise"] exercise="13.5"
predict("13.5", ...)

# %% tags=["solution"] exercise="13.5"
predict("13.5", {"snapshots": 1, "equality": 0})

# %%
here.rewind("promote", staged)
promotion = dk.stream.promote(staged, "ingestion", equality_fields=["id"])
head = staged.current_snapshot
of_staged.show({"head of main": head.snapshot_id, "its parent": head.parent_snapshot_id})
print("rows that came:", promotion.added_rows, "· rows that went:", promotion.deleted_rows)
of_staged.show(of_staged.deletes(), "name", "kind", "data_file.referenced_data_file", "positions")

# %%
check("13.5")

# %% [markdown]
# The three rows that went are ids 1, 2 and 3 of `D1`. The position in `V2` is an older row of id 5, which came and went on the branch: readers of `main` never saw it.
#
# A promotion keeps the row ids ([02](02_copy_on_write.ipynb)) of the rows that came. Compare both branches.

# %%
for branch in ("ingestion", "main"):
    rows = dk.scan(staged, columns=["id", "_row_id"], ref=branch).to_arrow().sort_by("id").to_pylist()
    print(f"{branch}: row ids", {row["id"]: row["_row_id"] for row in rows})

# %% [markdown]
# These data files store no row ids. A data file receives a number when it enters a table, and its rows get their ids from that number. The three files entered the table on `ingestion`, where their rows got 4 to 7. The promotion hands these numbers on to `main`. The hidden row of id 5 has 4. Id 4 was there before, and keeps 3. So you can follow a row by `_row_id` from one branch to the other.

# %% [markdown]
# ## Exactly once
#
# A stream has two logs. The source notes which batches are done; the table has its snapshots. A batch is first committed to the table, and then noted. Between the two, the writer may die.
#
# Below, `run` is such a loop, and `append` writes a batch with a plain append. The table has three rows, and two batches of three rows each will come. The writer dies once, after it commits batch 0 and before it notes it. Then it is started again.
#
# **13.6** How many rows are in the table at the end?

# %% tags=["exercise"] exercise="13.6"
predict("13.6", ...)

# %% tags=["solution"] exercise="13.6"
predict("13.6", 12)


# %%
before, *arrivals = [pa.table({"id": pa.array(range(n, n + 3), pa.int64())}) for n in (0, 3, 6)]


def run(apply, noted, dies_after=None):
    for number, rows in enumerate(arrivals):
        if number not in noted:
            apply(rows, number)
            if number == dies_after:
                return print("killed; noted so far:", sorted(noted))
            noted.add(number)


# %%
events = here.table("events", before)


def append(rows, number):
    dk.append(events, rows)


noted = set()
run(append, noted, dies_after=0)
run(append, noted)
print("rows:", dk.scan(events).count())

# %%
check("13.6")

# %% [markdown]
# The other order, note first, then commit, is no better: the batch would be lost. You cannot write two logs at once, so one must contain what the other needs. The sink writes a *marker* into the summary of the snapshot: its name and the number of the batch. Then progress and rows are one commit, and cannot come apart.
#
# Here the same loop writes with a sink. `change_type=None` says that all rows are inserts, so they need no change type.

# %%
marked = here.table("marked", before)
inserts = dk.stream.sink(marked, "arrivals", equality_fields=["id"], change_type=None)


def write(rows, number):
    print(f"batch {number}:", inserts.write(rows, number).status)


noted = set()
run(write, noted, dies_after=0)
run(write, noted)
print("rows:", dk.scan(marked).count())
summary = marked.current_snapshot.summary
print({key: summary[key] for key in ("deletekit.sink-id", "deletekit.batch-id")})

# %% [markdown]
# Batch 0 came twice and was committed once. Flink does the same: `flink.job-id`, `flink.operator-id` and `flink.max-committed-checkpoint-id` are in the summaries of its snapshots.
#
# When snapshots expire, their summaries go, and the progress would go too. So the sink has a tag, and each commit moves it to the newest batch. Expiry keeps that snapshot.

# %%
of_marked = Aliases(marked)
of_marked.show(
    marked.metadata.refs, "main.snapshot-id", "deletekit-sink-arrivals.type", "deletekit-sink-arrivals.snapshot-id"
)

# %% [markdown]
# A writer can also die at other points. The drawing shows each of them: what the table has then, and what the next start does with the batch. `record_windows(1)` sends one batch, and stops the writer at each point.

# %%
from deletekit.course.recordings.stream_steps import record_windows

drawings.sink_windows(record_windows(1))

# %% [markdown]
# ## A bug that hides
#
# If every change is an upsert, applying a batch twice does no harm: the second time, the batch replaces its own rows. So a writer without markers may look right for a long time.
#
# Below, such a writer applies a stream of four batches, `batch_id` 0 to 3. For each key of a batch it appends at most one row: the last state of the key, if it was not deleted. If a batch has updates or deletes, an earlier commit deletes their keys by value, so such a batch makes two snapshots. For example, if a batch inserts id 4 and then updates it, the first commit deletes key 4, and the second one appends only the updated row.
#
# The argument `step` says how many batches come. In the last of them the writer died after the commit, and started again. With `step=2` that is the batch with `batch_id` 1. `checkpoint_check=False` is the writer without markers. Move the crash: change `step` in the cell, or use the controls in a live notebook.

# %%
dk.widgets.StreamStepper(step=2, crash="after-commit", resumed=True, checkpoint_check=False)

# %% [markdown]
# **13.7** For which values of `step`, from 1 to 4, is the table wrong after the restart? Answer with a set.

# %% tags=["exercise"] exercise="13.7"
check("13.7", ...)


# %% tags=["solution"] exercise="13.7"
def rows_after(step, **crash):
    blocks = dk.widgets.StreamStepper(step=step, **crash).page["blocks"]
    (rows,) = [block for block in blocks if block["name"] == "rows"]
    return sum(line["mark"] == "live" for line in rows["lines"])


crash = {"crash": "after-commit", "resumed": True, "checkpoint_check": False}
check("13.7", {step for step in range(1, 5) if rows_after(step, **crash) != rows_after(step)})

# %% [markdown]
# Here are four of the five points above, for the writer without markers and the first batch. The lost answer is left out: without a marker, the writer cannot find its commit. One of the four points is enough to bring rows twice.

# %%
drawings.sink_windows(record_windows(1, checkpoint_check=False))

# %% [markdown]
# ## From Spark
#
# Structured Streaming delivers numbered micro-batches. A query notes its numbers and its id in a folder, which Spark calls the checkpoint, so `sink.foreach_batch` can recognize a repeated batch. This is the query:
#
# ```python
# query = stream.writeStream.foreachBatch(sink.foreach_batch)
# query.option("checkpointLocation", folder).start()
# ```
#
# If Java is installed, `here.stream` runs it. If not, the sink gets the batches directly.

# %%
from_spark = here.table("from_spark", before)
with dk.stream.sink(from_spark, "micro-batches", equality_fields=["id"], change_type=None) as micro_batches:
    print(here.stream(arrivals, micro_batches), dk.scan(from_spark).count(), "rows")

# %% [markdown]
# ## Break it
#
# What if a batch comes again with other rows, because the source has changed meanwhile? If the sink skips it, rows are lost. If it applies it, other rows come twice. The sink does neither, and says why.

# %%
try:
    inserts.write(pa.table({"id": pa.array([77], pa.int64())}), 0)
except dk.InvalidInputError as error:
    print(error.kind)
print("rows:", dk.scan(marked).count())

# %% [markdown]
# ## Key points
#
# - A streaming writer knows keys, not places. It deletes by position only what it has written since the last checkpoint, everything else by value: [equality delete files](https://iceberg.apache.org/spec/#equality-delete-files).
# - One commit can hold both kinds, because equality deletes compare sequence numbers by `<` and deletes by position by `<=`: [scan planning](https://iceberg.apache.org/spec/#scan-planning).
# - An index of the table turns keys directly into places. It is right for one snapshot, and must follow all the others.
# - Keep equality deletes only for a short time. Convert them in place, or on the way from a branch to `main`: [deletion vectors](https://iceberg.apache.org/spec/#deletion-vectors), [branches and tags](https://iceberg.apache.org/spec/#snapshot-references).
# - Keep progress in the commit itself, for example in the summary of the [snapshot](https://iceberg.apache.org/spec/#snapshots). If a writer keeps it elsewhere, that is a bug, and upserts hide it.
#
# Next: [14 · From Delta to Iceberg](14_delta_to_iceberg.ipynb)

# %%
here.close()
