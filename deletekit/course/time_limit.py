"""Stop what runs for too long in the main thread, where a notebook's cells run."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TookTooLong(BaseException):
    """Raised in what runs for longer than its limit. `except Exception` does not catch it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TookTooLong if what follows is not finished in time.

    There is no limit where the system has no timer (Windows), in another thread, or inside a limit that ends earlier.
    Python cannot stop a single call of C (`sum(range(10**12))`) before it returns.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    before, left = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[0]
    if before is None or 0 < left <= seconds:
        yield
        return
    started = time.monotonic()
    signal.signal(signal.SIGALRM, _stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
        if left:  # somebody else's timer goes on
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - started), 0.001))


def _stop(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise TookTooLong
