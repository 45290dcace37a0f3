# ---
# jupyter:
#   deletekit:
#     lesson: "16"
#     minutes: {teach: 10, exercise: 10}
#     needs: plain
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 16 · Exactly once
#
# **10 minutes to read and run, 10 for the exercises.** It builds on [13 · Streaming deletes](13_streaming_deletes.ipynb).
#
# A stream has two logs. The source notes which batches are done; the table has its snapshots. A batch is first committed to the table, and then noted. Between the two, the writer may die.
#
# You will be able to
#
# - find the crash that writes rows twice, and say where to keep progress
# - say what a sink does with a batch that comes again
# - explain why upserts hide a writer without markers

# %% [markdown]
# ## Predict
#
# Below, `run` is a loop that commits each batch and then notes it, and `append` writes a batch with a plain append. The table has three rows, and two batches of three rows each will come. The writer dies once, after it commits batch 0 and before it notes it. Then it is started again.
#
# **16.1** How many rows are in the table at the end?

# %% tags=["exercise"] exercise="16.1"
from deletekit.course import predict

predict("16.1", ...)

# %% tags=["solution"] exercise="16.1"
from deletekit.course import predict

predict("16.1", 12)

# %% [markdown]
# ## Run

# %%
import pyarrow as pa

import deletekit as dk
from deletekit.course import check, hint, lesson, show, solution

here = lesson("16")
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
check("16.1")

# %% [markdown]
# The other order, note first, then commit, is no better: the batch would be lost. You cannot write two logs at once, so one must contain what the other needs. The sink writes a *marker* into the summary of the snapshot: its name and the number of the batch. Then progress and rows are one commit, and cannot come apart.
#
# Here the same loop writes with a sink. `change_type=None` says that all rows are inserts, so they need no change type.

# %%
marked = here.table("marked", before)
inserts = dk.stream.sink(marked, "arrivals", on=["id"], change_type=None)


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
# **16.2** For which values of `step`, from 1 to 4, is the table wrong after the restart? Answer with a set.

# %% tags=["exercise"] exercise="16.2"
check("16.2", ...)


# %% tags=["solution"] exercise="16.2"
def rows_after(step, **crash):
    blocks = dk.widgets.StreamStepper(step=step, **crash).page["blocks"]
    (rows,) = [block for block in blocks if block["name"] == "rows"]
    return sum(line["mark"] == "live" for line in rows["lines"])


crash = {"crash": "after-commit", "resumed": True, "checkpoint_check": False}
check("16.2", {step for step in range(1, 5) if rows_after(step, **crash) != rows_after(step)})

# %% [markdown]
# ## Break it
#
# What if a batch comes again with other rows, because the source has changed meanwhile? If the sink skips it, the new rows are lost. If it applies it, the rows that are the same come twice. The sink does neither, and says why.

# %%
try:
    inserts.write(pa.table({"id": pa.array([77], pa.int64())}), 0)
except dk.InvalidInputError as error:
    print(error.kind)
print("rows:", dk.scan(marked).count())

# %% [markdown]
# ## Key points
#
# - Keep progress in the commit itself, for example in the summary of the [snapshot](https://iceberg.apache.org/spec/#snapshots). If a writer keeps it elsewhere, that is a bug, and upserts hide it.
# - A batch that comes again with other rows is refused: to skip it would lose the new rows, and to apply it would write the same ones twice.
#
# Next: [17 · What changed](17_what_changed.ipynb)

# %%
here.close()
