# ---
# jupyter:
#   deletekit:
#     lesson: "16"
#     minutes: {teach: 25, exercise: 25}
#     needs: plain
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 16 · What comes next
#
# **25 minutes to read and run, 25 for the exercises.** Before it: [07 · Roaring bitmaps](07_roaring_bitmaps.ipynb) and [09 · Commits and conflicts](09_commits_and_conflicts.ipynb).
#
# The Iceberg community is working on format version 4. It changes where deletion vectors are listed and how many files a commit writes, and it brings a bitmap of its own, for very small sets. **None of this is adopted.** This lesson is a laboratory on drafts, as they were in August 2026. No table is written in version 4, and everything here may still change.
#
# You will be able to
#
# - count the files that a small commit writes today, and in the drafts of version 4
# - read a Mumbling bitmap from its bytes
# - say what the entry of a data file holds when its vector is beside it
# - tell what the drafts make cheaper, and what they make more expensive
# - recognise a table of version 4, and know what deletekit does with it

# %% [markdown]
# ## Predict
#
# A table of format version 3 has 1000 data files, and none of their rows is deleted. One commit now deletes a single row with a deletion vector. It writes a metadata JSON, and a Puffin file with the vector. What else does it write?
#
# In the drafts of version 4 a *root manifest* replaces the manifest list. It lists manifests, and may also list data files itself. The drafts list a vector in the entry of its data file, not in a delete manifest.
#
# **16.1** How many files does the commit write in all, in version 3 and in the drafts? Answer with a dict with the keys `"v3"` and `"v4"`.

# %% tags=["exercise"] exercise="16.1"
from deletekit.course import predict

predict("16.1", {"v3": ..., "v4": ...})

# %% tags=["solution"] exercise="16.1"
from deletekit.course import predict

predict("16.1", {"v3": 4, "v4": 3})

# %% [markdown]
# ## Run
#
# A simulation writes the same commits as two trees of metadata. It stores nothing, it only counts. `V4Tree` follows the drafts, and where they are silent it has to assume something. You will see these assumptions below.

# %%
from deletekit.course import Aliases, check, hint, lesson, show, solution
from deletekit.course.v4.commits import ASSUMPTIONS, Append, Compact, Delete, V3Tree, V4Tree, simulate

commits = {
    "load": Append(1000),
    "append": Append(1),
    "delete": Delete(1, files=[7]),
    "again": Delete(1, files=[7]),
    "spread": Delete(1000, files=range(500)),
    "compact": Compact(files=range(10)),
}
written = dict(zip(commits, simulate(commits.values(), V3Tree(), V4Tree()), strict=True))
show([{"commit": name, "v3 files": v3.count, "v4 files": v4.count} for name, (v3, v4) in written.items()])

# %%
for tree, delete in zip(("v3", "v4"), written["delete"], strict=True):
    show({tree: delete.files})

# %%
check("16.1")

# %% [markdown]
# The new vector gets a delete manifest in version 3. A second delete from the same file has to write that manifest again, because the old vector leaves the table. In version 4 both are changes of one entry in the root manifest. That is why the proposal is known as *single-file commits*: one file of the tree is enough for a small commit.
#
# ## Look inside: a Mumbling bitmap
#
# The data file's old entry may be in another manifest, which is not written again. So the root manifest has to say which entries of that manifest no longer count. It needs a small bitmap for that, inside its own row. For such small sets there is the draft of a bitmap, called *Mumbling*. No source says yet that the root manifest uses it; that is our assumption.
#
# It has three parts: a header of six bytes, one *descriptor* for each container, and the containers. A container covers 256 positions. With up to 31 positions it is *sparse* and has one byte for each of them. With 32 or more it is *dense*: 256 bits, which are 32 bytes.
#
# **16.2** Write `container_bytes`. It gets a list that says how many positions each container has, and returns how many bytes all the containers take together.


# %% tags=["exercise"] exercise="16.2"
def container_bytes(counts): ...


check("16.2", container_bytes)


