"""VERIFY: every rule of the specification that a table can break, checked on a table that anyone wrote.

Law: a rule is a function from values to findings; reading is apart from judging, and neither raises for damage.
"""

from deletekit.maintenance.verify.kinds import KINDS, REPAIRS
from deletekit.maintenance.verify.report import Finding, VerifyReport
from deletekit.maintenance.verify.run import verify

__all__ = ["KINDS", "REPAIRS", "Finding", "VerifyReport", "verify"]
