"""The changes of tables that Spark and Iceberg Java wrote: against the rows of their snapshots, and Java's own changes.

Java's changelog reads no delete files, so it is asked for the histories without any.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema

import deletekit as dk
from deletekit.formats.manifest_list import ManifestContent
from deletekit.table.metadata import Snapshot
from deletekit.table.snapshot import SnapshotReader
from deletekit.tools.changes import changes_in_schema
from deletekit.verbs.shared.read_options import select_field
from tests.interop.corpus_case import Case
from tests.interop.rows import frozen
from tests.optional_types import SparkSession

ABOUT = ("_change_type", "_change_ordinal", "_commit_snapshot_id")
Row = dict[str, Any]


def check_pairs(table: dk.Table) -> int:
    """Hold that changes lead from each ancestor of each head to each later one. Return how many results were compared.

    The rows of a snapshot are read with the schema of the later one, as a branch reads them that is at the snapshot.
    """
    metadata, compared, known = table.metadata, 0, dict[tuple[int | None, int], Counter[Any]]()

    def rows(snapshot_id: int | None, schema: Schema) -> Counter[Any]:
        at = snapshot_id, schema.schema_id
        if at not in known:
            known[at] = _rows(table, snapshot_id, schema)
        return known[at]

    for line in _lines(table):
        for number, end in enumerate(line[1:], 1):
            assert end is not None
            schema = metadata.schema_of(metadata.snapshot_by_id(end))
            new = rows(end, schema)
            for start in line[:number]:
                old = rows(start, schema)
                for options in ({"mode": "all"}, {"mode": "net"}):
                    found = dk.changes(table, start, end, **options).to_arrow()  # type: ignore[arg-type]
                    try:
                        assert replayed(old, found) == new
                    except AssertionError as error:
                        raise AssertionError(f"{start} to {end}, {options}: {error}") from error
                    compared += 1
        # Backwards: from the head to the first snapshot, whatever was written in between.
        if len(line) > 2:
            found = dk.changes(table, line[-1], line[1], inverse=True).to_arrow()
            old, new = (rows(i, metadata.schema) for i in (line[-1], line[1]))
            assert replayed(old, found) == new, f"back to {line[1]}"
            compared += 1
    return compared


def replayed(rows: Counter[Any], changes: pa.Table) -> Counter[Any]:
    """Apply changes; a delete takes exactly one row with all its values away."""
    out = Counter(rows)
    for kind, row in zip(changes["_change_type"].to_pylist(), _values(changes), strict=True):
        if kind in ("delete", "update_before"):
            assert out[row] > 0, f"no such row to take away: {row}"
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


def _rows(table: dk.Table, snapshot_id: int | None, schema: Schema) -> Counter[Any]:
    """Rows of a snapshot, read with another schema of the table."""
    if snapshot_id is None:
        return Counter()
    read = dk.scan(table, snapshot_id=snapshot_id)
    names = [f.name for f in schema.fields]
    fields = {n: select_field(schema, n) for n in names}
    return Counter(_values(replace(read, schema=schema, columns=names, fields=fields).to_arrow()))


def _values(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Yield the values of each row, in the order of the schema."""
    names = [n for n in rows.column_names if n not in (*ABOUT, "_row_id")]
    return zip(*(map(frozen, rows[n].to_pylist()) for n in names), strict=True)


# --- Iceberg's create_changelog_view ----------------------------------------------------------------------------------

JAVA_REFUSES = {
    "Cannot convert unsupported type to Spark: timestamp_ns",
    "Spark does not support time fields",
    "ORC cannot read default value",
    # Without identifier columns it sorts rows by all columns, and Spark orders no maps.
    "Identifier field is required as table contains unorderable columns",
}
"""What Java's changelog says of tables that it does not read."""


def check_against_java(spark: SparkSession, catalog: str, case: Case) -> tuple[int, int]:
    """Compare each history without delete files: all changes, net changes, and updates by the column `id`.

    Return how many results were compared, and how many Java refused.
    """
    table = dk.from_metadata(case.metadata_location)
    metadata, answers = table.metadata, Counter[bool]()
    for line in _without_deletes(table):
        end = metadata.snapshot_by_id(line[-1] or 0)

        def ours(start: int | None, end: Snapshot = end, **options: Any) -> list[Row]:
            # Java reads all snapshots with the current schema.
            read = changes_in_schema(table, start, end, metadata.schema, **options)
            return read.to_arrow().to_pylist()

        def theirs(start: int | None, arguments: str = "", end: Snapshot = end) -> list[Row] | None:
            found = _java_changes(spark, catalog, case, (start, end.snapshot_id), arguments)
            answers[found is not None] += 1
            return found

        if (java := theirs(line[0])) is not None:
            same_changes(in_two_types(ours(line[0], on=[])), java)
        for start in line[:-1]:
            if (java := theirs(start, "net_changes => true")) is not None:
                same_changes(in_two_types(ours(start, on=[], mode="net")), java, ["_change_type"])
        if "id" in metadata.schema.column_names:
            by_key = "compute_updates => true, identifier_columns => array('id')"
            if (java := theirs(line[0], by_key)) is not None:
                same_changes(ours(line[0], on="id"), java)
    return answers[True], answers[False]


def same_changes(found: Sequence[Row], java: Sequence[Row], about: Sequence[str] = ABOUT) -> None:
    """Hold that both have the same rows of the same type, and of the same commit and ordinal if `about` names them.

    Java's net changes keep the ordinal and the id of the commit of each row; ours are those of one step.
    """
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


def _without_deletes(table: dk.Table) -> list[list[int | None]]:
    """Return each stretch of a branch or tag whose snapshots have no delete manifests, or change nothing.

    Java's changelog reads no other: "Delete files are currently not supported in changelog scans".
    """
    reader, found = SnapshotReader(table.io, table.metadata), []
    for line in _lines(table):
        stretch: list[int | None] = []
        for snapshot_id in line:
            snapshot = None if snapshot_id is None else table.metadata.snapshot_by_id(snapshot_id)
            manifests = reader.manifests(snapshot) if snapshot is not None else ()
            if any(m.content == ManifestContent.DELETES for m in manifests):
                # A file that it removes is read without the deletes that applied to it: nothing starts or ends here.
                found.append(stretch)
                stretch = []
            else:
                stretch.append(snapshot_id)
        found.append(stretch)
    longer = {tuple(stretch): stretch for stretch in found if len(stretch) > 1}
    return list(longer.values())


def _java_changes(
    spark: SparkSession, catalog: str, case: Case, span: tuple[int | None, int], arguments: str
) -> list[Row] | None:
    """Return the rows of `create_changelog_view`, None for a table that it does not read."""
    start, end = span
    options = ["'end-snapshot-id'", f"'{end}'"]
    options += ["'start-snapshot-id'", f"'{start}'"] if start is not None else []
    more = f", {arguments}" if arguments else ""
    try:
        spark.sql(
            f"CALL {catalog}.system.create_changelog_view(table => '{case.table}', changelog_view => 'dk_changes', "
            f"options => map({', '.join(options)}){more})"
        )
        rows = spark.sql("SELECT * FROM dk_changes").toArrow().to_pylist()
    except Exception as error:
        if any(reason in str(error) for reason in JAVA_REFUSES):
            return None
        raise
    return [{**row, "_change_type": row["_change_type"].lower()} for row in rows]
