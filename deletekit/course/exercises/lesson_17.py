"""What the functions that learners write in lesson 17 are tried with."""

from random import Random

from deletekit.course.exercise import Functions

_Change = tuple[str, int, float]


def _table_and_changes(random: Random) -> tuple[dict[int, float], list[_Change]]:
    """Draw a table, and changes that fit it: what is deleted or updated is there, what is inserted is not."""
    table = {key: 100.0 * key for key in random.sample(range(5), random.randrange(4))}
    now, changes = dict(table), list[_Change]()
    for _ in range(random.randrange(6)):
        free = random.choice([key for key in range(6) if key not in now])
        value = float(random.randrange(3))
        kind, key = random.choice((("insert", free), *((kind, key) for key in now for kind in ("delete", "update"))))
        if kind == "update":
            changes.append(("update_before", key, now.pop(key)))
            kind, key = "update_after", random.choice((key, free))
        if kind == "delete":
            value = now.pop(key)
        else:
            now[key] = value
        changes.append((kind, key, value))
    return table, changes


FUNCTIONS = {
    "17.4": Functions(
        cases=[
            ({1: 100.0, 2: 200.0}, [("delete", 2, 200.0)]),
            ({4: 400.0}, [("update_before", 4, 400.0), ("update_after", 4, 444.0)]),
            ({6: 600.0}, [("delete", 6, 600.0), ("insert", 6, 660.0)]),
            ({1: 100.0, 2: 200.0}, [("update_before", 1, 100.0), ("update_after", 8, 100.0)]),
            ({7: 700.0}, [("delete", 7, 700.0), ("insert", 7, 770.0), ("delete", 7, 770.0)]),
        ],
        inputs=_table_and_changes,
        in_place=True,
    ),
}
