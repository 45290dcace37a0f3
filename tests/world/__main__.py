"""Let simulated worlds live: `python -m tests.world --seed 1 --worlds 100`. docs/failures.md says what for.

It prints the command of each world that breaks a promise, and ends with 1 then.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tests.world.actors import Home
from tests.world.mutants import MUTANTS
from tests.world.shrink import shrunk
from tests.world.world import BrokenPromiseError, Plan

LONGEST = 600
FIXED = {"PYTHONHASHSEED": "0", "POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}


def live(plan: Plan, mutant: AbstractContextManager[Any] | None = None) -> tuple[Home, BrokenPromiseError | None]:
    """Let a world live, and tell what it broke."""
    home = Home(plan)
    try:
        with mutant or nullcontext():
            home.live()
    except BrokenPromiseError as e:
        return home, e
    return home, None


def lived(plan: Plan, mutant: str | None) -> tuple[str, Plan] | None:
    """Let a world live, and return what it broke, and the plan as it was lived."""
    home, broken = live(plan, MUTANTS[mutant].patch() if mutant else None)
    fired = tuple(step for step, _ in home.world.fired)
    # The last step is one that the world had not yet been closing at.
    done = Plan(plan.seed, min(plan.steps, home.world.steps + 1), home.actors, fired)
    return None if broken is None else (broken.kind, done)


def hunt(names: Iterable[str], worlds: int) -> int:
    """Look for a world that each mutant breaks, from the one on where it was found. Return how many are not found."""
    missed = 0
    for name in names:
        steps, mutant = 0, MUTANTS[name]
        for seed in range(mutant.seed, mutant.seed + worlds):
            home, broken = live(Plan(seed), mutant.patch())
            steps += home.world.steps
            if broken is not None:
                print(f"{name}: seed {seed}, {steps} steps: {str(broken)[:LONGEST]!r}", flush=True)
                break
        else:
            missed += 1
            print(f"{name}: not found in {steps} steps", flush=True)
    return missed


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.world", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--worlds", type=int, default=1, help="so many, with the seeds from --seed on")
    parser.add_argument("--steps", type=int, default=1500, help="of each world")
    parser.add_argument("--actors", help="names with commas; default: drawn by the seed")
    parser.add_argument("--faults", help="the steps of faults, with commas, or none; default: drawn by the seed")
    parser.add_argument("--trace", action="store_true", help="print each step")
    parser.add_argument("--shrink", action="store_true", help="look for a smaller world that breaks the same promise")
    parser.add_argument("--mutant", choices=("all", *MUTANTS), help="look for a planted mistake")
    asked = parser.parse_args()
    if asked.mutant and not asked.shrink:
        return hunt(MUTANTS if asked.mutant == "all" else [asked.mutant], asked.worlds)
    steps, wrong, start = 0, 0, time.perf_counter()
    actors = tuple(asked.actors.split(",")) if asked.actors else None
    faults = None if asked.faults is None else tuple(int(f) for f in asked.faults.split(",") if f != "none")
    for seed in range(asked.seed, asked.seed + asked.worlds):
        plan = Plan(seed, asked.steps, actors, faults)
        if asked.shrink:
            plan = shrunk(plan, lambda p: lived(p, asked.mutant))
        home, broken = live(plan, MUTANTS[asked.mutant].patch() if asked.mutant else None)
        steps += home.world.steps
        if asked.trace:
            print("\n".join(home.world.trace))
        if broken is not None:
            wrong += 1
            print(
                f"{plan.command()}\n  {home.kind}, v{home.version}, {home.actors}: {str(broken)[-LONGEST:]}", flush=True
            )
        if asked.worlds == 1:
            print(f"trace {home.world.digest}")
    seconds = time.perf_counter() - start
    print(f"{asked.worlds} worlds, {steps} steps, {seconds:.0f} s, {steps / seconds:.0f} steps/s, {wrong} broken")
    return min(wrong, 1)


# A set of texts is walked in the order of their hashes, so these must be the same each time.
if any(os.environ.get(name) != value for name, value in FIXED.items()):
    os.execve(sys.executable, [sys.executable, "-m", "tests.world", *sys.argv[1:]], {**os.environ, **FIXED})  # noqa: S606
sys.exit(main())
