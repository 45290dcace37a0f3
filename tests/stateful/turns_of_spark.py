"""What Spark does to the table, and the same on the model."""

from collections.abc import Callable, Sequence

from tests.stateful.turns_choices import ancestors, droppable, evolve_partitions, promotable, some
from tests.stateful.turns_machine import FAR, FAR_SQL, KEEPS, Machine
from tests.stateful.turns_model import Branch, Column, sql
from tests.stored import entries

MODES = ("copy-on-write", "merge-on-read")


def insert(m: Machine) -> None:
    ref, rows = m.ref(), [m.model.row(m.rng) for _ in range(m.rng.randint(2, 8))]
    way = m.rng.choice(["values", "by name", "parquet", "orc", "avro"])
    if way == "orc":
        m.has_orc = True
        # Where ORC's Java reader finds 0.0 and -0.0 and nothing else, it takes the first for all.
        rows = [{k: v + 0.0 if isinstance(v, float) else v for k, v in row.items()} for row in rows]
    shown = m.model.shown(rows)
    if way == "values":
        lines = ["(" + ", ".join(sql(c, row.get(c.key)) for c in m.model.columns) + ")" for row in rows]
        m.sql(f"INSERT INTO {m.at(ref)} VALUES {', '.join(lines)}")
    elif way == "by name":
        m.sql(f"INSERT INTO {m.at(ref)} BY NAME SELECT * FROM {m.source(shown)}")
    else:
        name = m.source(shown)
        m.note(f"Spark: append as {way} to {m.at(ref)}")
        m.spark.table(name).writeTo(m.at(ref)).option("write-format", way).append()
    m.replace_rows(ref, [*m.model.branches[ref].rows, *rows])


def insert_some_columns(m: Machine) -> None:
    """Columns that are not named take their default."""
    named, row = [m.model.columns_uid, m.model.named("id")], m.model.row(m.rng)
    row = {c.key: row[c.key] if c in named else c.default for c in m.model.columns}
    values = ", ".join(sql(c, c.shown(row)) for c in named)
    m.sql(f"INSERT INTO {m.name} (uid, id) VALUES ({values})")
    m.replace_rows("main", [*m.model.branches["main"].rows, row])


def overwrite(m: Machine) -> None:
    """Replace all rows."""
    if m.rng.random() < 0.5:
        rows = [m.model.row(m.rng) for _ in range(6)]
        m.sql(f"INSERT OVERWRITE {m.name} BY NAME SELECT * FROM {m.source(m.model.shown(rows))}")
        m.replace_rows("main", rows)


def delete(m: Machine) -> None:
    ref = m.ref()
    found = m.model.filter(m.rng, ref)
    if found.spark is None:
        return
    set_mode(m, "delete")
    m.sql(f"DELETE FROM {m.at(ref)} WHERE {found.spark}")
    m.delete_rows(ref, found)


def delete_by_query(m: Machine) -> None:
    ref = m.ref()
    uids = [m.model.uid(row) for row in some(m, m.model.branches[ref].rows, 4)]
    view = m.source([{"uid": uid} for uid in uids], [m.model.columns_uid])
    set_mode(m, "delete")
    m.sql(f"DELETE FROM {m.at(ref)} WHERE uid IN (SELECT uid FROM {view})")
    m.replace_rows(ref, [row for row in m.model.branches[ref].rows if m.model.uid(row) not in uids])


def truncate(m: Machine) -> None:
    if m.rng.random() < 0.7:
        return
    m.sql(f"TRUNCATE TABLE {m.name}")
    m.replace_rows("main", [])


def update(m: Machine) -> None:
    ref = m.ref()
    found = m.model.filter(m.rng, ref)
    if found.spark is None:
        return
    column = m.rng.choice([c for c in m.model.columns if c.name != "uid"])
    value = m.model.value(m.rng, column)
    set_mode(m, "update")
    m.sql(f"UPDATE {m.at(ref)} SET {column.name} = {sql(column, value)} WHERE {found.spark}")
    m.update_rows(ref, found, column, value, KEEPS)


