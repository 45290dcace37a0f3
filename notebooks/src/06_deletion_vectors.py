# ---
# jupyter:
#   deletekit:
#     lesson: "06"
#     minutes: {teach: 20, exercise: 20}
#     needs: plain
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 06 · Deletion vectors
#
# **20 minutes to read and run, 20 for the exercises.** Before it: [05 · Position deletes of format version 2](05_position_deletes_v2.ipynb).
#
# A deletion vector (DV) is the set of deleted row positions of one data file, stored as a compressed bitmap in a Puffin file. It is new in format version 3, and it replaces the position delete files of version 2. Puffin is Iceberg's file format for pieces of bytes, called blobs.
#
# You will be able to
#
# - explain every byte of a deletion vector, and read it with only `struct` and a Roaring library
# - say where a reader finds the vector of a data file, and why it does not have to search
# - predict what a second delete and older delete files do to the vector
# - name the check that finds each kind of damage

# %% [markdown]
# ## Predict
#
# The table is `users`, with format version 3. One data file has ids 1, 2, 3 and 4, in this order. The table asks for merge-on-read, so a delete does not rewrite the data file.
#
# **06.1** We delete ids 1 and 3. Which positions will the vector hold? Answer with a set.

# %% tags=["exercise"] exercise="06.1"
from deletekit.course import predict

predict("06.1", ...)

# %% tags=["solution"] exercise="06.1"
from deletekit.course import predict

predict("06.1", {0, 2})

# %% [markdown]
# ## Run

# %%
import deletekit as dk
from deletekit.course import Aliases, check, drawings, hint, lesson, show, solution

here = lesson("06")
users = here.table("users", dk.datasets.users(), format_version=3, properties={"write.delete.mode": "merge-on-read"})
dk.delete(users, "id in (1, 3)")

show(dk.scan(users).to_arrow())

# %% [markdown]
# The summary of the new snapshot counts one delete file, one DV and two deleted positions. A deletion vector counts as a delete file, and its positions as position deletes.

# %%
names = Aliases(users)
summary = users.current_snapshot.summary
for counter in ("added-delete-files", "added-dvs", "added-position-deletes"):
    print(f"{counter}: {summary[counter]}")
print("operation:", users.current_snapshot.operation)

# %% [markdown]
# ## Look inside: the manifest entry
#
# The manifest list of the snapshot has two manifests: the unchanged data manifest of the append, and a new delete manifest (`content` 1 in the list). The new one has one entry, with everything that a reader needs: the Puffin file, the offset and size of the blob in it, and the data file that the vector is about.

# %%
inside = dk.inspect(users, deletes=True)
names.show(inside["manifest-list"], "content", "manifest_path", "added_rows_count")

# %%
(entry,) = inside["manifests"][1]["entries"]
names.show(
    entry,
    "status",
    "snapshot_id",
    "sequence_number",
    "data_file.content",
    "data_file.file_format",
    "data_file.file_path",
    "data_file.referenced_data_file",
    "data_file.content_offset",
    "data_file.content_size_in_bytes",
    "data_file.record_count",
)

# %% [markdown]
# Both snapshots in one drawing:

# %%
drawings.file_tree(users)

# %% [markdown]
# `content` is 1, position deletes. For the manifest, a deletion vector is a position delete in another format. `file_format` tells them apart.
#
# A vector has a sequence number, like every delete, and a reader checks it. A vector applies to its data file if the file's number is **less than or equal to** the vector's. For equality deletes the rule is "less than".
#
# ## Look inside: the bytes
#
# `content_offset` is 4 and `content_size_in_bytes` is 44. Let us look at these 44 bytes.

# %%
from pathlib import Path

vector = names.file("V1")
puffin = Path(names.path("V1")).read_bytes()
blob = puffin[vector.content_offset : vector.content_offset + vector.content_size_in_bytes]
print(blob.hex(" ", 4))

# %% [markdown]
# **06.2** The blob begins at offset 4. What is in the four bytes before it? Answer with the text that they spell.

# %% tags=["exercise"] exercise="06.2"
check("06.2", ...)

# %% tags=["solution"] exercise="06.2"
check("06.2", puffin[:4].decode())

# %% [markdown]
# Now field by field. The magic is a fixed sign of the format, and the CRC is a checksum. The blob uses two byte orders: the frame around the vector is big-endian, the vector itself little-endian.

# %%
import struct
import zlib

(length,) = struct.unpack(">I", blob[:4])
magic = blob[4:8]
count, key = struct.unpack("<qI", blob[8:20])
(stored_crc,) = struct.unpack(">I", blob[-4:])

show(
    [
        {"bytes": "0-3", "field": "length of magic + vector", "value": length},
        {"bytes": "4-7", "field": "magic", "value": magic.hex(" ")},
        {"bytes": "8-15", "field": "number of bitmaps", "value": count},
        {"bytes": "16-19", "field": "key of the first bitmap", "value": key},
        {"bytes": "20-39", "field": "32-bit Roaring bitmap", "value": blob[20:40].hex(" ")},
        {"bytes": "40-43", "field": "CRC-32 of magic + vector", "value": f"{stored_crc:08x}"},
    ]
)
assert stored_crc == zlib.crc32(blob[4:-4])

# %% [markdown]
# `BitmapBytes` shows every byte of the Puffin file and, above them, the positions as a map. Choose a position, add it or remove it, and see which bytes change. The file on the disk does not change.

# %%
dk.widgets.BitmapBytes(users)

# %%
check("06.1")

