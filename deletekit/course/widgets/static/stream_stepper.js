import { show } from "./shared.js";

/** Batches as steps of a path, the read ones filled and the stopped one marked; the changes stand in the grid below. */
function changes(block, context) {
  const batches = [...new Set(block.lines.map((line) => line.cells[0]))];
  const steps = batches.map((batch) => {
    const mark = block.lines.find((line) => line.cells[0] === batch).mark;
    return el("span", { class: `dk-step ${{ live: "dk-done", wrong: "dk-stopped" }[mark] ?? ""}` }, batch);
  });
  const drawn = context.plain(block);
  drawn.firstChild.after(el("div", { class: "dk-steps", "aria-hidden": "true" }, ...steps, ...flow(block, context)));
  return drawn;
}

/** The last batch that was read going into the newest files: a square for each change, and the files' names. */
function flow(block, context) {
  const read = block.lines.filter((line) => line.mark);
  if (!read.length || read.at(-1).mark === "wrong") return [];
  const last = read.filter((line) => line.cells[0] === read.at(-1).cells[0]);
  const files = context.page.blocks.find((other) => other.name === "files").lines.filter((line) => line.mark !== "wrong");
  const newest = Math.max(...files.map((line) => Number(line.cells[2])));
  const into = files.filter((line) => Number(line.cells[2]) === newest);
  const squares = last.map((_, i) => el("span", { class: "dk-change", style: `--dk-nth: ${i}` }));
  return [
    el("span", { class: "dk-flow" }, last[0].cells[0], " ", ...squares, " →"),
    ...into.map((line) => el("span", { class: `dk-file dk-${line.mark}` }, line.cells[0])),
  ];
}

/** The calls stand beside the changes: what is too wide there scrolls. */
function calls(block, context) {
  const drawn = context.plain(block);
  drawn.classList.add("dk-half");
  return drawn;
}

export default show({ changes, calls });