def merge(m: Machine) -> None:
    ref = m.ref()
    rows = m.model.branches[ref].rows
    changed = [m.model.row_of(m.rng, m.model.uid(row)) for row in some(m, rows, 3)]
    gone = {m.model.uid(row) for row in changed if m.rng.random() < 0.4}
    new = [m.model.row(m.rng) for _ in range(m.rng.randint(0, 2))]
    source = [*changed, *new]
    deed = Column(name="deed", kind="string")
    shown = [{**row, "deed": "d" if row["uid"] in gone else "u"} for row in m.model.shown(source)]
    view = m.source(shown, [*m.model.columns, deed])
    names = [c.name for c in m.model.columns]
    sets = ", ".join(f"{n} = s.{n}" for n in names if n != "uid")
    set_mode(m, "merge")
    m.sql(
        f"MERGE INTO {m.at(ref)} t USING {view} s ON t.uid = s.uid "
        f"WHEN MATCHED AND s.deed = 'd' THEN DELETE WHEN MATCHED THEN UPDATE SET {sets} "
        f"WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) VALUES ({', '.join('s.' + n for n in names)})"
    )
    by_uid = {m.model.uid(row): row for row in changed}
    left = [by_uid.get(m.model.uid(row), row) for row in rows if m.model.uid(row) not in gone]
    m.replace_rows(ref, [*left, *new], dict.fromkeys(by_uid, KEEPS))


def set_mode(m: Machine, verb: str) -> None:
    """Set the mode of a verb."""
    mode = m.rng.choice(MODES) if m.version > 1 else MODES[0]
    if m.table.refresh().properties.get(f"write.{verb}.mode", "copy-on-write") != mode:
        m.sql(f"ALTER TABLE {m.name} SET TBLPROPERTIES ('write.{verb}.mode' = '{mode}')")


# --- columns and partitions ---------------------------------------------------------------------------------------


def add_column(m: Machine) -> None:
    if len(m.model.columns) > 15:
        return
    column = Column(name=m.model.new_name("c"), kind=m.rng.choice(["int", "string", "double", "date", "decimal"]))
    place = m.rng.choice(["", " FIRST", " AFTER id"])
    m.sql(f"ALTER TABLE {m.name} ADD COLUMN {column.name} {column.spark_type}{place}")
    at = {"": len(m.model.columns), " FIRST": 0, " AFTER id": m.model.columns.index(m.model.named("id")) + 1}[place]
    m.model.columns.insert(at, column)


def add_nested(m: Machine) -> None:
    for column in m.model.of_kind("struct"):
        if len(column.fields) < 4:
            child = Column(name=m.model.new_name("n"), kind=m.rng.choice(["int", "string"]))
            m.sql(f"ALTER TABLE {m.name} ADD COLUMN {column.name}.{child.name} {child.spark_type}")
            m.model.change_column(column.name, fields=(*column.fields, child))


def drop_column(m: Machine) -> None:
    column = droppable(m)
    if column is not None:
        m.sql(f"ALTER TABLE {m.name} DROP COLUMN {column.name}")
        m.model.columns.remove(column)


def drop_nested(m: Machine) -> None:
    used = {f.source_id for spec in m.table.refresh().metadata.specs.values() for f in spec.fields}
    for column in m.model.of_kind("struct"):
        child = column.fields[-1]
        if len(column.fields) > 2 and m.table.schema.find_field(f"{column.name}.{child.name}").field_id not in used:
            m.sql(f"ALTER TABLE {m.name} DROP COLUMN {column.name}.{child.name}")
            m.model.change_column(column.name, fields=column.fields[:-1])


def rename_column(m: Machine) -> None:
    names = [c.name for c in m.model.columns if c.name not in ("uid", "id")]
    names += [f"{c.name}.{f.name}" for c in m.model.of_kind("struct") for f in c.fields]
    old, new = m.rng.choice(names), m.model.new_name("c")
    m.sql(f"ALTER TABLE {m.name} RENAME COLUMN {old} TO {new}")
    m.model.change_column(old, name=new)


def move_column(m: Machine) -> None:
    column = m.rng.choice(m.model.columns)
    m.sql(f"ALTER TABLE {m.name} ALTER COLUMN {column.name} FIRST")
    m.model.columns.remove(column)
    m.model.columns.insert(0, column)


