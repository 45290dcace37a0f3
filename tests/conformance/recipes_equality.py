"""Tables of equality deletes: which rows they match, and which data files they reach."""

import math

from tests.conformance.bench import Bench
from tests.conformance.recipes import Recipes

RECIPES = Recipes()
PEOPLE = ((1, "a"), (2, "b"), (3, "c"), (4, "d"))


def people(b: Bench, *rows: tuple[object, ...]) -> None:
    b.create(id="int", name="string")
    b.append(*(rows or PEOPLE))


@RECIPES.add("strictly-older", "equality-delete", "same-commit")
def upsert_in_one_commit(b: Bench) -> None:
    """One commit deletes keys 1 and 2 by value and adds them again. The new rows have the sequence number of the
    delete, so they live.
    """
    people(b)
    b.add(*b.data((1, "new"), (2, "new")), *b.equal("id", {"id": 1}, {"id": 2}))


@RECIPES.add("older-data-only", "equality-delete", "several-commits")
def key_deleted_and_added_again(b: Bench) -> None:
    """Key 2 is deleted by value and added by a later commit. An equality delete applies to older data files alone."""
    people(b)
    b.add(*b.equal("id", {"id": 2}))
    b.append((2, "again"), (5, "e"))


@RECIPES.add("null-equals-null", "equality-delete", "null-key")
def null_key(b: Bench) -> None:
    """A delete of NULL and of one text. NULL equals NULL, and differs from the text NULL and from an empty one."""
    people(b, (1, None), (2, ""), (3, "NULL"), (4, "x"), (5, None))
    b.add(*b.equal("name", {"name": None}, {"name": "x"}))


@RECIPES.add("all-columns-match", "equality-delete", "multi-column-key", "null-key")
def two_key_columns(b: Bench) -> None:
    """Two key columns, each sometimes NULL. A row is deleted when all its key columns match, and not by one alone."""
    b.create(id="int", a="int", b="string")
    b.append((1, 1, "x"), (2, 1, "y"), (3, 2, "x"), (4, None, "x"), (5, 1, None), (6, None, None))
    b.add(*b.equal("a b", {"a": 1, "b": "x"}, {"a": None, "b": "x"}, {"a": None, "b": None}))


@RECIPES.add("nan-equals-nan", "equality-delete", "nan", versions=(3,))
def nan_key(b: Bench) -> None:
    """Keys of double with NaN and the infinities. NaN equals NaN, as Java compares them."""
    b.create(id="int", d="double")
    b.append((1, math.nan), (2, math.inf), (3, -math.inf), (4, 0.0), (5, None))
    b.add(*b.equal("d", {"d": math.nan}, {"d": -math.inf}))
