"""Fixtures for the parts that a machine may lack, and what holds for every test."""

import gc
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

import deletekit as dk
from dev import java_problem, java_program
from tests import postgres as postgres_server
from tests.kafka_broker import KAFKA_JARS, KafkaBroker
from tests.optional_types import SparkSession
from tests.rest_server import JARS, S3_JARS, Jar, RestServer, class_path
from tests.s3 import S3
from tests.spark_cluster import SparkCluster
from tests.spark_session import spark_session
from tests.tables import new_catalog

pytest_plugins = ["tests.figures", "tests.no_skips", "tests.tiers", "tests.course.widgets.browser"]

SPARK_MARKS = (
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    # py4j leaves its sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"),
)
# Whoever asks for one of these is run by one worker, so that one server of the kind is enough. pytest-xdist 3.8 cannot
# do that under pytest 9.2 (pytest-dev/pytest-xdist#1386): there each worker has its own.
SERVER_GROUPS = {"rest_jars": "rest", "postgres": "postgres", "kafka_broker": "kafka"}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect thousands of tests, which all stay, without looking for garbage among them, then or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses the `spark` fixture: nobody has to remember, and no test starts a second JVM by mistake."""
    for item in items:
        names = getattr(item, "fixturenames", ())
        for fixture, group in SERVER_GROUPS.items():
            if fixture in names:
                item.add_marker(pytest.mark.xdist_group(group))
        if "spark" in names:
            for mark in SPARK_MARKS:
                item.add_marker(mark)
    long_files_first(items)


def long_files_first(items: list[pytest.Item]) -> None:
    """Sort the tests on Spark, which are given out by file: no process is to begin minutes when the other has ended."""
    on_spark = [item for item in items if item.get_closest_marker("spark")]
    number = Counter(item.path for item in on_spark)
    slow = {item.path for item in on_spark if item.get_closest_marker("slow")}
    order = {item: (item.path not in slow, -number[item.path]) for item in on_spark}
    items.sort(key=lambda item: order.get(item, (False, 0)))


@pytest.fixture(scope="session")
def java() -> str:
    """Give the `java` to run, 17 or later; a test that needs it is skipped where there is none."""
    problem = java_problem()
    if problem:
        pytest.skip(problem)
    return java_program()


@pytest.fixture(scope="session")
def spark(java: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Give the one Spark session of this process, with the Iceberg catalog `local` in a folder of its own."""
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'deletekit[spark]'")
    with fetching_jars(tmp_path_factory):
        session = spark_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def own_spark(java: str) -> None:
    """Skip what starts Spark in a process of its own where it cannot start."""
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'deletekit[spark]'")


@pytest.fixture(scope="session")
def build_backend() -> None:
    """Skip what builds or installs deletekit itself, without a network, where its build backend is missing."""
    for module in ("hatchling", "editables"):
        pytest.importorskip(module, reason=f"{module} is not installed: pip install 'deletekit[test]'")


