import { show } from "./shared.js";

/** Batches as steps of a path, the read ones filled; the changes themselves stand in the grid below. */
function changes(block, context) {
  const batches = [...new Set(block.lines.map((line) => line.cells[0]))];
  const steps = batches.map((batch) => {
    const read = block.lines.find((line) => line.cells[0] === batch).mark === "live";
    return el("span", { class: read ? "dk-step dk-done" : "dk-step" }, batch);
  });
  return el("div", {}, el("div", { class: "dk-steps", "aria-hidden": "true" }, ...steps), context.plain(block));
}

export default show({ changes });
