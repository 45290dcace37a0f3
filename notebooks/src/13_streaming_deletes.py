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
# A stream of changes brings keys: "row 5 has a new value", "row 3 is gone". Where row 3 lies, it does not say. This lesson is about what a streaming writer can do then, and about the crash that brings rows twice.
#
# You will be able to
#
# - predict which deletes Flink's sink writes for a checkpoint
# - say what an index changes, and what it has to keep up with
# - turn equality deletes into deletion vectors, in place or on the way from one branch to another
# - find the crash that brings rows twice, and say where progress has to be kept

# %% [markdown]
# ## Predict
#
# `users` has the ids 1, 2, 3 and 4. A stream sends four changes between two checkpoints, in this order: insert 5, update 5, update 1, delete 3. Flink's sink writes them in upsert mode.
#
# Upsert mode means: every row that comes in may replace a row with the same key. So the writer deletes the key first, and then writes the row.
#
# **13.1** The writer has read nothing of the table. Which ids will its equality delete file hold?

# %% tags=["exercise"] exercise="13.1"
from deletekit.course import predict

predict("13.1", ...)

# %% tags=["solution"] exercise="13.1"
from deletekit.course import predict

predict("13.1", {1, 3, 5})

# %% [markdown]
# ## Run
#
# `dk.stream.sink` writes changes to a table, batch by batch. With the mode `flink` it does what Flink's sink does in upsert mode.

# %%
from datetime import datetime

import deletekit as dk
from deletekit.course import Aliases, check, hint, lesson, show, solution

here = lesson("13")


def put(key, value):
    row = {"id": key, "name": f"User-{key}", "value": value, "timestamp": datetime(2024, 12, 25)}
    return {"_change_type": "UPDATE_AFTER", **row}


def gone(key):
    return {"_change_type": "DELETE", "id": key}


first = [put(5, 500.0), put(5, 555.0), put(1, 999.0), gone(3)]

users = here.table("users", dk.datasets.users(), format_version=3)
names = Aliases(users)
sink = dk.stream.sink(users, "changes-of-users", equality_fields=["id"], mode="flink")
sink.write(first, batch_id=0)

show(dk.scan(users, columns=["id", "value"]).to_arrow())

# %% [markdown]
# ## Look inside
#
# One commit brought three files: a data file with every row that came in, an equality delete file, and a deletion vector.

# %%
names.show(names.deletes(), "name", "kind", "rows", "positions", "sequence_number")

# %%
check("13.1")

# %% [markdown]
# Where does the vector come from? The writer keeps a map in memory, from each key to the place of the row that it has written last: id 5 is row 0 of `D2`. When id 5 comes again, the place is known, and is deleted by position. A key that is not in the map gets an equality delete.
#
# Data file and deletes have the same sequence number, 2. The equality delete hides rows with a **smaller** number, so it spares `D2`. The vector hides rows with a smaller **or equal** number, so it may be about `D2`. Only both rules together make one commit of it.

# %%
names.show(dk.explain(users, "id = 5", columns=["id", "value"]))

# %% [markdown]
# **13.2** Write the writer. It is given the changes of one checkpoint, as `("+", key)` for a row that is put and `("-", key)` for a key that is deleted. It returns a dict of two sets: the keys that get an equality delete, and the positions, in its own data file, that are deleted. Every `"+"` writes one row, and before that deletes its key.


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
# The next checkpoint brings two changes: update 5, delete 2. **13.3** How many rows will it delete by position?

# %% tags=["exercise"] exercise="13.3"
predict("13.3", ...)

# %% tags=["solution"] exercise="13.3"
predict("13.3", 0)

# %%
second = [put(5, 556.0), gone(2)]
sink.write(second, batch_id=1)
names.show(names.deletes(), "name", "kind", "rows", "positions", "sequence_number")

# %%
check("13.3")

# %% [markdown]
# The map is no index of the table. It is thrown away at every checkpoint, and was never meant for more than to take back what the same checkpoint has written. Whatever is older gets an equality delete, so every checkpoint leaves one more equality delete file, and every read from then on compares values.
#
# ## With an index
#
# An index knows where each key of the *table* lies. A sink with one deletes by position at once. This is the mode `auto`: the same changes, and no equality delete.

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
# A miss is a key that the table does not have. An index that is complete knows that, and nothing has to be deleted.
#
# Now somebody else compacts the table. Every row gets another place, in a file that the sink has not written. **13.4** How many data files does the sink read before its next batch?

