"""Build the course as a site, for every language: `python -m tests.tools.build_site [FOLDER]`, by default build/site.

It takes the committed notebooks, and makes them explorable without a kernel: exercises answer, and of some lessons the
widgets too. The pages open from the folder, without a server. Every warning of Sphinx is an error, also a broken link.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbformat
import polib
from nbformat import NotebookNode

from deletekit.course.translations import LANGUAGES
from deletekit.course.workshop.explorable import explorable_lessons
from tests.tools.lessons import NOTEBOOKS, ROOT
from tests.tools.library_pages import write_library

SETTINGS = NOTEBOOKS / "site"
# What Sphinx calls the languages.
_SPHINX = {"zh-CN": "zh_CN"}
# What Sphinx's search says: one message with two forms.
_FOUND_ONE = "Search finished, found one page matching the search query."
_FOUND_MANY = "Search finished, found ${resultCount} pages matching the search query."
_FRONT = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>deletekit: the course</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ background: Canvas; color: CanvasText; }}
body {{ max-width: 40rem; margin: 10vh auto; padding: 1rem; font-family: system-ui, sans-serif; line-height: 1.8; }}
</style>
</head>
<body>
<main>
<h1>deletekit</h1>
<ul>
{languages}</ul>
</main>
</body>
</html>
"""


def build_site(folder: Path, languages: tuple[str, ...] = tuple(LANGUAGES)) -> None:
    """Write the site; what an earlier build left in the folder goes.

    Raises ValueError for a folder that holds something else, and RuntimeError with Sphinx's words when it fails.
    """
    if folder.exists() and any(folder.iterdir()) and not (folder / "index.html").is_file():
        raise ValueError(f"{folder} is not a site, and stays as it is")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lessons = [explorable_lessons(code) for code in languages]  # one after the other: each sets the language
    with ThreadPoolExecutor(2) as pool:
        for language in pool.map(lambda code, own: _build(code, own, folder), languages, lessons):
            print(f"{folder / language}", flush=True)
    texts = _texts()
    items = "".join(
        f'<li lang="{code}"><a href="{code}/index.html">{LANGUAGES[code]}</a>: {texts[code]["title"]}</li>\n'
        for code in languages
    )
    (folder / "index.html").write_text(_FRONT.format(languages=items), encoding="utf-8")


def _build(language: str, lessons: dict[str, NotebookNode], folder: Path) -> str:
    with tempfile.TemporaryDirectory(prefix="deletekit-site-") as temporary:
        source = Path(temporary, "source")
        source.mkdir()
        for name, notebook in lessons.items():
            nbformat.write(notebook, source / f"{name}.ipynb")
        (source / "index.md").write_text(_index(language), encoding="utf-8")
        if language == "en":
            write_library(source / "library")
        _write_words(language, Path(temporary, "locale"))
        settings = [f"language={_SPHINX.get(language, language)}", f"html_context.course_language={language}"]
        settings.append(f"locale_dirs={Path(temporary, 'locale')}")
        options = [word for setting in settings for word in ("-D", setting)]
        command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", str(SETTINGS), *options]
        places = [str(source), str(folder / language), "-d", str(Path(temporary, "doctrees"))]
        done = subprocess.run([*command, *places], cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"Sphinx is not content with {language}:\n{done.stdout}{done.stderr}")
    (folder / language / ".buildinfo").unlink(missing_ok=True)
    return language


def _write_words(language: str, folder: Path) -> None:
    """Write the words of the theme where Sphinx looks for them: a .po file for templates, a .js file for scripts."""
    words = _texts()[language]["theme"]
    place = folder / _SPHINX.get(language, language) / "LC_MESSAGES"
    place.mkdir(parents=True)
    catalog = polib.POFile()
    catalog.metadata = {"Content-Type": "text/plain; charset=UTF-8"}
    catalog.extend(polib.POEntry(msgid=english, msgstr=said) for english, said in words.items())
    catalog.save(str(place / "sphinx.po"))
    if words:
        forms = {_FOUND_ONE: [words[_FOUND_ONE], words[_FOUND_MANY]]}
        known = {"locale": language, "plural_expr": "n == 1 ? 0 : 1", "messages": {**words, **forms}}
        (place / "sphinx.js").write_text(f"Documentation.addTranslations({json.dumps(known)});\n", encoding="utf-8")


def _texts() -> dict[str, Any]:
    texts: dict[str, Any] = json.loads((SETTINGS / "texts.json").read_text(encoding="utf-8"))
    return texts


def _index(language: str) -> str:
    """Give a language's first page: what the course is, its lessons, and the library, whose pages are English."""
    text = _texts()[language]
    if language == "en":
        library = f"```{{toctree}}\n:caption: {text['library']}\n:maxdepth: 2\n\nlibrary/index\n```\n"
    else:
        library = f'<p><a href="../en/library/index.html" hreflang="en">{text["library"]}</a></p>\n'
    lessons = "\n".join(sorted(file.stem for file in (NOTEBOOKS / language).glob("*.ipynb")))
    tree = f"```{{toctree}}\n:caption: {text['lessons']}\n:maxdepth: 1\n\n{lessons}\n```\n"
    return f"# {text['title']}\n\n{text['lead']}\n\n{text['draft']}\n\n{tree}\n{library}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "site")
    try:
        build_site(parser.parse_args().folder)
    except (RuntimeError, ValueError) as e:
        sys.exit(str(e))
