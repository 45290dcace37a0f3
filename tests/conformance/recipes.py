"""What a recipe of the suite is: the rule that its table is there for, and the program that makes the table."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.conformance.bench import Bench
from tests.conformance.rules import RULES


@dataclass(frozen=True)
class Recipe:
    """How one table is made. `columns`: the only ones that an engine is asked for; none for all."""

    name: str
    rule: str
    sentence: str
    version: int
    features: tuple[str, ...]
    writer: str
    columns: tuple[str, ...]
    make: Callable[[Bench], None]


class Recipes(list[Recipe]):
    """The recipes of one module."""

    def add(
        self, rule: str, *features: str, versions: tuple[int, ...] = (2, 3), columns: tuple[str, ...] = (),
        writer: str = "deletekit",
    ) -> Callable[[Callable[[Bench], None]], Callable[[Bench], None]]:  # fmt: skip
        """Decorate the function that makes a table; its docstring is the sentence of the case."""
        assert rule in RULES, rule

        def register(make: Callable[[Bench], None]) -> Callable[[Bench], None]:
            sentence = " ".join((make.__doc__ or "").split())
            for version in versions:
                name = make.__name__ + (f"_v{version}" if len(versions) > 1 else "")
                self.append(Recipe(name, rule, sentence, version, features, writer, columns, make))
            return make

        return register
