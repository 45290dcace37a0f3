"""Find a smaller world that breaks the same promise: fewer steps, actors and faults."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.world.world import Plan

Run = Callable[[Plan], tuple[str, Plan] | None]
"""Lives a plan. Returns the kind of the broken promise, and the plan with the steps, actors and faults that it took."""
MOST_RUNS = 200


def shrunk(plan: Plan, run: Run) -> Plan:
    """Return the smallest plan found that breaks the same promise as `plan`."""
    found = run(plan)
    if found is None:
        return plan
    kind, best = found
    runs, tried = 0, set[Plan]()
    while (smaller := next((p for p in _smaller(best) if p not in tried), None)) is not None and runs < MOST_RUNS:
        tried.add(smaller)
        runs += 1
        found = run(smaller)
        if found is not None and found[0] == kind:
            best = found[1]
    return best


def _smaller(plan: Plan) -> Iterator[Plan]:
    """Yield plans that are smaller, the boldest first. Of a plan that has lived, actors and faults are known."""
    actors, faults = plan.actors or (), plan.faults or ()
    for gone in actors if len(actors) > 1 else ():
        yield replace(plan, actors=tuple(a for a in actors if a != gone))
    if faults:
        yield replace(plan, faults=())
    half = len(faults) // 2
    for some in (faults[:half], faults[half:], *(tuple(f for f in faults if f != gone) for gone in faults)):
        if some:
            yield replace(plan, faults=some)