# %% tags=["solution"] exercise="16.2"
def container_bytes(counts):
    return sum(min(count, 32) for count in counts)


check("16.2", container_bytes)

# %% [markdown]
# Here is a bitmap with three sparse containers, one of them empty, and a dense one.

# %%
from deletekit.course.v4 import DRAFT
from deletekit.course.v4.mumbling import decode, encode, take_apart

print(DRAFT)
data = encode([0, 34, 255, 517, *range(776, 816)])
parts = take_apart(data)
show(
    [
        {"part": "format version", "hex": data[:1].hex(), "value": data[0]},
        {"part": "cardinality", "hex": data[1:4].hex(" "), "value": parts.cardinality},
        {"part": "containers", "hex": data[4:6].hex(" "), "value": len(parts.containers)},
        {"part": "descriptors", "hex": parts.encoded_descriptors.hex(" "), "value": str(list(parts.descriptors))},
        *(
            {"part": f"container {number}", "hex": container[:6].hex(" "), "value": f"{len(container)} bytes"}
            for number, container in enumerate(parts.containers)
        ),
    ]
)

# %% [markdown]
# The number of a container is not stored. It is the place of its descriptor, so an empty container needs a descriptor too. A Roaring bitmap does it the other way round: it stores a key for each container, and nothing at all for empty ones.
#
# In a dense container the first position is the **highest** bit of the first byte. A bitmap container of Roaring begins with the lowest bit.
#
# **16.3** A dense container begins with the bytes `00 40`. What is the first place that is set in it?

# %% tags=["exercise"] exercise="16.3"
check("16.3", ...)

# %% tags=["solution"] exercise="16.3"
check("16.3", 9)

# %% [markdown]
# The descriptors are packed, by a scheme called PFOR. A chunk has up to 256 values. Its first byte holds two bit widths: `b1` in the lower four bits, `b2` in the upper four. Then come `e`, the number of exceptions, and `m`, which was subtracted from every value. The values follow with `b1` bits each, the first one in the highest bits. Exceptions are the few values that need more bits: their places and their upper bits are stored at the end.
#
# **16.4** A chunk of three values has the bytes `02 00 06 18`. Which values are they? Answer with a list.

# %% tags=["exercise"] exercise="16.4"
check("16.4", ...)

# %% tags=["solution"] exercise="16.4"
check("16.4", [6, 7, 8])

# %% [markdown]
# That is an example from the draft itself. Here are all of its chunks, decoded and encoded again.

# %%
from deletekit.course.v4.examples import CHUNKS, CONTAINERS
from deletekit.course.v4.pfor import decode_bytes, encode_bytes

chunks = []
for stored, values in CHUNKS:
    decoded, _ = decode_bytes(bytes.fromhex(stored), len(values))
    again = encode_bytes(decoded).hex(" ").upper()
    chunks.append({"bytes": stored, "count": len(decoded), "first values": list(decoded[:8]), "encoded again": again})
show(chunks)

# %% [markdown]
# And here are its containers. A descriptor of 32 stands for a dense one. The draft's own list of 31 positions runs from 0 to 31, which is one too many. Drafts have such mistakes, and somebody who tries the examples finds them.

# %%
from deletekit.course.v4.mumbling import decode_container, encode_container

containers = []
for descriptor, stored, places in CONTAINERS:
    decoded = decode_container(descriptor, stored)
    same = list(decoded) == list(places) and encode_container(decoded) == stored
    row = {"descriptor": descriptor, "first bytes": stored[:6].hex(" "), "first places": list(decoded[:6])}
    containers.append({**row, "positions": len(decoded), "the same both ways": same})
show(containers)

# %% [markdown]
# ## Which one is smaller?
#
# We compare it with Roaring bitmaps, as deletion vectors have them today. There are four sets: `"few"` has the positions 0, 34 and 255; `"block"` the first 10,000 rows; `"scattered"` every hundredth row of a million; and `"far"` only the position 2,000,000.
#
# **16.5** Which bitmap takes fewer bytes for each set? Answer with a dict whose values are `"mumbling"` or `"roaring"`.

