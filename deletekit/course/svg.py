"""A drawing: SVG made of boxes, texts and arrows, and the text that says what is in it.

The same data give the same bytes. A page that shows a drawing as an image gives it no colour, so each has its own
background. There are no ids, because several drawings may be in one page, and no scripts.
"""

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal
from unicodedata import category

from rich.cells import cell_len

from deletekit.text import brief

Mark = Literal["", "added", "removed", "chosen", "wrong", "applies"]
Point = tuple[float, float]

FILLS = {
    "paper": ("#ffffff", "#14171a"),
    "plain": ("#eef1f5", "#272d35"),
    "data": ("#dbe9ff", "#16324f"),
    "delete": ("#ffe3d1", "#4a2a14"),
    "vector": ("#f3e0f7", "#43214b"),
    "good": ("#dcf3e0", "#173a20"),
    "bad": ("#fde0de", "#4d1b18"),
}
"""Behind text, in light and in dark."""
KINDS = {"data-file": "data", "deletion-vector": "vector", "position-delete": "delete", "equality-delete": "delete"}
"""What is behind the name of a file, by its kind."""
INKS = {
    "ink": ("#1b1b1b", "#ececec"),
    "line": ("#5f6670", "#a2abb5"),
    "added": ("#146c2e", "#86d993"),
    "removed": ("#b3261e", "#f6a59d"),
    "applies": ("#8a4b00", "#ffb98a"),
}
"""Texts, lines and edges, in light and in dark."""

FONT, LINE, PAD, GAP = 13.0, 18.0, 9.0, 16.0
LONGEST = 60
"""Characters of a text that comes from a table."""

_EDGES: dict[Mark, str] = {"chosen": "added", "wrong": "removed"}
_SIGNS: dict[Mark, str] = {"added": "+ ", "chosen": "✓ ", "removed": "\u2212 ", "wrong": "! "}
_LINES = {
    "line": "stroke-width:1",
    "added": "stroke-width:2.5",
    "removed": "stroke-width:1.5;stroke-dasharray:7 3",
    "applies": "stroke-width:1.5;stroke-dasharray:2 3",
}
_SANS = "system-ui,'Noto Sans','Noto Sans CJK SC',sans-serif"
_MONO = "ui-monospace,'DejaVu Sans Mono',monospace"


@dataclass(frozen=True, slots=True)
class Svg:
    """A drawing. Where only text can be shown, and for people who cannot see it, there is `text`.

    Attributes
    ----------
    markup: the SVG document.
    text: the title, then the facts, one a line.
    """

    markup: str
    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/html": self.to_html(), "image/svg+xml": self.markup, "text/plain": self.text}

    def to_html(self) -> str:
        """Return an image with the text as its alternative. JupyterLab shows it in notebooks that it does not trust."""
        data = base64.b64encode(self.markup.encode()).decode()
        said = escape(self.text).replace("\n", "&#10;")
        return f'<img src="data:image/svg+xml;base64,{data}" alt="{said}" style="max-width:100%;height:auto">'


