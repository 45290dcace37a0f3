"""Functions that learners write in lesson 04, right and wrong."""

import operator

from deletekit.course.exercise import Functions

FUNCTIONS = {
    "04.3": Functions(
        cases=[(3, 1), (3, 2), (3, 3), (3, 4), (1, 1)],
        by_name={
            "strictly_older": operator.gt,  # the delete's sequence number comes first
            "not_newer": operator.ge,
            "newer": operator.lt,
            "not_older": operator.le,
            "always": lambda delete, data: True,
        },
    )
}
