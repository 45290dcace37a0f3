"""The rules of CONTRIBUTING.md that a program can check: lint, types, layers, sizes, public names, what is tracked."""

import ast
import inspect
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import deletekit
from tests.public_api import PIN, public_api
from tests.tools.code_lines import totals

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "deletekit"
CHECKED = ("deletekit", "pyspark_deletekit.py", "tests", "data", "dev.py")

LONGEST_FILE = 600
LONGEST_FUNCTION = 60
LARGEST_FILE = 20_000_000
# Lines of code. The aim is 13,000 in the library, 38,000 in the package, 52,000 in tests.
MOST_LINES = {"library": 16_701, "deletekit": 44_715, "tests": 63_886}

# --- tools ------------------------------------------------------------------------------------------------------------

TOOLS = {
    "lint": ["-m", "ruff", "check", *CHECKED],
    "format": ["-m", "ruff", "format", "--check", *CHECKED],
    "types": ["-m", "mypy"],
    "layers": ["-c", "from importlinter.cli import lint_imports_command as check; check()"],
}


@pytest.mark.first_tier
@pytest.mark.parametrize("tool", TOOLS)
def test_tool_is_content(tool: str) -> None:
    result = subprocess.run([sys.executable, *TOOLS[tool]], cwd=ROOT, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


# --- size -------------------------------------------------------------------------------------------------------------


def sources(folder: Path = PACKAGE) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def parse(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def test_files_are_short() -> None:
    lengths = {name_of(file): len(file.read_text(encoding="utf-8").splitlines()) for file in sources()}
    assert {name: length for name, length in lengths.items() if length > LONGEST_FILE} == {}


def test_functions_are_short() -> None:
    lengths = {
        f"{name_of(file)}:{node.lineno} {node.name}": node.end_lineno - node.lineno + 1
        for file in sources()
        for node in ast.walk(parse(file))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno
    }
    assert {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION} == {}


@pytest.mark.slow
def test_the_house_does_not_grow() -> None:
    assert {name: lines for name, lines in totals().items() if lines > MOST_LINES[name]} == {}


# --- laws that import-linter cannot see -------------------------------------------------------------------------------


@cache
def imports(file: Path) -> frozenset[str]:
    """Return the dotted names that `file` imports: `from pyarrow import fs` is `pyarrow.fs` too."""
    found: set[str] = set()
    for node in ast.walk(parse(file)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found)


def importers(module: str) -> set[str]:
    return {name_of(f) for f in sources() if any(i == module or i.startswith(f"{module}.") for i in imports(f))}


def opens(file: Path) -> list[int]:
    calls = (node for node in ast.walk(parse(file)) if isinstance(node, ast.Call))
    return [call.lineno for call in calls if getattr(call.func, "id", getattr(call.func, "attr", "")) == "open"]


def test_formats_open_nothing() -> None:
    found = {name_of(file): opens(file) for file in sources(PACKAGE / "formats")}
    assert {name: lines for name, lines in found.items() if lines} == {}
    for module in ("pyarrow.fs", "pyarrow.dataset", "fsspec"):
        assert [name for name in importers(module) if "/formats/" in name] == []


def test_one_module_talks_to_catalogs() -> None:
    names = ("any_catalog", "catalog", "open_catalog", "pyiceberg_store")
    rooms = {f"deletekit/table/{name}.py" for name in names}
    assert importers("pyiceberg.catalog") <= rooms


def test_one_module_replaces_what_hides_rows_by_position() -> None:
    one = "deletekit/deletes/merge_previous_deletes.py"
    assert importers("deletekit.deletes.merge_previous_deletes.write_deletion_vectors") == set()
    assert importers("deletekit.deletes.merge_previous_deletes.write_position_deletes") == set()
    assert importers("deletekit.formats.puffin.puffin_parts") == {one}
    assert importers("deletekit.formats.delete_file.encode_position_deletes") == {one}


def test_what_is_imported_is_declared() -> None:
    # What comes along with a dependency today may not tomorrow.
    declared = {canonicalize_name(requirement.name) for requirement in requirements()}
    distributions = packages_distributions()
    undeclared = {
        module
        for module in {name.partition(".")[0] for file in sources() for name in imports(file)}
        if module not in sys.stdlib_module_names | {"deletekit"}
        and not declared & {canonicalize_name(name) for name in distributions.get(module, ())}
    }
    assert undeclared == set()


def test_package_files_hold_names_only() -> None:
    found = {
        f"{name_of(file)}:{node.lineno}"
        for file in sources()
        if file.name == "__init__.py"
        for node in parse(file).body
        if not holds_names(node)
    }
    assert found == set()


def holds_names(node: ast.stmt) -> bool:
    """Say whether a statement only names things; a module's `__getattr__` names them when they are first used."""
    if isinstance(node, ast.FunctionDef):
        return node.name in {"__getattr__", "__dir__"}
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return isinstance(node, ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign | ast.Expr)


# --- public names -----------------------------------------------------------------------------------------------------


def test_public_names_are_the_pinned_ones() -> None:
    now = public_api()
    assert " at 0x" not in now, "a default value whose repr is an address cannot be pinned"
    assert now == PIN.read_text(encoding="utf-8"), (
        "a public name changed: run `python tests/public_api.py`, read the diff"
    )


@pytest.mark.parametrize("module", ["deletekit", "deletekit.results"])
def test_type_checkers_see_the_names_that_the_table_has(module: str) -> None:
    text = Path(str(import_module(module).__file__)).read_text(encoding="utf-8")
    (checked,) = (node for node in ast.parse(text).body if isinstance(node, ast.If))
    imported = {
        (node.module, alias.name) for node in checked.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert imported == {(place, name) for place, names in import_module(module)._NAMES.items() for name in names}


def test_public_names_are_documented() -> None:
    public = {name: getattr(deletekit, name) for name in deletekit.__all__}
    described = {name: thing for name, thing in public.items() if callable(thing) or inspect.ismodule(thing)}
    # inspect.getdoc would take the docstring of a base class, and a dataclass makes one up from its signature.
    undocumented = [
        name for name, thing in described.items() if not thing.__doc__ or thing.__doc__.startswith(f"{name}(")
    ]
    assert undocumented == []


# --- what is tracked --------------------------------------------------------------------------------------------------


def tracked() -> list[Path]:
    """List what git tracks or would track: a new file is checked before it is added."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return [file for name in sorted(set(listed.split("\0"))) if name and (file := ROOT / name).is_file()]


# Written in halves, so that this file does not match.
REGISTRIES = [("py", "pi"), ("python", "hosted"), ("mav", "en"), ("npm", "js"), ("deb", "ian")]
PATHS = [r"/(?:root|work|farm)/", "/tmp/bash" + "_jobs", "/var/tmp/" + "dk"]  # noqa: S108 - looked for, not used
NEEDLE = re.compile("|".join([*(rf"\b{a}{b}\.org\b" for a, b in REGISTRIES), r"maven\.apache" + r"\.org", *PATHS]))


def test_no_registry_address_and_no_machine_path() -> None:
    found = []
    for file in tracked():
        text = file.read_bytes().decode("utf-8", errors="replace")
        found += [f"{name_of(file)}: {match[0]}" for match in NEEDLE.finditer(text)]
    assert found == []


def test_no_large_file() -> None:
    sizes = {name_of(file): file.stat().st_size for file in tracked()}
    assert {name: size for name, size in sizes.items() if size > LARGEST_FILE} == {}


def test_no_lock_file() -> None:
    # They hold download addresses; the pinned versions are in constraints.txt.
    lock = re.compile(r".*\.lock|pylock.*\.toml|(package-lock|npm-shrinkwrap)\.json|pnpm-lock\.yaml")
    assert [name_of(file) for file in tracked() if lock.fullmatch(file.name)] == []


def test_constraints_are_names_and_versions_of_every_dependency() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert [line for line in pins if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []
    pinned = {canonicalize_name(name): version for name, _, version in (pin.partition("==") for pin in pins)}
    for requirement in requirements():
        if requirement.marker and not requirement.marker.evaluate():
            continue  # not for this Python, so not in an installation of it
        version = pinned.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement} is not pinned"
        assert requirement.specifier.contains(version), f"{requirement}, and constraints.txt has {version}"


def requirements() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    return [r for group in groups for r in map(Requirement, group) if r.name != project["name"]]
