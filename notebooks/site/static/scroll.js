// What is wider than its place can be scrolled by keyboard too: it takes the focus, and only where it is.
function markWide() {
  for (const part of document.querySelectorAll("pre, .cell_output, .table-wrapper, div.wide")) {
    if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
    else part.removeAttribute("tabindex");
  }
}
addEventListener("load", markWide);
addEventListener("resize", markWide);
