"""What both engines choose from: columns that may be dropped or promoted, partition fields, snapshots to go back to."""

from collections.abc import Sequence
from dataclasses import replace

from tests.stateful.turns_machine import Machine
from tests.stateful.turns_model import Column, Values


def droppable(m: Machine) -> Column | None:
    """A column that no spec and no sort order is about.

    One that the current spec or order is about cannot be dropped. Where an older spec is about it, Spark's
    merge-on-read DELETE fails, and manifests that Iceberg's Java merges lose their partition values: equality deletes
    and deletion vectors are of no partition then.
    """
    metadata = m.table.refresh().metadata
    used = {f.source_id for spec in metadata.specs.values() for f in spec.fields}
    used |= {f["source-id"] for order in metadata.raw["sort-orders"] for f in order["fields"]}
    columns = [c for c in m.model.columns if c.name not in ("uid", "id", "st")]
    free = [c for c in columns if m.table.schema.find_field(c.name).field_id not in used]
    return m.rng.choice(free) if len(free) > 4 else None


def promotable(m: Machine) -> tuple[str, dict[str, object], Column] | None:
    """A column that can take a wider type: its name, what changes of it, and what it becomes.

    Not one that equality deletes may be about: a session of Spark that has read such a delete keeps its keys in the
    narrow type, and they hide nothing any more after the promotion.
    """
    wider = {"int": {"kind": "long"}, "float": {"kind": "double"}, "decimal": {"size": 18}}
    columns = [(c.name, c) for c in m.model.columns]
    columns += [(f"{c.name}.{f.name}", f) for c in m.model.of_kind("struct") for f in c.fields]
    free = [(n, c) for n, c in columns if c.kind in wider and c.size == 9 and c.key not in m.keyed and n != "id"]
    if not free:
        return None
    name, column = m.rng.choice(free)
    edits = wider[column.kind]
    return name, edits, replace(column, **edits)


def evolve_partitions(m: Machine, *, ours: bool = False) -> tuple[str, str]:
    """Choose a partition field to add, or one to drop: what to do, and the field."""
    spec = m.table.refresh().spec
    if spec.fields and (m.rng.random() < 0.5 or len(spec.fields) > 2):
        return "drop", m.rng.choice(spec.fields).name
    forms = {
        "int": ["{}", "bucket(2, {})", "truncate(2, {})"],
        "long": ["bucket(3, {})", "truncate(2, {})"],
        "string": ["{}", "bucket(2, {})", "truncate(1, {})"],
        "date": ["{}", "month({})", "year({})"],
        "timestamptz": ["day({})", "hour({})", "month({})"],
        "decimal": ["bucket(2, {})", "truncate(50, {})", "{}"],
        "boolean": ["{}"],
        "binary": ["truncate(1, {})", "bucket(2, {})"],
    }
    used = {m.table.schema.find_column_name(f.source_id) for f in spec.fields}
    columns = [c for c in m.model.of_kind(*forms) if c.name not in used]
    column = m.rng.choice(columns)
    form = "void({})" if ours and m.rng.random() < 0.1 else m.rng.choice(forms[column.kind])
    return "add", form.format(column.name)


def ancestors(m: Machine, ref: str) -> list[int]:
    """Ancestors of a branch's head that the model knows, the newest first."""
    metadata = m.table.refresh().metadata
    parents = {s["snapshot-id"]: s.get("parent-snapshot-id") for s in metadata.raw.get("snapshots", [])}
    line, at = [], metadata.refs.get(ref, {}).get("snapshot-id")
    while at in parents:
        if at in m.model.snapshots:
            line.append(at)
        at = parents[at]
    return line


def some(m: Machine, rows: Sequence[Values], most: int) -> list[Values]:
    """Some rows of the model."""
    return m.rng.sample(list(rows), min(len(rows), m.rng.randint(1, most)))
