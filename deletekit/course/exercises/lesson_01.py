"""Functions that learners write in lesson 01, right and wrong."""

import struct

from deletekit.course.exercise import Functions

FUNCTIONS = {
    "01.3": Functions(
        cases=[(struct.pack("<i", number),) for number in (1, 300, -5, 2**31 - 1)],
        by_name={
            "signed": lambda value: int.from_bytes(value, "little", signed=True),
            "by_struct": lambda value: struct.unpack("<i", value)[0],
            "big_endian": lambda value: int.from_bytes(value, "big", signed=True),
            "big_endian_unsigned": lambda value: int.from_bytes(value, "big"),
            "unsigned": lambda value: int.from_bytes(value, "little"),
        },
    )
}
