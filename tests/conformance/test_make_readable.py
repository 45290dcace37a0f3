"""Making a table readable: the least change that is enough, the same rows, and real engines that then read them."""

from pathlib import Path
from typing import Any

import pytest

import deletekit as dk
from conformance.relocate import relocate
from conformance.run import EngineProcess, engine_of, judge, load_suite
from tests.conformance.readers_scenes import BY_POSITION, SCENES, E, P, V, engine_without, plain, verdict, verdicts_file
from tests.stored import live_files
from tests.tables import expected, ids, items, live, make, refused, unchanged

CONVERT, REWRITE, COMPACT = "convert-equality-deletes", "rewrite-position-deletes", "compact"


def kinds_of(table: dk.Table) -> set[str]:
    """Kinds of the live delete files, by fastavro."""
    named = {1: "position-delete", 2: "equality-delete"}
    return {V if f["file_format"].upper() == "PUFFIN" else named[f["content"]] for f in live_files(table, 1)}


def made(table: dk.Table, file: Path, *engines: str, **options: Any) -> dk.results.MadeReadable:
    """Make it readable after a dry run, which says the same and changes nothing."""
    with unchanged(table):
        tried = dk.make_readable(table, engines, verdicts=file, dry_run=True, **options)
    done = dk.make_readable(table, engines, verdicts=file, **options)
    assert tried.steps == done.steps
    assert (tried.commits, tried.dry_run, done.dry_run) == ((), True, False)
    assert [(r.engine, r.findings) for r in tried.engines] == [(r.engine, r.findings) for r in done.engines]
    return done


Need = tuple[int, tuple[str, ...], tuple[str, ...], set[str]]
NEEDS: list[Need] = [
    (2, (), (), {E, P}),
    (2, (E,), (CONVERT,), {P}),
    (2, (P,), (COMPACT,), set()),
    (2, (E, P), (COMPACT,), set()),
    (3, (), (), {E, V}),
    (3, (E,), (CONVERT,), {V}),
    (3, (V,), (COMPACT,), set()),
    (3, (E, V), (COMPACT,), set()),
]


@pytest.mark.parametrize("need", NEEDS, ids=lambda need: str(need[:3]))
def test_the_least_change(catalog: dk.Catalog, tmp_path: Path, need: Need) -> None:
    version, cannot, steps, left = need
    table, rows, _ = SCENES["overlapping"][0](catalog, version)
    done = made(table, verdicts_file(tmp_path, *engine_without("x", *cannot)), "x")
    assert tuple(step.action for step in done.steps) == steps
    assert kinds_of(table) == left
    assert live(table) == expected(rows)
    assert bool(done.commits) == bool(steps)
    with unchanged(table):
        assert dk.make_readable(table, ["x"], verdicts=tmp_path / "verdicts.json").steps == ()


@pytest.mark.sampled(3, tier=1)
@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize("version", [2, 3])
def test_every_kind_of_key(catalog: dk.Catalog, tmp_path: Path, name: str, version: int) -> None:
    for cannot, left in (((E,), {BY_POSITION[version]}), ((E, BY_POSITION[version]), set())):
        table, rows, _ = SCENES[name][0](catalog, version)
        made(table, verdicts_file(tmp_path, *engine_without("x", *cannot)), "x")
        assert kinds_of(table) == left
        assert live(table) == expected(rows)


def test_an_upgrade_only_if_allowed(catalog: dk.Catalog, tmp_path: Path) -> None:
    """The engine reads vectors and no v2 deletes. Without an upgrade the data is written again."""
    file = verdicts_file(tmp_path, *engine_without("x", E, P))
    for upgrade, steps, left in ((False, (COMPACT,), set()), (True, ("upgrade-format-version", CONVERT, REWRITE), {V})):
        table, rows, _ = SCENES["overlapping"][0](catalog, 2)
        done = made(table, file, "x", upgrade=upgrade)
        assert tuple(step.action for step in done.steps) == steps
        assert (kinds_of(table), table.refresh().format_version) == (left, 3 if upgrade else 2)
        assert live(table) == expected(rows)


