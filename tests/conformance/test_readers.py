"""The reader doctor: what a table depends on, what engines do with that, and how many rows are at stake."""

import datetime as dt
import json
import random
from itertools import accumulate
from pathlib import Path

import pytest
from click.testing import CliRunner

import deletekit as dk
from deletekit.cli import main
from deletekit.formats.content_file import DeleteFile, FileContent
from deletekit.reader_verdicts.features import KINDS, SEEN
from deletekit.reader_verdicts.judgement import judged
from deletekit.reader_verdicts.known_verdicts import VERDICTS, known_verdicts
from deletekit.reader_verdicts.rows_at_stake import mixed_up_vectors
from tests.conformance.oracle import _first_of_the_read
from tests.conformance.readers_scenes import SCENES, E, P, V, engine_without, plain, verdict, verdicts_file
from tests.tables import MODES, expected, items, live, make, raises
from tests.tools import suite_features

WITH_DELETES = [(version, mode) for version in (2, 3) for mode in MODES[version] if mode != "copy-on-write"]


def hidden_of(found: dk.results.Readers) -> dict[tuple[str, ...], int]:
    return {h.kinds: h.rows for h in found.hidden if h.rows}


@pytest.mark.parametrize(("version", "mode"), WITH_DELETES)
def test_one_delete(catalog: dk.Catalog, version: int, mode: str) -> None:
    table, rows, hidden = plain(catalog, version, mode)
    found = dk.readers(table)
    assert live(table) == expected(rows)
    assert hidden_of(found) == hidden
    assert all(h.exact for h in found.hidden)
    assert set(found.features) & set(KINDS) == {mode}
    brought = {name for name, by in found.features.items() if mode in by}
    more = {E: [], P: ["positions-from-zero", "path-exact"], V: ["positions-from-zero"]}
    assert brought == {mode, "inherited-sequence", *more[mode]}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_table_without_deletes_depends_on_none(catalog: dk.Catalog, version: int) -> None:
    table = make(catalog, items((1, "a", 1.0)), format_version=version)
    found = dk.readers(table)
    assert (dict(found.features), found.hidden) == ({f"v{version}": frozenset({"table"})}, ())
    assert {reading.engine for reading in found if reading.verdict != "right"} == (
        {"bigquery"} if version == 3 else set()
    )
    assert dk.readers(make(catalog, format_version=version)).snapshot_id is None


@pytest.mark.sampled(2, tier=1)
@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize("version", [2, 3])
def test_keys_and_scopes(catalog: dk.Catalog, name: str, version: int) -> None:
    """Rules found by metadata are those that the scene is about, and no others of keys and scopes."""
    scene, rules = SCENES[name]
    table, rows, hidden = scene(catalog, version)
    found = dk.readers(table)
    assert live(table) == expected(rows)
    assert hidden_of(found) == hidden
    about_keys = set(found.features) & {rule for _, named in SCENES.values() for rule in named}
    assert about_keys - {"null-equals-null"} == {*rules} - {"null-equals-null"}
    assert set(rules) <= set(found.features)
    at_most = dk.readers(table, exact=False)
    assert at_most.features == found.features
    for kind in {kind for kinds in hidden for kind in kinds}:
        count = sum(n for kinds, n in hidden.items() if kind in kinds)
        assert sum(h.rows for h in at_most.hidden if kind in h.kinds) >= count
    assert not any(h.exact for h in at_most.hidden if h.rows)


def test_how_many_live_rows_a_reader_loses_that_breaks_a_rule(catalog: dk.Catalog, tmp_path: Path) -> None:
    """Counted by hand: id 2 is in two other partitions; ids 2 and 3 came in one commit with their keys."""
    lost = {"partition-scope": ("parted", 2), "strictly-older": ("upserted", 2), "older-data-only": ("upserted", 2)}
    for rule, (name, rows) in lost.items():
        table, _, _ = SCENES[name][0](catalog, 2)
        file = verdicts_file(tmp_path, verdict("odd", "WRONG", E, rule, breaks=rule, case="shown-by"))
        (reading,) = dk.readers(table, verdicts=file)
        (finding,) = reading.findings
        assert (finding.rows, finding.exact, finding.effect, finding.case) == (rows, True, "are lost", "shown-by")
        (unsure,) = dk.readers(table, verdicts=file, exact=False)
        assert (unsure.findings[0].rows or 0) >= rows
        assert not unsure.findings[0].exact


