"""Functions that learners write in lesson 14, right and wrong."""

import struct
import zlib
from collections.abc import Sequence
from random import Random

from pyroaring import BitMap64

from deletekit.course.exercise import Functions, versions

_Version = Sequence[tuple[str, str, str | None]]
_Live = dict[str, str | None]

_MAGIC = struct.pack("<I", 1681511377)

_CREATED = [("add", "a", None)]
_DELETED = [("remove", "a", None), ("add", "a", "dv_1")]
_AGAIN = [("remove", "a", "dv_1"), ("add", "a", "dv_2")]
_OPTIMIZED = [("remove", "a", "dv_2"), ("add", "d", None)]
_RESTORED = [("remove", "d", None), ("add", "a", "dv_1")]


def _added(version: _Version) -> _Live:
    return {path: vector for kind, path, vector in version if kind == "add"}


def _removed(version: _Version) -> set[str]:
    return {path for kind, path, _ in version if kind == "remove"}


def _live_files(versions: Sequence[_Version]) -> _Live:
    live: _Live = {}
    for version in versions:
        live = {path: vector for path, vector in live.items() if path not in _removed(version)} | _added(version)
    return live


def _as_listed(versions: Sequence[_Version]) -> _Live:
    """Apply the actions of a version in their order, which says nothing."""
    return _live_files([[action] for version in versions for action in version])


def _pairs_cancel(versions: Sequence[_Version]) -> _Live:
    """Ignore a path that one version both removes and adds."""
    return _live_files(
        [[a for a in version if a[1] not in _removed(version) & set(_added(version))] for version in versions]
    )


def _must_be_there(versions: Sequence[_Version]) -> _Live:
    """Fail on a removed path that is not there."""
    live: _Live = {}
    for version in versions:
        for path in _removed(version):
            del live[path]
        live |= _added(version)
    return live


def _blob(version: str, vector: bytes) -> bytes:
    """Frame a vector as a Puffin blob, or with one mistake."""
    order = "<I" if version == "little_endian" else ">I"
    length = struct.pack(order, len(vector) + (8 if version == "length_of_all" else 0))
    checked = {"checksum_of_length_too": length + vector, "checksum_without_magic": vector[4:]}.get(version, vector)
    return length + vector + struct.pack(order, zlib.crc32(checked))


_BLOBS = ("blob", "little_endian", "length_of_all", "checksum_of_length_too", "checksum_without_magic")


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
        by_name={
            "live_files": _live_files,
            "as_listed": _as_listed,
            "only_adds": lambda versions: {p: v for version in versions for p, v in _added(version).items()},
            "without_vectors": lambda versions: dict.fromkeys(_live_files(versions)),
            "pairs_cancel": _pairs_cancel,
            "must_be_there": _must_be_there,
        },
    ),
    "14.3": Functions(
        cases=[(_MAGIC + BitMap64(positions).serialize(),) for positions in ([3, 5], range(1000), [2**32])],
        inputs=_vector,
        by_name={
            **versions(_blob, *_BLOBS),
            "second_magic": lambda vector: _blob("blob", _MAGIC + vector),
        },
    ),
}
