"""Run simulated worlds: `python -m tests.world --seed 1 --worlds 100`."""

import argparse
import collections
import os
import sys
import time

from tests.world.actors import Home
from tests.world.world import Broken, Plan


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--worlds", type=int, default=1)
    parser.add_argument("--actors")
    parser.add_argument("--faults")
    parser.add_argument("--trace", action="store_true")
    a = parser.parse_args()
    steps, start = 0, time.perf_counter()
    swaps = 0
    for seed in range(a.seed, a.seed + a.worlds):
        plan = Plan(seed, a.steps, tuple(a.actors.split(",")) if a.actors else None)
        home = Home(plan)
        try:
            home.live()
        except Broken as e:
            print(plan.command(), home.actors, home.kind, home.version, str(e).replace("\n","|")[-500:])
        if a.trace:
            print("\n".join(home.world.trace))
        steps += home.world.steps
        swaps += home.model.swaps
        if a.worlds < 5:
            print(home.world.digest, home.actors, home.kind, home.version, home.model.swaps)
    seconds = time.perf_counter() - start
    print(f"{steps} steps, {swaps} swaps in {seconds:.1f} s, {steps / seconds:.0f} a second")
    return 0


if os.environ.get("PYTHONHASHSEED") != "0":
    os.environ.update(PYTHONHASHSEED="0", POLARS_MAX_THREADS="1", OMP_NUM_THREADS="1")
    os.execv(sys.executable, [sys.executable, "-m", "tests.world", *sys.argv[1:]])
sys.exit(main())
