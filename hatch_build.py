"""What the metadata of a release has of the repository's address: URLs, and a README whose links work elsewhere.

No file of the project names that address. Where the environment variable DELETEKIT_REPOSITORY has it, as in the
release workflow, the metadata has the project's URLs, and the README's links lead to this version's files there. If it
is an address of GitHub, the README begins with a badge of Binder for each language of the course.
Without it, there are no URLs, and the README is as it is. A wheel that is built from a released sdist has what the
sdist has.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_TARGET = re.compile(r"\]\((?!https?:|mailto:|#)(?P<path>[^)\s]+)\)")
_PICTURES = {".png", ".svg"}
_BADGE = "https://mybinder.org/badge_logo.svg"


class RepositoryAddress(MetadataHookInterface):
    """Sets `readme` and `urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set them, if the metadata does not have them from an sdist."""
        if "readme" in metadata:
            return
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        repository = os.environ.get("DELETEKIT_REPOSITORY", "").rstrip("/")
        if repository:
            tag = f"v{_version(Path(self.root))}"
            text = _TARGET.sub(lambda link: f"]({_address(repository, tag, link['path'])})", text)
            title, rest = text.split("\n", 1)
            text = f"{title}\n\n{_badges(Path(self.root), repository, tag)}{rest}"
            metadata["urls"] = {
                "Homepage": repository,
                "Documentation": f"{repository}/tree/{tag}/docs",
                "Repository": repository,
                "Issues": f"{repository}/issues",
                "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
            }
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def _address(repository: str, tag: str, path: str) -> str:
    kind = "raw" if Path(path).suffix in _PICTURES else "blob"
    return f"{repository}/{kind}/{tag}/{path}"


def _badges(root: Path, repository: str, tag: str) -> str:
    owner_and_name = repository.removeprefix("https://github.com/")
    if owner_and_name == repository:
        return ""
    place = f"https://mybinder.org/v2/gh/{owner_and_name}/{tag}?labpath=course"
    languages = sorted(lesson.parent.name for lesson in root.glob("notebooks/*/00_start_here.ipynb"))
    return "".join(
        f"[![{name}: the course on Binder]({_BADGE})]({place}/{name}/00_start_here.ipynb)\n" for name in languages
    )


def _version(root: Path) -> str:
    code = (root / "deletekit" / "version.py").read_text(encoding="utf-8")
    return re.search(r'__version__ = "(.+)"', code)[1]  # type: ignore[index]  # without one, hatchling fails before
