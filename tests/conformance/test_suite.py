"""Each table of the suite: it is whole, it can be put elsewhere, deletekit reads it right, and its decoys are wrong."""

import hashlib
import json
import zlib
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

import deletekit as dk
from conformance.suite import SENTINEL, Case, load_suite, moved, relocate
from deletekit.conformance.rows import rows_of, same
from tests.conformance.build import SUITE, absolute, make, recipes
from tests.conformance.oracle import Oracle
from tests.conformance.rules import BY_SECTION, RULES, SECTIONS

CASES = load_suite(SUITE)
LARGEST = 100_000
ENCODERS = "94b51a4d1746079c041df221ba49b204e6b3baf435d9702f5c0cdc7c4ce53141"


@cache
def read(folder: Path) -> dict[str, bytes]:
    """The files of a table, by relative path."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def files_of(case: Case) -> dict[str, bytes]:
    """The files of a case's table, by the path that its metadata has."""
    return absolute(read(case.folder / "table"), case.root)


def oracle(case: Case, broken: str | None = None) -> Oracle:
    return Oracle(files_of(case), f"{case.root}/{case.metadata.removeprefix('table/')}", broken)


def test_the_suite_is_whole() -> None:
    assert len(CASES) >= 125
    assert {case.writer for case in CASES} == {"deletekit", "flink-layout", "spark", "iceberg-java"}
    assert {case.format_version for case in CASES} == {1, 2, 3}
    features = {feature for case in CASES for feature in case.features}
    assert {"copy-on-write", "equality-delete", "position-delete", "deletion-vector", "upgrade"} <= features
    assert {"partition-evolution", "schema-evolution", "branch", "tag", "avro", "orc", "key-nested"} <= features


def test_the_files_are_those_of_the_manifest() -> None:
    listed = dict(reversed(line.split("  ")) for line in (SUITE / "MANIFEST.sha256").read_text().splitlines())
    files = [p for case in CASES for p in case.folder.rglob("*") if p.is_file()]
    assert {p.relative_to(SUITE).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in files} == listed


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_case_is_described(case: Case) -> None:
    assert case.rule in RULES
    assert case.spec == SECTIONS[case.rule]
    assert case.sentence.endswith(".")
    assert case.rule == case.decoys[0].breaks
    assert sum(map(len, files_of(case).values())) < LARGEST
    assert all(not same(case.decoy_rows(decoy), case.expected(decoy.ref)) for decoy in case.decoys)
    names = [column["name"] for column in case.columns()]
    assert all(len(row) == len(names) for row in case.expected())
    assert case.snapshot_id() == json.loads((case.folder / case.metadata).read_bytes())["current-snapshot-id"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_deletekit_reads_each_ref_right_wherever_the_table_lies(case: Case, tmp_path: Path) -> None:
    metadata = relocate(case, tmp_path / "a longer name than that of the sentinel, with a space" / case.name)
    assert all(SENTINEL.encode() not in p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    table = dk.from_metadata(metadata)
    for ref in case.refs:
        names = [column["name"] for column in case.columns(ref)]
        assert same(rows_of(dk.scan(table, columns=names, ref=ref).to_arrow()), case.expected(ref)), ref


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_oracle_is_right_and_each_broken_one_is_caught_by_name(case: Case) -> None:
    right = oracle(case)
    for ref in case.refs:
        names = [column["name"] for column in case.columns(ref)]
        assert right.read(ref, names) == {"columns": case.columns(ref), "rows": case.expected(ref)}
    for decoy in case.decoys:
        shown = json.loads((case.folder / decoy.rows).read_bytes())
        names = [column["name"] for column in shown["columns"]]
        assert oracle(case, decoy.breaks).read(decoy.ref, names) == shown, decoy.breaks


def test_each_rule_has_a_table_that_catches_its_breach() -> None:
    assert {decoy.breaks for case in CASES for decoy in case.decoys} == set(RULES)
    ignoring = set(BY_SECTION["Delete Formats"])
    assert {case.rule for case in CASES} >= set(RULES) - ignoring


def test_a_moved_table_is_the_same_to_the_oracle() -> None:
    new = "s3://a-bucket/with/a/longer/prefix/than/the/sentinel/has"
    for case in CASES:
        metadata = case.metadata.removeprefix("table/")
        files = moved(read(case.folder / "table"), metadata, case.root, new)
        assert not any(case.root.encode() in data for data in files.values())
        there = Oracle(absolute(files, new), f"{new}/{metadata}")
        for ref in case.refs:
            assert there.read(ref, [c["name"] for c in case.columns(ref)])["rows"] == case.expected(ref), case.name


def test_tables_of_deletekit_have_the_same_bytes_each_time() -> None:
    """As they were committed, where this machine's encoders are those that wrote them."""
    probe = zlib.compress(b"".join(str(i).encode() for i in range(1000)), 6) + pa.__version__.encode()
    same_encoders = hashlib.sha256(probe).hexdigest() == ENCODERS
    for recipe in recipes()[::6]:
        made, metadata = make(recipe)
        assert (made, metadata) == make(recipe), recipe.name
        assert same_encoders is False or made == read(SUITE / recipe.name / "table"), recipe.name
