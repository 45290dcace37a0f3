"""VERIFY never raises for damage: bytes of every file of a table changed at random, and values of its metadata."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import deletekit as dk
from deletekit.table.catalog import TableState
from deletekit.table.metadata import parse_metadata
from deletekit.table.table import Table
from tests.maintenance.damage import put_back
from tests.tables import files_of, items, make, new_catalog

ROWS = items(*((i, "abc"[i % 3], i / 2) for i in range(30)))
ROUNDS = 40


@pytest.fixture(scope="module", params=[2, 3])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dk.Table]:
    with new_catalog(tmp_path_factory.mktemp("fuzz")) as catalog:
        table = make(catalog, ROWS, ROWS, format_version=request.param, partition_by=["category"])
        dk.delete(table, "id in (1, 2, 3)", mode="position-delete" if request.param == 2 else "deletion-vector")
        dk.delete_keys(table, [{"id": 4}])
        yield table


def mutate(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 4, 16))):
        at = rng.randrange(len(out))
        out[at] = rng.choice((0, 0xFF, out[at] ^ (1 << rng.randrange(8)), rng.randrange(256)))
    if rng.random() < 0.15:
        del out[rng.randrange(len(out)) :]
    return bytes(out)


@pytest.mark.slow
def test_any_byte_of_any_file(table: dk.Table) -> None:
    files = sorted(f for f in files_of(table) if not f.endswith(".json"))
    rng = random.Random(len(files))
    seen = 0
    for file in files * (1 + 2 * ROUNDS // len(files)):
        with put_back(table):
            Path(file).write_bytes(mutate(Path(file).read_bytes(), rng))
            seen += bool(dk.verify(table, level="data").findings)
    assert seen > ROUNDS / 2, "most damage shows; what does not is in bytes that nobody reads"


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if way:
        yield way
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*way, key))


STRANGE: tuple[Any, ...] = (None, -1, 0, 2**70, "x", [], {}, [None], {"x": 1}, 1.5, True)


def test_any_value_of_the_metadata(table: dk.Table) -> None:
    """What cannot be opened is refused on opening; what can be is verified without raising."""
    text = json.dumps(dict(table.metadata.raw))
    ways = list(places(json.loads(text)))
    rng = random.Random(7)
    verified = 0
    for way in ways:
        raw = json.loads(text)
        at = raw
        for step in way[:-1]:
            at = at[step]
        at[way[-1]] = rng.choice(STRANGE)
        try:
            metadata = parse_metadata(json.dumps(raw).encode())
        except dk.DeletekitError:
            continue
        broken = Table(table.identifier, TableState(metadata, table.metadata_location, table.io))
        dk.verify(broken, level="metadata")
        verified += 1
    assert verified > len(ways) / 3
