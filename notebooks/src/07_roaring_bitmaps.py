# ---
# jupyter:
#   deletekit:
#     lesson: "07"
#     minutes: {teach: 20, exercise: 15}
#     needs: plain
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 07 · Roaring bitmaps
#
# **20 minutes to read and run, 15 for the exercises.** Before it: [06 · Deletion vectors](06_deletion_vectors.ipynb).
#
# A deletion vector contains a Roaring bitmap, which stores a set of numbers in few bytes. Its size depends less on how many rows are deleted than on how they lie in the file. You will take such bitmaps apart: small ones first, then those of 336,776 real flights.
#
# You will be able to
#
# - split a row position into the parts that a bitmap uses
# - predict which of three kinds of container a set gets, and how many bytes it takes
# - say what a second delete does to the size of a vector

# %% [markdown]
# ## Predict
#
# A data file has a million rows. There are four sets of deleted rows: `"first"`, the first 10,000; `"scattered"`, every hundredth row, also 10,000 rows; `"half"`, every second row; and `"most"`, all rows except every hundredth.
#
# **07.1** Which of their bitmaps takes the fewest bytes? Answer with a list of the four names, the smallest first.

# %% tags=["exercise"] exercise="07.1"
from deletekit.course import predict

predict("07.1", ...)

# %% tags=["solution"] exercise="07.1"
from deletekit.course import predict

predict("07.1", ["first", "scattered", "most", "half"])

# %% [markdown]
# ## Run
#
# `pyroaring` makes such bitmaps; it knows nothing of Iceberg. Writers of deletion vectors call `run_optimize` before they store a bitmap.

# %%
from pyroaring import BitMap

import deletekit as dk
from deletekit.course import check, drawings, hint, lesson, show, solution


def stored(positions):
    bitmap = BitMap(positions)
    bitmap.run_optimize()
    return bitmap.serialize()


sets = {"first": BitMap(range(10_000)), "scattered": BitMap(range(0, 1_000_000, 100))}
sets["half"] = BitMap(range(0, 1_000_000, 2))
sets["most"] = BitMap(range(1_000_000)) - sets["scattered"]
show([{"set": name, "positions": len(s), "bytes of the bitmap": len(stored(s))} for name, s in sets.items()])

# %%
check("07.1")

# %% [markdown]
# Two sets have 10,000 rows each: one takes 15 bytes, the other 20,136. And 990,000 rows take fewer bytes than 500,000. To see why, let us open them.
#
# ## Look inside: where a position goes
#
# A row position has 64 bits. The upper 32 are the *key* of a 32-bit bitmap. The key is always 0, unless the file has more than four billion rows. Of the lower 32 bits, the upper 16 choose the *container*, and the container stores only the lower 16. So a container covers 65,536 consecutive rows.
#
# **07.2** Write `split`. It gets a position, and returns its key, its container and the 16 bits that are stored, as a tuple of three numbers.


# %% tags=["exercise"] exercise="07.2"
def split(position): ...


check("07.2", split)


# %% tags=["solution"] exercise="07.2"
def split(position):
    return position >> 32, position >> 16 & 0xFFFF, position & 0xFFFF


check("07.2", split)

# %% [markdown]
# Here is a vector with two positions. They are so far apart that they are in two bitmaps. It is a whole blob as in lesson 06, with length, magic and CRC around it.

# %%
from deletekit.formats.deletion_vector import PositionBitmap, encode_blob

far_apart = encode_blob(PositionBitmap([7, 2**32 + 65_536 + 5]))
dk.widgets.BitmapBytes(far_apart)

# %% [markdown]
# Each bitmap begins with a cookie, which says which of two layouts follows. Then come the number of containers, the number and the cardinality **minus one** of each container, and the offsets. The containers are last. Each of the two here holds one number of two bytes: 7 and 5.
#
# ## Three kinds of container
#
# A container holds between one and 65,536 numbers of 16 bits. It is stored in the form that takes the fewest bytes.
#
# | kind | what is stored | bytes |
# |---|---|---|
# | array | the numbers themselves, sorted | 2 for each number |
# | bitmap, also called bitset | one bit for each of the 65,536 | 8192 |
# | run | the number of runs, then for each its first number and its length minus one | 2, and 4 for each run |

# %%
five = {
    "a": range(100),
    "b": range(0, 1000, 100),
    "c": range(0, 65_536, 10),
    "d": [5],
    "e": [n for n in range(65_536) if n != 30_000],
}

# %% [markdown]
# `containers` reads the header of a bitmap. Each line of the output is a container: where its bytes begin, and how many they are.

# %%
from deletekit.formats.roaring import containers


def containers_of(bitmap):
    found = containers(bitmap)
    return [
        {"container": c.key, "kind": c.kind, "positions": c.cardinality, "at": c.offset, "bytes": c.length}
        for c in found
    ]


show([{"set": name, **containers_of(stored(numbers))[0]} for name, numbers in five.items()])

# %% [markdown]
# The drawing has the set `e` in all three kinds of container.

# %%
drawings.roaring_container(five["e"])

# %% [markdown]
# No byte says "array" or "bitmap": up to 4096 numbers it is an array, with more it is a bitmap. Flags mark runs.

