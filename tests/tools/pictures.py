"""Make the pictures of the widgets that README shows, anew: docs/pictures/*.png.

    python -m tests.tools.pictures

Each shows a widget in JupyterLab, in its light theme. This needs Chromium.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

import deletekit as dk
from tests.course.widgets.browser import chromium, running
from tests.course.widgets.lab import ROOT, Lab, Notebook
from tests.course.widgets.scenes import delta_table, sample_table
from tests.tables import ITEMS, items, new_catalog

PICTURES = ROOT / "docs" / "pictures"
LARGEST_PICTURE = 80_000
WIDTH, TALLEST = 960, 640

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
    program = chromium()
    if program is None:
        sys.exit("Chromium is not installed")
    PICTURES.mkdir(parents=True, exist_ok=True)
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
        page.screenshot(path=file, clip={"x": box["x"], "y": box["y"], "width": box["width"], "height": height})
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
