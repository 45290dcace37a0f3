"""Build the notebooks of every language from notebooks/src, executed, with their outputs.

    python -m tests.tools.build_notebooks build [06_deletion_vectors ...] [--lang ko ...]
    python -m tests.tools.build_notebooks build --keep-outputs      # only the text has changed: runs nothing
    python -m tests.tools.build_notebooks --check
    python -m tests.tools.build_notebooks update-po
    python -m tests.tools.build_notebooks missing       # before a release: counts what is not translated

A lesson that needs Spark runs on Spark, and so needs Java; the others run without.

Two runs give the same bytes. `--check` runs nothing: it compares all but the outputs, which the tests run.
"""

import argparse
import asyncio
import json
import os
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

from deletekit.course.translations import LANGUAGES
from tests.tools import catalogs
from tests.tools.instructor import instructor_pages
from tests.tools.lessons import NOTEBOOKS, SOLUTIONS, learner, lesson_names, needs_spark, read_source, solutions
from tests.tools.translation import Translated, translate, update_catalogs

README = NOTEBOOKS / "README.md"
CELL_SECONDS = 120
_INDEX = re.compile(
    r"(?<=<!-- index: python -m tests.tools.build_notebooks -->\n).*?(?=<!-- end of index -->)", re.DOTALL
)


def notebook_file(language: str, name: str) -> Path:
    return NOTEBOOKS / language / f"{name}.ipynb"


def generate(language: str, name: str) -> Translated:
    """Give the notebook that learners get, not executed."""
    return translate(learner(read_source(name)), language, name)


def engine_of(name: str) -> str:
    """Give the engine that makes the outputs of a lesson."""
    return "spark" if needs_spark(name) else "local"


def execute(notebook: NotebookNode, language: str, engine: str = "local") -> NotebookNode:
    """Run every cell in a kernel of its own, in an empty folder, and keep what is the same in every run."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "DELETEKIT_COURSE_ENGINE": engine,
            "DELETEKIT_LANG": language,
            "DELETEKIT_PROGRESS": str(Path(folder, "progress.json")),
            "IPYTHONDIR": str(Path(folder, "ipython")),
        }
        client = NotebookClient(
            notebook, timeout=CELL_SECONDS, kernel_name="python3", resources={"metadata": {"path": folder}}
        )
        # Two kernels that start at once may choose one port, and one of them dies.
        manager = client.create_kernel_manager()
        manager.transport, manager.ip = "ipc", str(Path(folder, "kernel"))
        # A loop of its own: this also runs where pytest, or another thread, has one.
        asyncio.run(client.async_execute(env={**os.environ, **settings}))
    return clean(notebook)


def clean(notebook: NotebookNode) -> NotebookNode:
    """Take out what changes from run to run, and join the pieces in which a cell's text happened to arrive."""
    notebook.metadata.pop("widgets", None)
    notebook.metadata["language_info"] = {"name": "python"}
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        cell.metadata.pop("execution", None)
        joined: list[NotebookNode] = []
        for output in cell.outputs:
            if "data" in output:
                output.data.pop("application/vnd.jupyter.widget-view+json", None)
            if joined and output.output_type == "stream" == joined[-1].output_type and output.name == joined[-1].name:
                joined[-1].text += output.text
            else:
                joined.append(output)
        cell.outputs = joined
    return notebook


