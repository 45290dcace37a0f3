import { show } from "./shared.js";

const FORMS = { ".": "dk-none", ":": "dk-some-1", "-": "dk-some-2", "+": "dk-some-3", "*": "dk-some-4", "#": "dk-all" };

/** Positions as a grid of squares: arrows walk it and go on to the next screen, a click and + dive, - goes up. */
function map(block, context) {
  const rows = [];
  [...block.signs].forEach((sign, i) => {
    const first = block.first + i * block.per_cell;
    const on = block.selected !== null && block.selected >= first && block.selected < first + block.per_cell;
    const cell = el("div", {
      role: "gridcell",
      class: `dk-cell ${FORMS[sign]}`,
      tabindex: "-1",
      "data-key": `${block.name}:${first}`,
      "aria-label": block.labels[i],
      "aria-selected": String(on),
      title: block.labels[i],
    });
    if (i % block.width === 0) rows.push([]);
    rows.at(-1).push(cell);
  });
  const all = rows.flat();
  const at = all.findIndex((cell) => cell.getAttribute("aria-selected") === "true");
  if (all.length) all[Math.max(at, 0)].tabIndex = 0;
  const choose = (i) => context.set({ [block.select]: block.first + i * block.per_cell });
  const zoom = context.page.controls.find((c) => c.trait === "zoom");
  const dive = (i) => context.set({ [block.select]: block.first + i * block.per_cell, zoom: Math.max(zoom.value - 2, 0) });
  all.forEach((cell, i) =>
    cell.addEventListener("click", () => {
      focusOn(all, cell);
      dive(i);
    }),
  );
  const screen = block.signs.length * block.per_cell;
  const beyond = (key) => {
    const next = { ArrowDown: screen, PageDown: screen, ArrowUp: -1, PageUp: -1 }[key];
    const position = block.first + (next ?? 0);
    if (next !== undefined && position >= 0 && position < block.limit) context.set({ [block.select]: position });
  };
  const move = cellKeys(rows, (y, x) => choose(y * block.width + x), beyond);
  const onKey = (event) => {
    const step = { "+": -1, "=": -1, "-": 1 }[event.key];
    if (step !== undefined) {
      const value = Math.min(Math.max(zoom.value + step, 0), zoom.options.length - 1);
      context.set({ zoom: value });
      event.preventDefault();
    } else if (event.key === "Enter" || event.key === " ") {
      const i = all.indexOf(document.activeElement);
      if (i >= 0) dive(i);
      event.preventDefault();
    } else move(event);
  };
  const lines = rows.map((row) => el("div", { role: "row" }, ...row));
  return el(
    "div",
    { class: "dk-block dk-half" },
    el("div", { class: "dk-caption" }, block.caption),
    el("div", { role: "grid", class: "dk-map", "aria-label": block.caption, on: { keydown: onKey } }, ...lines),
    legend(block.meanings.map(([sign, text]) => [FORMS[sign], text])),
    el("div", { class: "dk-note" }, block.legend),
  );
}

const FILLS = { file: 1, blob: 2, footer: 3, "array container": 4, "bitmap container": 5, "run container": 6 };

/** The ranges as a strip, as wide as they are long (to their fourth root, or one would be all); then as a grid. */
function bytes(block, context) {
  const kinds = new Map();
  const parts = block.figure.lengths.map((length, i) => {
    const kind = block.figure.kinds[i];
    const [offset, , part, field] = block.lines[i].cells;
    kinds.set(kind, kind in { file: 1, footer: 1, blob: 1 } ? part.replace(/\s*\d+$/, "") : field);
    const on = block.lines[i].key === block.selected;
    const span = el("span", {
      class: `dk-fill-${FILLS[kind] ?? 1}${on ? " dk-on" : ""}`,
      style: `flex: ${length ** 0.25} 1 0`,
      title: `${offset}: ${field}`,
    });
    span.addEventListener("click", () => context.set({ [block.select]: block.lines[i].key }));
    return span;
  });
  const strip = el("div", { class: "dk-strip", "aria-hidden": "true" }, ...parts);
  return el("div", { class: "dk-together" }, el("div", { class: "dk-block dk-wide" }, strip, legend([...kinds].map(([kind, text]) => [`dk-fill-${FILLS[kind] ?? 1}`, text]))), context.plain(block));
}

export default show({ map, bytes });
