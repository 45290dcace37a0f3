import { show } from "./shared.js";

const LANES = ["data", "deletion-vector", "position-delete", "equality-delete"];
const COLOURS = { data: 1, "deletion-vector": 4, "position-delete": 2, "equality-delete": 5 };
const DASHES = { "position-delete": "2 2", "equality-delete": "6 3" };
const WIDE = 84;
const TALL = 26;

const width = (text) => [...text].reduce((sum, letter) => sum + (letter > "\u2e80" ? 13 : 7), 0);

/** Files over the axis of sequence numbers, a lane for each kind; an arrow for every delete that applies. */
function files(block, context) {
  const { points, arrows, lanes: names, axis, arrow } = block.figure;
  const numbers = [...new Set(points.map((p) => p.at))].sort((a, b) => a - b);
  const lanes = LANES.filter((lane) => lane in names);
  const beside = Math.max(width(axis), ...lanes.map((lane) => width(names[lane]))) + 16;
  const stacked = {};
  const places = {};
  for (const point of points) {
    const key = `${point.row}:${point.at}`;
    stacked[key] = (stacked[key] ?? -1) + 1;
    places[point.name] = { ...point, depth: stacked[key] };
  }
  const tall = 48 + Math.max(...Object.values(stacked), 0) * TALL;
  const x = (at) => beside + WIDE / 2 + numbers.indexOf(at) * WIDE;
  const y = (p) => 16 + lanes.indexOf(p.row) * tall + p.depth * TALL;
  const below = lanes.length * tall + 4;
  const [wide, high] = [beside + numbers.length * WIDE + 24, below + 24];
  const parts = arrows.flatMap(([from, to]) => line(places[from], places[to], to === block.selected, x, y));
  for (const point of Object.values(places)) parts.push(box(point, point.name === block.selected, x, y, block, context));
  for (const lane of lanes) parts.push(svg("text", { x: 0, y: y({ row: lane, depth: 0 }) + 4, class: "dk-quiet" }, names[lane]));
  for (const at of numbers) {
    parts.push(svg("line", { x1: x(at), x2: x(at), y1: below - 4, y2: below + 4, stroke: "var(--dk-line)" }));
    parts.push(svg("text", { x: x(at), y: below + 18, "text-anchor": "middle" }, String(at)));
  }
  parts.push(svg("text", { x: 0, y: below + 18, class: "dk-quiet" }, axis));
  parts.push(svg("path", { d: `M 0 ${below} H ${wide - 2} m -7 -4 l 7 4 l -7 4`, fill: "none", stroke: "var(--dk-line)" }));
  const drawing = svg("svg", { width: wide, height: high, viewBox: `0 0 ${wide} ${high}`, "aria-hidden": "true" }, ...parts);
  drawing.style.maxWidth = "none";
  const note = arrows.length ? el("div", { class: "dk-note", "aria-hidden": "true" }, arrow) : null;
  const figure = el("div", { class: "dk-block dk-wide" }, el("div", { class: "dk-figure", tabindex: "0", role: "group", "aria-label": block.caption }, drawing), note);
  return el("div", { class: "dk-together" }, figure, context.plain(block));
}

/** An arrow from a delete to a data file, in the delete's colour and dashes. */
function line(from, to, on, x, y) {
  if (!from || !to) return [];
  const [ax, ay, bx, by] = [x(from.at), y(from) - 11, x(to.at), y(to) + 11];
  const bend = (ay + by) / 2;
  const colour = `var(--dk-colour-${COLOURS[from.row]})`;
  const dashes = DASHES[from.row] ?? "none";
  return [
    svg("path", { d: `M ${ax} ${ay} C ${ax} ${bend}, ${bx} ${bend}, ${bx} ${by + 5}`, fill: "none", stroke: colour, "stroke-width": on ? 3 : 1.25, "stroke-dasharray": dashes }),
    svg("path", { d: `M ${bx - 4} ${by + 6} L ${bx + 4} ${by + 6} L ${bx} ${by} Z`, fill: colour }),
  ];
}

/** A file: square for data, round for a delete, in the dashes of its kind. */
function box(point, on, x, y, block, context) {
  const isData = point.row === "data";
  const shape = svg("rect", {
    ...{ x: x(point.at) - 24, y: y(point) - 11, width: 48, height: 22, rx: isData ? 3 : 11 },
    ...{ class: on ? "dk-chosen" : "", fill: "var(--dk-back)", stroke: `var(--dk-colour-${COLOURS[point.row]})` },
    ...{ "stroke-width": on ? 4 : 2, "stroke-dasharray": DASHES[point.row] ?? "none" },
  });
  const label = svg("text", { x: x(point.at), y: y(point) + 4, "text-anchor": "middle" }, point.name);
  const group = svg("g", isData ? { style: "cursor: pointer" } : {}, shape, label);
  if (isData) group.addEventListener("click", () => context.set({ [block.select]: point.name }));
  return group;
}

export default show({ files });