# %% tags=["exercise"] exercise="16.5"
predict("16.5", {"few": ..., "block": ..., "scattered": ..., "far": ...})

# %% tags=["solution"] exercise="16.5"
predict("16.5", {"few": "mumbling", "block": "roaring", "scattered": "mumbling", "far": "roaring"})

# %%
from pyroaring import BitMap


def roaring(positions):
    bitmap = BitMap(positions)
    bitmap.run_optimize()
    return len(bitmap.serialize())


sets = {"few": [0, 34, 255], "block": range(10_000), "scattered": range(0, 1_000_000, 100), "far": [2_000_000]}
show([{"set": name, "mumbling": len(encode(s)), "roaring": roaring(s)} for name, s in sets.items()])

# %%
check("16.5")

# %% [markdown]
# A position costs one byte instead of two, and there is hardly any header. On the other hand there are no runs, and whatever lies before a far position has to be described. Also, a Mumbling bitmap ends at position 2,097,151. So it suits a list of dead entries in a manifest. The draft does not say that it replaces Roaring for the rows of a data file; there the blob of version 3 stays as it is.
#
# ## A vector beside its data file's entry
#
# This is a table of version 3 with two data files, one of them with a vector. A reader has to put two entries of two manifests together.

# %%
import deletekit as dk

here = lesson("16")
rows = dk.datasets.animals()
animals = here.table("animals", rows.slice(0, 2), rows.slice(2), format_version=3)
dk.delete(animals, "id = 2", mode="deletion-vector")
names = Aliases(animals)
found = []
for task in dk.scan(animals).plan():
    for entry in (task.data, *task.deletes):
        file = entry.data_file
        of = names.of(file.referenced_data_file) if file.content else None
        found.append({"entry": names.of(file), "content": file.content.name, "records": file.record_count, "of": of})
show(found)

# %% [markdown]
# In the draft it is one entry. Each data file has at most one vector, so there is room for exactly one.

# %%
from pathlib import Path

from deletekit.course.v4.entries import entries_of, with_vector

entries = {names.of(Path(e.location).name): e for e in entries_of(animals)}
found = []
for name, entry in sorted(entries.items()):
    vector = entry.deletion_vector
    row = {"entry": name, "content_type": entry.content_type.name, "record_count": entry.record_count}
    found.append({**row, "deletion_vector": vector and {"offset": vector.offset, "cardinality": vector.cardinality}})
show(found)

# %% [markdown]
# An entry that changes appears twice in the snapshot of the change, so that a reader of changes can see both states. Beside `EXISTING`, `ADDED` and `DELETED` there are two new statuses for this: `REPLACED` and `MODIFIED`.
#
# **16.6** The data file `D2` gets its first vector. Which status has its entry without the vector, and which has the one with it? Answer with a dict with the keys `"without"` and `"with"`.

# %% tags=["exercise"] exercise="16.6"
predict("16.6", {"without": ..., "with": ...})

# %% tags=["solution"] exercise="16.6"
predict("16.6", {"without": "REPLACED", "with": "MODIFIED"})

# %%
for state in with_vector(entries["D2"], entries["D1"].deletion_vector, snapshot_id=4):
    status = state.tracking.status
    show({"status": status.name, "live": status.is_live, "vector": state.deletion_vector is not None})

# %%
check("16.6")

# %% [markdown]
# ## What it costs
#
# Fewer files are not always fewer bytes. Think of what a delete has to write. In version 3 the new vector gets a small entry of its own. In the draft the entry of the data file is written again, with all its column bounds.
#
# **16.7** Look at the commits `"append"`, `"delete"`, `"again"`, `"spread"` and `"compact"` above. For which of them does the draft write **more** bytes? Answer with a set of their names, such as `{"load"}`.

# %% tags=["exercise"] exercise="16.7"
predict("16.7", ...)

