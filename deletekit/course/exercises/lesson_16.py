"""Functions that learners write in lesson 16, right and wrong."""

from deletekit.course.exercise import Functions

FUNCTIONS = {
    "16.2": Functions(
        cases=[([],), ([0],), ([1],), ([3, 0, 2],), ([31],), ([32],), ([33, 256],), ([0, 31, 32, 200, 7],)],
        by_name={
            "at_most_32": lambda counts: sum(min(count, 32) for count in counts),
            "by_kind": lambda counts: sum(count if count < 32 else 256 // 8 for count in counts),
            "only_sparse": sum,
            "only_dense": lambda counts: 32 * len(counts),
            "two_bytes": lambda counts: sum(min(2 * count, 32) for count in counts),
            "with_descriptors": lambda counts: sum(1 + min(count, 32) for count in counts),
        },
    ),
}
