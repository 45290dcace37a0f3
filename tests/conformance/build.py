"""Write the archive of the conformance suite: `python -m tests.conformance.build [NAME ...]`.

It makes the tables of deletekit. Those of other writers are golden files, which are kept as the archive has them:
`tests/conformance/java.py` makes them, and this program only describes them again. All expected rows and decoys come
from the oracle.
"""

import io
import json
import lzma
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa

from conformance.relocate import moved
from conformance.run import ROOT, digest, load_suite, unpack
from deletekit.version import __version__
from tests.conformance.bench import Bench, same_bytes
from tests.conformance.oracle import Oracle
from tests.conformance.recipes import Recipe
from tests.conformance.rules import DAMAGED, RULES, SECTIONS

Json = dict[str, Any]

CONFORMANCE = Path(__file__).parents[2] / "conformance"
SENTINEL = f"file://{ROOT}"
_OWN = f"deletekit {__version__}, with pyarrow {pa.__version__} and fastavro {fastavro.__version__}"
PROGRAMS = {
    "deletekit": _OWN,
    "flink-layout": f"{_OWN}, laid out as a Flink upsert writer commits",
    "spark": "Spark 4.1.4 with Iceberg 1.12.0",
    "iceberg-java": "the Java API of Iceberg 1.12.0",
}
"""What wrote the files of a table, by its writer."""
LICENSE = "Apache-2.0"
EDITED = "The metadata file: its metadata-log was emptied. All other files are as they were written."


def recipes() -> list[Recipe]:
    """The recipes of the tables that deletekit makes."""
    from tests.conformance import recipes_equality, recipes_metadata, recipes_positions, recipes_scope  # noqa: PLC0415

    modules = (recipes_equality, recipes_metadata, recipes_positions, recipes_scope)
    return [recipe for module in modules for recipe in module.RECIPES]


def make(recipe: Recipe) -> tuple[dict[str, bytes], str]:
    """Make the table of a recipe: its files by relative path, and which one is the metadata file."""
    bench, root = Bench(recipe.name, recipe.version), f"{SENTINEL}/{recipe.name}/table"
    with same_bytes(recipe.name):
        recipe.make(bench)
    assert all(path.startswith(f"{root}/") for path in bench.files.files), "every path is below the sentinel"
    files = {path.removeprefix(f"{root}/"): data for path, data in bench.files.files.items()}
    metadata = bench.table.metadata_location.removeprefix(f"{root}/")
    return reachable(files, metadata), metadata


def location(files: Mapping[str, bytes], metadata: str) -> str:
    """The location of a table, as its metadata file has it."""
    return str(json.loads(files[metadata])["location"])


def reachable(files: Mapping[str, bytes], metadata: str) -> dict[str, bytes]:
    """The files that the newest metadata file leads to, which forgets the older ones."""
    root = location(files, metadata)
    document = {**json.loads(files[metadata]), "metadata-log": []}
    kept = {name: files[name] for name in sorted(moved(files, metadata, root, root))}
    return kept | {metadata: json.dumps(document, ensure_ascii=False, indent=1).encode()}


def absolute(files: Mapping[str, bytes], root: str) -> dict[str, bytes]:
    """The files by the paths that the metadata has."""
    return {f"{root}/{name}": data for name, data in files.items()}


def write_case(suite: Path, recipe: Recipe, files: Mapping[str, bytes], metadata: str, made_by: str) -> Json:
    """Write the folder of a case into an unpacked suite. Return what the manifest says of it."""
    folder = suite / recipe.name
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in files.items():
        (folder / "table" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "table" / name).write_bytes(data)
    root, raw = location(files, metadata), json.loads(files[metadata])
    found = absolute(files, root)

    def read(broken: str | None = None) -> dict[str, Any]:
        oracle = Oracle(found, f"{root}/{metadata}", broken)
        return {ref: oracle.read(ref, recipe.columns or None) for ref in sorted(oracle.refs)}

    expected, decoys, seen = read(), [], list[Any]()
    for ref, rows in expected.items():
        _write(folder / "expected" / f"{ref}.json", rows)
    for rule in sorted(RULES, key=lambda rule: rule != recipe.rule):
        wrong = read(rule)
        ref = next((r for r in expected if str(wrong[r]) != str(expected[r])), None)
        if ref is not None and (ref, wrong[ref]) not in seen:
            seen.append((ref, wrong[ref]))
            _write(folder / "decoys" / f"{rule}.json", wrong[ref])
            decoys.append({"breaks": rule, "ref": ref})
    assert [decoy["breaks"] for decoy in decoys[:1]] == [recipe.rule], f"{recipe.name} does not catch {recipe.rule}"
    return {
        "name": recipe.name, "rule": recipe.rule, "description": recipe.sentence, "writer": recipe.writer,
        "written-by": PROGRAMS[recipe.writer], "made-by": made_by, "format-version": raw["format-version"],
        "features": sorted(recipe.features), **({"damaged": True} if recipe.rule in DAMAGED else {}),
        "metadata": f"table/{metadata}", "refs": {ref: oracle_snapshot(raw, ref) for ref in expected}, "decoys": decoys,
    }  # fmt: skip


