import { show } from "./shared.js";

/** Delta on the left and Iceberg on the right, where there is room for both. */
function actions(block, context) {
  const entries = context.page.blocks.find((b) => b.name === "entries");
  return el("div", { class: "dk-sides" }, context.plain(block), entries ? context.plain(entries) : null);
}

/** Drawn beside the actions. */
function entries() {
  return "";
}

export default show({ actions, entries });
