"""binder/: the versions are the tested ones, its scripts do what they say, and a lesson on Spark fits into 1 GB.

No image is built: there is no Docker here. What repo2docker would run is run in a virtual environment that sees the
packages of this one.
"""

import json
import os
import re
import subprocess
import sysconfig
import tomllib
import venv
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.specifiers import SpecifierSet

from deletekit.course.translations import LANGUAGES
from tests.benchmarks.measure import tree_of
from tests.notebooks.lesson_runs import LESSON_BYTES
from tests.tools.binder_requirements import REQUIREMENTS, TARGET, pins, requirements

ROOT = Path(__file__).parents[1]
BINDER = ROOT / "binder"


def test_versions_are_those_of_the_constraints() -> None:
    lines = [line for line in REQUIREMENTS.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    pinned = pins()
    assert [line for line in lines if line != f"{line.partition('==')[0]}=={pinned[line.partition('==')[0]]}"] == []
    assert {"jupyterlab", "pyspark", "pyarrow", "hatchling"} <= {line.partition("==")[0] for line in lines}


def test_requirements_are_as_generated(build_backend: None) -> None:
    assert requirements() == REQUIREMENTS.read_text(encoding="utf-8")


def test_python_and_java() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (BINDER / "runtime.txt").read_text(encoding="utf-8").strip() == f"python-{TARGET.python}"
    assert SpecifierSet(project["requires-python"]).contains(TARGET.python)
    assert "on Python 3.11" in (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert (BINDER / "apt.txt").read_text(encoding="utf-8").split() == ["openjdk-17-jre-headless"]


def test_nothing_else_is_there() -> None:
    # A Dockerfile or an environment.yml would make repo2docker ignore the rest.
    names = {"README.md", "apt.txt", "postBuild", "requirements.txt", "runtime.txt", "start"}
    assert {file.name for file in BINDER.iterdir()} == names


@pytest.mark.parametrize("name", ["postBuild", "start"])
def test_scripts_can_be_run(name: str) -> None:
    script = BINDER / name
    assert os.access(script, os.X_OK)
    assert "set -euo pipefail" in script.read_text(encoding="utf-8"), "a failed step would leave half an image"
    subprocess.run(["bash", "-n", str(script)], check=True)
    mode = subprocess.run(["git", "ls-files", "-s", str(script)], cwd=ROOT, check=True, capture_output=True, text=True)
    assert mode.stdout.startswith("100755"), "git must keep that it can be run"


def test_links_open_lessons_that_are_there() -> None:
    page = (BINDER / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"labpath=([\w./-]+)", page) == [f"course/{name}/00_start_here.ipynb" for name in LANGUAGES]
    assert page.count("OWNER/REPOSITORY/HEAD?") == len(LANGUAGES)


class Image(NamedTuple):
    """What postBuild has made: the environment of everything that is run in it."""

    variables: dict[str, str]
    python: str
    jars: Path


@pytest.fixture(scope="module")
def image(own_spark: None, build_backend: None, tmp_path_factory: pytest.TempPathFactory) -> Image:
    folder = tmp_path_factory.mktemp("binder")
    venv.create(folder / "venv", symlinks=True)
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    seen = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"  # with what its own .pth files add
    (packages / "of_the_tests.pth").write_text(seen, encoding="utf-8")
    home = folder / "home"
    home.mkdir()
    variables = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("DELETEKIT_", "PYTHON", "JUPYTER", "IPYTHON"))},
        "HOME": str(home),
        "PATH": f"{folder / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PIP_NO_INDEX": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    variables.pop("VIRTUAL_ENV", None)
    done = subprocess.run(
        [BINDER / "postBuild"], env=variables, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return Image(variables, str(folder / "venv" / "bin" / "python"), home / ".deletekit" / "jars")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_post_build_installs_deletekit_and_the_jars(image: Image) -> None:
    jars = sorted(file.name for file in image.jars.iterdir())
    assert [jar for jar in jars if "iceberg-spark-runtime-4.1" in jar]
    assert [jar for jar in jars if "sqlite-jdbc" in jar]
    code = "import deletekit, importlib.metadata as m; print(deletekit.__file__, m.distribution('deletekit')._path)"
    done = subprocess.run(
        [image.python, "-c", code], env=image.variables, cwd=image.jars, capture_output=True, text=True, check=True
    )
    source, metadata = done.stdout.split()
    assert Path(source).is_relative_to(ROOT)
    assert Path(metadata).is_relative_to(Path(image.python).parent.parent)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_post_build_copies_the_lessons_to_where_the_links_lead_and_has_idle_kernels_ended(image: Image) -> None:
    home = Path(image.variables["HOME"])
    targets = re.findall(r"labpath=([\w./-]+)", (BINDER / "README.md").read_text(encoding="utf-8"))
    for target in targets:
        cells = json.loads((home / target).read_text(encoding="utf-8"))["cells"]
        assert [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")] == []
    # As Jupyter itself reads it.
    code = (
        "from jupyter_core.paths import jupyter_config_path as p; "
        "from jupyter_server.services.config.manager import ConfigManager as C; import json;"
        "print(json.dumps(C(read_config_path=p()).get('jupyter_server_config')))"
    )
    done = subprocess.run([image.python, "-c", code], env=image.variables, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["MappingKernelManager"]["cull_idle_timeout"] > 0


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_a_lesson_on_spark_fits_into_the_memory_that_binder_guarantees(image: Image, tmp_path: Path) -> None:
    lesson = ROOT / "notebooks" / "en" / "06_deletion_vectors.ipynb"
    variables = {**image.variables, "DELETEKIT_COURSE_ENGINE": "spark", "DELETEKIT_PROGRESS": str(tmp_path / "p.json")}
    command = [BINDER / "start", image.python, "-m", "papermill", lesson, tmp_path / "out.ipynb", "--kernel=python3"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([*map(str, command)], env=variables, cwd=tmp_path, stdout=log, stderr=log)
        peak = 0
        while process.poll() is None:
            peak = max(peak, memory(process.pid))
            try:
                process.wait(0.2)
            except subprocess.TimeoutExpired:
                continue
    assert process.returncode == 0, (tmp_path / "log").read_text(errors="replace")[-3000:]
    assert 200 << 20 < peak < LESSON_BYTES, f"{peak >> 20} MiB"
    # The JVM got what `start` asks for, not the session's own default.
    code = (
        "import deletekit as dk, json, sys; s = dk.spark.session(sys.argv[1], master='local[1]');"
        "print(json.dumps([s._jvm.java.lang.Runtime.getRuntime().maxMemory(), s.conf.get('spark.jars')]))"
    )
    done = subprocess.run(
        [BINDER / "start", image.python, "-c", code, tmp_path / "w"],
        env=variables, cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    heap, jars = json.loads(done.stdout.splitlines()[-1])
    assert heap <= 512 << 20
    assert str(image.jars) in jars


def memory(root: int) -> int:
    """Give the proportional set size of a process and all below it."""
    total = 0
    for pid in tree_of(root):
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024
        except (OSError, StopIteration):  # it has ended meanwhile
            continue
    return total
