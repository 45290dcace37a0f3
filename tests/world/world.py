"""The scheduler of a simulated world: actors by turns, a clock of its own, faults, and a trace, all from one seed.

Each actor is a greenlet. It gives way at each request to the object store or the catalog, and the seed chooses who goes
on. A request takes effect in one instant, so a trace of requests is all that happened.
"""

import hashlib
import os
import random
import time
import traceback
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import greenlet  # type: ignore[import-untyped]

from deletekit.table import catalog, pyiceberg_store

START = 1_800_000_000.0
CRASHES = ("crash", "crash after", "crash later")
FAULTS = {
    "read": ("error", "crash"),
    "write": ("error", "after", "torn", "later", "resent", *CRASHES),
    "delete": ("error", "after", "later", *CRASHES),
    "swap": ("error", "busy", "after", "nothing", "later", "resent", *CRASHES),
}
"""What may become of a request: an error before or after it took effect; half a file; an effect that comes later; an
effect, and then a refusal of the same request sent again; an unknown state without effect; and the end of the actor."""


class Gone(greenlet.GreenletExit):  # type: ignore[misc]
    """The actor's process has died: whatever it still asks for is not done."""


class BrokenPromiseError(AssertionError):
    """A promise was broken. `kind` is its name, for whoever looks for a smaller world that breaks the same one."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


@dataclass(frozen=True)
class Plan:
    """What a world is made of. `actors` None: drawn by the seed. `faults` None: drawn; else only at these steps."""

    seed: int
    steps: int = 1500
    actors: tuple[str, ...] | None = None
    faults: tuple[int, ...] | None = None

    def command(self) -> str:
        words = [f"python -m tests.world --seed {self.seed} --steps {self.steps} --worlds 1"]
        words += [f"--actors {','.join(self.actors)}"] if self.actors else []
        words += [f"--faults {','.join(map(str, self.faults)) or 'none'}"] if self.faults is not None else []
        return " ".join(words)


@dataclass(eq=False)
class Process:
    """A process of the world: what runs in it, and until when it sleeps.

    Attributes
    ----------
    op: what it is doing, as the model wants to know it.
    seen: the newest state of the catalog that it knows of; it is never shown an older one.
    hurt: whether a fault struck the operation.
    """

    name: str
    body: Callable[[], None]
    chance: random.Random
    greenlet: Any = None
    wakes: float = 0.0
    op: Any = None
    seen: int = 0
    hurt: bool = False
    is_dead: bool = False


def in_line(_: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
    """Do at once what a thread pool would do in a thread: `submit` of the world's pools."""
    done: Future[Any] = Future()
    try:
        done.set_result(fn(*args, **kwargs))
    except Exception as e:  # noqa: BLE001  # whoever asks for the result gets it
        done.set_exception(e)
    return done


