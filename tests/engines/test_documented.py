"""The page about engines: its lines for the executors of other libraries do what they say."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUN = """
import sys
from pathlib import Path
import deletekit as dk
from tests.test_docs import run_page

names = run_page(Path(sys.argv[1]), {"python", sys.argv[2]})
table = names["table"].refresh()
print(sorted(dk.scan(table, columns=["id"]).to_arrow()["id"].to_pylist()))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "removed"), [("distributed", {2, 6}), ("loky", set()), ("ray", {3, 7})], ids=["dask", "loky", "ray"]
)
def test_the_page_runs(package: str, removed: set[int], tmp_path: Path) -> None:
    pytest.importorskip(package)
    kind = f"python {'dask' if package == 'distributed' else package}"
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(ROOT / "docs" / "engines.md"), kind],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])},
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert done.stdout.splitlines()[-1] == str(sorted(set(range(12)) - {1, 5} - removed))