def as_text(notebook: NotebookNode) -> str:
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def build(names: list[str], languages: list[str], *, keep_outputs: bool = False) -> None:
    """Execute and write the notebooks, two at a time, and all that is generated beside them."""
    jobs = [(language, name, keep_outputs) for name in names for language in languages]
    with ThreadPoolExecutor(2) as pool:
        built = pool.map(lambda job: _built(*job), jobs)
        for (language, name, _), (text, done, total) in zip(jobs, built, strict=True):
            file = notebook_file(language, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            print(f"{file.relative_to(NOTEBOOKS)}: {done} of {total} paragraphs")
    for file, text in beside().items():
        file.write_text(text, encoding="utf-8")


def _built(language: str, name: str, keep_outputs: bool) -> tuple[str, int, int]:
    made = generate(language, name)
    notebook = _with_outputs(made.notebook, language, name) if keep_outputs else None
    notebook = notebook or execute(made.notebook, language, engine_of(name))
    return as_text(notebook), made.done, made.total


def _with_outputs(notebook: NotebookNode, language: str, name: str) -> NotebookNode | None:
    """The notebook with the outputs that its cells have on disk; None when a cell is new or was changed."""
    file = notebook_file(language, name)
    there = nbformat.read(file, as_version=4).cells if file.is_file() else []
    outputs = [(cell.id, cell) for cell in there if cell.cell_type == "code"]
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if [cell.id for cell in code] != [cell_id for cell_id, _ in outputs]:
        return None
    for cell, (_, stored) in zip(code, outputs, strict=True):
        cell.outputs, cell.execution_count = stored.outputs, stored.execution_count
    return notebook


def beside() -> dict[Path, str]:
    """Give what is generated and not a notebook: solutions, README's index, and the facts on the instructor's pages."""
    readme = README.read_text(encoding="utf-8")
    return {
        SOLUTIONS: json.dumps(solutions(), indent=1, ensure_ascii=False, sort_keys=True) + "\n",
        README: _INDEX.sub(lambda _: index(), readme),
        **instructor_pages(),
    }


def index() -> str:
    """Give README's table: order, minutes, needs, and each language with what share of it is translated."""
    lines = [f"| lesson | minutes | needs | {' | '.join(LANGUAGES.values())} |", f"|{'---|' * (3 + len(LANGUAGES))}"]
    for name in lesson_names():
        source = read_source(name)
        course = source.metadata["deletekit"]
        minutes = f"{course['minutes']['teach']} + {course['minutes']['exercise']}"
        shares = []
        for language in LANGUAGES:
            made = generate(language, name)
            share = 100 if language == "en" else 100 * made.done // made.total
            shares.append(f"[{share} %]({language}/{name}.ipynb)")
        title = source.cells[0].source.split("\n")[0].removeprefix("# ")
        lines.append(f"| {title} | {minutes} | {course['needs']} | {' | '.join(shares)} |")
    return "\n".join([*lines, ""])


def differences() -> list[str]:
    """Name what is not as a build would leave it, outputs aside."""
    wrong = [file for file, text in beside().items() if _read(file) != text]
    for name in lesson_names():
        for language in LANGUAGES:
            file = notebook_file(language, name)
            wanted = generate(language, name).notebook
            if not file.is_file() or _bare(nbformat.read(file, as_version=4)) != _bare(wanted):
                wrong.append(file)
    known = {notebook_file(language, name) for name in lesson_names() for language in LANGUAGES}
    said = [f"build {file.relative_to(NOTEBOOKS.parent)} again: it is not as its source" for file in wrong]
    return said + [f"remove {file}: it has no source" for file in NOTEBOOKS.rglob("*.ipynb") if file not in known]


def _read(file: Path) -> str | None:
    return file.read_text(encoding="utf-8") if file.is_file() else None


def _bare(notebook: NotebookNode) -> str:
    bare = nbformat.from_dict(json.loads(json.dumps(notebook)))
    for cell in bare.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return as_text(bare)


def report_missing(languages: list[str]) -> int:
    """Print how many texts each language lacks, and where; return 1 if one lacks any."""
    total = 0
    for language in languages:
        lacking = {name: len(texts) for name, texts in catalogs.missing(language).items() if texts}
        where = ", ".join(f"{name} {count}" for name, count in lacking.items())
        print(f"{language}: {sum(lacking.values())} texts are not translated{f' ({where})' if where else ''}")
        total += sum(lacking.values())
    return 1 if total else 0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="?", choices=["build", "update-po", "missing"], default="build")
    parser.add_argument("names", nargs="*", help="lessons to build; all without one")
    parser.add_argument("--lang", action="append", choices=list(LANGUAGES), help="languages to build; all without one")
    parser.add_argument("--keep-outputs", action="store_true", help="run only notebooks whose code has changed")
    parser.add_argument("--check", action="store_true", help="only say what is not as a build would leave it")
    options = parser.parse_args(arguments)
    if options.check:
        wrong = differences()
        print("\n".join(wrong) or "the notebooks are those of notebooks/src")
        return 1 if wrong else 0
    translated = [language for language in LANGUAGES if language != "en"]
    if options.command == "missing":
        return report_missing(translated)
    if options.command == "update-po":
        update_catalogs(translated)
        catalogs.update(translated)
    else:
        languages = options.lang or list(LANGUAGES)
        build(options.names or lesson_names(), languages, keep_outputs=options.keep_outputs)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