@dataclass(frozen=True, slots=True)
class Box:
    """Where a box is."""

    x: float
    y: float
    width: float
    height: float

    def at(self, across: float, down: float) -> Point:
        """Return a point of the box: `at(0.5, 1)` is the middle of its lower side."""
        return self.x + across * self.width, self.y + down * self.height


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What is in a box: the first line has the sign of the mark in front, and is bold if it is a heading."""

    lines: tuple[str, ...]
    fill: str = "plain"
    mark: Mark = ""
    mono: int = -1
    heading: bool = True

    @property
    def shown(self) -> tuple[str, ...]:
        first, *rest = map(_safe, self.lines)
        return (_SIGNS.get(self.mark, "") + first, *rest)

    @property
    def size(self) -> Point:
        width = max(text_width(line, bold=self.heading and not i) for i, line in enumerate(self.shown))
        return width + 2 * PAD, LINE * len(self.lines) + PAD


def label(*lines: str, fill: str = "plain", mark: Mark = "", mono: int = -1, heading: bool = True) -> Label:
    """Make a label; `mono` is the number of a line of code."""
    return Label(lines=tuple(line for line in lines if line), fill=fill, mark=mark, mono=mono, heading=heading)


def text_width(words: str, *, bold: bool = False) -> float:
    """Return how wide a text is in the widest of the fonts that are likely: Chinese, Japanese and Korean are square."""
    wide = max(cell_len(words) - len(words), 0)
    return FONT * (1.04 * wide + (0.74 if bold else 0.64) * (len(words) - wide))


def wrapped(words: str, cells: int = 30) -> list[str]:
    """Break a text into lines: at spaces, and between the characters of languages without them."""
    lines = [""]
    for piece in _pieces(words):
        if lines[-1] and cell_len(lines[-1] + piece.rstrip()) > cells:
            lines.append("")
        lines[-1] += piece
    return [line.strip() for line in lines]


@dataclass(slots=True)
class Canvas:
    """Where a drawing is made; it grows with what is put on it."""

    title: str
    lang: str
    _parts: list[str] = field(default_factory=list)
    _right: float = 0
    _bottom: float = 0

    def __post_init__(self) -> None:
        if self.title:
            self.words(GAP, GAP + FONT, self.title, bold=True)

    @property
    def below(self) -> float:
        """The y below everything so far."""
        return self._bottom + GAP

    def box(self, x: float, y: float, what: Label, width: float = 0, height: float = 0) -> Box:
        """Draw a box around a label, at least as wide and high as asked."""
        own_width, own_height = what.size
        box = Box(x, y, max(own_width, width), max(own_height, height))
        place = f'x="{_n(x)}" y="{_n(y)}" width="{_n(box.width)}" height="{_n(box.height)}"'
        self._parts.append(f'<g><rect {place} rx="5" class="dkd-{what.fill} {_edge(what.mark)}"/>')
        for i, line in enumerate(what.shown):
            self.words(x + PAD, y + LINE * (i + 1) - 2, line, bold=what.heading and not i, mono=i == what.mono)
        self._parts.append("</g>")
        self._grow(*box.at(1, 1))
        return box

    def row(self, y: float, labels: Sequence[Label], width: float, gap: float = GAP) -> list[Box]:
        """Draw boxes side by side, in the middle of a width."""
        sizes = [one.size for one in labels]
        x = GAP + max(width - sum(w for w, _ in sizes) - gap * (len(sizes) - 1), 0) / 2
        height = max((h for _, h in sizes), default=0)
        boxes = []
        for one, (own, _) in zip(labels, sizes, strict=True):
            boxes.append(self.box(x, y, one, height=height))
            x += own + gap
        return boxes

    def words(self, x: float, y: float, words: str, *, bold: bool = False, mono: bool = False) -> None:
        """Write one line, whose baseline begins at a point."""
        more = (' font-weight="600"' if bold else "") + (f' font-family="{_MONO}"' if mono else "")
        shown = _safe(words)
        self._parts.append(f'<text x="{_n(x)}" y="{_n(y)}" class="dkd-ink"{more}>{escape(shown)}</text>')
        self._grow(x + text_width(shown, bold=bold), y + PAD)

    def lines(self, x: float, y: float, lines: Iterable[str]) -> None:
        """Write lines, the first at a baseline."""
        for i, line in enumerate(lines):
            self.words(x, y + i * LINE, line)

    def arrow(
        self, start: Point, end: Point, mark: Mark = "", *, bend: float = 0, upright: bool = False, head: bool = True
    ) -> None:
        """Draw a line with a head. `bend` moves its middle down; `upright`, it leaves and arrives upright."""
        (x1, y1), (x2, y2) = start, end
        via_x, via_y = (x1 + x2) / 2, (y1 + y2) / 2 + bend * 2
        way = f"Q{_n(via_x)} {_n(via_y)} " if bend else "L"
        if upright:
            via_x, way = x2, f"C{_n(x1)} {_n(via_y)} {_n(x2)} {_n(via_y)} "
        curve = f"M{_n(x1)} {_n(y1)}{way}{_n(x2)} {_n(y2)}"
        if head:
            from_x, from_y = (via_x, via_y) if bend or upright else start
            length = max(((x2 - from_x) ** 2 + (y2 - from_y) ** 2) ** 0.5, 1)
            dx, dy = (x2 - from_x) / length * 8, (y2 - from_y) / length * 8
            left, right = (x2 - dx + dy / 2, y2 - dy - dx / 2), (x2 - dx - dy / 2, y2 - dy + dx / 2)
            curve += f"M{_n(left[0])} {_n(left[1])}L{_n(x2)} {_n(y2)}L{_n(right[0])} {_n(right[1])}"
        self._parts.append(f'<path d="{curve}" fill="none" class="{_edge(mark)}"/>')
        self._grow(max(x1, x2), max(y1, y2) + max(bend, 0))

    def finish(self, facts: Iterable[str]) -> Svg:
        """Return the drawing; `facts` are sentences that say what is drawn."""
        said = [_safe(fact) for fact in facts if fact]
        title = _safe(self.title)
        width, height = _n(self._right + GAP), _n(self._bottom + GAP)
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" class="dkd" lang="{escape(self.lang)}" '
            f'viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'style="max-width:100%;height:auto" font-family="{_SANS}" font-size="{_n(FONT)}">'
        )
        words = f"<title>{escape(title)}</title><desc>{escape(chr(10).join(said))}</desc><style>{_style()}</style>"
        paper = f'<rect width="{width}" height="{height}" class="dkd-paper"/>'
        markup = head + words + paper + "\n" + "\n".join(self._parts) + "\n</svg>\n"
        return Svg(markup, "\n".join([title, *said]))

    def _grow(self, right: float, bottom: float) -> None:
        self._right, self._bottom = max(self._right, right), max(self._bottom, bottom)


def _style() -> str:
    """Return the colours. A page may set the variables; in forced colours only the system's are used."""
    dark = "@media (prefers-color-scheme:dark){" + _rules(1) + "}"
    return _rules(0) + dark + "@media (forced-colors:active){.dkd{forced-color-adjust:none}" + _rules(2) + "}"