# %% tags=["exercise"] exercise="13.4"
predict("13.4", ...)

# %% tags=["solution"] exercise="13.4"
predict("13.4", 1)

# %%
dk.compact(indexed)
third = with_index.write([put(4, 444.0)], batch_id=2)
print("data files read:", third.read_files, "· hits:", third.hits)
of_indexed.show(of_indexed.deletes(), "name", "data_file.referenced_data_file", "positions")

# %%
check("13.4")

# %% [markdown]
# An index that names a file which has left the table would delete nothing, or the wrong row. This is why an index has to say of which snapshot it is, and has to follow every commit, whoever made it. Race and retry are the same question: a batch that was planned before the compaction, and is committed after it, has to look again.
#
# ## The real flights
#
# 336,776 flights in one data file. 8,255 of them never took off, and a stream deletes them month by month, in twelve batches of keys.
#
# **13.5** How many delete files are live at the end, with equality deletes only and with the index? A deletion vector counts as a delete file. Answer with a dict whose keys are `"eq-only"` and `"auto"`.

# %% tags=["exercise"] exercise="13.5"
predict("13.5", ...)

# %% tags=["solution"] exercise="13.5"
predict("13.5", {"eq-only": 12, "auto": 1})

# %%
import pyarrow as pa
import pyarrow.compute as pc

flights = dk.datasets.flights().select(["flight_id", "month", "carrier", "origin", "dest", "dep_time"])
cancelled = flights.filter(pc.is_null(flights["dep_time"]))
months = [cancelled.filter(pc.equal(cancelled["month"], month)) for month in range(1, 13)]
batches = [pa.table({"flight_id": m["flight_id"], "_change_type": ["DELETE"] * len(m)}) for m in months]

tables = {}
for mode in ("eq-only", "auto"):
    tables[mode] = here.table(f"flights_{mode[:2]}", flights, format_version=3)
    with dk.stream.sink(tables[mode], "cancelled", equality_fields=["flight_id"], mode=mode) as of_flights:
        list(of_flights.run(batches))
    live = Aliases(tables[mode]).deletes()
    print(f"{mode}: {len(live)} delete files, {dk.scan(tables[mode]).count():,} flights left")

# %%
check("13.5")

# %% [markdown]
# ## Equality in, vectors out
#
# Writing values is cheap, and reading them is dear; so let the writer write values, and somebody else turn them into positions before many have read them. `dk.stream.convert` does it in place, in one commit. **13.6** How many positions will the vector hold?

# %% tags=["exercise"] exercise="13.6"
predict("13.6", ...)

# %% tags=["solution"] exercise="13.6"
predict("13.6", 8255)

# %%
written_by_value = tables["eq-only"]
converted = dk.stream.convert(written_by_value)
of_flights = Aliases(written_by_value)
of_flights.show(of_flights.deletes(), "kind", "data_file.record_count", "data_file.referenced_data_file")
print("operation:", converted.operation, "· flights:", f"{dk.scan(written_by_value).count():,}")

# %%
check("13.6")

# %% [markdown]
# The operation is `replace`: no row has changed, only the way in which the deletes are written down.
#
# ## A branch to ingest on
#
# The other way is two branches. The stream writes to a branch of its own, as fast as it comes and by value; from time to time what came there is *promoted* to `main`, with every delete found by position. Readers of `main` never meet an equality delete.

# %%
staged = here.table("staged", dk.datasets.users(), format_version=3)
of_staged = Aliases(staged)
dk.create_branch(staged, "ingestion")
with dk.stream.sink(staged, "changes-of-users", equality_fields=["id"], mode="eq-only", ref="ingestion") as to_branch:
    list(to_branch.run([first, second, [put(6, 600.0)]]))

for branch in ("main", "ingestion"):
    print(f"{branch}: ids {sorted(dk.scan(staged, columns=['id'], ref=branch).to_arrow()['id'].to_pylist())}")

# %% [markdown]
# Three batches, three snapshots on the branch. **13.7** After one promotion, how many new snapshots does `main` have, and how many equality delete files? Answer with a dict whose keys are `"snapshots"` and `"equality"`.

# %% tags=["exercise"] exercise="13.7"
predict("13.7", ...)

