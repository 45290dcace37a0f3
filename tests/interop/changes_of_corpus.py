"""The changes of tables that Spark and Iceberg Java wrote: against the rows of their snapshots, and Java's own changes.

Java's changelog reads no delete files, so it is asked for the histories before a table's first one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import deletekit as dk
from deletekit.formats.manifest_list import ManifestContent
from deletekit.table.snapshot import SnapshotReader
from deletekit.verbs.shared.read_options import select_field
from tests.interop.rows import frozen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.interop.corpus_case import Case

ABOUT = ("_change_type", "_change_ordinal", "_commit_snapshot_id")
Row = dict[str, Any]


def check_pairs(table: dk.Table) -> int:
    """Hold that changes lead from each ancestor of each head to each later one. Return how many results were compared.

    The rows of a snapshot are read with the schema of the later one, as a branch reads them that is at the snapshot.
    """
    metadata, compared = table.metadata, 0
    for line in _lines(table):
        for number, end in enumerate(line[1:], 1):
            assert end is not None
            schema = metadata.schema_of(metadata.snapshot_by_id(end))
            new = _rows(table, end, schema)
            for start in line[:number]:
                old = _rows(table, start, schema)
                for options in ({"mode": "all"}, {"mode": "net"}):
                    found = dk.changes(table, start, end, **options).to_arrow().to_pylist()  # type: ignore[arg-type]
                    try:
                        assert replayed(old, found) == new
                    except AssertionError as error:
                        raise AssertionError(f"{start} to {end}, {options}: {error}") from error
                    compared += 1
        # Backwards: from the head to the first snapshot, whatever was written in between.
        if len(line) > 2:
            found = dk.changes(table, line[-1], line[1], inverse=True).to_arrow().to_pylist()
            old, new = (_rows(table, i, metadata.schema) for i in (line[-1], line[1]))
            assert replayed(old, found) == new, f"back to {line[1]}"
            compared += 1
    return compared


def replayed(rows: Counter[Any], changes: Sequence[Row]) -> Counter[Any]:
    """Apply changes; a delete takes exactly one row with all its values away."""
    out = Counter(rows)
    for change in changes:
        row = _row(change)
        if change["_change_type"] in ("delete", "update_before"):
            assert out[row] > 0, f"no such row to take away: {change}"
            out[row] -= 1
        else:
            out[row] += 1
    return +out


def _lines(table: dk.Table) -> Iterator[list[int | None]]:
    """Yield the ancestors of each branch and tag, oldest first, with None before the first if it is known."""
    metadata = table.metadata
    for head in dict.fromkeys(int(ref["snapshot-id"]) for ref in metadata.refs.values()):
        line = list(metadata.ancestors(head))[::-1]
        first: list[int | None] = [None] if line[0].parent_snapshot_id is None else []
        yield [*first, *(s.snapshot_id for s in line)]


def _rows(table: dk.Table, snapshot_id: int | None, schema: Any) -> Counter[Any]:
    """Rows of a snapshot, read with another schema of the table."""
    if snapshot_id is None:
        return Counter()
    read = dk.scan(table, snapshot_id=snapshot_id)
    names = [f.name for f in schema.fields]
    fields = {n: select_field(schema, n) for n in names}
    rows = replace(read, schema=schema, columns=names, fields=fields).to_arrow()
    return Counter(map(_row, rows.to_pylist()))


def _row(row: Row) -> Any:
    return frozen({k: v for k, v in row.items() if k not in (*ABOUT, "_row_id")})


# --- Iceberg's create_changelog_view ----------------------------------------------------------------------------------


def before_deletes(table: dk.Table) -> list[int]:
    """Return the snapshots of main, oldest first, up to the last one from which Java's changelog reads a history."""
    reader, line = SnapshotReader(table.io, table.metadata), []
    head = table.metadata.current_snapshot
    for snapshot in list(table.metadata.ancestors(head and head.snapshot_id))[::-1]:
        if any(m.content == ManifestContent.DELETES for m in reader.manifests(snapshot)):
            break
        line.append(snapshot)
    whole = bool(line) and line[0].parent_snapshot_id is None
    return [s.snapshot_id for s in line] if whole else []


def java_changes(
    spark: SparkSession, catalog: str, case: Case, start: int | None, end: int, arguments: str = ""
) -> list[Row]:
    """Return the rows of `create_changelog_view`."""
    options = ["'end-snapshot-id'", f"'{end}'"]
    options += ["'start-snapshot-id'", f"'{start}'"] if start is not None else []
    more = f", {arguments}" if arguments else ""
    spark.sql(
        f"CALL {catalog}.system.create_changelog_view(table => '{case.table}', changelog_view => 'dk_changes', "
        f"options => map({', '.join(options)}){more})"
    )
    rows = spark.sql("SELECT * FROM dk_changes").toArrow().to_pylist()
    return [{**row, "_change_type": row["_change_type"].lower()} for row in rows]


def same_changes(found: Sequence[Row], java: Sequence[Row], about: Sequence[str] = ABOUT) -> None:
    """Hold that both have the same rows of the same type, and of the same commit and ordinal if `about` names them."""
    ours, theirs = (
        Counter(frozen({k: v for k, v in row.items() if k in about or k not in (*ABOUT, "_row_id")}) for row in rows)
        for rows in (found, java)
    )
    more, less = (list(rows.elements())[:5] for rows in (ours - theirs, theirs - ours))
    assert ours == theirs, f"only ours: {more}; only Java's: {less}"


def in_two_types(rows: Sequence[Row]) -> list[Row]:
    """Return the images of updates as deletes and inserts: Java pairs nothing by row id."""
    plain = {"update_before": "delete", "update_after": "insert"}
    return [{**row, "_change_type": plain.get(row["_change_type"], row["_change_type"])} for row in rows]


def check_against_java(spark: SparkSession, catalog: str, case: Case) -> int:
    """Compare a history before the first delete file: all changes, net changes, updates by key.

    Return how many results were compared.
    """
    table = dk.from_metadata(case.metadata_location)
    line, compared = before_deletes(table), 0
    if not line or table.metadata.schema_of(table.metadata.snapshot_by_id(line[-1])) != table.metadata.schema:
        return 0  # Java reads all snapshots with the current schema
    for start in dict.fromkeys([None, *line[:1]]):
        span = start, line[-1]
        found = dk.changes(table, *span, key=[]).to_arrow().to_pylist()
        same_changes(in_two_types(found), java_changes(spark, catalog, case, *span))
        found = dk.changes(table, *span, key=[], mode="net").to_arrow().to_pylist()
        java = java_changes(spark, catalog, case, *span, "net_changes => true")
        same_changes(in_two_types(found), java, ["_change_type"])
        by_key = "compute_updates => true, identifier_columns => array('id')"
        found = dk.changes(table, *span, key="id").to_arrow().to_pylist()
        same_changes(found, java_changes(spark, catalog, case, *span, by_key))
        compared += 3
    return compared