def promote_column(m: Machine) -> None:
    found = promotable(m)
    if found is not None:
        name, edits, kind = found
        m.sql(f"ALTER TABLE {m.name} ALTER COLUMN {name} TYPE {kind.spark_type}")
        m.model.change_column(name, **edits)


def change_partitions(m: Machine) -> None:
    what, field = evolve_partitions(m)
    old = m.table.spec.fields
    if what == "add" and old and m.rng.random() < 0.3:
        m.sql(f"ALTER TABLE {m.name} REPLACE PARTITION FIELD `{m.rng.choice(old).name}` WITH {field}")
    else:
        m.sql(f"ALTER TABLE {m.name} {what} PARTITION FIELD " + (field if what == "add" else f"`{field}`"))


_PROPERTIES: dict[str, Sequence[str]] = {
    "write.delete.granularity": ("file", "partition"),
    "write.distribution-mode": ("none", "hash", "range"),
    "write.metadata.metrics.default": ("none", "counts", "truncate(2)", "full"),
    "write.parquet.row-group-size-bytes": ("1024", "134217728"),
    "commit.manifest.min-count-to-merge": ("2", "100"),
    "write.spark.fanout.enabled": ("true", "false"),
    "write.target-file-size-bytes": ("2000", "536870912"),
    "write.parquet.compression-codec": ("zstd", "snappy", "uncompressed"),
    "write.delete.isolation-level": ("serializable", "snapshot"),
    "write.object-storage.enabled": ("true", "false"),
    "write.metadata.compression-codec": ("gzip", "none"),
}


def upgrade(m: Machine) -> None:
    if m.version < 3 and m.rng.random() < 0.3:
        m.sql(f"ALTER TABLE {m.name} SET TBLPROPERTIES ('format-version' = '{m.version + 1}')")


def set_property(m: Machine) -> None:
    name = m.rng.choice(sorted(_PROPERTIES))
    m.sql(f"ALTER TABLE {m.name} SET TBLPROPERTIES ('{name}' = '{m.rng.choice(_PROPERTIES[name])}')")


def write_order(m: Machine) -> None:
    column = m.rng.choice(m.model.of_kind("int", "string", "date"))
    m.sql(f"ALTER TABLE {m.name} WRITE " + m.rng.choice([f"ORDERED BY {column.name}", "UNORDERED"]))


# --- branches and snapshots ---------------------------------------------------------------------------------------


def create_ref(m: Machine) -> None:
    head = m.table.refresh().current_snapshot
    if head is None:
        return
    if m.rng.random() < 0.5 and len(m.model.branches) < 2:
        name = m.model.new_name("b")
        m.sql(f"ALTER TABLE {m.name} CREATE BRANCH {name}")
        main = m.model.branches["main"]
        m.model.branches[name] = Branch([dict(row) for row in main.rows], dict(main.lineage))
    elif len(m.model.tags) < 2:
        name = m.model.new_name("t")
        m.sql(f"ALTER TABLE {m.name} CREATE TAG {name}")
        m.model.tags[name] = head.snapshot_id


def drop_ref(m: Machine) -> None:
    names = [*(set(m.model.branches) - {"main"}), *m.model.tags]
    if names:
        name = m.rng.choice(sorted(names))
        m.sql(f"ALTER TABLE {m.name} DROP {'TAG' if name in m.model.tags else 'BRANCH'} {name}")
        m.model.branches.pop(name, None)
        m.model.tags.pop(name, None)


def rollback(m: Machine) -> None:
    line = ancestors(m, "main")
    if line:
        target = m.rng.choice(line[:4])
        m.call("rollback_to_snapshot", f"snapshot_id => {target}")
        m.model.move("main", target)


def set_current_snapshot(m: Machine) -> None:
    """Go to any snapshot that is left, of whichever branch."""
    if m.model.snapshots and m.rng.random() < 0.5:
        target = m.rng.choice(list(m.model.snapshots)[-4:])
        m.call("set_current_snapshot", f"snapshot_id => {target}")
        m.model.move("main", target)


