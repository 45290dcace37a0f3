"""Every exercise of the course, by its id."""

from __future__ import annotations

from collections.abc import Mapping

from deletekit.course.exercise import Exercise
from deletekit.course.exercises import (
    lesson_00,
    lesson_01,
    lesson_02,
    lesson_03,
    lesson_04,
    lesson_05,
    lesson_06,
    lesson_07,
    lesson_08,
    lesson_09,
    lesson_10,
    lesson_11,
    lesson_12,
    lesson_13,
    lesson_14,
    lesson_15,
)

__all__ = ["EXERCISES"]

_LESSONS = (
    lesson_00,
    lesson_01,
    lesson_02,
    lesson_03,
    lesson_04,
    lesson_05,
    lesson_06,
    lesson_07,
    lesson_08,
    lesson_09,
    lesson_10,
    lesson_11,
    lesson_12,
    lesson_13,
    lesson_14,
    lesson_15,
)

EXERCISES: Mapping[str, Exercise] = {exercise.id: exercise for lesson in _LESSONS for exercise in lesson.EXERCISES}
