"""What deletekit does to the table, and the same on the model."""

from collections.abc import Callable, Mapping
from typing import Any

import deletekit as dk
from deletekit.engines.local import LocalEngine
from tests.stateful.turns_choices import ancestors, droppable, evolve_partitions, promotable, some
from tests.stateful.turns_machine import FAR, KEEPS, MAYBE, NEW, Machine
from tests.stateful.turns_model import IDS, VALUES, Branch, Column, Filter, Values
from tests.tables import MODES


def append(m: Machine) -> None:
    ref, rows = m.ref(), [m.model.row(m.rng) for _ in range(m.rng.randint(2, 8))]
    m.ours(dk.append, m.model.shown(rows), ref=ref)
    m.replace_rows(ref, [*m.model.branches[ref].rows, *rows])


def delete(m: Machine) -> None:
    ref = m.ref()
    found = our_filter(m, ref)
    mode = m.rng.choice([*modes(m, found), None])
    assert found.ours is not None
    keyed(m, mode, [c for c in m.model.columns if c.name in found.ours])
    grain = m.rng.choice([None, "file", "partition"])
    m.ours(dk.delete, found.ours, mode=mode, ref=ref, granularity=grain, engine=engine(m))
    m.delete_rows(ref, found)


def our_filter(m: Machine, ref: str) -> Filter:
    """A filter that deletekit has a text for."""
    while True:
        found = m.model.filter(m.rng, ref)
        if found.ours is not None:
            return found


def modes(m: Machine, found: Filter) -> list[str]:
    """The delete modes for a filter.

    A float is not a key of equality deletes. Of a nested key, Java keeps what its first reader selected of the struct,
    and another query of the session then brings deleted rows back, or writes them again.
    """
    names = [c.name for c in m.model.of_kind("float", "double")] + [f"{c.name}." for c in m.model.of_kind("struct")]
    no_key = any(word.startswith(tuple(names)) for word in str(found.ours).split())
    return [mode for mode in MODES[m.version] if not no_key or mode != "equality-delete"]


def keyed(m: Machine, mode: str | None, columns: list[Column]) -> None:
    """Remember which columns equality deletes may be about."""
    if mode == "equality-delete":
        m.keyed |= {c.key for c in columns} | {f.key for c in columns for f in c.fields}


def delete_keys(m: Machine) -> None:
    ref = m.ref()
    kinds = ("int", "long", "string", "date", "timestamptz", "decimal", "boolean", "binary")
    choice = m.model.of_kind(*kinds)
    columns = [m.model.columns_uid] if m.rng.random() < 0.5 else m.rng.sample(choice, min(2, len(choice)))
    rows = some(m, m.model.branches[ref].rows, 3)
    keys = [{c.name: c.shown(row) for c in columns} for row in rows]
    if not keys:
        return
    keyed(m, "equality-delete", columns)
    m.ours(dk.delete_keys, m.arrow(keys, columns), scope=m.rng.choice([None, "global"]), ref=ref)
    gone = {tuple(key.values()) for key in keys}
    left = [row for row in m.model.branches[ref].rows if tuple(c.shown(row) for c in columns) not in gone]
    m.replace_rows(ref, left)


def update(m: Machine) -> None:
    ref = m.ref()
    found = our_filter(m, ref)
    mode = m.rng.choice(modes(m, found))
    assert found.ours is not None
    column = m.rng.choice([c for c in m.model.columns if c.name != "uid"])
    value = m.model.value(m.rng, column)
    shown = column.shown({column.key: value})
    keyed(m, mode, m.model.columns)
    m.ours(dk.update, {column.name: shown}, where=found.ours, mode=mode, ref=ref, engine=engine(m))
    m.update_rows(ref, found, column, value, row_ids(mode))


def row_ids(mode: str) -> str:
    """What becomes of the row id of a row that is changed: an equality delete does not know it."""
    return NEW if mode == "equality-delete" else KEEPS