# %% tags=["solution"] exercise="13.7"
predict("13.7", {"snapshots": 1, "equality": 0})

# %%
promotion = dk.stream.promote(staged, "ingestion", equality_fields=["id"])
head = staged.current_snapshot
of_staged.show({"head of main": head.snapshot_id, "its parent": head.parent_snapshot_id})
print("rows that came:", promotion.added_rows, "· rows that went:", promotion.deleted_rows)
of_staged.show(of_staged.deletes(), "name", "kind", "data_file.referenced_data_file", "positions")

# %%
check("13.7")

# %% [markdown]
# Look at the row ids on both branches. These data files store no row ids, so a row gets its own from the number that the data file is given when it enters a branch, and the same file has entered two. Whoever follows rows by `_row_id` must follow them on one branch.

# %%
for branch in ("ingestion", "main"):
    rows = dk.scan(staged, columns=["id", "_row_id"], ref=branch).to_arrow().to_pylist()
    print(f"{branch}: row ids { ({r['id']: r['_row_id'] for r in sorted(rows, key=lambda r: r['id'])}) }")

# %% [markdown]
# ## Exactly once
#
# A stream has two logs. The source notes which batches are done; the table has its snapshots. A batch is committed to the table first, and noted after it. Between the two, the writer may die.
#
# Here is such a loop around a plain append. The table has three rows, and two batches with three rows each are to come. The writer dies once, after the commit of batch 0 and before it is noted, and is started again.
#
# **13.8** How many rows are in the table in the end?

# %% tags=["exercise"] exercise="13.8"
predict("13.8", ...)

# %% tags=["solution"] exercise="13.8"
predict("13.8", 12)


# %%
class Killed(Exception):
    pass


def run(apply, noted, dies_after=None):
    for number, rows in enumerate(arrivals):
        if number not in noted:
            apply(rows, number)
            if number == dies_after:
                raise Killed
            noted.add(number)


def run_with_one_death(apply):
    noted = set()
    try:
        run(apply, noted, dies_after=0)
    except Killed:
        print("killed; noted so far:", sorted(noted))
    run(apply, noted)


before, *arrivals = [pa.table({"id": pa.array(range(n, n + 3), pa.int64())}) for n in (0, 3, 6)]

events = here.table("events", before)
run_with_one_death(lambda rows, number: dk.append(events, rows))
print("rows:", dk.scan(events).count())

# %%
check("13.8")

# %% [markdown]
# To note first and to commit then would be no better: the batch would be lost. The two logs cannot be written at once, so one of them has to say what the other needs. The sink writes its name and the number of the batch into the summary of the snapshot: progress and rows are one commit, and cannot come apart.

# %%
marked = here.table("marked", before)
inserts = dk.stream.sink(marked, "arrivals", equality_fields=["id"], change_type=None)
run_with_one_death(lambda rows, number: print(f"batch {number}:", inserts.write(rows, number).status))
print("rows:", dk.scan(marked).count())
summary = marked.current_snapshot.summary
print({key: summary[key] for key in ("deletekit.sink-id", "deletekit.batch-id")})

# %% [markdown]
# Batch 0 came twice and was committed once. Flink does the same: `flink.job-id`, `flink.operator-id` and `flink.max-committed-checkpoint-id` are in the summaries of its snapshots.
#
# Summaries go when snapshots expire, and progress would go with them. So the sink has a tag, which moves in each commit to the newest batch, and expiry leaves that snapshot alone.

# %%
of_marked = Aliases(marked)
of_marked.show(
    marked.metadata.refs, "main.snapshot-id", "deletekit-sink-arrivals.type", "deletekit-sink-arrivals.snapshot-id"
)

# %% [markdown]
# ## A bug that hides
#
# Where every change is an upsert, a batch that is applied twice does no harm: the second time it replaces what it has written itself. So a writer without markers may look right for a long time.
#
# Below is a stream of four batches. The writer died after a commit and has started again, and does not look which batch was the last. Step through it: in a live notebook by the controls, here and elsewhere by the argument `step`.

# %%
dk.widgets.StreamStepper(step=2, crash="after-commit", resumed=True, checkpoint_check=False)

# %% [markdown]
# **13.9** The crash may come in any of the four batches. After which of them is the table wrong? Answer with the set of their numbers.

