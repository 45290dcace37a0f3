"""DOCTOR: what works on this machine, what does not, what is left without it, and the command that changes it.

Law: a check is a function of an `Environment`. It asks no network and leaves nothing behind. Nothing but the standard
library is imported before the check that needs it: what is broken must not keep the doctor from saying so.
"""

from deletekit.course.diagnosis.check import Check
from deletekit.course.diagnosis.diagnosis import CHECKS, base_works, diagnose
from deletekit.course.diagnosis.environment import Environment

__all__ = ["CHECKS", "Check", "Environment", "base_works", "diagnose"]