def merge(m: Machine) -> None:
    ref, mode = m.ref(), m.rng.choice(MODES[m.version])
    rows = m.model.branches[ref].rows
    matched = m.rng.choice(["update", "update", "delete", None])
    changed = [m.model.row_of(m.rng, m.model.uid(row)) for row in some(m, rows, 3)]
    new = [m.model.row(m.rng) for _ in range(m.rng.randint(0, 2))]
    if not changed and not new:
        return
    keyed(m, mode, [m.model.columns_uid])
    m.ours(dk.merge, m.model.shown([*changed, *new]), on=["uid"], when_matched=matched, mode=mode, ref=ref,
           engine=engine(m))  # fmt: skip
    by_uid = {m.model.uid(row): row for row in changed}
    if matched == "update":
        left = [by_uid.get(m.model.uid(row), row) for row in rows]
        m.replace_rows(ref, [*left, *new], dict.fromkeys(by_uid, row_ids(mode)))
    else:
        left = [row for row in rows if matched is None or m.model.uid(row) not in by_uid]
        m.replace_rows(ref, [*left, *new])


def merge_some_columns(m: Machine) -> None:
    """Update some columns of all rows that have an id."""
    ref, mode = m.ref(), m.rng.choice(MODES[m.version])
    rows, key = m.model.branches[ref].rows, m.model.named("id")
    columns = m.rng.sample([c for c in m.model.columns if c.name not in ("uid", "id")], 2)
    source = {i: {c.key: m.model.value(m.rng, c) for c in columns} for i in m.rng.sample(IDS, 2)}
    shown = [{"id": i, **{c.name: c.shown(values) for c in columns}} for i, values in source.items()]
    keyed(m, mode, [key])
    m.ours(dk.merge, m.arrow(shown, [key, *columns]), on=["id"], when_not_matched=None, mode=mode, ref=ref)
    hit = {m.model.uid(row) for row in rows if key.shown(row) in source}
    after = [{**row, **source.get(key.shown(row), {})} for row in rows]
    m.replace_rows(ref, after, dict.fromkeys(hit, row_ids(mode)))


def upsert(m: Machine) -> None:
    ref, mode = m.ref(), m.rng.choice(MODES[m.version])
    rows = m.model.branches[ref].rows
    by_id = m.rng.random() < 0.4
    changed = [m.model.row_of(m.rng, m.model.uid(row)) for row in some(m, rows, 3)]
    new = [m.model.row(m.rng) for _ in range(m.rng.randint(1, 2))]
    if by_id:
        chosen = list({m.model.named("id").shown(row): row for row in new}.values())
        key, column, kind = ["id"], m.model.named("id"), MAYBE
    else:
        chosen, key, column, kind = [*changed, *new], ["uid"], m.model.columns_uid, row_ids(mode)
    keyed(m, mode, [column])
    m.ours(dk.upsert, m.model.shown(chosen), on=key, mode=mode, ref=ref, engine=engine(m))
    keys = {column.shown(row) for row in chosen}
    left = [row for row in rows if column.shown(row) not in keys]
    m.replace_rows(ref, [*left, *chosen], {m.model.uid(row): kind for row in chosen})


def engine(m: Machine) -> LocalEngine:
    """One thread, or some."""
    return LocalEngine(m.rng.choice([1, 3]))


# --- columns and partitions ---------------------------------------------------------------------------------------


def add_column(m: Machine) -> None:
    if len(m.model.columns) > 15:
        return
    kind = m.rng.choice(["int", "string", "double", "date", "timestamptz", "boolean"])
    # Java cannot read a default where an ORC file lacks the column.
    may_default = m.version >= 3 and kind != "double" and not m.has_orc
    default = m.rng.choice([None, VALUES[kind][1]]) if may_default else None
    column = Column(name=m.model.new_name("c"), kind=kind, default=default)
    m.ours(dk.add_column, column.name, column.iceberg_type, default=default)
    m.model.columns.append(column)


def drop_column(m: Machine) -> None:
    column = droppable(m)
    if column is not None:
        m.ours(dk.drop_column, column.name)
        m.model.columns.remove(column)


def rename_column(m: Machine) -> None:
    names = [c.name for c in m.model.columns if c.name not in ("uid", "id")]
    names += [f"{c.name}.{f.name}" for c in m.model.of_kind("struct") for f in c.fields]
    old, new = m.rng.choice(names), m.model.new_name("c")
    m.ours(dk.rename_column, old, new)
    m.model.change_column(old, name=new)


