"""Make the pictures that README and docs/ show: docs/pictures/*.

    python -m tests.tools.pictures

The drawing of a table is made by `deletekit.course.drawings`. Each other picture shows a widget in JupyterLab, in its
light theme. These need Chromium.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import deletekit as dk
from deletekit.course.drawings import Svg, file_tree
from tests.course.widgets.browser import chromium, running
from tests.course.widgets.lab import ROOT, Lab, Notebook
from tests.course.widgets.scenes import delta_table, sample_table
from tests.tables import ITEMS, items, new_catalog

PICTURES = ROOT / "docs" / "pictures"
LARGEST_PICTURE = 80_000
WIDTH, TALLEST = 960, 640
DRAWING = PICTURES / "file_tree.svg"

WIDGETS = {
    "table_tree": "w.TableTree(t, snapshot='S2', node='snapshots/S2/manifest-list/2/entries/V1')",
    "row_fate": "w.RowFate(t, data_file='D1', row=6)",
    "bitmap_bytes": "w.BitmapBytes(many, position=42)",
    "snapshot_diff": "w.SnapshotDiff(t, before='S1', after='S4')",
    "sequence_timeline": "w.SequenceTimeline(t, data_file='D1')",
    "cost_meter": "w.CostMeter(percent=5)",
    "stream_stepper": "w.StreamStepper(step=3)",
    "delta_bridge": "w.DeltaBridge(delta)",
}


def main() -> None:
    """Write every picture."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    DRAWING.write_text(drawing().markup, encoding="utf-8")
    program = chromium()
    if program is None:
        sys.exit("Chromium is not installed")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with sample_table(folder / "sample") as table, Lab(folder) as lab, running(program) as browser:
            head = [
                "import deletekit as dk, deletekit.course.widgets as w",
                f"t = dk.from_metadata({table.metadata_location!r})",
                f"many = dk.from_metadata({_scattered(folder / 'scattered')!r})",
                f"delta = {str(delta_table(folder / 'delta'))!r}",
            ]
            notebook = Notebook(browser, lab, lab.notebook("pictures", ["\n".join(head), *WIDGETS.values()]))
            notebook.page.set_viewport_size({"width": WIDTH, "height": 1000})
            notebook.run_all()
            _take(notebook)
            notebook.close()


def drawing() -> Svg:
    """Draw the table of the guide's first example after its delete: what the deletion vector shares and adds."""
    with tempfile.TemporaryDirectory() as folder, new_catalog(Path(folder)) as catalog:
        users = dk.create_table(catalog, "demo.users", dk.datasets.users().schema, format_version=3)
        dk.append(users, dk.datasets.users())
        dk.delete(users, "id in (1, 3)", mode="deletion-vector")
        return file_tree(users, lang="en")


def _take(notebook: Notebook) -> None:
    page = notebook.page
    page.wait_for_function(f"() => document.querySelectorAll('.deletekit .dk-code').length === {len(WIDGETS)}")
    for place, name in enumerate(WIDGETS):
        part = page.locator(".deletekit").nth(place)
        for chosen in part.locator(".dk-tree [aria-selected=true]").all():
            chosen.scroll_into_view_if_needed()
        part.evaluate("e => e.scrollIntoView({ block: 'start' })")
        box = part.bounding_box()
        assert box is not None
        file = PICTURES / f"{name}.png"
        height = min(box["height"], TALLEST)
        page.screenshot(
            path=file,
            animations="disabled",
            clip={"x": box["x"], "y": box["y"], "width": box["width"], "height": height},
        )
        size = file.stat().st_size
        assert size <= LARGEST_PICTURE, f"{file.name}: {size:,} bytes"
        print(f"{file.relative_to(ROOT)}: {size:,} bytes")


def _scattered(folder: Path) -> str:
    """A table with a vector worth looking at: rows of one day are gone, and single ones."""
    folder.mkdir()
    gone = {*range(40, 71), *np.random.default_rng(6).choice(256, 30, replace=False).tolist()}
    with new_catalog(folder) as catalog:
        table = dk.create_table(catalog, "test.scattered", ITEMS, format_version=3)
        dk.append(table, items(*((i, "a", 1.0) for i in range(256))))
        dk.delete(table, f"id in ({', '.join(map(str, sorted(gone)))})", mode="deletion-vector")
        return table.metadata_location


if __name__ == "__main__":
    main()