def test_verdicts_are_those_of_cases_with_the_features_of_the_table(catalog: dk.Catalog, tmp_path: Path) -> None:
    table, _, _ = SCENES["two_keys"][0](catalog, 2)
    base = [verdict("x", "right", E, "v2", "inherited-sequence")]
    of_null = verdict("x", "WRONG", E, "null-equals-null", breaks="null-equals-null", words="said so", case="a-case")
    right = [verdict("x", "right", E, "null-equals-null", "all-columns-match")]
    told: dict[str, list[dict[str, object]]] = {
        "right": [*base, *right, verdict("x", "WRONG", P), verdict("x", "WRONG", E, "dropped-key")],
        "unknown": base,
        "refuses": [*base, *right, verdict("x", "refuses", E, "all-columns-match")],
        "WRONG": [*base, *right, of_null, verdict("x", "refuses", E, "null-equals-null")],
        "crashes": [*base, *right, verdict("x", "crashes", "v2", E)],
    }
    for wanted, lines in told.items():
        (reading,) = dk.readers(table, verdicts=verdicts_file(tmp_path, *lines))
        assert (reading.engine, reading.verdict, reading.verified) == ("x", wanted, True)
    assert dk.readers(table, verdicts=verdicts_file(tmp_path, *base)).engines[0].unknown == (
        "all-columns-match",
        "null-equals-null",
    )
    (wrong,) = dk.readers(table, verdicts=verdicts_file(tmp_path, *told["WRONG"]))
    first = wrong.findings[0]
    assert [f.verdict for f in wrong.findings] == ["WRONG", "refuses"]
    assert (first.words, first.case, first.breaks) == ("said so", "a-case", "null-equals-null")
    assert (first.rows, first.exact, first.effect) == (2, False, "come back")
    # All rows that these deletes hide come back, whatever else the case has.
    ignores = [*base, *right, {**of_null, "breaks": "equality-deletes-apply"}]
    (finding,) = dk.readers(table, verdicts=verdicts_file(tmp_path, *ignores)).engines[0].findings
    assert (finding.rows, finding.exact) == (2, True)
    # The engine reads no equality delete of the suite: it will not read these, whatever the cases have besides.
    never = [verdict("x", "right", "v2"), verdict("x", "refuses", E, "dropped-key")]
    assert dk.readers(table, verdicts=verdicts_file(tmp_path, *never)).engines[0].verdict == "refuses"
    # Metadata cannot say whether the table has what the engine fails at.
    doubtful = [*told["right"], verdict("x", "WRONG", E, "exact-strings")]
    (reading,) = dk.readers(table, verdicts=verdicts_file(tmp_path, *doubtful))
    assert (reading.verdict, reading.doubts) == ("right", ("exact-strings",))


def test_engines_by_name_and_version(catalog: dk.Catalog, tmp_path: Path) -> None:
    table, _, _ = plain(catalog, 2, E)
    old = {**verdict("duck", "WRONG", E), "version": "1.0"}
    file = verdicts_file(tmp_path, old, {**verdict("duck", "right", E), "version": "2.0"}, verdict("goose", "right", E))
    assert [(r.engine, r.version) for r in dk.readers(table, engines=["DUCK"], verdicts=file)] == [
        ("duck", "1.0"),
        ("duck", "2.0"),
    ]
    assert [r.version for r in dk.readers(table, engines=["duck 2.0"], verdicts=file)] == ["2.0"]
    with raises(dk.InvalidInputError, "reader-engine", found="swan", expected="duck, goose"):
        dk.readers(table, engines=["swan"], verdicts=file)


@pytest.mark.parametrize("text", ["[]", "not json", '{"results": [{"engine": "x"}]}', '{"results": [7]}'])
def test_a_file_that_holds_no_verdicts_is_named(catalog: dk.Catalog, tmp_path: Path, text: str) -> None:
    table = make(catalog, format_version=2)
    (tmp_path / "bad.json").write_text(text)
    with raises(dk.FormatError, "verdicts", file=str(tmp_path / "bad.json")):
        dk.readers(table, verdicts=tmp_path / "bad.json")
    with pytest.raises(dk.NotFoundError):
        dk.readers(table, verdicts=tmp_path / "none.json")


def test_reports_have_a_source_and_are_not_ours() -> None:
    told = [v for v in known_verdicts() if not v.verified]
    assert len({v.engine for v in told}) >= 12
    for v in told:
        assert v.source, v
        assert v.date, v
        assert v.verdict in VERDICTS
        assert v.engine == v.engine.lower()
        assert v.features & {*KINDS, "v3"}, v


