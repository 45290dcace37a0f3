"""Set this checkout up and run it: `python3 dev.py tour` or `python3 dev.py test`.

`test` runs the first tier of tests, `test --all` all of them, `test --long` also what a release needs. Other arguments
select tests: they are passed on to pytest, as those of `tour` are to `deletekit tour`.
`floors` runs some tests with the oldest packages, those of constraints-lowest.txt; `newest` runs the examples of the
docs with the newest, those of constraints-newest.txt; `size` adds up a base installation, and fails when it grows;
`beside` tells whether the newest daft, mlflow and others can be installed beside deletekit; `spark 4.3` runs some tests
on another release of Spark, 3.5 to 4.3, and `spark 4.3 smoke` the quick ones of them.

It needs Python 3.11 or later and nothing else; Java 17 or later for what runs on Spark. Everything is installed into
.venv beside this file, and only when pyproject.toml or constraints.txt have changed.
"""

# Rules: the standard library only, and no syntax that an old Python cannot read: it must get as far as saying so.

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
STAMP = VENV / "deletekit-stamp"
LOWEST = "constraints-lowest.txt"

OLDEST_PYTHON = (3, 11)
OLDEST_JAVA = 17
WORKERS = "2"
# Run once more with the tables on S3, without rename or append: the state machine, with every verb, and a few more.
# The S3 of the tests answers slowly; CONTRIBUTING.md says how the rest is run on it.
S3_TESTS = [
    "tests/verbs/test_seed_examples.py",
    "tests/maintenance/test_rewrite_manifests.py::test_fewer_manifests_the_same_table[3-deletion-vector]",
    "tests/maintenance/test_rewrite_manifests.py::test_commits_in_between_are_not_lost",
    "tests/stateful",
]
# What is run with the oldest packages: what goes through pyarrow, polars and fastavro, commits, and one lesson.
FLOOR_TESTS = [
    *(
        f"tests/formats/test_{name}.py"
        for name in ("avro_columns", "manifests", "manifests_by_polars", "manifest_list")
    ),
    *(f"tests/formats/test_{name}.py" for name in ("delete_file", "metrics", "parquet", "roaring", "tabular")),
    "tests/filters/test_filter.py",
    "tests/filters/test_row_group_pruning.py",
    "tests/rows/test_keys.py",
    "tests/deletes/test_read_keys.py",
    "tests/deletes/test_row_groups.py",
    "tests/commit/test_swap.py",
    "tests/commit/test_validation.py",
    "tests/notebooks/test_one_lesson.py",
]
FLOOR_TOOLS = ["hypothesis", "jupytext", "markdown-it-py", "pytest", "pytest-timeout", "pytest-xdist"]
NEWEST = "constraints-newest.txt"
MOST_MEGABYTES = 600
# What is run with the newest packages; three pages need more than they do.
NEWEST_TESTS = ["tests/test_docs.py::test_python_runs", "-k", "not engines and not ray and not widgets"]
NEWEST_TOOLS = [*FLOOR_TOOLS, "cryptography", "obstore", "xxhash"]
# What is run on another release of Spark than that of constraints.txt. CI has the time for the smoke alone.
SPARK_SMOKE_3_5 = ["tests/spark/test_releases.py::test_the_verbs_on_the_engine"]  # it has no data sources in Python
SPARK_SMOKE = [
    "tests/spark/test_releases.py",
    "tests/spark/data_source/test_types.py",
    "tests/conformance/test_spark_reads_the_suite.py::test_the_data_source_reads_each_table_right",
]
# What takes longer: the pipeline, and an executor that is killed in each verb.
SPARK_LANE = [
    "tests/pipeline/test_pipeline.py::test_a_run[3]",
    "tests/engines/test_cluster.py::test_lost_executors[each]",
]
SPARK_WITHOUT_PACKAGE = "tests/spark/test_sessions.py::test_executors_without_the_package"  # 3.5 has no views
SPARK_CONTRACT = "tests/engines/test_contract.py::test_spark_does_the_same"  # Iceberg's own reader is the judge
SPARK_RELEASES = ("3.5", "4.0", "4.1", "4.2", "4.3")
SPARK_TOOLS = [*FLOOR_TOOLS, "moto", "pandas", "psycopg2-binary"]
NO_TESTS_COLLECTED = 5  # pytest's exit code
DURATIONS = ROOT / "build" / "durations.txt"
PYTEST = [BIN / "python", "-m", "pytest"]
ANY_ORDER = ["-n", WORKERS, "--dist", "loadgroup"]
# Each process has a Spark session of its own, and builds what a file needs once; tests/conftest.py orders the files.
BY_FILE = ["-n", WORKERS, "--dist", "loadfile", "--no-loadscope-reorder"]
# What the tests do more of before a release.
RELEASE = {
    "DELETEKIT_COURSE": "whole",
    "DELETEKIT_CORPUS": "whole",
    "DELETEKIT_CONCURRENCY_SECONDS": "15",
    "DELETEKIT_KILL_EVERYWHERE": "1",
    "DELETEKIT_FUZZ_ROUNDS": "2000",
    "DELETEKIT_STATEFUL": "2",
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="dev.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "command",
        choices=["tour", "test", "floors", "newest", "size", "beside", "spark"],
        help="tour: the guided tour; see above",
    )
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="passed on to `deletekit tour` or to pytest")
    options = parser.parse_args(arguments)
    require_python()
    # Where it is set, each process of each test would compile deletekit, and each stage all of tests/.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if options.command == "tour":
        install(["spark"])
        return run([BIN / "deletekit", "tour", *options.rest])
    if options.command == "floors":
        return run_at_the_floors(options.rest)
    if options.command == "size":
        return check_size()
    if options.command == "newest":
        return run_with_the_newest(options.rest)
    if options.command == "spark":
        return run_on_spark(options.rest)
    install(["spark", "test", "peers", "course", "site"])
    if options.command == "beside":
        return run([BIN / "python", "-m", "tests.tools.beside"])
    return run_tests(options.rest)


