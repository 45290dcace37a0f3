"""Races of two writers that come out alike in every run."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from deletekit.errors import InvalidInputError

_T = TypeVar("_T")
_R = TypeVar("_R")


class Meanwhile:
    """An engine that makes a writer slow: `dk.delete(table, "id = 2", engine=Meanwhile(commit_of_another))`.

    The other writer commits once, when the first tasks are done and before their results are committed.

    Attributes
    ----------
    tasks: how many tasks it has run.

    Raises InvalidInputError if the commit is not a function: then the other writer has committed already.
    """

    def __init__(self, commit_of_another: Callable[[], object]) -> None:
        if not callable(commit_of_another):
            raise InvalidInputError(
                "the commit of the other writer is not a function",
                kind="meanwhile",
                field="commit_of_another",
                found=type(commit_of_another).__name__,
                expected="lambda: dk.delete(other, ...)",
            )
        self._others = [commit_of_another]
        self.tasks = 0

    def map(self, fn: Callable[[_T], _R], tasks: Iterable[_T]) -> Iterator[_R]:
        """Run the tasks one after the other, then let the other writer commit."""
        done = [fn(task) for task in tasks]
        self.tasks += len(done)
        while self._others:
            self._others.pop()()
        yield from done


def outcome(commit: Any) -> str:
    """Return what a writer did with its change before it won: `committed`, `rebased`, `merged` or `replanned`.

    `commit` is what a verb that writes returned.
    """
    if commit.attempts == 1:
        return "committed"
    if commit.plans > 1:
        return "replanned"
    return "merged" if commit.removed_delete_files else "rebased"
