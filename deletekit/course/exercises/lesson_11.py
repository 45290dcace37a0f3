"""Functions that learners write in lesson 11, right and wrong."""

from deletekit.course.exercise import Functions

FUNCTIONS = {
    "11.4": Functions(
        cases=[(8, [8]), (8, [8, 9]), (8, [7, 8]), (8, []), (3, [1, 2]), (2, [5, 2]), (7, [6])],
        by_name={
            "none_older": lambda delete, data: not any(number < delete for number in data),
            "all_not_older": lambda delete, data: all(number >= delete for number in data),
            "none_of_same_age": lambda delete, data: not any(number <= delete for number in data),
            "newest_not_older": lambda delete, data: not data or max(data) >= delete,
            "any_not_older": lambda delete, data: any(number >= delete for number in data),
            "not_all_older": lambda delete, data: not all(number < delete for number in data),
            "no_empty_scope": lambda delete, data: min(data) >= delete,
            "still_applies": lambda delete, data: any(number < delete for number in data),
        },
    )
}
