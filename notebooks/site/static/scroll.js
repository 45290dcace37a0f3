// What is larger than its place can be scrolled by keyboard too: it takes the focus, and only where it is.
function markLarge() {
  for (const part of document.querySelectorAll("pre, .cell_output, .table-wrapper, div.wide")) {
    const isTall = getComputedStyle(part).overflowY === "auto" && part.scrollHeight > part.clientHeight;
    if (isTall || part.scrollWidth > part.clientWidth) part.tabIndex = 0;
    else part.removeAttribute("tabindex");
  }
}
addEventListener("load", markLarge);
addEventListener("resize", markLarge);
// A style sheet or a font that comes late changes what is larger than its place.
addEventListener("DOMContentLoaded", () => new ResizeObserver(markLarge).observe(document.body));
document.fonts.ready.then(markLarge);
