"""`Scene`: one table being made. Spark SQL writes what it can and Iceberg Java the rest; Spark's reads are recorded."""

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.interop.corpus_case import Case, Read, ReadKind, Recipe

COPY_ON_WRITE = {f"write.{verb}.mode": "copy-on-write" for verb in ("delete", "update", "merge")}
MERGE_ON_READ = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}
NAMESPACE = "corpus"

Row = Mapping[str, Any]


class Scene:
    """One table of the corpus, from CREATE TABLE to the recorded reads.

    In every SQL text `{t}` stands for the table. Every read can be given the `ids` that must be live, worked out by
    hand; where Spark is known to be wrong it is given `rows` and the reason, and Spark must then really be wrong.
    """

    def __init__(self, spark: SparkSession, catalog: str, writers: Any, recipe: Recipe, out: Path) -> None:
        self.spark = spark
        self.catalog = catalog
        self.version = recipe.format_version
        self.identifier = f"{NAMESPACE}.{recipe.name}"
        self.name = f"{catalog}.{self.identifier}"
        self._writers = writers
        self._recipe = recipe
        self._directory = out / recipe.name
        self._directory.mkdir(parents=True)
        self._reads: list[Read] = []
        self._finished_as: str | None = None

    # --- writing with Spark --------------------------------------------------------------------------------------

    def create(
        self,
        columns: str,
        partitioned_by: str = "",
        properties: Mapping[str, str] | None = None,
        location: str | None = None,
    ) -> None:
        """Create the table: this case's format version, merge-on-read unless `properties` say otherwise."""
        merged = {"format-version": str(self.version), **MERGE_ON_READ, **(properties or {})}
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in merged.items())
        clauses = f"PARTITIONED BY ({partitioned_by})" if partitioned_by else ""
        clauses += f" LOCATION '{location}'" if location else ""
        self.sql(f"CREATE TABLE {{t}} ({columns}) USING iceberg {clauses} TBLPROPERTIES ({listed})")

    def sql(self, *statements: str) -> list[Any]:
        """Run the statements; the rows of the last one."""
        rows: list[Any] = []
        for statement in statements:
            rows = self.spark.sql(statement.replace("{t}", self.name)).collect()
        return rows

    def insert(self, values: str, into: str = "{t}") -> None:
        """One INSERT, so one data file for each partition, its rows in the order given."""
        self.sql(f"INSERT INTO {into} SELECT /*+ COALESCE(1) */ * FROM VALUES {values}")

    def set(self, **properties: str) -> None:
        """Table properties; `__` in a name is a dash and `_` a dot, as in `format__version="3"`."""
        listed = ", ".join(f"'{k.replace('__', '-').replace('_', '.')}' = '{v}'" for k, v in properties.items())
        self.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({listed})")

    @contextlib.contextmanager
    def conf(self, key: str, value: str) -> Iterator[None]:
        """A setting of the Spark session, for a while."""
        self.spark.conf.set(key, value)
        try:
            yield
        finally:
            self.spark.conf.unset(key)

    def scratch(self, name: str) -> str:
        """A folder of this case for files that Iceberg did not write."""
        return str(self._directory / name)

    def call(self, procedure: str, arguments: str = "") -> list[Any]:
        """`CALL system.<procedure>` on this table."""
        more = f", {arguments}" if arguments else ""
        return self.sql(f"CALL {self.catalog}.system.{procedure}(table => '{self.identifier}'{more})")

    # --- writing with Iceberg Java -------------------------------------------------------------------------------

    def java(self) -> Any:
        """The org.apache.iceberg.Table as it is now; a catalog that caches tables forgets it."""
        iceberg = self.spark._jvm.org.apache.iceberg
        catalog = iceberg.spark.Spark3Util.loadIcebergCatalog(self.spark._jsparkSession, self.catalog)
        identifier = iceberg.catalog.TableIdentifier.parse(self.identifier)
        catalog.invalidateTable(identifier)
        return catalog.loadTable(identifier)

    def add_columns(self, **types: Any) -> None:
        """Add optional columns of Iceberg types that Spark SQL has no name for."""
        update = self.java().updateSchema()
        for name, java_type in types.items():
            update.addColumn(name, java_type)
        update.commit()
        self.java()

    def add_default(self, name: str, java_type: str, default: Any) -> None:
        """Add a column with an initial default (v3)."""
        iceberg = self.spark._jvm.org.apache.iceberg
        literal = iceberg.expressions.Expressions.lit(default)
        column_type = getattr(iceberg.types.Types, java_type).get()
        self.java().updateSchema().addColumn(name, column_type, literal).commit()
        self.java()

    def data_file(self, rows: Sequence[Row], **request: Any) -> Any:
        """A DataFile with the rows, written but not committed. `request`: see java/FileWriters.java."""
        return self._writers.data(self.java(), _request(request, rows=rows))

    def equality_file(self, keys: Sequence[str], rows: Sequence[Row], **request: Any) -> Any:
        """An equality DeleteFile, not committed; it holds the key columns unless `columns` says otherwise."""
        request.setdefault("columns", list(keys))
        return self._writers.equalityDeletes(self.java(), _request(request, keys=list(keys), rows=rows))

    def position_file(self, deletes: Sequence[tuple[str, int]], **request: Any) -> Any:
        """A v2 position DeleteFile, not committed. With `rows` it has the `row` struct."""
        write = self._writers.positionDeletesWithRows if "rows" in request else self._writers.positionDeletes
        return write(self.java(), _request(request, deletes=deletes))

    def vectors(self, deletes: Sequence[tuple[str, int]], **request: Any) -> list[Any]:
        """Deletion vectors in one Puffin file, not committed."""
        return list(self._writers.deletionVectors(self.java(), _request(request, deletes=deletes)))

    def deletes_by_position(self, deletes: Sequence[tuple[str, int]], **request: Any) -> list[Any]:
        """What this format version has for it: a position delete file, or vectors."""
        return self.vectors(deletes, **request) if self.version == 3 else [self.position_file(deletes, **request)]

    def commit(self, *, data: Iterable[Any] = (), deletes: Iterable[Any] = (), branch: str = "main") -> None:
        """One RowDelta with all of it."""
        delta = self.java().newRowDelta().toBranch(branch)
        for file in data:
            delta.addRows(file)
        for file in deletes:
            delta.addDeletes(file)
        delta.commit()
        self.java()

    def delete_equal(self, keys: Sequence[str], *rows: Row, **request: Any) -> None:
        """One commit with one equality delete file."""
        self.commit(deletes=[self.equality_file(keys, rows, **request)])

    def remove_data_files(self) -> None:
        """Remove every data file in one commit: unlike SQL this leaves equality and v2 position deletes."""
        removal = self.java().newDelete()
        tasks = self.java().newScan().planFiles().iterator()
        while tasks.hasNext():
            # Not by path: given a string, Py4J calls a protected namesake that deletes the file itself.
            removal.deleteFile(tasks.next().file())
        removal.commit()
        self.java()

    # --- looking -------------------------------------------------------------------------------------------------

    def positions(self, where: str = "true") -> list[tuple[str, int]]:
        """(data file, position) of every live row that matches, by id."""
        return [(row[0], row[1]) for row in self.sql(f"SELECT _file, _pos FROM {{t}} WHERE {where} ORDER BY id")]

    def snapshot_ids(self) -> list[int]:
        """All snapshots, oldest first."""
        return [s.snapshotId() for s in sorted(self.java().snapshots(), key=lambda s: s.sequenceNumber())]

    def delete_files(self) -> list[Any]:
        """The current snapshot's delete files, by content and format."""
        return self.sql("SELECT * FROM {t}.delete_files ORDER BY content, file_format, file_path, content_offset")

    # --- recording -----------------------------------------------------------------------------------------------

    def current(self, ids: Sequence[Any] | None = None, rows: pa.Table | None = None, wrong: str | None = None) -> None:
        """SELECT * of the main branch."""
        self._record("current", {}, "SELECT * FROM {t}", ids, rows, wrong)

    def snapshot(self, snapshot_id: int, ids: Sequence[Any] | None = None) -> None:
        self._record("snapshot", {"snapshot_id": snapshot_id}, f"SELECT * FROM {{t}} VERSION AS OF {snapshot_id}", ids)

    def checkpoint(self, ids: Sequence[Any]) -> None:
        """The snapshot that is current now, while the table is still being made."""
        self.snapshot(self.java().currentSnapshot().snapshotId(), ids)

    def history(self, *ids: Sequence[Any]) -> None:
        """Every snapshot, oldest first, each with the ids that were live."""
        snapshots = self.snapshot_ids()
        assert len(snapshots) == len(ids), f"{self.name} has {len(snapshots)} snapshots, not {len(ids)}"
        for snapshot_id, expected in zip(snapshots, ids, strict=True):
            self.snapshot(snapshot_id, expected)

    def ref(self, name: str, ids: Sequence[Any] | None = None) -> None:
        self._record("ref", {"ref": name}, f"SELECT * FROM {{t}} VERSION AS OF '{name}'", ids)

    def as_of(self, milliseconds: int, ids: Sequence[Any] | None = None) -> None:
        at = f"timestamp_millis({milliseconds})"
        self._record("as_of", {"as_of_ms": milliseconds}, f"SELECT * FROM {{t}} TIMESTAMP AS OF {at}", ids)

    def columns(self, *names: str, rows: pa.Table | None = None, wrong: str | None = None) -> None:
        """A projection, most useful where it leaves out the columns that equality deletes need."""
        selected = ", ".join(f"`{name}`" for name in names)
        self._record("columns", {"columns": list(names)}, f"SELECT {selected} FROM {{t}}", None, rows, wrong)

    def where(
        self, text: str, ids: Sequence[Any] | None = None, rows: pa.Table | None = None, wrong: str | None = None
    ) -> None:
        """A filter in the SQL that Spark and pyiceberg both parse."""
        self._record("filter", {"where": text}, f"SELECT * FROM {{t}} WHERE {text}", ids, rows, wrong)

    def lineage(self, ids: Sequence[Any] | None = None) -> None:
        """The rows with `_row_id` and `_last_updated_sequence_number` (v3)."""
        self._record("lineage", {}, "SELECT *, _row_id, _last_updated_sequence_number FROM {t}", ids)

    def deleted(self, dead: Sequence[Any] | None = None) -> None:
        """All rows, dead ones too, with `_deleted`."""
        rows = self._record("deleted", {}, "SELECT *, _deleted FROM {t}")
        got = _sorted(r["id"] for r in rows.to_pylist() if r["_deleted"])
        assert dead is None or got == _sorted(dead), f"{self.name}: dead {got}, not {dead}"

    def finish(self) -> Case:
        """Write `case.json`; every recorded read belongs to the table as it is now."""
        operations = self.java().operations().current()
        assert self._finished_as == operations.metadataFileLocation(), f"{self.name} changed after its reads"
        case = Case(
            name=self._recipe.name,
            table=self.identifier,
            metadata_location=operations.metadataFileLocation(),
            format_version=operations.formatVersion(),
            features=self._recipe.features,
            description=self._recipe.description,
            reads=tuple(self._reads),
            directory=self._directory,
        )
        case.save()
        return case

    def _record(
        self,
        kind: ReadKind,
        args: dict[str, Any],
        query: str,
        ids: Sequence[Any] | None = None,
        rows: pa.Table | None = None,
        wrong: str | None = None,
    ) -> pa.Table:
        assert (rows is None) == (wrong is None), "rows made by hand come with the reason, and only they do"
        if kind not in {"snapshot", "as_of"}:
            location = self.java().operations().current().metadataFileLocation()
            assert self._finished_as in {None, location}, f"{self.name} changed between its reads"
            self._finished_as = location
        sparks = self._ask(query, may_fail=rows is not None)
        if rows is not None:
            assert sparks is None or not _same_rows(sparks, rows), f"{self.name}: Spark is right about {kind} {args}"
        answer = rows if rows is not None else sparks
        assert answer is not None
        if ids is not None:
            got = _sorted(answer.column("id").to_pylist())
            assert got == _sorted(ids), f"{self.name}: {kind} {args} has ids {got}, not {_sorted(ids)}"
        file = f"{len(self._reads):02d}-{kind}.parquet"
        pq.write_table(answer, self._directory / file)
        self._reads.append(Read(kind, args, file, wrong))
        return answer

    def _ask(self, query: str, *, may_fail: bool) -> pa.Table | None:
        try:
            return self.spark.sql(query.replace("{t}", self.name)).toArrow()
        except (Py4JJavaError, PySparkException):
            if not may_fail:
                raise
            return None


def _request(request: Mapping[str, Any], **more: Any) -> str:
    """JSON with dashes for underscores, as java/FileWriters.java wants it."""
    values = {key.replace("_", "-"): value for key, value in {**request, **more}.items()}
    return json.dumps(values, allow_nan=False)


def _sorted(values: Iterable[Any]) -> list[Any]:
    return sorted(values, key=lambda value: (value is None, value))


def _same_rows(left: pa.Table, right: pa.Table) -> bool:
    """Equal as bags, where NaN is NaN and -0.0 is not 0.0."""
    return sorted(map(repr, left.to_pylist())) == sorted(map(repr, right.to_pylist()))