# %% tags=["exercise"] exercise="13.9"
check("13.9", ...)


# %% tags=["solution"] exercise="13.9"
def rows_after(step, **crash):
    blocks = dk.widgets.StreamStepper(step=step, **crash).page["blocks"]
    (rows,) = [block for block in blocks if block["name"] == "rows"]
    return sum(line["mark"] == "live" for line in rows["lines"])


crash = {"crash": "after-commit", "resumed": True, "checkpoint_check": False}
check("13.9", {step for step in range(1, 5) if rows_after(step, **crash) != rows_after(step)})

# %% [markdown]
# ## From Spark
#
# Structured Streaming hands over micro-batches with a number. A query keeps its numbers, and its id, in its checkpoint folder, so `sink.foreach_batch` can tell a batch that comes again. Where Java is installed this cell runs a query of Spark; elsewhere the batches are given to the sink directly.

# %%
import pyarrow.parquet as pq


def stream_into(sink, batches):
    if here.spark is None:
        return [progress.status for progress in sink.run(batches)]
    folder = here.folder / "arrivals"
    folder.mkdir()
    for number, rows in enumerate(batches):
        pq.write_table(rows, folder / f"{number}.parquet")
    stream = here.spark.readStream.schema("id LONG").option("maxFilesPerTrigger", 1).parquet(str(folder))
    query = stream.writeStream.foreachBatch(sink.foreach_batch).trigger(availableNow=True)
    query.option("checkpointLocation", str(here.folder / "checkpoint")).start().awaitTermination()
    return [progress.status for progress in sink.recent_progress]


from_spark = here.table("from_spark", before)
with dk.stream.sink(from_spark, "micro-batches", equality_fields=["id"], change_type=None) as micro_batches:
    print(stream_into(micro_batches, arrivals), dk.scan(from_spark).count(), "rows")

# %% [markdown]
# ## Break it
#
# What if a batch comes again with other rows in it, because the source was changed meanwhile? To skip it would lose rows, and to apply it would bring others twice. The sink does neither, and says why.

# %%
try:
    inserts.write(pa.table({"id": pa.array([77], pa.int64())}), 0)
except dk.InvalidInputError as error:
    print(error.kind)
print("rows:", dk.scan(marked).count())

# %% [markdown]
# And what if the writer is not in upsert mode? Then a row that comes in is new by promise, and nothing is deleted before it. Let us take the promise away: `users` had the id 2 from the beginning, and a checkpoint says insert 2, delete 2.


# %%
def without_upsert(changes):
    place, written = {}, 0
    equality, positions = set(), set()
    for change, key in changes:
        if change == "+":
            if key in place:
                positions.add(place[key])
            place[key] = written
            written += 1
        elif key in place:
            positions.add(place.pop(key))
        else:
            equality.add(key)
    return {"equality": equality, "positions": positions}


written = without_upsert([("+", 2), ("-", 2)])
show([{"deletes": kind, "of": found} for kind, found in written.items()])

# %% [markdown]
# **13.10** The table had the ids 1, 2, 3 and 4 before this checkpoint. Which ids does a reader find after it?

# %% tags=["exercise"] exercise="13.10"
check("13.10", ...)

# %% tags=["solution"] exercise="13.10"
check("13.10", {1, 2, 3, 4} - written["equality"])

# %% [markdown]
# ## Key points
#
# - A streaming writer knows keys, not places. What it has written since the last checkpoint it deletes by position, everything else by value: [equality delete files](https://iceberg.apache.org/spec/#equality-delete-files).
# - Both kinds may be in one commit, because equality deletes compare sequence numbers by `<` and deletes by position by `<=`: [scan planning](https://iceberg.apache.org/spec/#scan-planning).
# - An index of the table turns keys into places at once; it is right for one snapshot, and has to follow every other one.
# - Equality deletes are best short-lived: convert them in place, or on the way from a branch to `main`: [deletion vectors](https://iceberg.apache.org/spec/#deletion-vectors), [branches and tags](https://iceberg.apache.org/spec/#snapshot-references).
# - Progress belongs in the commit itself, as in the summary of the [snapshot](https://iceberg.apache.org/spec/#snapshots); upserts hide the bug of a writer that keeps it elsewhere.
#
# Next: [14 · From Delta to Iceberg](14_delta_to_iceberg.ipynb)
