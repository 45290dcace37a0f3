"""What the functions that learners write in lesson 08 are tried with."""

from collections.abc import Mapping
from random import Random
from typing import Any

from deletekit.course.exercise import Functions

_File = Mapping[str, Any]

_NORTH, _SOUTH = {"shop": "north"}, {"shop": "south"}


def _data(number: int, partition: dict[str, str] = _NORTH, spec_id: int = 0) -> dict[str, Any]:
    return {"file_path": "D1", "sequence_number": number, "spec_id": spec_id, "partition": partition}


def _delete(
    kind: str, number: int, partition: dict[str, str] = _NORTH, spec_id: int = 0, about: str | None = None
) -> dict[str, Any]:
    place = {"spec_id": spec_id, "partition": partition}
    return {"kind": kind, "sequence_number": number, **place, "referenced_data_file": about}


_PLACES = (
    *((_delete("deletion-vector", number, about="D1"), _data(3)) for number in (3, 4)),
    (_delete("deletion-vector", 4, about="D2"), _data(3)),
    *((_delete("position-delete", number), _data(3)) for number in (2, 3, 4)),
    *((_delete("position-delete", 4, about=path), _data(3)) for path in ("D1", "D2")),
    (_delete("position-delete", 4, _SOUTH), _data(3)),
    (_delete("position-delete", 4, spec_id=1), _data(3)),
    *((_delete("equality-delete", number), _data(3)) for number in (2, 3, 4)),
    (_delete("equality-delete", 4, _SOUTH), _data(3)),
    (_delete("equality-delete", 4, spec_id=1), _data(3)),
    *((_delete("equality-delete", number, {}, 2), _data(3)) for number in (2, 3, 4)),
)


def _drawn_files(random: Random) -> tuple[_File, _File]:
    unpartitioned = random.randrange(3)

    def place() -> dict[str, Any]:
        spec_id = random.choice((0, 0, 1, 2))
        partition = {"shop": random.choice(("north", None)), "day": random.choice((1, None))}
        return {"spec_id": spec_id, "partition": partition if spec_id != unpartitioned else {}}

    here, number = place(), random.randrange(8, 12)
    data = {"file_path": random.choice(("D1", "D11", "D2")), "sequence_number": number, **here}
    kind = random.choice(("deletion-vector", "position-delete", "equality-delete"))
    about = random.choice((data["file_path"], "D1", "D11")) if kind == "deletion-vector" else None
    if kind == "position-delete":
        about = random.choice((None, None, data["file_path"], "D1"))
    where = here if about == data["file_path"] else random.choice((here, place()))
    delete = {"kind": kind, "sequence_number": number + random.choice((-9, -1, 0, 1, 1, 9)), **where}
    return {**delete, "referenced_data_file": about}, data


_LINES = [{"shop": "north", "id": 2}, {"shop": "south", "id": 3}]
_NONE = [{"id": 8, "item": None}]
_ROWS: tuple[tuple[int, dict[str, Any], list[Any]], ...] = (
    (1, {"shop": "north", "id": 5, "item": "tea"}, [{1, 3}]),
    (0, {"shop": "north", "id": 2, "item": "tea"}, [{1, 3}, _LINES]),
    (0, {"shop": "north", "id": 3, "item": "tea"}, [{1, 3}, _LINES]),
    (0, {"shop": "south", "id": 3, "item": "tea"}, [_LINES, {1, 3}]),
    (4, {"shop": "north", "id": 8, "item": None}, [_NONE]),
    (4, {"shop": "north", "id": 8, "item": "tea"}, [_NONE]),
    (4, {"shop": "north", "id": 7, "item": None}, [_NONE, [{"id": 7}]]),
    (0, {"shop": "north", "id": 0, "item": "tea"}, []),
)


def _drawn_row(random: Random) -> tuple[int, _File, list[Any]]:
    values = {"shop": ("north", "south"), "id": (0, 1, 2), "item": ("tea", "None", "", None, "north")}
    row = {column: random.choice(found) for column, found in values.items()}

    def delete() -> Any:
        if random.random() < 0.3:
            return set(random.choices(range(4), k=random.randrange(4)))
        columns = random.sample([*values], random.randrange(1, 4))
        lines = range(random.randrange(4))
        return [
            {column: random.choice((row[column], random.choice(values[column]))) for column in columns} for _ in lines
        ]

    return random.randrange(4), row, [delete() for _ in range(random.randrange(4))]


FUNCTIONS = {
    "08.2": Functions(cases=_PLACES, inputs=_drawn_files),
    "08.4": Functions(cases=_ROWS, inputs=_drawn_row),
}
