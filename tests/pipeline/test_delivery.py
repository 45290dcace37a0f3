"""A delivery is whole or not there, holds what real feeds hold, and is refused when a byte of it is another."""

import csv
import fcntl
import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import deletekit as dk
from data.pipeline.delivery import Delivery, deliver, only_run_in
from data.pipeline.expected import difference, expected_rows
from tests.pipeline.flights import DAYS, some_flights
from tests.tables import raises


@pytest.fixture
def delivery(tmp_path: Path) -> Delivery:
    return deliver(tmp_path, DAYS, some_flights())


def rows_of(delivery: Delivery, path: str) -> list[dict[str, str]]:
    with (delivery.folder / path).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_flight_is_delivered_once(delivery: Delivery) -> None:
    ids: Counter[int] = Counter()
    for file in delivery.flights:
        if file.path.endswith(".csv"):
            ids.update(int(row["flight_id"]) for row in rows_of(delivery, file.path))
        else:
            ids.update(pq.read_table(delivery.path(file), partitioning=None)["flight_id"].to_pylist())
    assert {file.path[-3:] for file in delivery.flights} == {"csv", "uet"}
    assert set(ids.values()) == {1}
    first = {int(r["flight_id"]) for d in delivery.days for r in rows_of(delivery, f"{d}/corrections.csv")}
    assert set(ids) | first == set(some_flights()["flight_id"].to_pylist())
    assert first - set(ids), "some flights come late"


def test_feeds_hold_what_is_hard(delivery: Delivery) -> None:
    flights = {row["flight_id"]: row for row in some_flights().to_pylist()}
    months, twice, back = 0, 0, 0
    gone: set[int] = set()
    for day in delivery.days:
        rows = rows_of(delivery, f"{day}/corrections.csv")
        ids = [int(row["flight_id"]) for row in rows]
        twice += len(ids) - len(set(ids))
        back += len(gone & set(ids))
        months += sum(
            row["time_hour"][:7] != flights[int(row["flight_id"])]["time_hour"].strftime("%Y-%m") for row in rows
        )
        aircraft = {row["tailnum"] for row in rows_of(delivery, f"{day}/privacy_requests.csv")}
        gone |= {int(row["flight_id"]) for row in rows_of(delivery, f"{day}/cancellations.csv")}
        gone |= {i for i, row in flights.items() if row["tailnum"] in aircraft}
    assert months, "a correction moves a flight to another partition"
    assert twice, "a correction comes twice"
    assert back, "a correction of what was cancelled or erased before"


def test_expected_rows_are_those_of_a_plain_loop(delivery: Delivery) -> None:
    """The same by dicts, one row at a time."""
    cancelled: set[int] = set()
    erased: set[str] = set()
    flights = {row["flight_id"]: row for row in some_flights().to_pylist()}
    late = {int(r["flight_id"]) for d in delivery.days for r in rows_of(delivery, f"{d}/corrections.csv")} - {
        i for f in delivery.flights for i in ids_of(delivery, f.path)
    }
    state = {i: row for i, row in flights.items() if i not in late}
    for day in delivery.days:
        newest: dict[int, tuple[int, dict[str, str]]] = {}
        for row in rows_of(delivery, f"{day}/corrections.csv"):
            key, revision = int(row["flight_id"]), int(row["revision"])
            if key not in newest or newest[key][0] < revision:
                newest[key] = revision, row
        for key, (_, row) in newest.items():
            if key not in cancelled and row["tailnum"] not in erased:
                delay = None if row["arr_delay"] == "NA" else int(row["arr_delay"])
                state[key] = {**flights[key], "arr_delay": delay, "time": row["time_hour"]}
        cancelled |= {int(row["flight_id"]) for row in rows_of(delivery, f"{day}/cancellations.csv")}
        erased |= {row["tailnum"] for row in rows_of(delivery, f"{day}/privacy_requests.csv")}
        state = {i: r for i, r in state.items() if i not in cancelled and r["tailnum"] not in erased}
    found = {row["flight_id"]: row for row in expected_rows(delivery).to_pylist()}
    assert set(found) == set(state)
    for key, row in state.items():
        assert found[key]["arr_delay"] == row["arr_delay"]
        moved = str(row.get("time", row["time_hour"].strftime("%Y-%m-%dT%H:%M:%SZ")))  # type: ignore[attr-defined]
        assert found[key]["time_hour"].strftime("%Y-%m-%dT%H:%M:%SZ") == moved


