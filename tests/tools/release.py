"""Hold that a release is what its tag says: `python tests/tools/release.py v1.2.3`.

The version of the package is the tag's, and the changelog has a dated chapter of it. That is printed: the release's
notes. It runs before anything is installed.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def notes(tag: str, version: str, changelog: str) -> str:
    """Return the chapter of the changelog on this version.

    Raises ValueError for a tag of another version, and for a chapter that is not there, has no date or no text.
    """
    if tag != f"v{version}":
        raise ValueError(f"the tag is {tag}, and deletekit/version.py says {version}")
    chapter = re.search(rf"^## \[{re.escape(version)}\] - (.*)\n((?:(?!## ).*\n?)*)", changelog, re.MULTILINE)
    if chapter is None:
        raise ValueError(f"CHANGELOG.md has no chapter [{version}]")
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", chapter[1]):
        raise ValueError(f"the chapter [{version}] of CHANGELOG.md has no date but {chapter[1]!r}")
    if not chapter[2].strip():
        raise ValueError(f"the chapter [{version}] of CHANGELOG.md is empty")
    return chapter[2].strip()


def main(tag: str) -> None:
    """Print the notes, or what is wrong."""
    named: dict[str, str] = {}
    exec((ROOT / "deletekit" / "version.py").read_text(encoding="utf-8"), named)  # noqa: S102 - our own file
    try:
        print(notes(tag, named["__version__"], (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")))
    except ValueError as e:
        sys.exit(str(e))


if __name__ == "__main__":
    main(sys.argv[1])
