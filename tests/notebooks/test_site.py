"""The site: built without a warning, links lead somewhere, five languages in all that is said, axe is content.

The pages of the library are English.
"""

import http.server
import re
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urldefrag

import polib
import pytest

import deletekit as dk
from deletekit.course.translations import LANGUAGES, Messages
from deletekit.formats.deletion_vector import PositionBitmap, encode_blob
from tests.course.widgets.browser import axe_findings
from tests.optional_types import Browser, Page
from tests.tools.build_site import build_site
from tests.tools.lessons import ROOT, lesson_names

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("site"),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

LOCALE, EXERCISES = ROOT / "deletekit" / "course" / "locale", ROOT / "deletekit" / "course" / "exercises"


class Found(NamedTuple):
    """What a page has: `ids`, where links and parts lead, images, headings, language, and the words of the theme."""

    ids: set[str]
    links: list[str]
    parts: list[str]
    images: list[dict[str, str | None]]
    headings: list[int]
    language: list[str | None]
    words: set[str]


class Reader(HTMLParser):
    """Collects a page's `Found`."""

    def __init__(self) -> None:
        super().__init__()
        self.found = Found(set(), [], [], [], [], [], set())
        self._within: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        # Headings of lessons stand in the lists of links.
        if tag in ("article", "script", "style") or (tag == "a" and "reference" in (values.get("class") or "")):
            self._within.append(tag)
        self.found.words.update(filter(None, (values.get(name) for name in ("aria-label", "title", "placeholder"))))
        if values.get("id"):
            self.found.ids.add(str(values["id"]))
        if tag == "html":
            self.found.language.append(values.get("lang"))
        if tag == "a" and values.get("href"):
            self.found.links.append(str(values["href"]))
        elif tag == "link" and values.get("rel") in ("stylesheet", "icon", "preload"):
            self.found.parts.append(str(values["href"]))
        elif values.get("src"):
            self.found.parts.append(str(values["src"]))
        if tag == "img":
            self.found.images.append(values)
        if re.fullmatch("h[1-6]", tag):
            self.found.headings.append(int(tag[1]))

    def handle_endtag(self, tag: str) -> None:
        if self._within and tag == self._within[-1]:
            self._within.pop()

    def handle_data(self, data: str) -> None:
        if data.strip() and not self._within:
            self.found.words.add(" ".join(data.split()))


