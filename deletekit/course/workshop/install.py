"""Install the deletekit course from this folder, without a network: python3 install.py [FOLDER]

Makes FOLDER (default: deletekit-workshop in the current folder) with a virtual environment, Spark's jars if the bundle
has them, and the command that starts the course (start.sh, or start.cmd on Windows). It does not need the bundle later.
"""

# Only the standard library, and only syntax that an old Python can read: it must be able to say that it is too old.

import argparse
import hashlib
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
WINDOWS = os.name == "nt"


def main(arguments: list[str]) -> int:
    """Install the course, and print how to begin."""
    parser = argparse.ArgumentParser(prog="install.py", description=__doc__)
    parser.add_argument("folder", nargs="?", default="deletekit-workshop")
    folder = Path(parser.parse_args(arguments).folder).resolve()
    bundle = json.loads((HERE / "bundle.json").read_text(encoding="utf-8"))
    problem = _wrong_machine(bundle["targets"]) or _damage() or _no_venv()
    if problem:
        print(problem, file=sys.stderr)  # noqa: T201
        return 1
    print(f"Installing into {folder} ...", flush=True)  # noqa: T201
    if not _install(folder, bundle):
        return 1
    start = _starter(folder)
    print(f"Done. Begin with\n\n    {start}\n\nor in another language with --lang ko, ja, zh-CN, es.")  # noqa: T201
    return 0


def _wrong_machine(targets: list[list[str]]) -> str | None:
    """Return which machines the bundle is for if this is none of them, else None."""
    system = {"darwin": "macos"}.get(platform.system().lower(), platform.system().lower())
    machine = platform.machine().lower()
    here = "{}-{}".format(system, "x86_64" if machine == "amd64" else machine)
    if [here, "{}.{}".format(*sys.version_info)] in targets:
        return None
    known = "; ".join("{} with Python {}".format(*target) for target in targets)
    return f"This bundle is for {known}. This is {here} with Python {platform.python_version()}."


def _damage() -> str | None:
    """Return which file is missing or damaged; None if none is."""
    for line in (HERE / "SHA256SUMS").read_text(encoding="utf-8").splitlines():
        wanted, _, name = line.partition("  ")
        file = HERE / name
        if not file.is_file():
            return f"{name} is missing from this folder: copy the bundle again."
        digest = hashlib.sha256()
        with file.open("rb") as stream:
            for piece in iter(lambda: stream.read(1 << 20), b""):
                digest.update(piece)
        if digest.hexdigest() != wanted:
            return f"{name} is damaged: copy the bundle again."
    return None


def _no_venv() -> str | None:
    # Debian's Python has venv without ensurepip until python3-venv is installed.
    if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
        return "This Python cannot make a virtual environment: install its venv module (on Debian: python3-venv)."
    return None


def _install(folder: Path, bundle: dict[str, object]) -> bool:
    environment = folder / "venv"
    folder.mkdir(parents=True, exist_ok=True)
    extras = ",".join(str(extra) for extra in bundle["extras"])  # type: ignore[attr-defined]
    # Isolated: no setting of this machine may send pip to another source.
    pip = [str(_program(environment, "python")), "-m", "pip", "--isolated", "--disable-pip-version-check", "install"]
    wheels = ["--quiet", "--no-index", "--find-links", str(HERE / "wheels")]
    steps = [
        [sys.executable, "-m", "venv", "--clear", str(environment)],
        [*pip, *wheels, f"deletekit[{extras}]=={bundle['deletekit']}"],
    ]
    for step in steps:
        if subprocess.run(step, check=False).returncode != 0:  # noqa: S603
            print("The installation failed: the reason is printed above.", file=sys.stderr)  # noqa: T201
            return False
    if (HERE / "jars").is_dir():
        shutil.copytree(HERE / "jars", folder / "jars", dirs_exist_ok=True)
    return True


def _program(environment: Path, name: str) -> Path:
    return environment / ("Scripts" if WINDOWS else "bin") / (f"{name}.exe" if WINDOWS else name)


def _starter(folder: Path) -> Path:
    """Write the command that starts the course in the folder, with the jars that are there."""
    jars = (folder / "jars").is_dir()
    if WINDOWS:
        start = folder / "start.cmd"
        lines = ["@echo off", 'cd /d "%~dp0"', *(['set "DELETEKIT_JARS=%~dp0jars"'] if jars else [])]
        lines.append(r'"venv\Scripts\deletekit.exe" lab %*')
    else:
        start = folder / "start.sh"
        lines = [
            "#!/bin/sh",
            'cd "$(dirname "$0")" || exit 1',
            *(['export DELETEKIT_JARS="$PWD/jars"'] if jars else []),
        ]
        lines.append('exec venv/bin/deletekit lab "$@"')
    start.write_text("\n".join([*lines, ""]), encoding="utf-8")
    start.chmod(0o755)
    return start


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
