"""What a part of a page looks like, pixel by pixel where a style says one thing and another is seen."""

import base64
from collections import Counter

from playwright.sync_api import Error, FloatRect, Locator, Page

Colour = tuple[int, int, int]

_READ = """async (data) => {
  const image = new Image();
  image.src = data;
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
  const drawing = canvas.getContext("2d");
  drawing.drawImage(image, 0, 0);
  const bytes = drawing.getImageData(0, 0, image.width, image.height).data;
  const counts = {};
  for (let i = 0; i < bytes.length; i += 4) {
    const key = `${bytes[i]},${bytes[i + 1]},${bytes[i + 2]}`;
    counts[key] = (counts[key] ?? 0) + 1;
  }
  return counts;
}"""

_SYSTEM_COLOUR = """(name) => {
  const probe = document.createElement("div");
  probe.style = `forced-color-adjust: none; color: ${name}`;
  document.querySelector(".deletekit").append(probe);
  const found = getComputedStyle(probe).color.match(/\\d+/g).slice(0, 3).map(Number);
  probe.remove();
  return found;
}"""


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


def colours(part: Locator, margin: int = 0) -> Counter[Colour]:
    """How many pixels of which colour an element shows; with `margin` also so many pixels around it."""
    box = _box(part)
    left, top = max(box["x"] - margin, 0), max(box["y"] - margin, 0)
    clip = {"x": left, "y": top, "width": box["width"] + 2 * margin, "height": box["height"] + 2 * margin}
    image = base64.b64encode(part.page.screenshot(clip=clip, animations="allow")).decode()  # type: ignore[arg-type]
    counts = part.page.evaluate(_READ, f"data:image/png;base64,{image}")
    found: Counter[Colour] = Counter()
    for key, number in counts.items():
        red, green, blue = map(int, key.split(","))
        found[red, green, blue] = number
    return found


def system_colour(part: Locator, name: str) -> Colour:
    """What the browser means by `Canvas` or `CanvasText`."""
    red, green, blue = part.page.evaluate(_SYSTEM_COLOUR, name)
    return red, green, blue


def share(part: Locator, name: str) -> float:
    """How much of an element is of a system colour."""
    found = colours(part)
    return found[system_colour(part, name)] / found.total()


def highlighted(part: Locator, margin: int = 0) -> int:
    """How many pixels are of the highlight's colour, or one that it shines through: all others are greys."""
    return sum(number for colour, number in colours(part, margin).items() if max(colour) - min(colour) > 30)


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


def _box(part: Locator) -> FloatRect:
    """Where an element lies, once it stays: each message draws its widget anew, and what was just found is gone."""
    for _ in range(10):
        try:
            part.scroll_into_view_if_needed()
        except Error as error:
            if "not attached" not in str(error):
                raise
        else:
            box = part.bounding_box()
            if box is not None:
                return box
    raise AssertionError(f"{part} is drawn anew again and again")


def _luminance(colour: Colour) -> float:
    parts = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
