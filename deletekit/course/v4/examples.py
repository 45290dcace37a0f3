"""The examples of the draft of Mumbling bitmaps: bytes, and what they stand for. See `DRAFT`.

The draft's container of 31 positions lists 0 to 31, which are 32 numbers. Here it ends with 30.
"""

CHUNKS = (
    ("00 00 00", bytes(256)),
    ("00 00 05", bytes([5]) * 51),
    ("80 02 00 04 07 FF FE", bytes([0, 0, 0, 0, 255, 0, 0, 254])),
    ("02 00 06 18", bytes([6, 7, 8])),
    ("32 01 06 09 01 E0", bytes([6, 34, 8, 7])),
)
"""Chunks of PFOR, and their values."""

CONTAINERS = (
    (0, b"", range(0)),
    (3, bytes.fromhex("00 22 FF"), (0, 34, 255)),
    (31, bytes(range(31)), range(31)),
    (32, b"\xff" * 4 + bytes(28), range(32)),
    (32, b"\xff" * 4 + b"\x80" + bytes(27), range(33)),
    (32, b"\xff" * 2 + bytes(28) + b"\xff" * 2, (*range(16), *range(240, 256))),
    (32, b"\xaa" * 32, range(0, 256, 2)),
)
"""Descriptors, containers, and the positions in them."""
