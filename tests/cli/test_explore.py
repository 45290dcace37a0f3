"""`deletekit explore` writes one page that needs nothing else, of anyone's table."""

import re
from pathlib import Path

from click.testing import CliRunner

from deletekit.cli import main
from tests.course.widgets.scenes import sample_table
from tests.tables import files_of


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["explore", *arguments])
    return result.exit_code, result.output


def test_one_page_that_needs_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "out.html"
    with sample_table(tmp_path / "wh") as table:
        before = files_of(table)
        assert run(table.metadata_location, "--html", str(target), "--lang", "ko") == (0, f"{target}\n")
        assert files_of(table) == before
    html = target.read_text(encoding="utf-8")
    assert '<html lang="ko">' in html
    assert html.count("<section") == 5
    assert "삭제 벡터" in html
    assert not re.search(r"<script|<link|<img|https?://|url\(", html)
    assert "default-src &#x27;none&#x27;" in html


def test_a_file_that_exists_is_not_replaced_unasked(tmp_path: Path) -> None:
    target = tmp_path / "out.html"
    target.write_text("mine", encoding="utf-8")
    with sample_table(tmp_path / "wh") as table:
        code, output = run(table.metadata_location, "--html", str(target))
        assert (code, target.read_text(encoding="utf-8")) == (1, "mine")
        assert "output-exists" in output
        assert run(table.metadata_location, "--html", str(target), "--overwrite")[0] == 0


def test_text_and_snapshot(tmp_path: Path) -> None:
    with sample_table(tmp_path / "wh") as table:
        code, output = run(table.metadata_location, "--snapshot", "S2")
    assert code == 0
    assert "From S1 to S2" in output
    assert "E1" not in output
