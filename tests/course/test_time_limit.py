"""What runs in the main thread is stopped in time, and other timers go on."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from deletekit.course.time_limit import TookTooLong, time_limit


@pytest.fixture(autouse=True)
def no_other_timer() -> Iterator[None]:
    """Put pytest's own timer away, and back."""
    handler, left = signal.getsignal(signal.SIGALRM), signal.setitimer(signal.ITIMER_REAL, 0)
    yield
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, *left)


def for_ever() -> None:
    while True:
        try:
            time.sleep(0.01)
        except Exception:  # noqa: S112, BLE001
            continue


def in_time() -> None:
    with time_limit(0.05):
        pass
    time.sleep(0.1)


def in_another_thread() -> None:
    done: list[None] = []

    def work() -> None:
        with time_limit(0.01):
            time.sleep(0.05)
        done.append(None)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [None]


@pytest.mark.parametrize("run", [in_time, in_another_thread])
def test_nothing_is_stopped(run: Callable[[], None]) -> None:
    run()


def test_the_handler_is_put_back_after_an_error() -> None:
    before = signal.getsignal(signal.SIGALRM)
    during = []
    with suppress(ZeroDivisionError), time_limit(5):
        during.append(signal.getsignal(signal.SIGALRM))
        _ = 1 / 0
    assert during != [before]
    assert signal.getsignal(signal.SIGALRM) == before


def test_another_timer_goes_on() -> None:
    rang = []
    signal.signal(signal.SIGALRM, lambda *_: rang.append(time.monotonic()))
    started = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, 0.6)
    with pytest.raises(TookTooLong), time_limit(0.2):
        for_ever()
    assert not rang
    time.sleep(0.8)
    assert 0.5 < rang[0] - started < 0.9


def test_a_limit_inside_a_shorter_one_is_that_one() -> None:
    with pytest.raises(TookTooLong), time_limit(0.2), time_limit(60):
        for_ever()
