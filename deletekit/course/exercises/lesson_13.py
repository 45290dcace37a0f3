"""Functions that learners write in lesson 13, right and wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from deletekit.course.exercise import Functions

_Changes = Sequence[tuple[str, int]]
_Deletes = dict[str, set[int]]


def _writer(
    *, upsert: bool = True, by_value: bool = True, counts_changes: bool = False, hides_itself: bool = False
) -> Callable[[_Changes], _Deletes]:
    """Return the writer that the exercise asks for, or the writer with one mistake."""

    def deletes_of(changes: _Changes) -> _Deletes:
        place: dict[int, int] = {}
        rows = 0
        equality: set[int] = set()
        positions: set[int] = set()
        for number, (change, key) in enumerate(changes):
            own = number if counts_changes else rows
            if key in place:
                positions.add(own if hides_itself and change == "+" else place.pop(key))
            elif by_value and (upsert or change == "-"):
                equality.add(key)
            if change == "+":
                place[key] = own
                rows += 1
        return {"equality": equality, "positions": positions}

    return deletes_of


FUNCTIONS = {
    "13.2": Functions(
        cases=[
            ([("+", 5), ("+", 5), ("+", 1), ("-", 3)],),
            ([("-", 2), ("+", 2), ("+", 2)],),
            ([("+", 1), ("-", 1)],),
            ([("+", 7), ("-", 7), ("+", 7)],),
            ([],),
        ],
        by_name={
            "writer": _writer(),
            "no_upsert": _writer(upsert=False),
            "positions_only": _writer(by_value=False),
            "counts_changes": _writer(counts_changes=True),
            "hides_itself": _writer(hides_itself=True),
        },
    )
}
