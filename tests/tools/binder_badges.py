"""Print a Binder badge of the course for each language: `python -m tests.tools.binder_badges OWNER/REPOSITORY`."""

from __future__ import annotations

import re
import sys

from deletekit.course.translations import LANGUAGES

_BADGE = "https://mybinder.org/badge_logo.svg"


def badges(repository: str) -> str:
    """Give Markdown, one line a language. Raises ValueError for what is not `OWNER/REPOSITORY`."""
    if not re.fullmatch(r"[\w-]+/[\w.-]+", repository, re.ASCII):
        raise ValueError(f"OWNER/REPOSITORY is wanted, not {repository!r}")
    place = f"https://mybinder.org/v2/gh/{repository}/HEAD?labpath=course"
    lines = (
        f"- [![{name}: the course on Binder]({_BADGE})]({place}/{language}/00_start_here.ipynb) {name}\n"
        for language, name in LANGUAGES.items()
    )
    return "".join(lines)


if __name__ == "__main__":
    print(badges(sys.argv[1]), end="")
