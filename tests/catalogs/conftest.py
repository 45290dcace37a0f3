"""Each kind of catalog, with the servers that two of them need."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import deletekit as dk
from tests.catalogs.proxies import RestProxy, rest_proxy
from tests.catalogs.stores import KINDS, QUICK, ROWS, SCHEMA, SQL, Store
from tests.rest_server import RestServer

GROUPS = {kind: [pytest.mark.xdist_group(kind)] for kind in ("rest", "postgres")}
TIERS = {
    "postgres": [pytest.mark.slow],
    "metastore": [pytest.mark.slow],
    "sqlite": [pytest.mark.long],
    "memory": [pytest.mark.long],
}


def params(kinds: tuple[str, ...]) -> list[object]:
    """Make a parameter of each kind of catalog; the first tier has the embedded one and a server."""
    return [pytest.param(kind, marks=[*GROUPS.get(kind, ()), *TIERS.get(kind, ())]) for kind in kinds]


def make_store(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> Store:
    """Build a store; asks for the server's fixture only where the kind has one."""
    warehouse = str(tmp_path)
    if kind == "rest":
        return Store(kind, tmp_path, dict(request.getfixturevalue("rest_catalog")))
    if kind == "metastore":
        return Store(kind, tmp_path, {"py-catalog-impl": "tests.catalogs.metastore.Metastore", "warehouse": warehouse})
    if kind == "memory":
        return Store(kind, tmp_path, {"type": "in-memory", "warehouse": warehouse})
    if kind == "postgres":
        uri = request.getfixturevalue("postgres_uri")
        # A name of its own: the catalog's rows are keyed by it.
        return Store(kind, tmp_path, {"type": "sql", "uri": uri, "warehouse": warehouse}, name=f"pg-{tmp_path}")
    uri = f"sqlite:///{tmp_path / 'catalog.db'}"
    return Store(kind, tmp_path, {"type": "sql", "uri": uri, "warehouse": warehouse})


@pytest.fixture(params=params(tuple(KINDS)))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Give each kind of catalog in turn."""
    made = make_store(request, request.param, tmp_path)
    yield made
    made.close()


@pytest.fixture(params=params(tuple(k for k in KINDS if 3 in KINDS[k])))
def v3_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Give each kind of catalog that holds format version 3."""
    made = make_store(request, request.param, tmp_path)
    yield made
    made.close()


@pytest.fixture(params=params(SQL))
def sql_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Give each kind of SQL catalog."""
    made = make_store(request, request.param, tmp_path)
    yield made
    made.close()


def tier_of(kind: str, version: int) -> list[pytest.MarkDecorator]:
    """Every version of the embedded catalog is in the first tier, one of each server in the first or the second."""
    if kind == "local" or (kind, version) == ("rest", 3):
        return []
    return [pytest.mark.slow if (kind, version) in {("postgres", 3), ("metastore", 2)} else pytest.mark.long]


@pytest.fixture(
    params=[
        pytest.param((kind, version), marks=[*GROUPS.get(kind, ()), *tier_of(kind, version)], id=f"{kind}-v{version}")
        for kind, versions in KINDS.items()
        for version in versions
    ]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Store, int]]:
    """Give each kind of catalog with each format version it takes."""
    kind, version = request.param
    made = make_store(request, kind, tmp_path)
    yield made, version
    made.close()


@pytest.fixture
def direct(rest_server: RestServer) -> Iterator[dk.Catalog]:
    """Give the catalog without the proxy."""
    catalog = dk.load_catalog("direct", type="rest", uri=rest_server.uri)
    yield catalog
    catalog.pyiceberg.close()


@pytest.fixture
def proxy(rest_server: RestServer) -> Iterator[RestProxy]:
    with rest_proxy(rest_server.port) as proxy:
        yield proxy


@pytest.fixture
def table(proxy: RestProxy, tmp_path: Path) -> Iterator[dk.Table]:
    """Give a table with three rows behind the proxy, which has no fault yet."""
    store = Store("rest", tmp_path, proxy.properties)
    table = store.create("t", SCHEMA, format_version=3, properties=QUICK)
    dk.append(table, ROWS)
    proxy.commits = 0
    yield table
    store.close()
