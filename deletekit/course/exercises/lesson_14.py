"""What the functions that learners write in lesson 14 are tried with."""

import struct
from collections.abc import Sequence
from random import Random

from pyroaring import BitMap64

from deletekit.course.exercise import Functions

_Version = Sequence[tuple[str, str, str | None]]

_MAGIC = struct.pack("<I", 1681511377)

_CREATED = [("add", "a", None)]
_DELETED = [("remove", "a", None), ("add", "a", "dv_1")]
_AGAIN = [("remove", "a", "dv_1"), ("add", "a", "dv_2")]
_OPTIMIZED = [("remove", "a", "dv_2"), ("add", "d", None)]
_RESTORED = [("remove", "d", None), ("add", "a", "dv_1")]


def _log(random: Random) -> tuple[Sequence[_Version]]:
    def version() -> _Version:
        kinds = [(path, random.choice((["add"], ["remove"], ["remove", "add"], [], []))) for path in ("a", "b", "ab")]
        actions = [(kind, path, random.choice((None, "dv_1", "dv_2"))) for path, both in kinds for kind in both]
        return random.sample(actions, len(actions))

    return ([version() for _ in range(random.randrange(6))],)


def _vector(random: Random) -> tuple[bytes]:
    positions = random.choices(range(2 ** random.choice((4, 16, 34))), k=random.choice((1, 3, 200)))
    return (_MAGIC + BitMap64(positions).serialize(),)


FUNCTIONS = {
    "14.2": Functions(
        cases=[
            ([_CREATED, _DELETED],),
            ([_CREATED, _DELETED, _AGAIN],),
            ([_CREATED, _DELETED, _AGAIN, _OPTIMIZED],),
            ([_CREATED, _DELETED, _AGAIN, _OPTIMIZED, _RESTORED],),
            ([_CREATED, _DELETED[::-1]],),
            ([_CREATED, [("remove", "gone", None)], [("add", "a", None)]],),
        ],
        inputs=_log,
    ),
    "14.3": Functions(
        cases=[
            (_MAGIC + BitMap64(positions).serialize(),)
            for positions in ([3, 5], range(1000), [2**32], range(0, 800_000, 9))
        ],
        inputs=_vector,
    ),
}