def promote_column(m: Machine) -> None:
    found = promotable(m)
    if found is not None:
        name, edits, kind = found
        m.ours(dk.update_column, name, type=kind.iceberg_type)
        m.model.change_column(name, **edits)


def change_partitions(m: Machine) -> None:
    what, field = evolve_partitions(m, ours=True)
    m.ours(dk.add_partition_field if what == "add" else dk.drop_partition_field, field)


def upgrade(m: Machine) -> None:
    if m.version < 3 and m.rng.random() < 0.3:
        m.ours(dk.upgrade_format_version, m.version + 1)


# --- branches and snapshots ---------------------------------------------------------------------------------------


def create_branch(m: Machine) -> None:
    if m.table.refresh().current_snapshot is not None and len(m.model.branches) < 2:
        name = m.model.new_name("b")
        m.ours(dk.create_branch, name)
        main = m.model.branches["main"]
        m.model.branches[name] = Branch([dict(row) for row in main.rows], dict(main.lineage))


def drop_branch(m: Machine) -> None:
    names = sorted(set(m.model.branches) - {"main"})
    if names:
        name = m.rng.choice(names)
        m.ours(dk.drop_ref, name)
        del m.model.branches[name]


def rollback(m: Machine) -> None:
    ref = m.ref()
    line = ancestors(m, ref)
    if line:
        target = m.rng.choice(line[:4])
        m.ours(dk.rollback, target, ref=ref)
        m.model.move(ref, target)


def publish(m: Machine) -> None:
    """Append on a branch, let something come between or not, and pick the snapshot."""
    if m.table.refresh().current_snapshot is None:
        return
    name, rows, main = m.model.new_name("staged"), [m.model.row(m.rng) for _ in range(2)], m.model.branches["main"]
    m.ours(dk.create_branch, name)
    staged = m.ours(dk.append, m.model.shown(rows), ref=name).snapshot_id
    m.replace_rows("main", [*main.rows, *rows])
    if m.rng.random() < 0.5:
        more = [m.model.row(m.rng)]
        m.ours(dk.append, m.model.shown(more))
        m.replace_rows("main", [*main.rows, *more])
    m.ours(dk.cherry_pick, staged)
    m.ours(dk.drop_ref, name)


def promote(m: Machine) -> None:
    """Change a staging branch, and bring what was changed to main."""
    if m.table.refresh().current_snapshot is None:
        return
    name, main = m.model.new_name("staged"), m.model.branches["main"]
    m.ours(dk.create_branch, name)
    new, changed = [m.model.row(m.rng)], [m.model.row_of(m.rng, m.model.uid(row)) for row in some(m, main.rows, 2)]
    mode = m.rng.choice(MODES[m.version])
    keyed(m, "equality-delete", [m.model.columns_uid])
    m.ours(dk.upsert, m.model.shown([*new, *changed]), on=["uid"], mode=mode, ref=name)
    by_uid = {m.model.uid(row): row for row in changed}
    after = [*(by_uid.get(m.model.uid(row), row) for row in main.rows), *new]
    if m.rng.random() < 0.5:
        more = [m.model.row(m.rng)]
        m.ours(dk.append, m.model.shown(more))
        after += more
    way = m.rng.choice(["merge-on-read", "copy-on-write"])
    m.ours(dk.stream.promote, name, on=["uid"], mode=way)
    m.ours(dk.drop_ref, name)
    m.replace_rows("main", after, dict.fromkeys((m.model.uid(row) for row in after), MAYBE))


# --- maintenance --------------------------------------------------------------------------------------------------


def compact(m: Machine) -> None:
    m.ours(
        dk.compact, m.rng.choice([None, "id < 5"]), ref=m.ref(), partial_progress=m.rng.random() < 0.3,
        use_starting_sequence_number=m.rng.random() < 0.5, rewrite_all=m.rng.random() < 0.5, min_input_files=2,
        engine=engine(m),
    )  # fmt: skip


