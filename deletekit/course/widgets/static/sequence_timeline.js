import { show } from "./shared.js";

/** The drawing that Python made. A click on a data file chooses it. */
function files(block, context) {
  const { svg, keys, note } = block.figure;
  const drawing = document.importNode(new DOMParser().parseFromString(svg, "image/svg+xml").documentElement, true);
  drawing.setAttribute("aria-hidden", "true");
  drawing.style.minWidth = `${drawing.getAttribute("width") * 0.7}px`; // smaller than this it scrolls
  drawing.querySelectorAll("g").forEach((box, i) => {
    if (keys[i]) box.style.cursor = "pointer";
    if (keys[i]) box.addEventListener("click", () => context.set({ [block.select]: keys[i] }));
  });
  const scrolled = el("div", { class: "dk-figure", tabindex: "0", role: "group", "aria-label": block.caption }, drawing);
  const said = el("div", { class: "dk-note", "aria-hidden": "true" }, note);
  return el("div", { class: "dk-together" }, el("div", { class: "dk-block dk-wide" }, scrolled, said), context.plain(block));
}

export default show({ files });
