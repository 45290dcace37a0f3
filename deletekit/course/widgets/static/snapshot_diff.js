import { show } from "./shared.js";

/** Rows that came and went, each with the sign of its change where the eye looks first. */
function signed(block, context) {
  const drawn = context.plain(block);
  const signs = { added: "+ ", removed: "− " };
  drawn.querySelectorAll("tbody tr").forEach((row, i) => {
    const sign = signs[block.lines[i].mark];
    if (sign) row.children[0].prepend(el("span", { "aria-hidden": "true", class: "dk-sign" }, sign));
  });
  return drawn;
}

export default show({ files: signed, rows: signed });