def publish(m: Machine) -> None:
    """Append on a branch, let something come between or not, and bring it to main."""
    if m.table.refresh().current_snapshot is None:
        return
    name, rows, main = m.model.new_name("staged"), [m.model.row(m.rng) for _ in range(2)], m.model.branches["main"]
    m.sql(f"ALTER TABLE {m.name} CREATE BRANCH {name}")
    m.sql(f"INSERT INTO {m.at(name)} BY NAME SELECT * FROM {m.source(m.model.shown(rows))}")
    m.replace_rows("main", [*main.rows, *rows])
    staged = m.table.refresh().metadata.refs[name]["snapshot-id"]
    if m.rng.random() < 0.5:
        more = [m.model.row(m.rng)]
        m.sql(f"INSERT INTO {m.name} BY NAME SELECT * FROM {m.source(m.model.shown(more))}")
        m.replace_rows("main", [*main.rows, *more])
        m.call("cherrypick_snapshot", f"snapshot_id => {staged}")
    else:
        m.call("fast_forward", f"branch => 'main', to => '{name}'")
    m.sql(f"ALTER TABLE {m.name} DROP BRANCH {name}")


# --- maintenance --------------------------------------------------------------------------------------------------


def rewrite_data_files(m: Machine) -> None:
    options = {"min-input-files": "2", "delete-file-threshold": "1"}
    if m.rng.random() < 0.5:
        options["rewrite-all"] = "true"
    # Not `remove-dangling-deletes`: for equality deletes of the unpartitioned spec Java looks at files of that spec
    # only, and removes deletes that others need.
    options["use-starting-sequence-number"] = m.rng.choice(["true", "false"])
    given = "options => map(" + ", ".join(f"'{k}', '{v}'" for k, v in options.items()) + ")"
    if m.rng.random() < 0.3:
        given += ", strategy => 'sort', sort_order => 'id DESC NULLS LAST'"
    if m.rng.random() < 0.3:
        given += ", where => 'id < 5'"
    m.call("rewrite_data_files", given)


def rewrite_position_delete_files(m: Machine) -> None:
    """Only while all deletes are of one spec.

    Java puts files of several specs into one group where their partitions look alike in all fields (an unpartitioned
    one and one that is NULL), and then fails on it.
    """
    if len({e["listed"]["partition_spec_id"] for e in entries(m.table.refresh(), 1) if e["status"] != 2}) == 1:
        m.call("rewrite_position_delete_files", "options => map('rewrite-all', 'true')")


def rewrite_manifests(m: Machine) -> None:
    m.call("rewrite_manifests", m.rng.choice(["", "use_caching => false"]))


def expire_snapshots(m: Machine) -> None:
    m.call("expire_snapshots", f"older_than => {FAR_SQL}, retain_last => {m.rng.randint(1, 4)}")


def remove_orphan_files(m: Machine) -> None:
    """The procedure takes no time of today, the action behind it does."""
    m.note("Spark: remove_orphan_files, all ages")
    jvm = m.spark._jvm.org.apache.iceberg.spark
    table = jvm.Spark3Util.loadIcebergTable(m.spark._jsparkSession, m.name)
    jvm.actions.SparkActions.get(m.spark._jsparkSession).deleteOrphanFiles(table).olderThan(FAR).execute()


SPARK_ACTIONS: dict[Callable[[Machine], None], int] = {
    insert: 8,
    insert_some_columns: 2,
    overwrite: 1,
    delete: 8,
    delete_by_query: 3,
    truncate: 1,
    update: 6,
    merge: 6,
    add_column: 2,
    add_nested: 1,
    drop_column: 2,
    drop_nested: 1,
    rename_column: 2,
    move_column: 1,
    promote_column: 2,
    change_partitions: 4,
    upgrade: 2,
    set_property: 3,
    write_order: 1,
    create_ref: 2,
    drop_ref: 2,
    rollback: 2,
    set_current_snapshot: 1,
    publish: 1,
    rewrite_data_files: 3,
    rewrite_position_delete_files: 2,
    rewrite_manifests: 2,
    expire_snapshots: 2,
    remove_orphan_files: 1,
}
