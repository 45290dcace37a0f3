"""Write the conformance suite: `python -m tests.conformance.build [NAME ...]` writes the tables that deletekit makes.

Tables of other writers are golden files: `tests/conformance/java.py` makes them, and this program only describes them
again. All expected rows and decoys come from the oracle.
"""

import hashlib
import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conformance.suite import SENTINEL, load_case, moved
from tests.conformance.bench import Bench, same_bytes
from tests.conformance.oracle import Oracle
from tests.conformance.recipes import Recipe
from tests.conformance.rules import RULES, SECTIONS

SUITE = Path(__file__).parents[2] / "conformance"


def recipes() -> list[Recipe]:
    """The recipes of the tables that deletekit makes."""
    from tests.conformance import recipes_equality, recipes_positions, recipes_scope  # noqa: PLC0415

    return [recipe for module in (recipes_equality, recipes_positions, recipes_scope) for recipe in module.RECIPES]


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


def write_case(recipe: Recipe, files: Mapping[str, bytes], metadata: str, made_by: str) -> None:
    """Write the folder of a case."""
    folder = SUITE / recipe.name
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in files.items():
        (folder / "table" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "table" / name).write_bytes(data)
    root = location(files, metadata)
    found = absolute(files, root)

    def read(broken: str | None = None) -> dict[str, Any]:
        oracle = Oracle(found, f"{root}/{metadata}", broken)
        return {ref: oracle.read(ref, recipe.columns or None) for ref in sorted(oracle.raw["refs"])}

    expected, decoys, seen = read(), [], list[Any]()
    for ref, rows in expected.items():
        _write(folder / "expected" / f"{ref}.json", rows)
    for rule in sorted(RULES, key=lambda rule: rule != recipe.rule):
        wrong = read(rule)
        ref = next((r for r in expected if str(wrong[r]) != str(expected[r])), None)
        if ref is not None and (ref, wrong[ref]) not in seen:
            seen.append((ref, wrong[ref]))
            _write(folder / "decoys" / f"{rule}.json", wrong[ref])
            decoys.append({"breaks": rule, "says": RULES[rule], "ref": ref, "rows": f"decoys/{rule}.json"})
    assert [decoy["breaks"] for decoy in decoys[:1]] == [recipe.rule], f"{recipe.name} does not catch {recipe.rule}"
    _write(folder / "case.json", {
        "name": recipe.name, "rule": recipe.rule, "sentence": recipe.sentence, "spec": SECTIONS[recipe.rule],
        "writer": recipe.writer, "made_by": made_by, "format_version": json.loads(files[metadata])["format-version"],
        "features": sorted(recipe.features), "metadata": f"table/{metadata}",
        "refs": {ref: f"expected/{ref}.json" for ref in expected}, "decoys": decoys,
    })  # fmt: skip


def write_index() -> None:
    """List the cases, and the sums of all files."""
    names = sorted(p.parent.name for p in SUITE.glob("*/case.json"))
    _write(SUITE / "index.json", names)
    files = sorted(p for name in names for p in (SUITE / name).rglob("*") if p.is_file())
    lines = [f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.relative_to(SUITE).as_posix()}\n" for p in files]
    (SUITE / "MANIFEST.sha256").write_text("".join(lines), encoding="utf-8")


def main(*names: str) -> None:
    """Write the cases whose names begin with one of these."""
    from tests.conformance.java import picked  # noqa: PLC0415  # needs pyspark

    for recipe in recipes():
        if recipe.name.startswith(names or ("",)):
            write_case(recipe, *make(recipe), f"python -m tests.conformance.build {recipe.name}")
    for _, recipe in picked():
        if recipe.name.startswith(names or ("",)):
            case = load_case(SUITE / recipe.name)
            table = case.folder / "table"
            files = {p.relative_to(table).as_posix(): p.read_bytes() for p in sorted(table.rglob("*")) if p.is_file()}
            write_case(recipe, files, case.metadata.removeprefix("table/"), case.made_by)
    write_index()


def _write(file: Path, value: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(value, dict) and "rows" in value:
        rows = ",\n ".join(json.dumps(row, ensure_ascii=False) for row in value["rows"])
        columns = json.dumps(value["columns"], ensure_ascii=False)
        text = f'{{"columns": {columns},\n"rows": [\n {rows}\n]}}'
    else:
        text = json.dumps(value, ensure_ascii=False, indent=1)
    file.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
