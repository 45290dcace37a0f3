"""Print what the first lesson says about this machine."""

from deletekit.course.diagnosis import Check, diagnose
from deletekit.course.translations import text


def doctor(*, details: bool = False) -> None:
    """Print whether the course works on this machine, and what does not work, with the command that fixes it.

    Parameters
    ----------
    details: print every check, as `deletekit doctor` on the command line does.
    """
    checks = [check for check in diagnose() if check.part in ("base", "course", "spark")]
    missing = {check.part for check in checks if check.status == "missing"}
    if missing <= {"spark"}:
        print(text("Everything that the course needs is here."))  # noqa: T201
    if "spark" in missing:
        print(text("Spark is not here: the lessons build their tables without it, and show the same."))  # noqa: T201
    for check in checks:
        if details or (check.status == "missing" and check.part != "spark"):
            print(_line(check))  # noqa: T201


def _line(check: Check) -> str:
    said = [f"{check.status:<8}{check.name}: {check.found}", check.meaning, check.fix]
    return "\n        ".join(part for part in said if part)