def test_features_of_the_suite() -> None:
    """They are those of its tables, and a rule that metadata can show is seen in the case that is about it."""
    assert suite_features.FILE.read_text(encoding="utf-8") == suite_features.document()
    for name, (rule, refs) in suite_features.seen().items():
        assert rule not in SEEN or any(rule in features for features in refs.values()), (name, rule)


def test_the_suite_is_judged_as_it_was_read() -> None:
    """Each table of the suite is judged as a table of a user. Where an engine fails, the answer is not simply `right`.

    It fails too, or the rule is named as one that metadata cannot show. Few that are right are said to fail.
    """
    own = [v for v in known_verdicts() if v.verified]
    seen = suite_features.seen()
    alarms = 0
    for engine in sorted({v.engine for v in own}):
        of_engine = [v for v in own if v.engine == engine]
        for v in of_engine:
            rule, refs = seen[v.case or ""]
            (reading,) = judged(refs[v.ref], of_engine)
            if v.verdict == "right":
                alarms += bool(reading.findings)
            elif reading.verdict == "right":
                assert rule in reading.doubts, (engine, v.case)
    right = sum(v.verdict == "right" for v in own)
    assert alarms <= 0.06 * right, f"{alarms} of {right}"


def vector(offset: int, length: int, size: int) -> DeleteFile:
    return DeleteFile(
        content=FileContent.POSITION_DELETES, spec_id=0, file_path="a.puffin", file_format="PUFFIN", record_count=1,
        file_size_in_bytes=size, content_offset=offset, content_size_in_bytes=length, referenced_data_file=str(offset),
    )  # fmt: skip


def test_vectors_that_are_mixed_up_are_those_of_the_oracle() -> None:
    """Vectors of random sizes, listed in random orders, some of them not any more."""
    rng = random.Random(4)
    found = 0
    for _ in range(500):
        lengths = [rng.choice([46, 60, 300, 1000, 4000]) for _ in range(rng.randint(1, 7))]
        ends = list(accumulate(lengths, initial=4))
        size = ends[-1] + 350 * len(lengths)
        listed = [vector(at, length, size) for at, length in zip(ends, lengths, strict=False)]
        listed = rng.sample(listed, rng.randint(1, len(listed)))
        mixed = {v.content_offset: taken.content_offset for v, taken in mixed_up_vectors(listed)}
        shown = [{"content_offset": v.content_offset, "content_size_in_bytes": v.content_size_in_bytes} for v in listed]
        assert mixed == {at: begin for at, begin in _first_of_the_read(shown, size).items() if at != begin}
        found += bool(mixed)
    assert 50 < found < 450


def test_a_report_of_more_than_a_year_is_marked(catalog: dk.Catalog, tmp_path: Path) -> None:
    table, _, _ = plain(catalog, 2, E)
    today = dt.datetime.now(dt.UTC).date()
    for days, is_old in ((300, False), (400, True)):
        told = verdict("x", "refuses", E, source="an issue", date=str(today - dt.timedelta(days)))
        (reading,) = dk.readers(table, verdicts=verdicts_file(tmp_path, {**told, "verified": False}))
        assert ("more than a year old" in str(reading.findings[0])) == is_old


def test_the_command(catalog: dk.Catalog, tmp_path: Path) -> None:
    table, _, _ = plain(catalog, 3, V)
    lines = [*engine_without("all"), *engine_without("none", V, how="WRONG"), verdict("dove", "right", "v3")]
    lines += [{**verdict("told", "right", V), "verified": False, "version": "not stated"}]
    file = verdicts_file(tmp_path, *lines)
    done = CliRunner().invoke(main, ["readers", table.metadata_location, "--verdicts", str(file), "--no-exact"])
    assert done.exit_code == 1
    assert "none 1" in done.output
    assert "at most 2" in done.output
    said = " ".join(done.output.split())  # a narrow terminal breaks lines
    assert "WRONG, at most 2 rows come back, for deletion-vector: no [case deletion-vector-case]" in said
    assert "not verified by us: told" in done.output
    done = CliRunner().invoke(
        main, ["readers", table.metadata_location, "--verdicts", str(file), "--engine", "told", "--json"]
    )
    assert done.exit_code == 0
    document = json.loads(done.output)
    assert document["hidden"] == [{"kinds": [V], "rows": 2, "exact": True}]
    assert [(r["engine"], r["verdict"], r["verified"]) for r in document["engines"]] == [("told", "right", False)]
