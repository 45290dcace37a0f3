"""The interop corpus: tables that Spark and Iceberg Java wrote, and the rows that a right reader finds in them.

`build` writes it, `load` reads it back. By hand, from the root of the checkout, into a new directory
(catalog.db, warehouse/ and one folder with case.json and the expected rows for each case):

    python -m tests.interop.corpus DIRECTORY [NAME ...]
"""

import contextlib
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

from pyspark.sql import SparkSession

from conformance.run import load_suite
from tests.interop import (
    corpus_copy_on_write,
    corpus_equality_keys,
    corpus_equality_schema,
    corpus_equality_scope,
    corpus_formats,
    corpus_history,
    corpus_lineage,
    corpus_maintenance,
    corpus_partitions,
    corpus_position_deletes,
    corpus_pruning,
    corpus_types,
    corpus_upgrade,
)
from tests.interop.corpus_case import Case, Read
from tests.interop.corpus_java import load_file_writers
from tests.interop.corpus_scene import NAMESPACE, Scene

__all__ = ["Case", "Read", "build", "load", "session"]

MODULES: tuple[ModuleType, ...] = (
    corpus_copy_on_write,
    corpus_position_deletes,
    corpus_equality_keys,
    corpus_equality_schema,
    corpus_equality_scope,
    corpus_formats,
    corpus_history,
    corpus_lineage,
    corpus_maintenance,
    corpus_partitions,
    corpus_pruning,
    corpus_types,
    corpus_upgrade,
)
# Many plans for few rows: compiling them would cost more than it saves.
TUNING = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
}
ALWAYS = {"copy-on-write", "lineage", "avro", "orc"}
PACKAGES = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0,org.xerial:sqlite-jdbc:3.50.3.0"


def build(spark: SparkSession, catalog: str, out: Path, only: Iterable[str] = ()) -> list[Case]:
    """Make every table in the namespace `corpus` of the catalog, and a folder with its expected rows in `out`.

    The catalog is an Iceberg catalog of the session, and has no such namespace yet. `only` holds beginnings of the
    names that are wanted. A case that cannot be made does not stop the others: all errors are raised at the end.
    """
    spark.sql(f"CREATE NAMESPACE {catalog}.{NAMESPACE}")
    writers = load_file_writers(spark, out / "classes")
    prefixes = tuple(only) or ("",)
    cases: list[Case] = []
    failures: list[Exception] = []
    with _tuned(spark):
        for recipe in (r for module in MODULES for r in module.RECIPES if r.name.startswith(prefixes)):
            started = time.perf_counter()
            try:
                scene = Scene(spark, catalog, writers, recipe, out)
                recipe.make(scene)
                cases.append(scene.finish())
            except Exception as error:  # noqa: BLE001 - all cases are tried, and what failed is raised below
                error.add_note(f"in the corpus case {recipe.name}")
                failures.append(error)
            print(f"{time.perf_counter() - started:6.2f} s  {recipe.name}", flush=True)
    if failures:
        raise ExceptionGroup("the corpus has cases that could not be made", failures)
    return cases


def sample() -> list[str]:
    """Return names of few cases that have every feature together, but for features of the tables that are committed.

    Those are in /conformance, as Java and Spark wrote them; deletekit reads them in the first tier.
    """
    found = [recipe for module in MODULES for recipe in module.RECIPES]
    recipes = {recipe.name: set(recipe.features) for recipe in found}
    versions = {recipe.name: recipe.format_version for recipe in found}
    committed = {case.name for case in load_suite()} & set(recipes)
    missing = set[str]().union(*recipes.values())
    missing -= set[str]().union(*(recipes[name] for name in committed)) - ALWAYS
    names = []
    while missing:
        version = 2 + len(names) % 2  # by turns, where a table is made in both
        best = max(recipes, key=lambda name: (len(recipes[name] & missing), versions[name] == version))
        names.append(best)
        missing -= recipes[best]
    return names


def load(out: Path) -> list[Case]:
    """The cases that `build` left in `out`, by name."""
    return [Case.load(file.parent) for file in sorted(out.glob("*/case.json"))]


def session(out: Path, catalog: str = "dk") -> SparkSession:
    """A Spark session with a catalog in `out`, tuned for tables of ten rows."""
    settings = {
        "spark.jars.packages": PACKAGES,
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.default.parallelism": "1",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        f"spark.sql.catalog.{catalog}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{catalog}.type": "jdbc",
        f"spark.sql.catalog.{catalog}.uri": f"jdbc:sqlite:{out / 'catalog.db'}",
        f"spark.sql.catalog.{catalog}.warehouse": str(out / "warehouse"),
        f"spark.sql.catalog.{catalog}.jdbc.schema-version": "V1",
        f"spark.sql.catalog.{catalog}.cache-enabled": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("deletekit-corpus")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("FATAL")  # a few reads are meant to fail, and Python raises those that are not
    return spark


def main(directory: str, *only: str) -> None:
    """Build into a directory that does not exist yet."""
    out = Path(directory).resolve()
    out.mkdir(parents=True)
    started = time.perf_counter()
    cases = build(session(out), "dk", out, only)
    reads = sum(len(case.reads) for case in cases)
    print(f"{len(cases)} cases, {reads} reads in {time.perf_counter() - started:.0f} s", flush=True)


@contextlib.contextmanager
def _tuned(spark: SparkSession) -> Iterator[None]:
    """The session with `TUNING`, and as it was afterwards."""
    before = {key: spark.conf.get(key, None) for key in TUNING}
    for key, value in TUNING.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, earlier in before.items():
            if earlier is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, earlier)


if __name__ == "__main__":
    main(*sys.argv[1:])
