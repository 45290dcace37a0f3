"""The plans of the instructor's pages: which lessons, in which order, and which of their exercises."""

from collections.abc import Mapping

TRACKS: Mapping[str, str] = {
    "hour": "00.1 00.2 04.1 04.2 04.3 04.4 06.1 06.2",
    "half-day": "00.2 01.2 01.4 02.1 02.5 02.6 04.3 04.4 04.6 05.4 06.1 06.3 06.6",
    "day": "00.2 01.2 01.4 02.1 02.5 02.6 04.1 04.3 04.4 04.6 05.1 05.4 05.5 06.1 06.3 06.6 07 08 09 11",
    "onboarding": "00 01 02 04 05 06 07 08 15",
}
"""Exercises, or whole lessons, in the order of the plan. `notebooks/instructor/README.md` has the clock to each."""

WHOLE_COURSE = "course"
"""The track of a learner without a plan: every lesson and exercise."""


def plan_of(track: str) -> dict[str, tuple[str, ...]]:
    """Return the exercises of a track by the number of their lesson, in the order of the plan.

    A track that does not exist is the whole course.
    """
    from deletekit.course.exercises.all import EXERCISES  # noqa: PLC0415  # help only needs the names of the tracks

    lessons = dict.fromkeys(sorted(exercise.lesson for exercise in EXERCISES.values()))
    steps = TRACKS[track].split() if track in TRACKS else lessons
    plan: dict[str, tuple[str, ...]] = {}
    for step in steps:
        lesson = step.partition(".")[0]
        wanted = (step,) if "." in step else tuple(i for i, e in EXERCISES.items() if e.lesson == lesson)
        plan[lesson] = (*plan.get(lesson, ()), *wanted)
    return plan