# --- what the machine has ---------------------------------------------------------------------------------------------


def require_python() -> None:
    have = sys.version_info[:2]
    if have < OLDEST_PYTHON:
        sys.exit("deletekit needs Python {}.{} or later, and this is {}.{}.".format(*OLDEST_PYTHON, *have))
    # Debian's Python has venv without ensurepip until python3-venv is installed.
    if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
        sys.exit("This Python cannot make a virtual environment: install its venv module (on Debian: python3-venv).")


def java_program() -> str:
    """Name the Java that Spark's own scripts would run."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def java_problem() -> str | None:
    """Say in one sentence why Spark cannot start here; None when there is a Java that it can use."""
    java = java_program()
    wanted = f"Spark needs Java {OLDEST_JAVA} or later"
    if shutil.which(java) is None:
        return f"{wanted}, and there is no Java " + ("on the PATH" if java == "java" else f"at JAVA_HOME ({java})")
    shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', shown)
    if found is None:
        return f"{wanted}, and `{java} -version` names no version: {shown.strip()[:200]}"
    if int(found[1]) < OLDEST_JAVA:
        return f"{wanted}, and {java} is Java {found[1]}"
    return None


# --- set-up -----------------------------------------------------------------------------------------------------------


def install(extras: list[str]) -> None:
    """Bring .venv to what pyproject.toml and constraints.txt ask for, if it is not there yet."""
    make_venv()
    wanted = fingerprint()
    before, *there = STAMP.read_text(encoding="utf-8").split() if STAMP.exists() else [""]
    if before == wanted and set(extras) <= set(there):
        return
    extras = sorted({*extras, *there})  # what an earlier command installed stays up to date too
    say("installing deletekit[{}] into .venv (minutes, the first time)".format(",".join(extras)))
    STAMP.unlink(missing_ok=True)  # an installation cut short must not look finished
    pip = [BIN / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    must_run([*pip, "--constraint", "constraints.txt", "--editable", ".[{}]".format(",".join(extras))])
    STAMP.write_text("\n".join([wanted, *extras, ""]), encoding="utf-8")


def make_venv() -> None:
    """Make .venv. Make it again if another Python made it: this one would not see its packages."""
    config = VENV / "pyvenv.cfg"
    made_by = f"version = {platform.python_version()}"
    if config.exists() and made_by in config.read_text(encoding="utf-8").splitlines():
        return
    say("making .venv")
    must_run([sys.executable, "-m", "venv", "--clear", VENV])


def fingerprint() -> str:
    """Hash the two files that name the packages."""
    digest = hashlib.sha256()
    for name in ("pyproject.toml", "constraints.txt"):
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


# --- tests ------------------------------------------------------------------------------------------------------------


def run_tests(arguments: list[str]) -> int:
    """Run the first tier of tests; with `--all` also the second, with `--long` also what only a release needs.

    `--tier` runs one tier alone. Other arguments go to pytest and select tests, of any tier.
    """
    parser = argparse.ArgumentParser(prog="dev.py test", add_help=False, allow_abbrev=False)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--tier", type=int, choices=[1, 2, 3])
    parser.add_argument("-m", dest="marks")
    options, selection = parser.parse_known_args(arguments)
    problem = java_problem()
    if problem:
        say(f"{problem}: the tests marked `spark` and those that ask for `java` will be skipped")
    if selection or options.marks:
        return run_selection(options.marks, selection)
    DURATIONS.parent.mkdir(exist_ok=True)
    if options.tier in {None, 1}:
        DURATIONS.unlink(missing_ok=True)
    tiers = [options.tier] if options.tier else [1, 2, 3] if options.long else [1, 2] if options.all else [1]
    # A later tier runs even if an earlier one failed, so that one run tells all that is wrong.
    environment = {**os.environ, **(RELEASE if options.long else {})}
    return max([run_tier(tier, environment) for tier in tiers])


def run_tier(tier: int, environment: dict[str, str]) -> int:
    """Run one tier on two processes: first what needs no Spark, then what is worth it again on S3, then Spark."""
    chosen = [*PYTEST, f"--tier={tier}", f"--durations-file={DURATIONS}"]
    say(f"tests of tier {tier} without Spark")
    results = [run([*chosen, *ANY_ORDER, "-m", "not spark"], environment)]
    if tier == 2:
        say("tests with the tables on S3")
        on_s3 = {**environment, "DELETEKIT_STORAGE": "s3"}
        code = run([*PYTEST, *ANY_ORDER, f"--durations-file={DURATIONS}", "-m", "not spark", *S3_TESTS], on_s3)
        results.append(code and 1)  # a test of the list that is gone leaves none, which is a failure here
    say(f"tests of tier {tier} on Spark")
    results.append(run([*chosen, *BY_FILE, "-m", "spark"], environment))
    return next((code for code in results if code not in {0, NO_TESTS_COLLECTED}), 0)


def run_at_the_floors(arguments: list[str]) -> int:
    """Run the tests of FLOOR_TESTS, or those that pytest's own arguments select, with the oldest packages."""
    python = new_venv("floors", [f"--constraint={LOWEST}", ".[course]", *pins_of(FLOOR_TOOLS)])
    say("tests with the oldest packages")
    chosen = arguments or ["--tier=1", *FLOOR_TESTS]
    return run([python, "-m", "pytest", *ANY_ORDER, "-m", "not spark and not peers", *chosen])


