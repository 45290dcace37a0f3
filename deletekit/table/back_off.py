"""The one retry loop of commits: try again after a lost race or a lost answer, with exponential back-off.

Spec: table properties `commit.retry.*` and `commit.status-check.*`.
"""

import random
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from deletekit.errors import CommitConflictError, DeletekitError
from deletekit.log import tell
from deletekit.table.properties import value_of

T = TypeVar("T")


class BackOff:
    """The waits between the attempts of one commit: exponential, with jitter.

    Attributes
    ----------
    attempts: number of the current attempt, from 1.
    name: of the table, for the log.
    """

    def __init__(self, properties: Mapping[str, str], prefix: str = "commit.retry", *, name: str | None = None) -> None:
        self.attempts = 1
        self.name = name
        self._properties = properties
        self._prefix = prefix
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the first attempt began."""
        return round(time.monotonic() - self._start, 3)

    def wait(self) -> bool:
        """Wait for the next attempt; return False at once when the attempts or the time are used up.

        Raises InvalidInputError for a property that is not a number.
        """
        retries, shortest, longest, total = self.limits()
        wait = min(longest, shortest * 2 ** min(self.attempts - 1, 30)) * random.uniform(0.5, 1.0)  # noqa: S311  # jitter, not a secret
        if (retries is not None and self.attempts > retries) or time.monotonic() + wait > self._start + total:
            return False
        time.sleep(wait)
        self.attempts += 1
        return True

    def gave_up(self, lost: DeletekitError) -> DeletekitError:
        """Return the error of the last lost race, with the attempts that were made and what to do."""
        retries, _, _, total = self.limits()
        used_up = retries is not None and self.attempts > retries
        ended = f"num-retries above {retries}" if used_up else f"total-timeout-ms above {total * 1000:.0f}"
        return lost.changed(
            message=f"{lost.message}; gave up after {self.attempts} attempt{'s' * (self.attempts > 1)} in "
            f"{self.seconds} s: nothing was committed; call again, or set table property {self._prefix}.{ended}"
        )

    def limits(self) -> tuple[int | None, float, float, float]:
        """Return the number of retries, and shortest wait, longest wait and total time in seconds.

        Without a number of retries (None), the time alone ends them.

        Raises InvalidInputError for a property that is not a number.
        """
        names = ("num-retries", "min-wait-ms", "max-wait-ms", "total-timeout-ms")
        retries, *times = (value_of(self._properties, f"{self._prefix}.{name}") for name in names)
        shortest, longest, total = (ms / 1000 for ms in times)
        return retries, shortest, longest, total


def retry(attempt: Callable[[], T], back_off: BackOff) -> T:
    """Call `attempt` until it loses no race, and return its result. Raise its CommitConflictError after the last."""
    while True:
        try:
            return attempt()
        except CommitConflictError as lost:
            if not back_off.wait():
                raise back_off.gave_up(lost) from lost
            tell("retry", table=back_off.name, attempt=back_off.attempts, seconds=back_off.seconds, error=str(lost))
