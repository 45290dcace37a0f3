"""How row groups are shared among Spark's tasks, without Spark."""

import random

import pytest

from deletekit.spark.data_source.reader import even_runs


@pytest.mark.parametrize("seed", range(20))
def test_runs_are_whole_and_even(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(200):
        weights = [draw.choice((1, 10, 100, 10_000)) for _ in range(draw.randrange(1, 40))]
        count = draw.randrange(1, 50)
        runs = [weights[run] for run in even_runs(weights, count)]
        assert [weight for run in runs for weight in run] == weights
        assert len(runs) == min(count, len(weights))
        assert all(runs)
        assert max(map(sum, runs)) <= sum(weights) / len(runs) + max(weights)


@pytest.mark.parametrize(
    ("weights", "count", "sums"),
    [
        ([5] * 6, 3, [10, 10, 10]),
        ([100, 1, 1, 1], 4, [100, 1, 1, 1]),  # a heavy first part leaves no task empty
        ([100, 1, 1, 1], 2, [100, 3]),
        ([1, 1, 1, 100], 2, [3, 100]),
        ([], 0, []),
    ],
)
def test_a_heavy_part_stands_alone(weights: list[int], count: int, sums: list[int]) -> None:
    assert [sum(weights[run]) for run in even_runs(weights, count)] == sums
