"""A Spark session with Iceberg on the embedded catalog's own files.

Law: finds what is there, installs nothing but jars, and says in one sentence what is missing. Imports pyspark only when
a session is asked for.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deletekit.errors import EnvironmentMissingError, InvalidInputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["JARS", "java_problem", "java_program", "session"]

JARS = (
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    "org.xerial:sqlite-jdbc:3.50.3.0",
)
"""Maven coordinates that work together with pyspark 4.1."""

OLDEST_JAVA = 17
JARS_FOLDER_VARIABLE = "DELETEKIT_JARS"


def session(
    warehouse: str | Path,
    *,
    catalog_name: str = "local",
    master: str = "local[2]",
    driver_memory: str = "1g",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark, or reuse the session that runs, with the catalog of `deletekit.local_catalog(warehouse)`.

    Parameters
    ----------
    warehouse: the embedded catalog's directory; `catalog.db` in it is opened by Iceberg's JdbcCatalog.
    catalog_name: Spark's name of the catalog, which must be the embedded catalog's own.
    master, driver_memory: Spark's; a running session keeps those it started with.
    settings: further Spark properties.

    Jars are resolved by Maven coordinates, or taken from the folder that the variable DELETEKIT_JARS names (offline).
    The JVM's messages go to `spark.log` in the warehouse; no progress bars are drawn.

    Raises EnvironmentMissingError, in one sentence, without pyspark or Java 17; InvalidInputError when the running
    session has a catalog of this name elsewhere.
    """
    problem = java_problem()
    if problem is not None:
        raise EnvironmentMissingError(problem, kind="java")
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415  # pyspark is an extra
    except ImportError as e:
        raise EnvironmentMissingError("pyspark is not installed: pip install 'deletekit[spark]'", kind="pyspark") from e
    root = Path(warehouse).absolute()
    root.mkdir(parents=True, exist_ok=True)
    catalog = catalog_settings(root, catalog_name)
    running = running_session()
    if running is not None:
        return _with_catalog(running, catalog, catalog_name)
    # Python workers of another version than the driver's refuse to start.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder.master(master).appName("deletekit")
    for key, value in {**_settings(root, driver_memory), **catalog, **(settings or {})}.items():
        builder = builder.config(key, value)
    with _standard_error_into(root / "spark.log"):
        started: SparkSession = builder.getOrCreate()
    return started


def _with_catalog(running: SparkSession, catalog: Mapping[str, str], name: str) -> SparkSession:
    """A running session with the catalog added; Spark keeps a catalog it has opened, so another place is refused."""
    key = f"spark.sql.catalog.{name}.uri"
    there = running.conf.get(key, None)
    if there not in (None, catalog[key]):
        raise InvalidInputError(
            "the running Spark session has this catalog at another place",
            kind="spark-catalog",
            field="catalog_name",
            found=there,
            expected=catalog[key],
        )
    for setting, value in catalog.items():
        running.conf.set(setting, value)
    return running


def running_session() -> SparkSession | None:
    """The Spark session of this process, or None; does not start one."""
    module = sys.modules.get("pyspark.sql")
    running: SparkSession | None = module.SparkSession.getActiveSession() if module is not None else None
    return running


def catalog_settings(warehouse: Path, name: str) -> dict[str, str]:
    """Spark properties that open the embedded catalog of a directory as Iceberg's JdbcCatalog."""
    catalog = f"spark.sql.catalog.{name}"
    return {
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "jdbc",
        f"{catalog}.uri": f"jdbc:sqlite:{warehouse / 'catalog.db'}",
        f"{catalog}.warehouse": str(warehouse),
        # V1 has the column iceberg_type that pyiceberg's SqlCatalog writes and asks for.
        f"{catalog}.jdbc.schema-version": "V1",
        # Another writer, deletekit, commits to the same tables.
        f"{catalog}.cache-enabled": "false",
    }


def java_program() -> str:
    """The Java that Spark's own scripts would run: that of JAVA_HOME, else the one on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def java_problem() -> str | None:
    """Why Spark cannot start here, in one sentence; None when there is a Java that it can use."""
    java = java_program()
    wanted = f"Spark needs Java {OLDEST_JAVA} or later"
    if shutil.which(java) is None:
        return f"{wanted}, and there is no Java " + ("on the PATH" if java == "java" else f"at JAVA_HOME ({java})")
    shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603
    found = re.search(r'version "(?:1\.)?(\d+)', shown)
    if found is None:
        return f"{wanted}, and `{java} -version` names no version: {shown.strip()[:200]}"
    if int(found[1]) < OLDEST_JAVA:
        return f"{wanted}, and {java} is Java {found[1]}"
    return None


def _settings(root: Path, driver_memory: str) -> dict[str, str]:
    folder = os.environ.get(JARS_FOLDER_VARIABLE)
    if folder:
        jars = {"spark.jars": ",".join(str(p) for p in sorted(Path(folder).glob("*.jar")))}
    else:
        jars = {"spark.jars.packages": ",".join(JARS)}
    return {
        **jars,
        "spark.driver.memory": driver_memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(root / "spark-warehouse"),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    }


@contextmanager
def _standard_error_into(log: Path) -> Iterator[None]:
    """Point file descriptor 2 at `log`: the JVM started meanwhile keeps it, and its messages stay out of the way."""
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("ab") as target:
        os.dup2(target.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
