"""What a part of a page looks like, pixel by pixel where a style says one thing and another is seen."""

from __future__ import annotations

from playwright.sync_api import Locator, Page

Colour = tuple[int, int, int]


# Every element with a text of its own: its colour, and the background that is behind it.
_TEXTS = """(root) => {
  const own = (e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  const seen = (e) => own(e) && !e.closest("svg, option, [aria-hidden]");
  const numbers = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const background = (e) => getComputedStyle(e).backgroundColor;
  return [...root.querySelectorAll("*")].filter(seen).map((e) => {
    let behind = e;
    while (behind.parentElement && background(behind).endsWith(", 0)")) behind = behind.parentElement;
    return [e.textContent, numbers(getComputedStyle(e).color), numbers(background(behind))];
  });
}"""

_MOVING = """() => [...document.querySelectorAll(".deletekit, .deletekit *")].filter((e) => {
  const style = getComputedStyle(e);
  return style.transitionDuration !== "0s" || style.animationName !== "none" || style.scrollBehavior === "smooth";
}).length + document.getAnimations().filter((a) => a.effect.target?.closest?.(".deletekit")).length"""


def faint_texts(part: Locator) -> list[str]:
    """The texts in an element that are hard to read: of a contrast below 4.5."""
    found = part.evaluate(_TEXTS)
    assert len(found) > 5
    return [text for text, one, other in found if contrast(tuple(one), tuple(other)) < 4.5]


def moving(page: Page) -> int:
    """How many elements of widgets move, or would."""
    return int(page.evaluate(_MOVING))


def contrast(one: Colour, other: Colour) -> float:
    """The contrast ratio of two colours (WCAG 2), 1 to 21."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: Colour) -> float:
    parts = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
