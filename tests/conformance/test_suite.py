"""Each table of the suite: it is whole, it can be put elsewhere, deletekit reads it right, and its decoys are wrong."""

import hashlib
import json
import lzma
import zlib
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

import deletekit as dk
from conformance.engines import rows_of
from conformance.relocate import moved, relocate
from conformance.run import Answer, Case, counted, judge, load_suite, unpack
from tests.conformance.build import CONFORMANCE, SENTINEL, absolute, make, recipes, write_suite
from tests.conformance.oracle import Oracle
from tests.conformance.rules import BY_SECTION, DAMAGED, RULES

CASES = load_suite()
LARGEST = 100_000
ENCODERS = "94b51a4d1746079c041df221ba49b204e6b3baf435d9702f5c0cdc7c4ce53141"


@cache
def read(folder: Path) -> dict[str, bytes]:
    """The files of a table, by relative path."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def location(case: Case) -> str:
    return str(json.loads((case.folder / case.metadata).read_bytes())["location"])


def files_of(case: Case) -> dict[str, bytes]:
    """The files of a case's table, by the path that its metadata has."""
    return absolute(read(case.folder / "table"), location(case))


def oracle(case: Case, broken: str | None = None) -> Oracle:
    return Oracle(files_of(case), f"{location(case)}/{case.metadata.removeprefix('table/')}", broken)


def same(case: Case, rows: object, ref: str) -> bool:
    """Whether these are the rows that a right reader finds in a ref."""
    assert isinstance(rows, list)
    expected = case.expected(ref)
    return counted(rows, expected["columns"]) == counted(expected["rows"], expected["columns"])


def test_the_suite_is_whole() -> None:
    assert len(CASES) >= 140
    assert {case.about["writer"] for case in CASES} == {"deletekit", "flink-layout", "spark", "iceberg-java"}
    assert {case.about["format-version"] for case in CASES} == {1, 2, 3}
    features = {feature for case in CASES for feature in case.about["features"]}
    assert {"copy-on-write", "equality-delete", "position-delete", "deletion-vector", "upgrade"} <= features
    assert {"partition-evolution", "schema-evolution", "branch", "tag", "avro", "orc", "key-nested"} <= features


def test_the_archive_has_the_same_bytes_each_time_and_is_small(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / str(number)).mkdir()
        write_suite(CASES[0].folder.parent, [dict(case.about) for case in CASES], tmp_path / str(number))
    packed, manifest = (CONFORMANCE / "tables.tar.xz").read_bytes(), (CONFORMANCE / "manifest.json").read_bytes()
    assert (tmp_path / "0" / "tables.tar.xz").read_bytes() == (tmp_path / "1" / "tables.tar.xz").read_bytes()
    assert (tmp_path / "0" / "manifest.json").read_bytes() == manifest
    assert lzma.decompress((tmp_path / "0" / "tables.tar.xz").read_bytes()) == lzma.decompress(packed)
    assert len(packed) < 1_000_000


def test_a_suite_that_was_changed_is_unpacked_again(tmp_path: Path) -> None:
    folder = unpack(tmp_path / "suite")
    first = next(folder.glob("*/table/data/*"))
    first.write_bytes(b"changed")
    assert unpack(folder) == folder
    assert first.read_bytes() != b"changed"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["suite", "suite.lock"]
    (tmp_path / "mine").mkdir()
    with pytest.raises(OSError, match="mine"):
        unpack(tmp_path / "mine")
    (tmp_path / "mine" / "manifest.json").write_text("{}")
    with pytest.raises(FileExistsError, match="is not a suite"):
        unpack(tmp_path / "mine")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_case_is_described(case: Case) -> None:
    assert case.rule in RULES
    assert case.is_damaged == (case.rule in DAMAGED)
    assert case.about["description"].endswith(".")
    assert case.rule == case.decoys[0]["breaks"]
    assert case.about["written-by"]
    assert sum(map(len, files_of(case).values())) < LARGEST
    for decoy in case.decoys:
        assert not same(case, case.decoy(decoy)["rows"], decoy["ref"])
    assert all(len(row) == len(case.expected()["columns"]) for row in case.expected()["rows"])
    raw = json.loads((case.folder / case.metadata).read_bytes())
    assert case.refs["main"] == raw["current-snapshot-id"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_deletekit_reads_each_ref_right_wherever_the_table_lies(case: Case, tmp_path: Path) -> None:
    """A damaged table is refused, and `verify` says that it is damaged."""
    folder = tmp_path / "a longer name than that of the sentinel, with a space" / case.name
    metadata = relocate(case.folder, case.metadata, folder)
    assert all(SENTINEL.encode() not in p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    table = dk.from_metadata(metadata)
    for ref in case.refs:
        names = [column["name"] for column in case.expected(ref)["columns"]]
        if case.is_damaged:
            with pytest.raises(dk.FormatError):
                dk.scan(table, columns=names, ref=ref).to_arrow()
        else:
            assert same(case, rows_of(dk.scan(table, columns=names, ref=ref).to_arrow()), ref), ref
    if case.is_damaged:
        assert not dk.verify(table).ok


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_oracle_is_right_and_each_broken_one_is_caught_by_name(case: Case) -> None:
    right = oracle(case)
    for ref in case.refs:
        expected = case.expected(ref)
        assert right.read(ref, [column["name"] for column in expected["columns"]]) == expected
    for decoy in case.decoys:
        shown = case.decoy(decoy)
        names = [column["name"] for column in shown["columns"]]
        found = oracle(case, decoy["breaks"]).read(decoy["ref"], names)
        assert found == shown, decoy["breaks"]
        if found["columns"] == case.expected(decoy["ref"])["columns"]:
            verdict = judge(case, decoy["ref"], Answer("rows", found["rows"]), "a reader without one rule")
            assert (verdict.verdict, verdict.breaks) == ("WRONG", decoy["breaks"])


def test_each_rule_has_a_table_that_catches_its_breach() -> None:
    assert {decoy["breaks"] for case in CASES for decoy in case.decoys} == set(RULES)
    ignoring = set(BY_SECTION["Delete Formats"])
    assert {case.rule for case in CASES} >= set(RULES) - ignoring


def test_a_moved_table_is_the_same_to_the_oracle() -> None:
    new = "s3://a-bucket/with/a/longer/prefix/than/the/sentinel/has"
    for case in CASES:
        metadata = case.metadata.removeprefix("table/")
        files = moved(read(case.folder / "table"), metadata, location(case), new)
        assert not any(location(case).encode() in data for data in files.values())
        there = Oracle(absolute(files, new), f"{new}/{metadata}")
        for ref in case.refs:
            expected = case.expected(ref)
            assert there.read(ref, [c["name"] for c in expected["columns"]]) == expected, case.name


def test_tables_of_deletekit_have_the_same_bytes_each_time() -> None:
    """As they were committed, where this machine's encoders are those that wrote them."""
    probe = zlib.compress(b"".join(str(i).encode() for i in range(1000)), 6) + pa.__version__.encode()
    same_encoders = hashlib.sha256(probe).hexdigest() == ENCODERS
    for recipe in recipes()[::6]:
        made, metadata = make(recipe)
        assert (made, metadata) == make(recipe), recipe.name
        assert same_encoders is False or made == read(CASES[0].folder.parent / recipe.name / "table"), recipe.name
