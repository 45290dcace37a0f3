"""Start a Spark session with Iceberg on the catalogs that deletekit opens.

Nothing is installed but jars; what is missing is named in one sentence. pyspark is imported only to start a session.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from deletekit.errors import EnvironmentMissingError, InvalidInputError, UnsupportedError
from deletekit.public import public
from deletekit.spark.catalogs import SparkCatalog, embedded_spark_catalog, spark_catalog
from deletekit.spark.releases import JARS, check_release
from deletekit.spark.session_catalogs import add_session_catalog, inherited
from deletekit.spark.without_runtime import refusing_iceberg_sql
from deletekit.table.locations import normalised

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
_JAVA_OPTIONS = "-Duser.timezone=UTC"
_SMALL_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=30"
_ONE_THREAD = {
    # Spark starts separate Python workers for planning, reading and writing, and keeps each for a minute.
    "spark.python.worker.reuse": "false",
    "spark.driver.extraJavaOptions": f"{_JAVA_OPTIONS} {_SMALL_JVM}",
}
JARS_FOLDER_VARIABLE = "DELETEKIT_JARS"


@public
def session(
    warehouse: str | Path | None = None,
    *,
    catalog: Mapping[str, str] | None = None,
    catalog_name: str = "local",
    master: str = "local[2]",
    driver_memory: str = "1g",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark with Iceberg, or reuse the running session, with a catalog that deletekit opens too.

    Parameters
    ----------
    warehouse: the directory of an embedded catalog, as in `deletekit.local_catalog(warehouse)`; `catalog.db` in it is
        opened by Iceberg's JdbcCatalog.
    catalog: instead of it, the properties of another catalog (REST, SQL, Hive, Glue), as in
        `deletekit.load_catalog(catalog_name, **catalog)`. They are translated for Iceberg's Java, those for S3 too. A
        property that Java has no counterpart for is refused; an unknown one is passed on.
    catalog_name: Spark's name of the catalog, which must be deletekit's own name of it.
    master, driver_memory: Spark's; a running session keeps its own. `local[1]` is for small machines: its Python
        workers, some 200 MB each, end after their task instead of waiting for more.
    settings: further Spark properties.

    Jars are resolved by Maven coordinates, or taken from the folder that the variable DELETEKIT_JARS names (offline).
    The JVM's messages go to `spark.log` in the warehouse, or in a new temporary directory with `catalog`; no progress
    bars are drawn. `spark.read.format("deletekit")` finds the catalog by its name; without a name it takes the one that
    the session was started with. In a session that deletekit did not start, its options must name the catalog.
    Iceberg has no runtime for Spark 4.2 and 4.3: there the session starts without it, logs so, and refuses its SQL.

    Raises EnvironmentMissingError, in one sentence, without pyspark, Java 17, a jar in DELETEKIT_JARS, Iceberg in a
    running session, or for a Spark that was never tried; InvalidInputError if the running session has another catalog
    of this name; UnsupportedError for a catalog that Spark cannot open, or where Spark Connect is on.
    """
    if (warehouse is None) == (catalog is None):
        raise InvalidInputError("a session needs one catalog", kind="spark-catalog", field="warehouse, catalog")
    problem = java_problem()
    if problem is not None:
        raise EnvironmentMissingError(problem, kind="java")
    spark_class = _classic_pyspark()
    properties = catalog if catalog is not None else {"warehouse": normalised(str(warehouse), "warehouse")}
    opened = spark_catalog(catalog_name, catalog) if catalog is not None else _embedded(catalog_name, properties)
    running = running_session()
    if running is not None:
        _add_catalog(running, opened.settings, catalog_name)
        add_session_catalog(catalog_name, properties)
        return running if JARS else refusing_iceberg_sql(running)
    root = Path(tempfile.mkdtemp(prefix="deletekit-spark-") if warehouse is None else properties["warehouse"])
    # Python workers of another version than the driver's refuse to start.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    small = _ONE_THREAD if master == "local[1]" else {}
    of_master = {**_address(master), **_daemon(master), **small}
    given: Any = {**_settings(root, driver_memory, opened), **of_master, **(settings or {})}
    builder = spark_class.builder.master(master).appName("deletekit").config(map=given)
    with _standard_error_into(root / "spark.log"), inherited():
        started: SparkSession = builder.getOrCreate()
    add_session_catalog(catalog_name, properties, new_session=True)
    return started if JARS else refusing_iceberg_sql(started)


def _classic_pyspark() -> type[SparkSession]:
    """Return the class of sessions. Raises without pyspark, for a release never tried, or where Connect is on."""
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415  # pyspark is an extra
        from pyspark.sql.utils import is_remote  # noqa: PLC0415
    except ImportError as e:
        raise EnvironmentMissingError("pyspark is not installed: pip install 'deletekit[spark]'", kind="pyspark") from e
    check_release()
    if is_remote():
        message, expected = "deletekit needs a classic session", "no SPARK_REMOTE and no SPARK_CONNECT_MODE_ENABLED"
        raise UnsupportedError(message, kind="spark-connect", field="session", expected=expected)
    return SparkSession


def _embedded(name: str, properties: Mapping[str, str]) -> SparkCatalog:
    folder = Path(properties["warehouse"])
    folder.mkdir(parents=True, exist_ok=True)
    return embedded_spark_catalog(name, folder)