@pytest.fixture(scope="session")
def no_network() -> list[str]:
    """Give what a command is put behind to run without a network."""
    prefix = ["unshare", "--net", sys.executable, str(Path(__file__).with_name("loopback.py"))]
    try:
        subprocess.run([*prefix, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as e:
        pytest.skip(f"no network namespace can be made here: {e}")
    code = "import socket; socket.create_connection(('192.0.2.1', 80), 3)"
    reached = subprocess.run([*prefix, sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert "Network is unreachable" in reached.stderr
    return prefix


@pytest.fixture(scope="session")
def spark_cluster(own_spark: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """Give the one standalone Spark cluster of this run; whoever uses it is a process of its own."""
    cluster = SparkCluster(tmp_path_factory.mktemp("cluster"))
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.fixture(scope="session")
def rest_jars(java: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Give the class path of Iceberg's REST server."""
    return found_jars(java, tmp_path_factory, JARS)


@pytest.fixture(scope="session")
def rest_s3_jars(java: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Give the class path of Iceberg's REST server that keeps its tables on S3."""
    return found_jars(java, tmp_path_factory, (*JARS, *S3_JARS))


@contextmanager
def fetching_jars(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One worker at a time: Ivy's cache knows no locks."""
    import fcntl  # noqa: PLC0415  # Windows has none, and runs the other tests

    with (tmp_path_factory.getbasetemp().parent / "ivy.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def found_jars(java: str, tmp_path_factory: pytest.TempPathFactory, jars: Sequence[Jar]) -> str:
    pytest.importorskip("pyspark", reason="pyspark, whose Ivy finds the jars of servers, is not installed")
    try:
        with fetching_jars(tmp_path_factory):
            return class_path(java, tmp_path_factory.mktemp("ivy"), jars)
    except subprocess.CalledProcessError as e:
        pytest.skip(f"the jars of a server cannot be fetched: {(e.stdout + e.stderr)[-500:]}")


@pytest.fixture(scope="session")
def rest_server(java: str, rest_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestServer]:
    """Give the one REST server of this run; whoever means to end it makes their own from `rest_jars`."""
    server = RestServer(java, rest_jars, tmp_path_factory.mktemp("rest"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def rest_catalog(rest_server: RestServer) -> dict[str, str]:
    """Give the properties that open the REST catalog: `deletekit.load_catalog(name, **rest_catalog)`."""
    return {"type": "rest", "uri": rest_server.uri}


@pytest.fixture(scope="session")
def postgres() -> Iterator[postgres_server.Postgres]:
    """Give the one PostgreSQL server of this run."""
    pytest.importorskip("psycopg2", reason="psycopg2 is not installed: pip install 'deletekit[test]'")
    programs = postgres_server.programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (Debian's package postgresql)")
    server = postgres_server.Postgres.start(programs)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def postgres_uri(postgres: postgres_server.Postgres) -> str:
    """Give the URI of a PostgreSQL database, as SQLAlchemy spells it."""
    return postgres.uri


@pytest.fixture(scope="session")
def kafka_broker(java: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """Give the one Kafka broker of this run."""
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed: pip install 'deletekit[kafka]'")
    broker = KafkaBroker(java, found_jars(java, tmp_path_factory, KAFKA_JARS), tmp_path_factory.mktemp("kafka"))
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    """Give the one S3 of this run."""
    pytest.importorskip("moto.server", reason="moto is not installed: pip install 'deletekit[test]'")
    server = S3.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def obstore() -> None:
    """Skip what writes to an object store with a condition where obstore is missing."""
    pytest.importorskip("obstore", reason="obstore is not installed: pip install 'deletekit[object-store]'")


@pytest.fixture
def rest_on_s3(java: str, rest_s3_jars: str, s3: S3, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Give the properties of a REST catalog whose server keeps its tables on S3."""
    place = {
        "CATALOG_WAREHOUSE": f"s3://{s3.bucket()}/wh",
        "CATALOG_IO__IMPL": "org.apache.iceberg.aws.s3.S3FileIO",
        "CATALOG_S3_ENDPOINT": s3.properties["s3.endpoint"],
        "CATALOG_S3_PATH__STYLE__ACCESS": "true",
        "CATALOG_S3_ACCESS__KEY__ID": s3.properties["s3.access-key-id"],
        "CATALOG_S3_SECRET__ACCESS__KEY": s3.properties["s3.secret-access-key"],
        "CATALOG_CLIENT_REGION": s3.properties["s3.region"],
    }
    server = RestServer(java, rest_s3_jars, tmp_path / "rest", environment=place)
    server.start()
    yield {"type": "rest", "uri": server.uri, **s3.properties}
    server.stop()


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[dk.Catalog]:
    """Give an empty catalog on disk."""
    with new_catalog(tmp_path / "warehouse") as catalog:
        yield catalog


if os.environ.get("DELETEKIT_ENGINE", "local") == "spark":

    @pytest.fixture(autouse=True)
    def on_spark(request: pytest.FixtureRequest) -> Iterator[None]:
        """Run the verbs of every test of verbs, maintenance and streams on Spark, unless it names an engine."""
        folder = request.path.relative_to(Path(__file__).parent).parts[0]
        if folder not in {"verbs", "maintenance", "stream", "delta"}:
            yield
            return
        with dk.engine.spark(request.getfixturevalue("spark"), 2):
            yield
