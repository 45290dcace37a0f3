"""One table in one catalog, on which Spark and deletekit act by turns; after each step both read what the model holds.

Every choice follows from the seed, the number of the step and the model, so that a run can be repeated.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from random import Random
from typing import Any

import pyarrow as pa

import deletekit as dk
from tests.interop.rows import same_rows
from tests.optional_types import SparkSession
from tests.stateful.turns_model import Branch, Column, Filter, Model, Row, Values, start_columns

FAR = 4_102_444_800_000  # 2100, in milliseconds
FAR_SQL = "TIMESTAMP '2100-01-01 00:00:00'"
KEEPS, NEW, MAYBE = "keeps its row id", "has a new row id", "has some row id"
_LINEAGE = ("_row_id", "_last_updated_sequence_number")
_START_SPECS = ([], ["cat"], ["bucket(2, id)"], ["day(ts)", "truncate(1, cat)"], ["id"], ["void(num)", "flag"], ["d"])
_ARROW = {
    "int": pa.int32(),
    "long": pa.int64(),
    "string": pa.string(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamptz": pa.timestamp("us", "UTC"),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "list": pa.list_(pa.string()),
}


class Machine:
    """A table, its model and what was done.

    Attributes
    ----------
    changed: of the rows that the step at hand has changed, (branch, uid) -> what becomes of the row id.
    heads: branch -> its head when it was last looked at.
    keyed: keys of columns that some equality delete may be about.
    has_orc: whether a data file in ORC was written.
    sink, batches: a sink that stays open, and how many batches it was given.
    """

    def __init__(self, spark: SparkSession, catalog: dk.Catalog, seed: int, namespace: str) -> None:
        self.spark = spark
        self.seed = seed
        rng = self.rng = Random(f"table {seed}")
        nested = seed % 5 == 4
        self.model = Model(columns=start_columns(), null_structs=not nested)
        self.changed: dict[tuple[str, int], str] = {}
        self.keyed: set[int] = set()
        self.has_orc = False
        self.history: list[str] = []
        self.heads: dict[str, int] = {}
        self.sink: dk.stream.Sink | None = None
        self.batches = 0
        start = 1 if seed % 4 == 1 else 2 if seed % 4 in (0, 2) else 3
        spec = ["bucket(2, st.a)"] if nested else rng.choice(_START_SPECS)
        identifier = f"{namespace}.by_turns_{seed}"
        self.name = f"local.{identifier}"
        self.table = dk.create_table(
            catalog, identifier, self._schema(), format_version=start, partition_by=spec,
            properties={"commit.manifest.min-count-to-merge": rng.choice(["2", "100"])},
        )  # fmt: skip
        self.note(f"v{start} partitioned by {spec}")
        if start == 1 and spec:
            # Version 1 leaves a void field where one is dropped.
            dk.drop_partition_field(self.table, self.table.spec.fields[0].name)

    # --- what actions use --------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The table's format version."""
        return self.table.format_version

    def note(self, text: str) -> None:
        """Write down what is about to be done."""
        self.history.append(text)

    def ref(self) -> str:
        """A random branch, mostly main."""
        return "main" if self.rng.random() < 0.7 else self.rng.choice(list(self.model.branches))

    def at(self, ref: str) -> str:
        """Spark's name of a branch of the table."""
        return self.name if ref == "main" else f"{self.name}.branch_{ref}"

    def sql(self, text: str) -> list[Any]:
        """Run a statement of Spark's, and write it down."""
        self.note(f"Spark: {text}")
        return self.spark.sql(text).collect()

    def call(self, procedure: str, arguments: str = "") -> None:
        """Call a procedure of Iceberg's Spark extension on the table."""
        place = self.name.removeprefix("local.")
        self.sql(f"CALL local.system.{procedure}(table => '{place}'{', ' if arguments else ''}{arguments})")

    def ours(self, verb: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Run a verb of deletekit's on the table, and write it down."""
        given = ", ".join([*map(repr, args), *(f"{k}={v!r}" for k, v in options.items())])
        self.note(f"deletekit: {verb.__module__.rsplit('.', 1)[-1]}.{verb.__name__}({given})")
        return verb(self.table, *args, **options)

    def arrow(self, rows: Sequence[Mapping[str, Any]], columns: Sequence[Column] | None = None) -> pa.Table:
        """Rows by the columns' names as an Arrow table of their types."""
        fields = [_arrow_field(c) for c in columns or self.model.columns]
        return pa.Table.from_pylist([dict(row) for row in rows], pa.schema(fields))

    def source(self, rows: Sequence[Mapping[str, Any]], columns: Sequence[Column] | None = None) -> str:
        """Make rows a temporary view of Spark's, and give its name."""
        name = f"source_{self.seed}"
        self.note(f"rows: {list(rows)}")
        self.spark.createDataFrame(self.arrow(rows, columns)).createOrReplaceTempView(name)
        return name

    def replace_rows(self, ref: str, rows: Sequence[Values], changed: Mapping[int, str] | None = None) -> None:
        """Make these the rows of a branch in the model; `changed` says of whom the row id may not be as it was."""
        self.model.branches[ref].rows = deepcopy(list(rows))
        self.changed |= {(ref, uid): what for uid, what in (changed or {}).items()}

    def delete_rows(self, ref: str, found: Filter) -> None:
        """Take rows away from a branch in the model."""
        self.replace_rows(ref, [row for row in self.model.branches[ref].rows if not found.test(row)])

    def update_rows(self, ref: str, found: Filter, column: Column, value: Any, kind: str) -> None:
        """Set a column of some rows of a branch in the model."""
        rows = self.model.branches[ref].rows
        hit = {self.model.uid(row) for row in rows if found.test(row)}
        after = [{**row, column.key: value} if self.model.uid(row) in hit else row for row in rows]
        self.replace_rows(ref, after, dict.fromkeys(hit, kind))

    # --- what must hold ----------------------------------------------------------------------------------------------

    def check(self, number: int) -> None:
        """Compare both engines with the model, on every branch, and verify the table."""
        self.table.refresh()
        self.rng = Random(f"{self.seed}: check {number}")
        self._remember_heads()
        whole = number % 10 == 9
        report = dk.verify(self.table, level="data", snapshots="all" if whole else "heads")
        assert report.ok, str(report)
        heads = {ref: head["snapshot-id"] for ref, head in self.table.metadata.refs.items()}
        for ref, branch in self.model.branches.items():
            # What does not move a branch may still harm it; that is seen a few steps later.
            if ref == "main" or whole or number % 5 == 4 or heads[ref] != self.heads.get(ref):
                self._check_branch(ref, branch)
        self.heads = heads
        self._check_filter()
        if whole:
            for snapshot_id in self.rng.sample(sorted(self.model.snapshots), min(2, len(self.model.snapshots))):
                self.check_snapshot(snapshot_id)
        self.changed = {}

    def check_snapshot(self, snapshot_id: int) -> None:
        """Compare both engines with the model on one snapshot, by the columns it was made with."""
        rows, columns = self.model.snapshots[snapshot_id]
        expected = self.model.shown(rows, columns)
        same_rows(dk.scan(self.table, snapshot_id=snapshot_id).to_arrow().to_pylist(), expected)
        same_rows(self._spark_rows(f"SELECT * FROM {self.name} VERSION AS OF {snapshot_id}"), expected)

    def _remember_heads(self) -> None:
        metadata = self.table.metadata
        live = {s["snapshot-id"] for s in metadata.raw.get("snapshots", [])}
        self.model.snapshots = {k: v for k, v in self.model.snapshots.items() if k in live}
        for ref, branch in self.model.branches.items():
            head = metadata.refs.get(ref)
            if head is not None:
                self.model.remember(head["snapshot-id"], branch.rows)

    def _check_branch(self, ref: str, branch: Branch) -> None:
        names = [c.name for c in self.model.columns]
        expected = self.model.shown(branch.rows)
        lineage = _LINEAGE if self.version >= 3 else ()
        ours = dk.scan(self.table, columns=[*names, *lineage], ref=ref).to_arrow().to_pylist()
        extra = "".join(f", {name}" for name in lineage)
        version = "" if ref == "main" else f"VERSION AS OF '{ref}'"
        theirs = self._spark_rows(f"SELECT *{extra} FROM {self.name} {version}")
        for rows in (ours, theirs):
            same_rows([_without(row, lineage) for row in rows], expected)
        if theirs:
            assert list(theirs[0]) == [*names, *lineage]
        assert dk.scan(self.table, ref=ref).count() == len(expected)
        if lineage:
            same_rows(map(_comparable, ours), map(_comparable, theirs))
            self._check_lineage(ref, branch, ours)

    def _check_lineage(self, ref: str, branch: Branch, rows: Sequence[Row]) -> None:
        now = {row["uid"]: (row["_row_id"], row["_last_updated_sequence_number"]) for row in rows}
        before, branch.lineage = branch.lineage, now
        ids = [row_id for row_id, _ in now.values() if row_id is not None]
        assert len(set(ids)) == len(ids), "row ids are unique"
        head = self.table.metadata.snapshot_of_ref(ref)
        for uid, (row_id, updated) in now.items():
            was_id, was_updated = before.get(uid, (None, None))
            what = self.changed.get((ref, uid))
            if was_id is None or what == MAYBE:
                continue
            if what is None:
                assert (row_id, updated) == (was_id, was_updated), f"uid {uid} was not changed"
            else:
                assert (row_id == was_id) == (what == KEEPS), f"uid {uid} {what}: {was_id} -> {row_id}"
                assert head is not None
                assert was_updated < updated <= head.sequence_number, f"uid {uid}: {was_updated} -> {updated}"

    def _check_filter(self) -> None:
        found = self.model.filter(self.rng)
        rows = self.model.shown([row for row in self.model.branches["main"].rows if found.test(row)])
        if found.ours is not None:
            self.note(f"read where {found.ours}")
            scan = dk.scan(self.table, found.ours)
            same_rows(scan.to_arrow().to_pylist(), rows)
            assert scan.count() == len(rows)
            same_rows([v.row for v in dk.explain(self.table, found.ours).live], rows)
        if found.spark is not None and self.rng.random() < 0.3:
            self.note(f"Spark reads where {found.spark}")
            same_rows(self._spark_rows(f"SELECT * FROM {self.name} WHERE {found.spark}"), rows)

    def _spark_rows(self, text: str) -> list[Row]:
        return self.spark.sql(text).toArrow().to_pylist()

    def _schema(self) -> pa.Schema:
        return pa.schema([_arrow_field(c, required=c.name == "uid") for c in self.model.columns])


def _arrow_field(column: Column, *, required: bool = False) -> pa.Field:
    if column.kind == "struct":
        return pa.field(column.name, pa.struct([_arrow_field(f) for f in column.fields]))
    kind = pa.decimal128(column.size, 2) if column.kind == "decimal" else _ARROW[column.kind]
    return pa.field(column.name, kind, nullable=not required)


def _without(row: Row, names: Sequence[str]) -> Row:
    return {k: v for k, v in row.items() if k not in names}


def _comparable(row: Row) -> Row:
    """Leave out a number that Java's Avro reader gives of a file without row ids; its other readers do not."""
    return _without(row, _LINEAGE[1:] if row["_row_id"] is None else ())
