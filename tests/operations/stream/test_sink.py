"""Batches of changes through the sink, in every mode, against a dict."""

from __future__ import annotations

import pytest

import deletekit as dk
from tests.operations.stream.replay import PEOPLE, check, random_batches, replay
from tests.tables import live_files, make

MODES = ("auto", "flink", "eq-only", "index-only")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("partition_by", [(), ("bucket(3, id)",), ("name",)], ids=["whole", "by key", "not by key"])
@pytest.mark.parametrize("seed", [0, 1])
def test_every_mode_is_a_dict(
    catalog: dk.Catalog, mode: str, version: int, partition_by: tuple[str, ...], seed: int
) -> None:
    table = make(catalog, schema=PEOPLE, format_version=version, partition_by=partition_by)
    batches = list(random_batches(seed, batches=6, rows=15, keys=12))
    with dk.stream.sink(table, "people", equality_fields=["id"], mode=mode) as sink:
        for number, batch in enumerate(batches):
            progress = sink.write(batch, number)
            assert progress.status == "committed"
            check(table, replay(batches[: number + 1]))
    equality = [f for f in live_files(table, 1) if f["content"] == 2]
    assert bool(equality) == (mode in ("flink", "eq-only"))
