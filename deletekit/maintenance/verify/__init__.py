"""Verify a table that anyone wrote, by every rule of the specification that a table can break.

A rule is a function from values to findings. Reading is apart from judging, and damage never raises.
"""

from deletekit.maintenance.verify.finding_kinds import KINDS, REPAIRS
from deletekit.maintenance.verify.report import Finding, VerifyReport
from deletekit.maintenance.verify.run import verify

__all__ = ["KINDS", "REPAIRS", "Finding", "VerifyReport", "verify"]