def rewrite_position_deletes(m: Machine) -> None:
    m.ours(dk.rewrite_position_deletes, ref=m.ref(), rewrite_all=m.rng.random() < 0.5, min_input_files=2)


def convert_equality_deletes(m: Machine) -> None:
    m.ours(dk.convert_equality_deletes, m.rng.choice([None, None, "id < 5"]), ref=m.ref())


def remove_dangling_deletes(m: Machine) -> None:
    m.ours(dk.remove_dangling_deletes, ref=m.ref())


def rewrite_manifests(m: Machine) -> None:
    m.ours(dk.rewrite_manifests, ref=m.ref())


def expire_snapshots(m: Machine) -> None:
    done = m.ours(dk.expire_snapshots, older_than=FAR, retain_last=m.rng.randint(1, 4))
    assert done.failed_files == {}


def remove_orphan_files(m: Machine) -> None:
    """Nobody else writes now, so that no file is too young."""
    m.ours(dk.remove_orphan_files, older_than=FAR, force=True)


def erase(m: Machine) -> None:
    found = our_filter(m, "main")
    others = [*(set(m.model.branches) - {"main"}), *m.model.tags]
    if others or m.table.refresh().current_snapshot is None:
        return
    done = m.ours(dk.erase, found.ours, unreferenced=True)
    assert not done.remaining.get("main")
    m.delete_rows("main", found)


# --- a stream -----------------------------------------------------------------------------------------------------


def stream(m: Machine) -> None:
    """One batch of changes, into a sink that stays open while others commit."""
    if m.sink is None or m.rng.random() < 0.2:
        mode = m.rng.choice(["auto", "auto", "eq-only", "index-only"])
        m.note(f"deletekit: sink, mode {mode}")
        m.sink = dk.stream.sink(m.table, "turns", on=["uid"], mode=mode, allow_rewind=True)
    rows = m.model.branches["main"].rows
    new = [m.model.row(m.rng) for _ in range(m.rng.randint(0, 3))]
    changed = [m.model.row_of(m.rng, m.model.uid(row)) for row in some(m, rows, 3)]
    gone = {m.model.uid(row) for row in changed if m.rng.random() < 0.4}
    keyed(m, "equality-delete", [m.model.columns_uid])
    changes = [_change(m, row, "DELETE" if m.model.uid(row) in gone else "UPDATE_AFTER") for row in changed]
    changes += [_change(m, row, "INSERT") for row in new]
    m.batches += 1
    m.note(f"deletekit: batch {m.batches} of {changes}")
    done = m.sink.write(changes, m.batches)
    assert done.status == ("committed" if changes else "empty")
    by_uid = {m.model.uid(row): row for row in changed}
    left = [by_uid.get(m.model.uid(row), row) for row in rows if m.model.uid(row) not in gone]
    m.replace_rows("main", [*left, *new], dict.fromkeys(by_uid, MAYBE))


def convert_stream(m: Machine) -> None:
    if m.sink is None or m.rng.random() < 0.5:
        m.ours(dk.stream.convert)
    else:
        m.note("deletekit: convert by the index of the sink")
        dk.stream.convert(m.sink)


def _change(m: Machine, row: Values, kind: str) -> Mapping[str, Any]:
    return {**m.model.shown([row])[0], "_change_type": kind}


OUR_ACTIONS: dict[Callable[[Machine], None], int] = {
    append: 6,
    delete: 9,
    delete_keys: 5,
    update: 6,
    merge: 6,
    merge_some_columns: 2,
    upsert: 5,
    stream: 7,
    convert_stream: 1,
    add_column: 2,
    drop_column: 2,
    rename_column: 2,
    promote_column: 2,
    change_partitions: 4,
    upgrade: 2,
    create_branch: 1,
    drop_branch: 1,
    rollback: 2,
    publish: 1,
    promote: 2,
    compact: 3,
    rewrite_position_deletes: 2,
    convert_equality_deletes: 2,
    remove_dangling_deletes: 2,
    rewrite_manifests: 2,
    expire_snapshots: 2,
    remove_orphan_files: 2,
    erase: 1,
}
