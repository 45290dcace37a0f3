"""What runs of the lessons have in common: which lessons there are, what one may take, what its verdicts must be."""

from typing import Any

from tests.tools.lessons import lesson_names, needs_spark, read_source

WITH_SPARK = [name for name in lesson_names() if needs_spark(name)]
PLAIN = [name for name in lesson_names() if name not in WITH_SPARK]
# What the server itself takes is not measured: JupyterLab 4.6 was seen with 95 MB.
LESSON_BYTES = 850 << 20


def all_right(name: str, verdicts: list[dict[str, Any]]) -> None:
    """Assert that a lesson's verdicts, as programs get them, are those to its solutions."""
    cells = read_source(name).cells
    right = {v["exercise"] for v in verdicts if v["status"] == "correct"}
    assert right == {cell.metadata["exercise"] for cell in cells if "exercise" in cell.metadata}, name
    on_purpose = sum("wrong-on-purpose" in cell.metadata.get("tags", ()) for cell in cells)
    statuses = [v["status"] for v in verdicts]
    assert statuses.count("not-yet") == on_purpose, name
    assert set(statuses) <= {"correct", "noted", "not-yet"}, name