@public
def fetch_jars(folder: str | Path) -> tuple[Path, ...]:
    """Copy the jars of `JARS` and what they need into a folder that DELETEKIT_JARS can name; return their paths.

    Spark is started once and stopped. It resolves the Maven coordinates as every session does: from the network if
    they were never fetched, or from the folder that DELETEKIT_JARS names now. If a session is running, its jars are
    copied, and it is left running.

    Raises EnvironmentMissingError as `session` does, if the jars in use are not those of `JARS`, or if there are none.
    """
    check_release(runtime=True)
    running = running_session()
    with tempfile.TemporaryDirectory(prefix="deletekit-jars-", ignore_cleanup_errors=True) as warehouse:
        asked = running if running is not None else session(warehouse, master="local[1]", driver_memory="512m")
        used = asked.conf.get("spark.jars", None) or ""
        if running is None:
            asked.stop()
    jars = [Path(url2pathname(urlsplit(jar).path) if "://" in jar else jar) for jar in used.split(",") if jar]
    missing = [name for name in map(_jar_name, JARS) if not any(jar.name.endswith(name) for jar in jars)]
    if missing:
        message = "the running Spark session has other jars"
        raise EnvironmentMissingError(message, "jars", "spark.jars", expected=", ".join(missing))
    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    return tuple(Path(shutil.copy(jar, root / jar.name)) for jar in jars)


def _add_catalog(running: SparkSession, catalog: Mapping[str, str], name: str) -> None:
    """Add a catalog to a running session. Spark keeps a catalog once it is open, so another of this name is refused."""
    for key, value in catalog.items():
        there = running.conf.get(key, None)
        if there not in (None, value):
            shown = key.endswith((name, ".type", ".uri", ".warehouse"))  # others may be secrets
            message = "the running Spark session has this catalog at another place"
            raise InvalidInputError(message, "spark-catalog", key, *((there, value) if shown else ()))
    for key, value in catalog.items():
        running.conf.set(key, value)
    if not JARS:
        return
    try:
        running.sql(f"show namespaces in `{name.replace('`', '``')}`")
    except Exception as e:
        if "Cannot find catalog plugin class" in str(e):
            message = "the running Spark session was started without Iceberg's jar: stop it first"
            raise EnvironmentMissingError(message, kind="jars") from e
        raise


def running_session() -> SparkSession | None:
    """Return the Spark session of this process, or None; start none."""
    module = sys.modules.get("pyspark.sql")
    running: SparkSession | None = module.SparkSession.getActiveSession() if module is not None else None
    return running


def end_session(session: SparkSession) -> None:
    """Stop a session and end its JVM, which would keep its memory as long as Python runs."""
    context = type(session.sparkContext)
    gateway = context._gateway  # noqa: SLF001  # pyspark has no public way to end its JVM
    session.stop()
    program = getattr(gateway, "proc", None)
    if gateway is None or program is None:  # a JVM that Python did not start
        return
    gateway.shutdown()
    program.stdin.close()  # it ends when its input does
    program.wait(60)
    context._gateway = context._jvm = None  # noqa: SLF001


def java_program() -> str:
    """Return the Java that Spark's own scripts would run: that of JAVA_HOME, else the one on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def java_problem() -> str | None:
    """Say in one sentence why Spark cannot start here. Return None if there is a Java that it can use."""
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


def _settings(root: Path, driver_memory: str, catalog: SparkCatalog) -> dict[str, str]:
    extensions = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    with_iceberg = {**_jars((*JARS, *catalog.jars)), "spark.sql.extensions": extensions} if JARS else {}
    return {
        **with_iceberg,
        "spark.driver.memory": driver_memory,
        "spark.driver.extraJavaOptions": _JAVA_OPTIONS,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(root / "spark-warehouse"),
        **catalog.settings,
    }


def _address(master: str) -> dict[str, str]:
    """Let the driver listen on loopback, unless executors on other machines must find it."""
    if re.match(r"local\b|spark://(127\.0\.0\.1|localhost):", master):
        return {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return {}


def _daemon(master: str) -> dict[str, str]:
    """Let Python workers start from a process with our reader imported, where they are sure to find it: they run here.

    Without the module no Python worker would start, not even one of a plain function. Spark 3.5 has no data source.
    """
    here = re.match(r"local\b", master) and os.environ["PYSPARK_PYTHON"] == sys.executable
    if here and find_spec("pyspark.sql.datasource") and any(distributions(name="deletekit")):
        return {"spark.python.daemon.module": "deletekit.spark.python_daemon"}
    return {}


def _jars(coordinates: Sequence[str]) -> dict[str, str]:
    folder = os.environ.get(JARS_FOLDER_VARIABLE)
    if not folder:
        return {"spark.jars.packages": ",".join(coordinates)}
    missing = [file for file in map(_jar_name, coordinates) if not any(Path(folder).glob(f"*{file}"))]
    if missing:
        expected = ", ".join(missing)
        raise EnvironmentMissingError("jars are missing", "jars", JARS_FOLDER_VARIABLE, expected=expected, file=folder)
    return {"spark.jars": ",".join(str(p) for p in sorted(Path(folder).glob("*.jar")))}


def _jar_name(coordinate: str) -> str:
    """Return how the name of a jar ends; Ivy puts the group before it."""
    return "-".join(coordinate.split(":")[1:]) + ".jar"


@contextmanager
def _standard_error_into(log: Path) -> Iterator[None]:
    """Point file descriptor 2 at `log` while the JVM starts: the JVM keeps it, and its messages go there."""
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("ab") as target:
        os.dup2(target.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