# %% [markdown]
# **06.3** Write a reader. It gets the bytes of a blob and returns the set of positions. Positions have 64 bits: a vector has one 32-bit bitmap for each upper half, which is called the key. The check uses vectors with one key and with several.

# %% tags=["exercise"] exercise="06.3"
from pyroaring import BitMap64


def positions_of(blob): ...


check("06.3", positions_of)

# %% tags=["solution"] exercise="06.3"
from pyroaring import BitMap64


def positions_of(blob):
    return set(BitMap64.deserialize(blob[8:-4]))


check("06.3", positions_of)

# %% [markdown]
# ## How a reader uses it
#
# The column `_pos` is the position of a row, `_deleted` marks live and deleted rows side by side, and `explain` says which rule hid a row.

# %%
show(dk.scan(users, columns=["id", "_pos", "_deleted"]).to_arrow())
names.show(dk.explain(users, "id in (1, 2)", columns=["id", "name"]))

# %%
dk.widgets.RowFate(users, row=0)

# %% [markdown]
# ## A second delete
#
# In a snapshot, a data file has at most one live vector. **06.4** Which positions will be in the vector after we delete id 4 too? Answer with a set.

# %% tags=["exercise"] exercise="06.4"
predict("06.4", ...)

# %% tags=["solution"] exercise="06.4"
predict("06.4", {0, 2, 3})

# %%
here.rewind("second delete", users)
again = dk.delete(users, "id = 4")
for counter in ("added-dvs", "removed-dvs", "added-position-deletes", "removed-position-deletes"):
    print(f"{counter}: {again.summary[counter]}")
names.show(names.deletes(), "name", "kind", "positions")

# %%
check("06.4")

# %% [markdown]
# ## Positions 100, 150 and 200
#
# This file is bigger: 300 rows. Whatever the rows hold, the vector is only three numbers.

# %%
import pyarrow as pa

people = pa.table(
    {
        "id": pa.array([123 if i == 150 else 1000 + i for i in range(300)], pa.int64()),
        "name": ["Alice" if i == 150 else f"name-{i}" for i in range(300)],
    }
)
table = here.table("people", people, format_version=3)
dk.delete(table, "id in (1100, 123, 1200)", mode="deletion-vector")
of_table = Aliases(table)
of_table.show(of_table.deletes(), "name", "data_file.record_count", "data_file.referenced_data_file", "positions")
print("rows left:", dk.scan(table).count())

# %% [markdown]
# ## Older position deletes
#
# A table upgraded from version 2 may still have position delete files. They stay valid, but no new ones are allowed. The next delete merges their positions into the vector of each data file that it touches.

# %%
upgraded = here.table("upgraded", people)
dk.delete(upgraded, "id = 1100", mode="position-delete")
dk.upgrade_format_version(upgraded, 3)
dk.delete(upgraded, "id = 1200", mode="merge-on-read")

of_upgraded = Aliases(upgraded)
of_upgraded.show(of_upgraded.deletes(), "name", "kind", "positions")

# %% [markdown]
# The vector holds 100 and 200, and the position delete file has left the table.
#
# **06.6** Another writer forgets this rule. It adds a vector that holds only {200}, and leaves the position delete file with 100 in the table. Which positions does a reader hide? Answer with a set.

# %% tags=["exercise"] exercise="06.6"
check("06.6", ...)

# %% tags=["solution"] exercise="06.6"
check("06.6", {200})

# %% [markdown]
# Equality deletes are different. They are never merged into a vector, and still hide rows next to it.

# %%
here.rewind("equality delete", upgraded)
dk.delete(upgraded, "name = 'name-7'", mode="equality-delete")
of_upgraded.show(dk.explain(upgraded, "id in (1007, 1200)"))

# %% [markdown]
# ## Break it
#
# A damaged vector must not lead to a wrong answer. Let us damage copies of our 44 bytes and give them to the decoder. It also gets the number of positions that the manifest promises.

# %%
from deletekit import FormatError
from deletekit.formats.deletion_vector import decode_blob


def kind_of(damaged, record_count=2):
    try:
        decode_blob(damaged, cardinality=record_count)
    except FormatError as error:
        return error.kind
    return "nothing found"


def flipped(at):
    return blob[:at] + bytes([blob[at] ^ 1]) + blob[at + 1 :]


print("no damage:", kind_of(blob))
print("the last byte is missing:", kind_of(blob[:-1]))
print("record_count says 3:", kind_of(blob, record_count=3))

# %% [markdown]
# `flipped` flips one bit of the byte at an offset. Here it damages the length, the magic, the bitmap and the CRC.

# %%
for part, at in (("length", 3), ("magic", 4), ("bitmap", 36), ("CRC", 43)):
    print(f"a bit of the {part}:", kind_of(flipped(at)))

# %% [markdown]
# ## Key points
#
# - A deletion vector is the set of positions deleted from one data file: a `deletion-vector-v1` blob in a [Puffin file](https://iceberg.apache.org/puffin-spec/#deletion-vector-v1-blob-type).
# - Its manifest entry has `content` 1, `file_format` Puffin, `referenced_data_file`, `content_offset` and `content_size_in_bytes`. A reader goes straight to the bytes.
# - A data file has at most one live vector. A new one includes the old one and replaces it in the same commit: [deletion vectors](https://iceberg.apache.org/spec/#deletion-vectors).
# - It applies if its sequence number is not less than the data file's. It replaces position delete files, but not equality deletes: [scan planning](https://iceberg.apache.org/spec/#scan-planning).
#
# Next: [07 · Roaring bitmaps](07_roaring_bitmaps.ipynb)

# %%
here.close()