def read(page: Path) -> Found:
    reader = Reader()
    reader.feed(page.read_text(encoding="utf-8"))
    return reader.found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the whole site, built once."""
    for module in ("sphinx", "myst_nb", "furo"):
        pytest.importorskip(module, reason=f"{module} is not installed: pip install 'deletekit[site]'")
    folder = tmp_path_factory.mktemp("site") / "site"
    build_site(folder)
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Found]:
    return {page: read(page) for page in sorted(site.rglob("*.html"))}


def test_every_lesson_is_there_in_every_language(site: Path, pages: dict[Path, Found]) -> None:
    for language in LANGUAGES:
        for name in (*lesson_names(), "index", "search"):
            assert pages[site / language / f"{name}.html"].language == [language]
    korean = (site / "ko" / "06_deletion_vectors.html").read_text(encoding="utf-8")
    assert "PFA1" in korean, "what cells print is on the page"


def test_the_library_is_there_in_english_and_every_language_leads_to_it(site: Path, pages: dict[Path, Found]) -> None:
    library = site / "en" / "library"
    for name in ("properties", "errors", "how_to/erase_a_person"):
        assert library / f"{name}.html" in pages
    named = {name.removeprefix("module-") for page in library.glob("reference/*") for name in pages[page].ids}
    assert {f"deletekit.{name}" for name in dk.__all__} <= named
    for language in LANGUAGES:
        assert any(link.endswith("library/index.html") for link in pages[site / language / "index.html"].links)
        if language != "en":
            assert f"../../../{language}/index.html" in pages[library / "how_to" / "spark.html"].links


def test_links_lead_somewhere(site: Path, pages: dict[Path, Found]) -> None:
    broken = []
    for page, found in pages.items():
        for link in found.links:
            place, anchor = urldefrag(link)
            if "://" in place or place.startswith("mailto:"):
                continue
            target = (page.parent / unquote(place)).resolve() if place else page
            if not target.is_file() or (anchor and target in pages and unquote(anchor) not in pages[target].ids):
                broken.append(f"{page.relative_to(site)}: {link}")
    assert broken == []


def test_every_page_leads_to_itself_in_the_other_languages(site: Path, pages: dict[Path, Found]) -> None:
    for language in LANGUAGES:
        for name in lesson_names():
            links = pages[site / language / f"{name}.html"].links
            others = [f"../{code}/{name}.html" for code in LANGUAGES if code != language]
            assert [link for link in links if link in others] == others


def test_nothing_comes_from_elsewhere(site: Path, pages: dict[Path, Found]) -> None:
    foreign = [f"{page.name}: {part}" for page, found in pages.items() for part in found.parts if "//" in part]
    foreign += [
        f"{sheet.name}: {part}"
        for sheet in site.rglob("*.css")
        for part in re.findall(r"""(?:url\(|@import)\s*["']?(?:https?:)?//[^)"']+""", sheet.read_text(encoding="utf-8"))
    ]
    assert foreign == []


def test_pictures_have_words_and_headings_skip_no_level(pages: dict[Path, Found]) -> None:
    assert [(page.name, image) for page, found in pages.items() for image in found.images if not image.get("alt")] == []
    for page, found in pages.items():
        assert found.headings.count(1) == 1, page
        steps = zip(found.headings, found.headings[1:], strict=False)
        assert all(after <= before + 1 for before, after in steps), (page, found.headings)


# What is the same in every language.
NAMES = {"deletekit", "Furo", *LANGUAGES.values()}


@pytest.mark.parametrize("language", [language for language in LANGUAGES if language != "en"])
def test_no_word_of_the_theme_is_english(language: str, site: Path, pages: dict[Path, Found]) -> None:
    for name in ("index", "search", "00_start_here", "06_deletion_vectors"):
        english, said = (pages[site / code / f"{name}.html"].words for code in ("en", language))
        assert said & english <= NAMES, name
    assert {"Next", "Search", "Skip to content"} <= pages[site / "en" / "00_start_here.html"].words


# --- in a browser -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Give the site's address on loopback."""
    handler = partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server that logs nothing."""

    def log_message(self, *_: object) -> None:
        pass


# A word, also within another as Korean and Chinese have it, and a lesson that must be found by it.
WORDS = {
    "en": ("vectors", "06_deletion_vectors"),
    "ko": ("삭제 벡터", "06_deletion_vectors"),
    "ja": ("テーブル", "00_start_here"),
    "zh-CN": ("规范", "00_start_here"),
    "es": ("eliminación", "00_start_here"),
}


@contextmanager
def opened(browser: Browser, address: str) -> Iterator[Page]:
    """Open a page that must ask nobody but its own site or folder, and log no error."""
    page, own = browser.new_page(), address[: address.index("/", 8)]
    wrong: list[str] = []
    page.on("request", lambda asked: None if asked.url.startswith((own, "data:")) else wrong.append(asked.url))
    page.on("console", lambda said: wrong.append(f"{said.text} {said.location}") if said.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(address)
    yield page
    page.close()
    assert wrong == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("language", LANGUAGES)
def test_search_and_pages_in_a_browser(language: str, browser: Browser, address: str) -> None:
    word, lesson = WORDS[language]
    with opened(browser, f"{address}/{language}/06_deletion_vectors.html") as page:
        page.fill(".sidebar-search", word)
        page.press(".sidebar-search", "Enter")
        page.wait_for_selector(f"#search-results a[href*='{lesson}']")
        page.wait_for_function("document.querySelector('.search-summary').innerText")
        said = page.inner_text("#search-results h2") + page.inner_text(".search-summary")
        assert (language == "en") == ("Search" in said), said
        page.goto(f"{address}/{language}/00_start_here.html")
        other = "ko" if language == "en" else "en"
        page.click(f".languages a[lang='{other}']")
        assert page.url == f"{address}/{other}/00_start_here.html"


def asked_for(answer: object) -> str:
    """Write an answer as learners do."""
    return "{" + str(answer)[1:-1] + "}" if isinstance(answer, list) else str(answer)


@pytest.mark.parametrize("language", ["en", "ko"])
def test_exercises_answer_from_a_folder(language: str, browser: Browser, site: Path) -> None:
    said = {e.msgid: e.msgstr for e in polib.pofile(str(LOCALE / "ko.po"))} if language == "ko" else {}
    for name in ("00_start_here", "04_equality_deletes", "06_deletion_vectors"):
        with opened(browser, f"{(site / language / name).as_uri()}.html") as page:
            stored = tomllib.loads((EXERCISES / f"lesson_{name[:2]}.toml").read_text(encoding="utf-8"))
            answered = {key: e for key, e in stored.items() if e["kind"] in ("number", "ids", "text")}
            forms = page.locator("form.deletekit").all()
            for form, (key, exercise) in zip(forms, answered.items(), strict=True):
                wanted = {asked_for(one): ("✓", exercise["why"]) for one in exercise["right"]}
                wanted |= {asked_for(one): ("✗", m["hint"]) for m in exercise["mistakes"] for one in m["answers"]}
                for answer, (sign, reason) in wanted.items():
                    form.locator("input").fill(f" {answer} ")
                    form.locator("input").press("Enter")
                    reply = form.locator("[role=status]").inner_text()
                    assert reply.startswith(f"{sign} {key}: "), reply
                    assert " ".join(said.get(reason, reason).split()) in " ".join(reply.split())
                for button in form.locator("button[type=button]").all():
                    button.click()
                    assert form.locator("[role=status]").inner_text().startswith(wanted[button.inner_text()][0])


def test_widgets_can_be_explored_from_a_folder(browser: Browser, site: Path) -> None:
    assert sum(file.stat().st_size for file in site.rglob("*") if file.is_file()) < 30_000_000
    with opened(browser, (site / "ko" / "06_deletion_vectors.html").as_uri()) as page:
        widget = page.locator("[data-view=BitmapBytes]")
        widget.locator(".dk-cell").nth(1).click()
        widget.locator(".dk-controls button").first.click()
        assert encode_blob(PositionBitmap([0, 1, 2])).hex(" ")[-11:] in widget.inner_text(), "the new CRC"
        shown = widget.locator(".dk-facts").inner_text()
        widget.locator("select").nth(1).select_option(index=16)
        assert widget.locator("[role=status]").inner_text() == Messages("ko")("page-beyond")
        assert widget.locator(".dk-facts").inner_text() == shown
        page.locator("[data-view=RowFate]").get_by_label("(<)").uncheck()
        rows = page.locator("[data-view=RowFate] tbody tr[aria-selected]")
        for row, state in enumerate(("hidden", "live", "hidden", "live")):
            rows.nth(row).click()
            assert rows.nth(row).get_attribute("aria-selected") == "true"
            assert rows.nth(row).locator("td").first.inner_text() == Messages("ko")(state)


# Each kind of page, and lessons with much on them.
LOOKED_AT = (
    "index.html", "ko/index.html", "ko/search.html?q=벡터",
    "ko/06_deletion_vectors.html", "ja/00_start_here.html", "zh-CN/04_equality_deletes.html",
    "en/13_streaming_deletes.html", "es/08_readers.html", "en/library/reference/write.html", "en/library/errors.html",
    "en/library/how_to/spark.html", "en/library/conformance.html",
    pytest.param("en/library/conformance_cases.html", marks=pytest.mark.long),  # its table takes axe a minute
)  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize("page", LOOKED_AT)
def test_axe_finds_nothing(page: str, browser: Browser, address: str) -> None:
    assert axe_findings(browser, f"{address}/{page}") == []


def test_a_folder_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(ValueError, match="is not a site"):
        build_site(tmp_path)
    assert (tmp_path / "mine").read_text() == "mine"
