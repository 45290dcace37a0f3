"""The sample tables are what data/PROVENANCE.md says: rebuilt from their sources, counted, and compared."""

import hashlib
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from deletekit import datasets
from deletekit.errors import NotFoundError

ROOT = Path(__file__).parents[1]
DATA = ROOT / "data"


def make(script: str, target: Path) -> None:
    subprocess.run([sys.executable, DATA / script, target], check=True)


def test_flights_are_the_packages_flights(tmp_path: Path) -> None:
    rebuilt = tmp_path / "flights.parquet"
    make("make_flights.py", rebuilt)
    assert datasets.flights().equals(pq.read_table(rebuilt))


def test_small_tables_are_what_their_script_makes(tmp_path: Path) -> None:
    make("make_small_tables.py", tmp_path)
    assert datasets.users().equals(pq.read_table(tmp_path / "users.parquet"))
    assert datasets.animals().equals(pq.read_table(tmp_path / "animals.parquet"))


@pytest.mark.parametrize("name", ["flights", "users", "animals"])
def test_provenance_names_the_committed_bytes(name: str) -> None:
    file = DATA / f"{name}.parquet"
    text = (DATA / "PROVENANCE.md").read_text(encoding="utf-8")
    rows, size, digest = re.findall(rf"^\| `{name}\.parquet` \| (.+) \| (.+) \| `(\w+)` \|$", text, re.MULTILINE)[0]
    assert int(rows.replace(",", "")) == pq.read_metadata(file).num_rows
    assert int(size.replace(",", "")) == file.stat().st_size
    assert digest == hashlib.sha256(file.read_bytes()).hexdigest()


def test_a_missing_file_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(datasets, "_FOLDERS", (tmp_path,))
    with pytest.raises(NotFoundError, match=re.escape(f"users.parquet; expected {tmp_path}")):
        datasets.users()
