"""Write the library's pages for the site: those of docs/, and a reference of every public name.

Sphinx's autodoc reads the docstrings (notebooks/site/docstrings.py). Links of docs/ to files that are not on the site
become plain text.
"""

import re
import shutil
from pathlib import Path

from tests.tools.conformance_page import write_cases_page
from tests.tools.lessons import NOTEBOOKS, ROOT

DOCS = ROOT / "docs"

# Pages of docs/ in the order that the site shows them in; others follow by name.
_ORDER = (
    "guide",
    "filters",
    "engines",
    "streams",
    "stream_sources",
    "stream_operating",
    "changes",
    "delta",
    "properties",
    "cli",
    "errors",
    "support",
    "failures",
    "widgets",
    "course",
    "comparison",
    "conformance",
    "conformance_cases",
    "benchmarks",
    "decisions",
    "format_version_4",
    "glossary",
)

_REFERENCE = """
tables: Tables and catalogs: local_catalog load_catalog Catalog create_table load_table from_pyiceberg from_metadata
    Table drop_table results.DroppedTable add_column drop_column rename_column update_column add_partition_field
    drop_partition_field set_properties set_sort_order upgrade_format_version
read: Read: scan results.Scan scan_polars changes results.Changes explain results.Explanation inspect
write: Write: append add_files delete delete_keys update merge Clause expr upsert overwrite overwrite_partitions
    results.Commit
refs: Branches, tags and snapshots: create_branch create_tag drop_ref rollback set_current_snapshot fast_forward
    cherry_pick revert results.MovedRef results.CherryPick results.RevertedSnapshot
maintenance: Maintenance: compact results.CompactedFiles convert_equality_deletes results.ConvertedEqualityDeletes
    rewrite_position_deletes results.RewrittenPositionDeletes remove_dangling_deletes results.RemovedDeletes
    rewrite_manifests
    results.RewrittenManifests expire_snapshots results.ExpiredSnapshots remove_orphan_files results.OrphanFiles
    erase results.Erasure verify
    results.VerifyReport results.Finding repair results.RepairReport results.RepairAction
doctor: Who reads it right: readers results.Readers results.EngineReading results.ReaderFinding make_readable
    results.MadeReadable results.ReadableStep
streams: Streams: stream stream.sink stream.Sink stream.BatchProgress stream.Maintain stream.Maintenance
    stream.sinks stream.SinkInfo stream.reset_sink stream.drop_sink stream.create_dead_letters
    stream.dead_letter_schema stream.DeadLetters
    stream.kafka stream.table_changes stream.foreach_messages stream.Source
    stream.decoder stream.Decoder stream.Message
    stream.fan_out stream.FanOut stream.convert stream.promote stream.Promotion
delta: Delta Lake: sync_delta results.DeltaSync results.DeltaPlan export_delta results.DeltaExport
    repack results.RepackedVectors clean_up_delta results.DeltaCleanUp
engines: Engines and Spark: engine engine.local engine.executor engine.spark engine.engine_or_default spark
    spark.session spark.register spark.fetch_jars spark.JARS spark.java_problem spark.java_program
errors: Errors and results: results DeletekitError InvalidInputError NotFoundError UnsupportedError FormatError
    CommitConflictError
    CommitStateUnknownError StorageError EnvironmentMissingError
pictures: Widgets and sample data: widgets widgets.explore widgets.Explorer widgets.TableTree widgets.RowFate
    widgets.BitmapBytes widgets.SnapshotDiff widgets.SequenceTimeline widgets.CostMeter widgets.StreamStepper
    widgets.DeltaBridge datasets datasets.animals datasets.flights datasets.users datasets.path
"""
REFERENCE = {
    name: (title, names.split())
    for name, title, names in (entry.split(": ") for entry in re.split(r"\n(?=\w)", _REFERENCE.strip()))
}
"""For each page of the reference: its title, and its names, those of `deletekit` without a prefix."""

IN_EXAMPLES = """\
import deletekit as dk

catalog = dk.local_catalog("warehouse")
users = dk.create_table(catalog, "demo.users", dk.datasets.users().schema, format_version=3)
dk.append(users, dk.datasets.users())
"""
"""What the examples of the docstrings begin with."""
_INDEX = f"""\
# The library

deletekit reads and writes every row-level delete of Apache Iceberg from Python, without a JVM. The lessons tell how
they work; these pages tell how to use them. The examples in the reference go on from these lines:

```python
{IN_EXAMPLES}```

"""
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s#]+)(?P<rest>#[^)\s]*)?\)")


def write_library(folder: Path) -> None:
    """Write the library's pages into a folder beside the lessons' notebooks."""
    (folder / "reference").mkdir(parents=True)
    for page in sorted(DOCS.rglob("*.md")):
        place = folder / page.relative_to(DOCS)
        place.parent.mkdir(exist_ok=True)
        place.write_text(_with_links(page, place, folder), encoding="utf-8")
    if (DOCS / "pictures").is_dir():
        shutil.copytree(DOCS / "pictures", folder / "pictures")
    for name, (title, names) in REFERENCE.items():
        parts = "\n".join(_directive(each) for each in names)
        (folder / "reference" / f"{name}.md").write_text(f"# {title}\n\n{parts}", encoding="utf-8")
    write_cases_page(folder)
    pages = [page.stem for page in folder.glob("*.md")]
    first = [name for name in _ORDER if name in pages]
    trees = {
        "Pages": first + sorted(set(pages) - set(first)),
        "How to": sorted(f"how_to/{page.stem}" for page in (DOCS / "how_to").glob("*.md")),
        "Reference": [f"reference/{name}" for name in REFERENCE],
    }
    parts = [f"## {title}\n\n```{{toctree}}\n:maxdepth: 1\n\n" + "\n".join(t) + "\n```\n" for title, t in trees.items()]
    (folder / "index.md").write_text(_INDEX + "\n".join(parts), encoding="utf-8")


def _directive(name: str) -> str:
    """Return the directive that documents a public name."""
    import deletekit as dk  # noqa: PLC0415  # the other languages' pages need no library

    thing = dk
    for part in name.split("."):
        thing = getattr(thing, part)
    if isinstance(thing, type):
        kind, options = ("exception", "") if issubclass(thing, BaseException) else ("class", ":members:\n")
    elif callable(thing):
        kind, options = "function", ""
    else:
        kind, options = ("module", "") if hasattr(thing, "__file__") else ("data", "")
    return f"```{{eval-rst}}\n.. auto{kind}:: deletekit.{name}\n   {options}```\n"


def _with_links(page: Path, place: Path, folder: Path) -> str:
    """Return a page's text; links that lead out of docs/ become links to the site's lessons, or plain text."""

    def changed(link: re.Match[str]) -> str:
        target = (page.parent / link["target"]).resolve()
        if "://" in link["target"] or target.is_relative_to(DOCS):
            return link[0]
        if target.parent == NOTEBOOKS / "en" and target.suffix == ".ipynb":
            up = "../" * len(place.relative_to(folder).parts)
            return f"[{link['text']}]({up}{target.name})"
        return link["text"]

    return _LINK.sub(changed, page.read_text(encoding="utf-8"))
