# ---
# jupyter:
#   deletekit:
#     lesson: "00"
#     minutes: {teach: 10, exercise: 5}
#     needs: plain
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 00 · Start here
#
# **10 minutes to read and run, 5 for the exercises.** All you need is this notebook.
#
# This course answers one question: how can a table lose a row if its files never change? You will see every answer that Apache Iceberg has, from the metadata down to the bytes, in tables that you build yourself.
#
# You will be able to
#
# - run a lesson and know that your machine is ready for it
# - answer an exercise, take a hint, and look at the solution
# - say what a delete does not touch
#
# Run the cells with Shift+Enter, from top to bottom. To start again, choose *Restart kernel and run all cells*. Every lesson builds its tables again, in its own folder, which is removed when the kernel ends.

# %% [markdown]
# ## Is everything here?
#
# `doctor` checks this machine. For each missing part it gives the command that installs it, and says what works without it.

# %% tags=["nbval-ignore-output"]
from deletekit.course import doctor

doctor()

# %% [markdown]
# ## A first table
#
# A lesson begins with `lesson(...)`, which opens an empty catalog for you: a list of tables, each by its name. If Java is installed and the machine has enough memory, PySpark builds the tables. If not, deletekit builds them. Every cell and every output is the same.
#
# `users` is the table of the first lessons. It has four rows, and no column is ever null.

# %%
import deletekit as dk
from deletekit.course import Aliases, check, hint, lesson, predict, progress, show, solution

here = lesson("00")
users = here.table("users", dk.datasets.users())

show(dk.scan(users).to_arrow())

# %% [markdown]
# ## Predict, then run
#
# Before something happens, say what you expect. Write your answer in place of `...` and run the cell. Your answer is saved but not judged yet. You learn most from a wrong prediction.
#
# **00.1** We will now delete the rows where `id in (1, 3)` is true. How many rows will a reader, a program that reads the table, find after that?

# %% tags=["exercise"] exercise="00.1"
predict("00.1", ...)

# %% tags=["solution"] exercise="00.1"
predict("00.1", 2)

# %% [markdown]
# Now run it.

# %%
dk.delete(users, "id in (1, 3)", mode="position-delete")

show(dk.scan(users).to_arrow())

# %% [markdown]
# `check` without an answer judges your prediction. An exercise without an answer is never an error, so you can always run a whole notebook at once.

# %%
check("00.1")

# %% [markdown]
# ## Exercises
#
# The answer to an exercise is a value: a number, a set, a list, sometimes a function. You choose how to find it.
#
# **00.2** Which ids are left? Answer with a set, such as `{1, 2}`.

# %% tags=["exercise"] exercise="00.2"
check("00.2", ...)

# %% tags=["solution"] exercise="00.2"
check("00.2", set(dk.scan(users).to_arrow()["id"].to_pylist()))

# %% [markdown]
# Checks know the usual mistakes. Here is a wrong answer, given on purpose. Read the reply.

# %% tags=["wrong-on-purpose"]
check("00.2", {1, 3})

# %% [markdown]
# Stuck? `hint` gives one step at a time, from a small clue to almost the whole answer. `solution` prints the code that answers the exercise, and says why it is right.

# %%
hint("00.2")

# %% [markdown]
# ## Look inside
#
# Every commit, such as this delete, makes a snapshot: the state of the table after it. Files and snapshots have long random names. The lessons use short ones: `D1` is the first data file, `P1` the first position delete file, `E1` an equality delete file, `V1` a deletion vector, `S1` the first snapshot; `L1` and `M1` are files that list other files. `names.path("D1")` is the real path. Any tool can open it, here pyarrow, which knows nothing of Iceberg.

# %%
import pyarrow.parquet as pq

names = Aliases(users)
print(list(names))
show(pq.read_table(names.path("D1"), columns=["id", "name"], partitioning=None))

# %% [markdown]
# **00.3** How many rows does the data file `D1` hold after the delete?

# %% tags=["exercise"] exercise="00.3"
check("00.3", ...)

# %% tags=["solution"] exercise="00.3"
check("00.3", pq.read_metadata(names.path("D1")).num_rows)

# %% [markdown]
# The delete wrote `P1`, a small file that says which rows of `D1` no longer count. `explain` finds every version of a row and says why it is live or hidden. `1 <= 2` compares sequence numbers, one for each commit: the delete is not older.

# %%
names.show(dk.explain(users, "id in (1, 2)", columns=["id", "name"]))

# %% [markdown]
# `RowFate` shows the same for a whole data file. It is a widget: choose a row with the mouse or the arrow keys, and it says which delete hides that row, and why. Where you cannot click, for example on GitHub, a widget is a table.

# %%
dk.widgets.RowFate(users, row=0)

# %% [markdown]
# ## Break it
#
# What happens if a reader does not read `P1`? A reader that does not know delete files brings the deleted rows back. This is the worst bug a reader can have, because nothing looks wrong. Many lessons end with a part like this: it removes a rule, and you see why the rule is needed.

# %%
without_deletes = pq.read_table(names.path("D1"), columns=["id"], partitioning=None)["id"].to_pylist()
with_deletes = dk.scan(users).to_arrow()["id"].to_pylist()
print("deleted rows that would be back:", sorted(set(without_deletes) - set(with_deletes)))

# %% [markdown]
# ## The lessons of the course
#
# | lesson | what it is about |
# |---|---|
# | 00 | start here |
# | [01](01_table_anatomy.ipynb) | table metadata, manifest list, manifest, data file |
# | [02](02_copy_on_write.ipynb) | copy-on-write, and which mode to choose |
# | [04](04_equality_deletes.ipynb) | equality deletes |
# | [05](05_position_deletes_v2.ipynb) | position deletes of format version 2 |
# | [06](06_deletion_vectors.ipynb) | deletion vectors of format version 3 |
# | [07](07_roaring_bitmaps.ipynb) | Roaring bitmaps, the bytes inside a vector |
# | [08](08_readers.ipynb) | how a reader combines data files and deletes |
# | [09](09_commits_and_conflicts.ipynb) | commits, races and conflicts |
# | [11](11_compaction.ipynb) | compaction and erasure |
# | [12](12_engines_lab.ipynb) | one table and its engines |
# | [13](13_streaming_deletes.ipynb) | deletes in streams |
# | [14](14_delta_to_iceberg.ipynb) | from Delta to Iceberg |
# | [15](15_capstone.ipynb) | an incident to solve |
# | [16](16_exactly_once.ipynb) | streams and crashes: every row exactly once |
# | [17](17_what_changed.ipynb) | time travel, and which rows changed between two snapshots |
#
# `progress()` shows how far you are. Your progress is kept in a small file next to the notebooks, one for all languages. The lessons exist in English, Korean, Japanese, Chinese and Spanish. Open the folder of your language, or set the variable `DELETEKIT_LANG`.
#
# You may run every cell again. If a cell changes a table of an earlier cell, it begins with `here.rewind(...)`, which first sets the table back. The last cell of a lesson is `here.close()`: it frees the memory of Spark.

# %% [markdown]
# ## Key points
#
# - A data file never changes. A delete writes a new file, or it writes another file that says which rows no longer count.
# - A reader must apply every delete of the snapshot that it reads; see [row-level deletes](https://iceberg.apache.org/spec/#row-level-deletes) in the specification.
#
# Next: [01 · The anatomy of a table](01_table_anatomy.ipynb)

# %%
here.close()
