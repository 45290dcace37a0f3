import { show } from "./shared.js";

/** Rows, each delete beside its verdict as a mark of its own: filled where it hides the row, in brackets where not. */
function rows(block, context) {
  const drawn = context.plain(block);
  drawn.querySelectorAll("tbody tr").forEach((row, i) => {
    const cell = row.children[2];
    const names = block.lines[i].cells[2].split(" ");
    if (names[0] === "-") return;
    cell.replaceChildren(
      ...names.flatMap((name, n) => [n ? " " : "", el("span", { class: name.startsWith("(") ? "dk-spared" : "dk-hit" }, name)]),
    );
  });
  return drawn;
}

export default show({ rows });
