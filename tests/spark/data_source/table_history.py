"""A history of a table with columns id, grp and v: commits of every kind, some of them maintenance."""

import random

import deletekit as dk
from tests.tables import MAINTENANCE, MODES


def history(table: dk.Table, choose: random.Random, steps: int) -> None:
    """Write commits of every kind. Keys stay unique."""
    known: set[int] = {r["id"] for r in dk.scan(table, columns=["id"]).to_arrow().to_pylist()}
    for _ in range(steps):
        modes = MODES.get(table.metadata.format_version, ("copy-on-write",))
        mode = choose.choice(modes)
        act = choose.choice(["append", "delete", "delete", "update", "upsert", "keys", "maintain", "schema", "upgrade"])
        some = choose.sample(sorted(known), min(len(known), choose.randint(1, 4))) if known else []
        fresh = [choose.randint(0, 60) for _ in range(choose.randint(1, 5))]
        rows = [{"id": i, "grp": choose.choice("ab"), "v": choose.randint(0, 3)} for i in dict.fromkeys(fresh)]
        if act == "append":
            rows = [r for r in rows if r["id"] not in known]
            if rows:
                dk.append(table, rows)
            known |= {r["id"] for r in rows}
        elif act == "delete" and some:
            dk.delete(table, f"id in ({', '.join(map(str, some))})", mode=mode)
            known -= set(some)
        elif act == "update" and some:
            where = f"id in ({', '.join(map(str, some))})"
            dk.update(table, {"v": choose.randint(0, 3)}, where=where, mode=mode)
        elif act == "upsert":
            dk.upsert(table, rows, on=["id"], mode=mode)
            known |= {r["id"] for r in rows}
        elif act == "keys" and table.metadata.format_version > 1:
            dk.delete_keys(table, [{"id": i} for i in [*some, 99]])
            known -= set(some)
        elif act == "maintain":
            choose.choice(MAINTENANCE if table.metadata.format_version > 1 else MAINTENANCE[:1])(table)
        elif act == "schema":
            name = f"c{len(table.metadata.schemas)}"
            dk.add_column(table, name, "int")
        elif act == "upgrade" and table.metadata.format_version == 2 and choose.random() < 0.5:
            dk.upgrade_format_version(table, 3)