def oracle_snapshot(raw: Json, ref: str) -> int:
    """The snapshot that a ref of a table points to; tables of version 1 may have no refs."""
    refs = raw.get("refs") or {"main": {"snapshot-id": raw["current-snapshot-id"]}}
    return int(refs[ref]["snapshot-id"])


def write_suite(folder: Path, cases: Iterable[Json], into: Path = CONFORMANCE) -> None:
    """Write manifest and archive of an unpacked suite: the same bytes each time from the same files."""
    listed = [{**case, "sha256": digest(folder / case["name"])} for case in sorted(cases, key=lambda c: str(c["name"]))]
    rules = {rule: {"section": SECTIONS[rule], "breach": says} for rule, says in RULES.items()}
    head = {"license": LICENSE, "root": SENTINEL, "spec": "https://iceberg.apache.org/spec/", "provenance": EDITED}
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in listed)
    rules_text = ",\n".join(f"{json.dumps(rule)}: {json.dumps(about)}" for rule, about in rules.items())
    text = f'{json.dumps(head, indent=0)[:-2]},\n"rules": {{\n{rules_text}\n}},\n"tables": [\n{lines}\n]\n}}\n'
    for manifest in (folder / "manifest.json", into / "manifest.json"):
        manifest.write_text(text, encoding="utf-8")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for file in ["manifest.json", *sorted(files_below(folder, [case["name"] for case in listed]))]:
            data = (folder / file).read_bytes()
            info = tarfile.TarInfo(file)
            info.size, info.mode = len(data), 0o644
            tar.addfile(info, io.BytesIO(data))
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}]
    (into / "tables.tar.xz").write_bytes(lzma.compress(packed.getvalue(), filters=filters))


def files_below(folder: Path, names: Iterable[str]) -> list[str]:
    """The files of some cases, by their paths in the suite."""
    return [p.relative_to(folder).as_posix() for name in names for p in (folder / name).rglob("*") if p.is_file()]


def main(*names: str) -> None:
    """Make the cases anew whose names begin with one of these, and keep the others."""
    from tests.conformance.java import picked  # noqa: PLC0415  # needs pyspark

    with tempfile.TemporaryDirectory() as folder:
        suite = Path(shutil.copytree(unpack(), Path(folder) / "suite"))
        cases = {case.name: dict(case.about) for case in load_suite(suite)}
        for recipe in recipes():
            if recipe.name.startswith(names or ("",)):
                made_by = f"python -m tests.conformance.build {recipe.name}"
                cases[recipe.name] = write_case(suite, recipe, *make(recipe), made_by)
        for _, recipe in picked():
            if recipe.name.startswith(names or ("",)):
                case, table = cases[recipe.name], suite / recipe.name / "table"
                files = {p.relative_to(table).as_posix(): p.read_bytes() for p in sorted(table.rglob("*.*"))}
                metadata = case["metadata"].removeprefix("table/")
                cases[recipe.name] = write_case(suite, recipe, files, metadata, case["made-by"])
        write_suite(suite, cases.values())


def _write(file: Path, value: Json) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = ",\n ".join(json.dumps(row, ensure_ascii=False) for row in value["rows"])
    columns = json.dumps(value["columns"], ensure_ascii=False)
    file.write_text(f'{{"columns": {columns},\n"rows": [\n {rows}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