def ids_of(delivery: Delivery, path: str) -> list[int]:
    if path.endswith(".csv"):
        return [int(row["flight_id"]) for row in rows_of(delivery, path)]
    return pq.read_table(delivery.folder / path, partitioning=None)["flight_id"].to_pylist()


def test_difference_sees_every_kind_of_wrong_row(delivery: Delivery) -> None:
    right = expected_rows(delivery)
    assert difference(right.take(pa.array(range(len(right) - 1, -1, -1))), right) is None
    assert difference(right.slice(1), right) is not None
    assert difference(pa.concat_tables([right, right.slice(0, 1)]), right) is not None
    other = right.set_column(
        right.column_names.index("arr_delay"), "arr_delay", pc.add(right["arr_delay"], pa.scalar(1, pa.int32()))
    )
    assert difference(other, right) == "column arr_delay has other values"
    assert difference(right.drop_columns(["dest"]), right) == "columns dest"


def test_a_second_run_reads_what_the_first_wrote(delivery: Delivery, tmp_path: Path) -> None:
    times = {file.path: (delivery.folder / file.path).stat().st_mtime_ns for file in delivery.files}
    again = deliver(tmp_path, DAYS, some_flights().slice(0, 0))
    assert again.identity == delivery.identity
    assert times == {file.path: (again.folder / file.path).stat().st_mtime_ns for file in again.files}


@pytest.mark.parametrize("days", [0, 31, -1])
def test_days_out_of_bounds(tmp_path: Path, days: int) -> None:
    with raises(dk.InvalidInputError, "pipeline-days"):
        deliver(tmp_path, days, some_flights())
    assert list(tmp_path.iterdir()) == []


def test_other_days_than_delivered(delivery: Delivery, tmp_path: Path) -> None:
    with raises(dk.InvalidInputError, "pipeline-days", found=DAYS + 1, expected=DAYS):
        deliver(tmp_path, DAYS + 1, some_flights())


@pytest.mark.parametrize("damage", ["changed", "cut", "gone"])
def test_a_damaged_raw_file_is_named(delivery: Delivery, tmp_path: Path, damage: str) -> None:
    file = delivery.folder / delivery.flights[3].path
    data = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(data[:-7] if damage == "cut" else data.replace(b"JFK", b"LGA", 1))
    with raises(dk.FormatError, "pipeline-delivery", file=str(file)):
        deliver(tmp_path, DAYS, some_flights())


@pytest.mark.parametrize(
    "note",
    ["", "[]", "{}", '{"kind": "x"}', "\xff", '{"kind": "deletekit pipeline delivery 1", "schema": "zz"}'],
)
def test_a_note_that_is_none(delivery: Delivery, tmp_path: Path, note: str) -> None:
    (delivery.folder / "delivery.json").write_text(note, encoding="latin-1")
    with raises(dk.FormatError, "pipeline-delivery"):
        deliver(tmp_path, DAYS, some_flights())


def test_a_note_cannot_name_files_elsewhere(delivery: Delivery, tmp_path: Path) -> None:
    note = delivery.folder / "delivery.json"
    stored = json.loads(note.read_text())
    stored["flights"][0]["path"] = "../../etc/passwd"
    note.write_text(json.dumps(stored))
    with pytest.raises(dk.FormatError) as refused:
        deliver(tmp_path, DAYS, some_flights())
    assert refused.value.field == "path"


# --- the directory ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names", [["notes.txt"], ["raw/other.csv"], ["warehouse/catalog.db"], ["raw/delivery.json", "x"]]
)
def test_a_directory_of_something_else_is_refused(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("someone's")
    before = sorted(tmp_path.rglob("*"))
    with raises(dk.InvalidInputError, "pipeline-directory"), only_run_in(tmp_path):
        pass
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(dk.InvalidInputError), only_run_in(tmp_path / "file"):
        pass


def test_what_killed_runs_left_goes(tmp_path: Path) -> None:
    (tmp_path / ".unfinished-77" / "flights").mkdir(parents=True)
    (tmp_path / ".unfinished-report.json-77").write_text("{")
    with only_run_in(tmp_path):
        assert {path.name for path in tmp_path.iterdir()} == {".lock"}


def test_one_run_at_a_time(tmp_path: Path) -> None:
    with only_run_in(tmp_path), pytest.raises(dk.InvalidInputError) as refused, only_run_in(tmp_path):
        pass
    assert "another run" in refused.value.message
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