# %% [markdown]
# **07.5** Write the rule. Your function gets the count of numbers in a container, and the count of runs that they form. It returns `"array"`, `"bitmap"` or `"run"`. If a run container saves nothing, it is not used.


# %% tags=["exercise"] exercise="07.5"
def kind_of(numbers, runs): ...


check("07.5", kind_of)


# %% tags=["solution"] exercise="07.5"
def kind_of(numbers, runs):
    kind, size = ("array", 2 * numbers) if numbers <= 4096 else ("bitmap", 8192)
    return "run" if 2 + 4 * runs < size else kind


check("07.5", kind_of)

# %% [markdown]
# Now the four sets from the beginning. The last container covers fewer rows than the others, because the file ends in it.

# %%
for name, positions in sets.items():
    print(name)
    show(containers_of(stored(positions))[-2:])

# %% [markdown]
# ## A second delete
#
# A new vector is the union of the old one and the new positions. The old one holds every even position below 6000, and the second delete adds the odd ones. Each of the two containers takes 6000 bytes.

# %%
even, odd = BitMap(range(0, 6000, 2)), BitMap(range(1, 6000, 2))
show(
    [{"set": name, **containers_of(stored(s))[0]} for name, s in (("even", even), ("odd", odd), ("union", even | odd))]
)

# %% [markdown]
# So a vector can shrink when you delete more rows.
#
# ## Real flights
#
# One data file holds the 336,776 flights that left New York City in 2013. We delete the cancelled flights, those of January, and those of one airline. Each delete has its own branch.

# %%
from pathlib import Path

here = lesson("07")
columns = ["flight_id", "month", "carrier", "dep_time"]
flights = here.table("flights", dk.datasets.flights().select(columns), format_version=3)

vectors = {}
for name, where in (("cancelled", "dep_time is null"), ("january", "month = 1"), ("united", "carrier = 'UA'")):
    dk.create_branch(flights, name)
    (file,) = dk.delete(flights, where, mode="deletion-vector", ref=name).added_delete_files
    puffin = Path(file.file_path).read_bytes()
    vectors[name] = puffin[file.content_offset :][: file.content_size_in_bytes]
    print(f"{name}: {file.record_count:,} rows, {len(vectors[name]):,} bytes of the blob")

# %%
for name, blob in vectors.items():
    print(name)
    show(containers_of(blob[20:-4]))

# %% [markdown]
# The flights of January take 39 bytes: they are consecutive, in a single run. Those of the airline are everywhere, so all its containers but the last are bitmaps. The last one covers 9,096 rows, and 1,563 numbers of two bytes each are less than 8192.

# %% [markdown]
# What if the file were not sorted? We give the same rows other places, as if somebody had shuffled them.

# %%
cancelled = BitMap.deserialize(vectors["cancelled"][20:-4])
shuffled = BitMap([position * 100_003 % 336_776 for position in cancelled])
show(
    [
        {"file": name, "rows": len(s), "bytes": len(stored(s))}
        for name, s in (("sorted", cancelled), ("shuffled", shuffled))
    ]
)
show(containers_of(stored(shuffled))[:2])

# %% [markdown]
# The same rows take eleven times as many bytes. A partition or a sort order can keep together the rows that you will delete together. Then the deletion vectors are small too.
#
# ## Break it
#
# The CRC proves that the bytes are the ones the writer wrote. It does not prove that the writer was right. Let us be a writer with a mistake: length, magic and CRC are correct, and so is the cardinality.

# %%
import struct
import zlib

from deletekit import FormatError
from deletekit.formats.deletion_vector import decode_blob


def found(body):
    blob = struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    try:
        return sorted(decode_blob(blob, cardinality=2))
    except FormatError as error:
        return error.kind


# %% [markdown]
# `body` is the magic and the vector. `found` adds a right length and a right CRC, and gives the blob to deletekit's reader.

# %%
body = encode_blob(PositionBitmap([0, 2]))[4:-4]
print("a right vector:", found(body))
print("an array out of order:", found(body[:-4] + struct.pack("<HH", 2, 0)))
print("a number twice:", found(body[:-4] + struct.pack("<HH", 2, 2)))
print("bytes after the end:", found(body + b"\0"))

# %% [markdown]
# A reader without checks searches the array as if it were sorted:

# %%
from bisect import bisect_left


def trusting(array, number):
    at = bisect_left(array, number)
    return at < len(array) and array[at] == number


print("0 in [0, 2]:", trusting([0, 2], 0))
print("0 in [2, 0]:", trusting([2, 0], 0))

# %% [markdown]
# Row 0 was deleted, and is back. There is no error.
#
# ## Key points
#
# - The upper 32 bits of a position choose a bitmap, the next 16 a container, and the last 16 are stored: [deletion-vector-v1](https://iceberg.apache.org/puffin-spec/#deletion-vector-v1-blob-type).
# - A container is an array, a bitmap or runs, whichever is smallest: 2 bytes for each number, 8192 bytes, or 2 and 4 for each run: [the Roaring format](https://github.com/RoaringBitmap/RoaringFormatSpec).
# - The places of the deleted rows decide the size: one block takes only a few bytes, however long it is.
# - A reader must check the order of what it reads: the CRC does not.
#
# Next: [08 · Readers](08_readers.ipynb)

# %%
here.close()