def run_with_the_newest(arguments: list[str]) -> int:
    """Run the tests of NEWEST_TESTS, or those that pytest's own arguments select, with the newest packages."""
    python = new_venv("newest", [".", *pins_in(NEWEST), *pins_of(NEWEST_TOOLS)])
    say("the examples of the docs with the newest packages")
    planner = "ignore:Iceberg scan planning with the polars_iceberg plugin"
    return run([python, "-m", "pytest", "-W", planner, "-m", "not spark", *(arguments or NEWEST_TESTS)])


def check_size() -> int:
    """Install deletekit alone, with the pinned packages, and print what each package takes on disk."""
    python = new_venv("size", ["--constraint=constraints.txt", "."])
    code = (
        "from importlib.metadata import distributions as all\n"
        "for d in all(): print(sum(f.locate().stat().st_size for f in d.files or () if f.locate().is_file()), d.name)"
    )
    lines = subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True).stdout.splitlines()
    sizes = {name: int(size) / 1e6 for size, _, name in (line.partition(" ") for line in lines)}
    total = sum(size for name, size in sizes.items() if name not in {"pip", "setuptools"})
    for name, size in sorted(sizes.items(), key=lambda each: -each[1])[:12]:
        print(f"{size:6.0f} MB  {name}")
    say(f"a base installation takes {total:.0f} MB, of at most {MOST_MEGABYTES}")
    return int(total > MOST_MEGABYTES)


