"""Fail when installing deletekit makes a resolver take an older release of a package that people have beside it.

`python -m tests.tools.beside` resolves each package alone and together with deletekit, with uv, and compares the two.
It downloads what the resolver reads of packages, and installs nothing.
"""

import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PYTHON = "3.12"
"""Each of the packages has releases for this Python."""

NONE = "no version"
AT_ONCE = 6  # a resolver waits for the index most of the time

PACKAGES = (
    "apache-airflow",
    "dagster-iceberg",
    "daft",
    "dask",
    "deltalake",
    "dlt",
    "duckdb",
    "mlflow",
    "pathway",
    "pypaimon",
    "quixstreams",
    "ray",
)


def main() -> int:
    ours: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        alone = [pool.submit(version_in, [package], package) for package in PACKAGES]
        beside = [pool.submit(version_in, [package, *ours], package) for package in PACKAGES]
        found = {p: (a.result(), b.result()) for p, a, b in zip(PACKAGES, alone, beside, strict=True)}
    wrong = [package for package, (a, b) in found.items() if a != b or a.startswith(NONE)]
    for package, (a, b) in found.items():
        print(f"{'FAILED ' if package in wrong else ''}{package}: {a} alone, {b} beside deletekit", flush=True)
    print(f"{len(found) - len(wrong)} passed, {len(wrong)} failed", *wrong)
    return 1 if wrong else 0


def version_in(requirements: list[str], package: str) -> str:
    """Return the version of a package that the resolver takes for these requirements."""
    options = ["--quiet", "--no-header", "--no-annotate", "--python-version", PYTHON]
    command = [sys.executable, "-m", "uv", "pip", "compile", *options, "-"]
    done = subprocess.run(command, input="\n".join(requirements), capture_output=True, text=True, check=False)
    pins = dict(line.split("==") for line in done.stdout.splitlines() if "==" in line)
    versions = {canonicalize_name(name): version.partition(";")[0].strip() for name, version in pins.items()}
    return versions.get(canonicalize_name(package)) or f"{NONE} ({' '.join(done.stderr.split())[:300]})"


if __name__ == "__main__":
    sys.exit(main())