def test_position_deletes_of_an_upgraded_table_become_vectors(catalog: dk.Catalog, tmp_path: Path) -> None:
    table, rows, _ = plain(catalog, 2, P)
    dk.upgrade_format_version(table, 3)
    lines = [*engine_without("x"), verdict("x", "refuses", "upgrade-keeps-deletes", P, "v3")]
    done = made(table, verdicts_file(tmp_path, *lines), "x")
    assert [step.action for step in done.steps] == [REWRITE]
    assert kinds_of(table) == {V}
    assert live(table) == expected(rows)


MIXED_UP = {"small_vector_behind_a_large_one": 1000 + 3, "vectors_of_two_specs_in_one_puffin": 1 + 1}
"""Tables with a vector that DuckDB takes for another one, and how many positions these two have."""


def mixed_up(catalog: dk.Catalog, folder: Path, name: str) -> dk.Table:
    [case] = (case for case in load_suite() if case.name == name)
    catalog.register_table(f"suite.{name}", relocate(case.folder, case.metadata, folder / name))
    return dk.load_table(catalog, f"suite.{name}")


@pytest.mark.parametrize("name", MIXED_UP)
def test_vectors_that_are_mixed_up_are_written_anew(catalog: dk.Catalog, tmp_path: Path, name: str) -> None:
    table = mixed_up(catalog, tmp_path, name)
    (before,) = [r for r in dk.readers(table, engines=["duckdb"]) if r.verified]
    finding = before.findings[0]
    assert (before.verdict, finding.breaks, finding.case in MIXED_UP) == ("WRONG", "vector-at-its-offset", True)
    assert (finding.rows, finding.exact, finding.effect) == (MIXED_UP[name], False, "come back or are lost")
    rows, files = live(table), live_files(table, 0)
    done = dk.make_readable(table, ["duckdb"])
    assert [step.action for step in done.steps] == ["rewrite-vectors"]
    assert "vector-at-its-offset" not in dk.readers(table).features
    assert (live(table), [f["file_path"] for f in live_files(table, 0)]) == (rows, [f["file_path"] for f in files])
    assert dk.verify(table).ok
    with unchanged(table):
        assert dk.make_readable(table, ["duckdb"]).steps == ()


def test_deletes_that_hide_nothing_are_removed_alone(catalog: dk.Catalog, tmp_path: Path) -> None:
    """An engine that refuses equality deletes refuses also one that is older than every row."""
    table = make(catalog, format_version=2)
    dk.delete_keys(table, [{"id": 1}])
    dk.append(table, items((1, "a", 1.0)))
    done = made(table, verdicts_file(tmp_path, *engine_without("x", E, P)), "x")
    assert [step.action for step in done.steps] == ["remove-dangling-deletes"]
    assert (kinds_of(table), live(table)) == (set(), items((1, "a", 1.0)))


def test_only_data_files_with_deletes_are_written_again(catalog: dk.Catalog, tmp_path: Path) -> None:
    """Also a key that only bounds keep from another, older file is gone afterwards."""
    for mode in (P, E):
        table, rows, _ = plain(catalog, 2, mode)
        before = {f["file_path"] for f in live_files(table, 0)}
        done = made(table, verdicts_file(tmp_path, *engine_without("x", E, P)), "x")
        (step,) = done.steps
        assert len(before & {f["file_path"] for f in live_files(table, 0)}) == 1
        sizes = {f.file_path: f.file_size_in_bytes for c in done.commits for f in c.removed_data_files}
        assert (step.files, step.rows, step.bytes_written) == (1, 5, sum(sizes.values()))
        assert (kinds_of(table), live(table)) == (set(), expected(rows))


