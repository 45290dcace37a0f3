"""One name or several, and the nearest ones to a mistyped one."""

from deletekit.table.column_names import as_names, columns_like


def test_a_single_name_is_not_its_letters() -> None:
    assert as_names("id") == ["id"]
    assert as_names(("id", "d")) == ["id", "d"]
    assert as_names([3, 1]) == [3, 1]


def test_the_nearest_names_come_first() -> None:
    known = ["id", "category", "Category", "value", "person.name"]
    assert columns_like("categroy", known) == f"category or Category; the columns are {', '.join(known)}"
    assert columns_like("ID", known).startswith("id; the columns are ")
    assert columns_like("persn.name", known).startswith("person.name; the columns are ")
    assert columns_like("zzz", known) == ", ".join(known)
