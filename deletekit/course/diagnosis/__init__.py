"""DOCTOR: what works on this machine, what does not, what still works without it, and the command that fixes it.

A check is a function of an `Environment`. It uses no network and leaves no file behind. It must not import anything but
the standard library at the top: a broken package must not stop the doctor from reporting it.
"""

from deletekit.course.diagnosis.all_checks import CHECKS, base_works, diagnose
from deletekit.course.diagnosis.check import Check
from deletekit.course.diagnosis.environment import Environment

__all__ = ["CHECKS", "Check", "Environment", "base_works", "diagnose"]