# %% tags=["solution"] exercise="16.7"
predict("16.7", {"delete", "again", "spread"})

# %%
show(
    [
        {"commit": name, "v3 bytes": v3.bytes, "v4 bytes": v4.bytes, "v3 reads": v3.read, "v4 reads": v4.read}
        for name, (v3, v4) in written.items()
    ]
)

# %%
check("16.7")

# %% [markdown]
# The last two columns say how many files of the tree a reader opens afterwards. The compaction is the best case: version 3 writes the manifest of a thousand entries again, and the draft marks ten of them in a bitmap of a few bytes. The delete that is spread over 500 files is the worst case. That is why the community also discusses *column files*. They would replace one column of a manifest, such as the one for vectors. The simulation has none.
#
# The first version of Java's code has no marks for dead entries either. It writes a manifest again when one of its entries changes. The same commits then take this:

# %%
first = simulate(commits.values(), V4Tree(most_in_root=0, marks_dead=False))
show([{"commit": name, "files": w.count, "bytes": w.bytes} for name, (w,) in zip(commits, first, strict=True)])

# %% [markdown]
# And here is what all these numbers rest on. "Ours" means that no source says it.

# %%
show([{"source": source, "assumption": about} for about, source in ASSUMPTIONS])

# %% [markdown]
# ## Break it
#
# The bitmap has no checksum. A reader can only check what the bytes say of each other. We damage one in several ways, and print what the reader finds: a number of positions, or the field that it refuses.

# %%
from deletekit import FormatError


def found(damaged):
    try:
        return f"{len(decode(damaged))} positions"
    except FormatError as error:
        return error.field


small = encode([5, 9, 300])
rows = [{"bytes": small.hex(" "), "a reader finds": found(small)}]
for place, value in ((0, 2), (1, 4), (5, 1), (6, 9), (-3, 10), (-1, 45)):
    damaged = bytearray(small)
    damaged[place] = value
    rows.append({"bytes": damaged.hex(" "), "a reader finds": found(bytes(damaged))})
show(rows)

# %% [markdown]
# The last damage is not found: position 300 became 301, and nothing contradicts it. The vectors of version 3 have a CRC, this draft has none. It relies on the file around it.
#
# Now a table that says it is of version 4. We take the metadata of our table and change one number.

# %%
import json
import tempfile

metadata = json.loads(Path(animals.metadata_location).read_text())
with tempfile.TemporaryDirectory() as folder:
    tomorrow = Path(folder) / "v1.metadata.json"
    tomorrow.write_text(json.dumps({**metadata, "format-version": 4}))
    try:
        dk.from_metadata(tomorrow)
    except dk.UnsupportedError as error:
        show({"message": error.message, "field": error.field, "found": error.found, "expected": error.expected})

# %% [markdown]
# deletekit refuses it before it reads anything else. If it read such a table by the rules of version 3, it would look for the vectors in delete manifests. It would find none, and every deleted row would be back.
#
# ## Key points
#
# - Version 4 is under development and not adopted. Do not use it for tables that you need: [version 4](https://iceberg.apache.org/spec/#version-4-metadata-structure-and-representation).
# - Today a manifest list names data manifests and delete manifests; a small delete writes four or five files: [manifest lists](https://iceberg.apache.org/spec/#manifest-lists).
# - In the drafts a root manifest takes its place, and a vector is part of its data file's entry. The blob stays the same: [deletion-vector-v1](https://iceberg.apache.org/puffin-spec/#deletion-vector-v1-blob-type).
# - A Mumbling bitmap has containers of 256 positions, without keys and without runs: [the draft](https://github.com/apache/iceberg/blob/main/format/mumbling-spec.md).
# - Fewer files are not fewer bytes: an entry that changes is written again with its [column bounds](https://iceberg.apache.org/spec/#content-stats).
# - A reader that does not know a format version must refuse it, or deleted rows come back.
#
# Next: [17 · What changed](17_what_changed.ipynb)

# %%
here.close(...)
