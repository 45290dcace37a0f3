import { show } from "./shared.js";

/** Batches as steps of a path, the read ones filled and the stopped one marked; the changes stand in the grid below. */
function changes(block, context) {
  const batches = [...new Set(block.lines.map((line) => line.cells[0]))];
  const steps = batches.map((batch) => {
    const mark = block.lines.find((line) => line.cells[0] === batch).mark;
    return el("span", { class: `dk-step ${{ live: "dk-done", wrong: "dk-stopped" }[mark] ?? ""}` }, batch);
  });
  const drawn = context.plain(block);
  drawn.firstChild.after(el("div", { class: "dk-steps", "aria-hidden": "true" }, ...steps));
  return drawn;
}

/** The calls stand beside the changes: what is too wide there scrolls. */
function calls(block, context) {
  const drawn = context.plain(block);
  drawn.classList.add("dk-half");
  return drawn;
}

export default show({ changes, calls });