@dataclass
class World:
    """One simulated world; `run` lets it live as long as its plan says.

    Attributes
    ----------
    now: seconds since 1970.
    fired: the steps at which a fault struck, with the fault.
    broken: the first promise that was broken.
    """

    plan: Plan
    now: float = START
    steps: int = 0
    closing: bool = False
    broken: BrokenPromiseError | None = None
    current: Process | None = None
    processes: list[Process] = field(default_factory=list)
    fired: list[tuple[int, str]] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    _pending: list[tuple[float, int, Callable[[], Any]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng, self._ids, self._turns, self._luck = (random.Random(f"{self.plan.seed} {n}") for n in range(4))
        self.fault_rate = self.rng.choice((0, 0.002, 0.01, 0.03))
        self.crash_rate = self.rng.choice((0, 0.5, 1))
        self.sticky = self.rng.choice((0, 0, 0.5, 0.9))
        self.list_lag = self.rng.choice((0, 0, 5))
        self.stale = self.rng.choice((0, 0, 0.3))

    # --- time and turns ------------------------------------------------------------------------------------------

    def run(self, bodies: dict[str, Callable[[], None]]) -> None:
        """Let processes go on until the steps are used up, then end what is under way, without further faults.

        A process that dies starts again.
        """
        self.processes += [Process(n, body, random.Random(f"{self.plan.seed} {n}")) for n, body in bodies.items()]
        for process in self.processes:
            self._start(process)
        last: Process | None = None
        while self.broken is None and self.processes:
            self.closing = self.steps >= self.plan.steps
            ready = [p for p in self.processes if p.wakes <= self.now]
            if not ready:
                self._advance(min(p.wakes for p in self.processes))
                continue
            is_same = last in ready and self._turns.random() < self.sticky
            last = last if last is not None and is_same else self._turns.choice(ready)
            self.go_on(last)
        for process in self.processes:
            process.is_dead = True
            process.greenlet.throw(Gone)
        if self.broken is None:
            self._advance(self.now + 120)

    def go_on(self, process: Process) -> None:
        self.current = process
        try:
            process.greenlet.switch()
        except BrokenPromiseError as e:
            self.broken = self.broken or e
        except Exception as e:  # noqa: BLE001  # what the library lets through is a finding
            self.broken = self.broken or BrokenPromiseError(
                "error", f"{process.name}: {''.join(traceback.format_exception(e))}"
            )
        finally:
            self.current = None
        if process.greenlet.dead:
            self.processes.remove(process) if self.closing else self._start(process)

    def _start(self, process: Process) -> None:
        process.greenlet, process.op, process.seen, process.is_dead = greenlet.greenlet(process.body), None, 0, False
        process.wakes = self.now + process.chance.random() * 3

    def _advance(self, until: float) -> None:
        while self._pending and self._pending[0][0] <= until:
            at, _, effect = self._pending.pop(0)
            self.now = max(self.now, at)
            try:
                effect()
            except BrokenPromiseError as e:
                self.broken = self.broken or e
            except Exception:  # noqa: BLE001, S110  # nobody waits for the answer any more
                pass
        self.now = max(self.now, until)

    def sleep(self, seconds: float) -> None:
        """Let the time pass; in a process, let the others go on meanwhile."""
        me = self.current
        if me is None:
            self._advance(self.now + seconds)
            return
        me.wakes = self.now + seconds
        self._give_way(me)

    def _give_way(self, me: Process) -> None:
        me.greenlet.parent.switch()
        if me.is_dead:
            raise Gone

    # --- requests ------------------------------------------------------------------------------------------------

    def request(
        self, kind: str, what: str, effect: Callable[[], Any], fail: Callable[[str], Exception], **ways: Any
    ) -> Any:
        """Do `effect` in one step, or let a fault strike. `fail` makes the error of a fault; `ways` has other effects.

        Without a process, as before and after the world's life, nothing else happens.
        """
        me = self.current
        if me is None:
            return effect()
        if me.is_dead:
            raise Gone
        self._give_way(me)
        self.steps += 1
        self._advance(self.now + 0.001 + self._luck.random() * 0.03)
        fault = self._fault(kind)
        self.trace.append(f"{self.steps} {me.name} {what}{fault and f' [{fault}]'}")
        if not fault:
            return effect()
        me.hurt = True
        self.fired.append((self.steps, fault))
        if fault in ("after", "resent", "crash after"):
            effect()
        elif fault == "torn":
            ways["torn"]()
        elif fault in ("later", "crash later"):
            self._pending.append((self.now + 0.1 + self._luck.random() * 60, self.steps, effect))
            self._pending.sort(key=lambda p: p[:2])
        if fault.startswith("crash"):
            me.is_dead = True
            raise Gone
        raise fail(fault)

    def _fault(self, kind: str) -> str:
        if self.closing:
            return ""
        is_due = self._luck.random() < self.fault_rate * (6 if kind == "swap" else 1)
        fault = self._luck.choice(FAULTS[kind])
        if fault.startswith("crash") and self._luck.random() >= self.crash_rate:
            fault = "error"
        allowed = self.plan.faults is None or self.steps in self.plan.faults
        return fault if is_due and allowed else ""

    def fail(self, kind: str, message: str) -> None:
        """Note that a promise was broken, and end the process that did it."""
        self.broken = self.broken or BrokenPromiseError(kind, f"{message}; at step {self.steps}")
        raise self.broken

    @property
    def digest(self) -> str:
        """A hash of all that happened."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()[:16]

    def new_uuid(self) -> uuid.UUID:
        return uuid.UUID(int=self._ids.getrandbits(128), version=4)


@contextmanager
def governed(world: World, store: Any) -> Iterator[None]:
    """Give the library the world's storage, time, luck and ids, and run its thread pools in line."""
    fakes: dict[tuple[Any, str], Any] = {
        (catalog, "PyIcebergIO"): lambda *_: store,
        (pyiceberg_store, "PyIcebergIO"): lambda *_: store,
        (time, "time"): lambda: world.now,
        (time, "time_ns"): lambda: int(world.now * 1e9),
        (time, "monotonic"): lambda: world.now,
        (time, "sleep"): world.sleep,
        (uuid, "uuid4"): world.new_uuid,
        (os, "cpu_count"): lambda: 1,
        (ThreadPoolExecutor, "submit"): in_line,
    }
    kept = {(place, name): getattr(place, name) for place, name in fakes}
    random.seed(world.plan.seed)
    for (place, name), fake in fakes.items():
        setattr(place, name, fake)
    try:
        yield
    finally:
        for (place, name), original in kept.items():
            setattr(place, name, original)