def test_what_no_step_can_help_is_refused_before_anything_is_written(catalog: dk.Catalog, tmp_path: Path) -> None:
    table, _, _ = plain(catalog, 3, E)
    bad = [verdict("x", "refuses", "v3", words="no v3 here"), verdict("x", "right", E)]
    file = verdicts_file(tmp_path, *bad, *engine_without("y", E))
    with refused(table, dk.UnsupportedError, "not-readable", field="engines") as caught:
        dk.make_readable(table, ["y", "x"], verdicts=file)
    assert "no v3 here" in str(caught.error)
    with refused(table, dk.InvalidInputError, "reader-engine"):
        dk.make_readable(table, ["z"], verdicts=file)
    with refused(table, dk.InvalidInputError, "reader-engine"):
        dk.make_readable(table, [], verdicts=file)
    dk.create_tag(table, "then")
    with refused(table, dk.InvalidInputError, "ref"):
        dk.make_readable(table, ["y"], ref="then", verdicts=file)
    fixed = dk.from_metadata(table.metadata_location)
    with pytest.raises(dk.InvalidInputError):
        dk.make_readable(fixed, ["y"], verdicts=file)
    assert dk.make_readable(fixed, ["y"], verdicts=file, dry_run=True).steps[0].action == CONVERT


def test_a_branch(catalog: dk.Catalog, tmp_path: Path) -> None:
    table, _, _ = plain(catalog, 3, E)
    dk.create_branch(table, "side")
    dk.delete_keys(table, [{"id": 5}], ref="side")
    made(table, verdicts_file(tmp_path, *engine_without("x", E)), "x", ref="side")
    assert {f["content"] for f in live_files(table, 1, "side")} == {1}
    assert kinds_of(table) == {E}
    assert ids(table, ref="side") == [0, 2, 4, 6, 7, 8, 9]


OF_METADATA = {"absent-counts", "inline-manifests"}
"""Rules of metadata that no change of deletes touches."""
IN_DOUBT = {
    "pyiceberg": {"sparse-keys-vector"},
    "polars": {"high-positions", "position-behind-end", "sparse-keys-vector"},
    "duckdb": set[str](),
    "pysail": {"high-positions", "position-behind-end", "sparse-keys-vector"},
    "chdb": {"unsorted-positions"},
}
"""Rules of deletes by position that an engine breaks on tables whose metadata does not say that they need the rule."""
NEVER = {"chdb": {"equality_nested_key", "key_in_a_struct"}}
"""Tables that an engine reads wrong without any delete: ClickHouse has no NULL for a struct."""


@pytest.mark.slow
@pytest.mark.peers
@pytest.mark.parametrize(
    ("engine", "every"), [("duckdb", 4), *(pytest.param(name, 1, marks=pytest.mark.long) for name in IN_DOUBT)]
)
def test_tables_of_the_suite(catalog: dk.Catalog, tmp_path: Path, engine: str, every: int) -> None:
    """Each is made readable for the engine by what deletekit knows of it, or refused. Then the engine is asked.

    Where it is still not right, the doctor has named the rule as one that metadata cannot show.
    """
    refusals, doubtful = set(), set()
    with EngineProcess(engine_of(engine)) as process:
        for case in [c for c in load_suite() if not c.is_damaged][::every]:
            columns = case.expected()["columns"]
            if any(column["name"].startswith("_") for column in columns):
                continue  # it asks for row ids, which are not columns of the table
            location = relocate(case.folder, case.metadata, tmp_path / case.name)
            catalog.register_table(f"suite.{case.name}", location)
            table = dk.load_table(catalog, f"suite.{case.name}")
            (reading,) = [r for r in dk.readers(table, engines=[engine], exact=False) if r.verified]
            try:
                dk.make_readable(table, [engine])
            except (dk.UnsupportedError, dk.InvalidInputError):
                assert table.refresh().metadata_location == location, case.name
                refusals.add(case.name)
                continue
            snapshot = table.metadata.current_snapshot
            assert snapshot is not None
            asked = {"metadata": table.metadata_location.removeprefix("file://"), "ref": "main"}
            asked |= {"snapshot_id": snapshot.snapshot_id, "columns": columns}
            verdict = judge(case, "main", process.ask(asked), engine)
            if verdict.verdict != "right" and case.name not in NEVER.get(engine, ()):
                assert case.rule in reading.doubts, (case.name, verdict)
                doubtful.add(case.rule)
    assert len(refusals) <= 4, refusals
    assert doubtful <= IN_DOUBT[engine] | OF_METADATA