def _rules(scheme: int) -> str:
    fills = (f".dkd-{name}{{fill:{_colour(name, 'Canvas', *c)[scheme]}}}" for name, c in FILLS.items())
    inks = {name: _colour(name, "CanvasText", *c)[scheme] for name, c in INKS.items()}
    lines = (f".dkd-{name}{{stroke:{inks[name]};{how}}}" for name, how in _LINES.items())
    return "".join((*fills, f".dkd-ink{{fill:{inks['ink']}}}", *lines))


def _edge(mark: Mark) -> str:
    return f"dkd-{_EDGES.get(mark, mark or 'line')}"


def _colour(name: str, forced: str, light: str, dark: str) -> tuple[str, str, str]:
    return f"var(--dkd-{name},{light})", f"var(--dkd-{name},{dark})", forced


def _safe(words: str) -> str:
    """Return a text without what XML cannot hold, and not too long for a drawing."""
    return brief(words, 400).translate({0xFFFE: "�", 0xFFFF: "�"})


def _pieces(words: str) -> Iterable[str]:
    """Yield what must not be broken: a word with the space after it, or one wide character."""
    piece = ""
    for character in words:
        # Korean has spaces, and no line begins with a comma or a full stop.
        alone = cell_len(character) > 1 and category(character) == "Lo" and not "가" <= character <= "힣"
        if piece and alone:
            yield piece
            piece = ""
        piece += character
        if character == " ":
            yield piece
            piece = ""
    yield piece


def _n(number: float) -> str:
    return f"{round(number, 1):g}"