def run_on_spark(arguments: list[str]) -> int:
    """Run tests on a release of Spark: `spark 4.3`, `spark 4.3 smoke`; other arguments are pytest's own."""
    release, *chosen = arguments or ["3.5"]
    if release not in SPARK_RELEASES:
        sys.exit(f"deletekit was never tried on Spark {release}: {', '.join(SPARK_RELEASES)} are known.")
    python = new_venv(f"spark-{release}", [".", f"pyspark=={release}.*", *pins_of(SPARK_TOOLS)])
    say(f"tests on Spark {release}")
    smoke = SPARK_SMOKE_3_5 if release == "3.5" else [*SPARK_SMOKE, SPARK_WITHOUT_PACKAGE]
    if chosen == ["smoke"]:
        tests = smoke
    else:
        tests = chosen or [*smoke, *SPARK_LANE, *([SPARK_CONTRACT] if release < "4.2" else [])]
    # Spark 4.2 and 4.3 warn of pandas 3, of which deletekit uses nothing; 3.5 compares versions by distutils.
    warnings = ("PySpark does not yet fully support pandas:FutureWarning", "distutils Version:DeprecationWarning")
    ignored = [argument for warning in warnings for argument in ("-W", f"ignore:{warning}")]
    return run([python, "-m", "pytest", *ignored, "-m", "spark", *tests])


def new_venv(name: str, packages: list[str]) -> Path:
    """Make build/NAME with these packages, in place of an older one, and return its Python."""
    folder = ROOT / "build" / name
    python = folder / BIN.name / "python"
    say(f"installing deletekit and {' '.join(packages)} into {folder.relative_to(ROOT)}")
    must_run([sys.executable, "-m", "venv", "--clear", folder])
    must_run([python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *packages])
    return python


def pins_of(names: list[str]) -> list[str]:
    """Return the lines of constraints.txt for these packages."""
    return [pin for pin in pins_in("constraints.txt") if pin.partition("==")[0] in names]


def pins_in(file: str) -> list[str]:
    """Return the lines of a constraints file that name a package and its version."""
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


def run_selection(marks: str | None, selection: list[str]) -> int:
    """Run the tests that pytest's own arguments select: those without Spark, then those on Spark."""
    also = f"({marks}) and " if marks else ""
    say("tests without Spark")
    plain = run([*PYTEST, *ANY_ORDER, "-m", f"{also}not spark", *selection])
    say("tests on Spark")
    on_spark = run([*PYTEST, *BY_FILE, "-m", f"{also}spark", *selection])
    if NO_TESTS_COLLECTED in {plain, on_spark}:
        return min(plain, on_spark)  # a selection may leave one of the two without a test
    return plain or on_spark


# --- helpers -----------------------------------------------------------------------------------------------------


def say(text: str) -> None:
    print(f"== {text}", flush=True)


def run(command: list[object], environment: dict[str, str] | None = None) -> int:
    try:
        return subprocess.run([str(part) for part in command], cwd=ROOT, check=False, env=environment).returncode
    except KeyboardInterrupt:
        return 130


def must_run(command: list[object]) -> None:
    code = run(command)
    if code != 0:
        sys.exit(f"{command[0]} ended with code {code}: what is wrong stands above; deleting .venv starts afresh.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
