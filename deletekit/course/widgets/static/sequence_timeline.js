import { show } from "./shared.js";

const COLOURS = { data: 1, "deletion-vector": 4, "position-delete": 2, "equality-delete": 5 };
const DASHES = { "position-delete": "2 2", "equality-delete": "6 3" };
const STEP = 32;
const GAP = 14;

const width = (text) => [...text].reduce((sum, letter) => sum + (letter > "\u2e80" ? 13 : 7), 0);

/** Files over the axis of sequence numbers, a lane for each kind, as Python laid them out; an arrow for each delete to open. */
function files(block, context) {
  const { points, arrows, lanes, numbers, boxes, lines, axis, arrow } = block.figure;
  const wide = Math.max(...points.map((p) => width(p.name) + 24), 56);
  const left = Math.max(width(axis), ...lanes.map(([, name]) => width(name))) + 16;
  const x = (place, column) => left + place * wide + column * GAP;
  const y = (line) => 16 + line * STEP;
  const middle = (p) => [x(p.x + 0.5, p.column), y(p.y)];
  const places = new Map(points.map((p) => [p.name, p]));
  const below = y(lines) - 8;
  const size = [x(boxes, numbers.length) + 8, below + 24];
  const parts = lanes.map(([, name, line]) => svg("text", { x: 0, y: y(line) + 4, class: "dk-quiet" }, name));
  for (const point of points) parts.push(box(point, point.key === block.selected, middle(point), wide - 8, block, context));
  for (const [from, to] of arrows) parts.push(...line(places.get(from), middle(places.get(from)), middle(places.get(to)), places.get(to).key === block.selected));
  for (const [text, place, column, count] of numbers) {
    const at = x(place + count / 2, column);
    parts.push(svg("line", { x1: at, x2: at, y1: below - 4, y2: below + 4, stroke: "var(--dk-line)" }));
    parts.push(svg("text", { x: at, y: below + 18, "text-anchor": "middle" }, text));
  }
  parts.push(svg("text", { x: 0, y: below + 18, class: "dk-quiet" }, axis));
  parts.push(svg("path", { d: `M 0 ${below} H ${size[0] - 2} m -7 -4 l 7 4 l -7 4`, fill: "none", stroke: "var(--dk-line)" }));
  const drawing = svg("svg", { width: size[0], height: size[1], viewBox: `0 0 ${size.join(" ")}`, "aria-hidden": "true" }, ...parts);
  drawing.style.minWidth = `${size[0] * 0.6}px`; // smaller than this it scrolls
  const note = arrows.length ? el("div", { class: "dk-note", "aria-hidden": "true" }, arrow) : null;
  const scrolled = el("div", { class: "dk-figure", tabindex: "0", role: "group", "aria-label": block.caption }, drawing);
  return el("div", { class: "dk-together" }, el("div", { class: "dk-block dk-wide" }, scrolled, note), context.plain(block));
}

/** An arrow from a delete to a data file, in the delete's colour and dashes. */
function line(from, [ax, ay], [bx, by], on) {
  const colour = `var(--dk-colour-${COLOURS[from.row]})`;
  const [start, end] = [ay - 11, by + 11];
  const bend = (start + end) / 2;
  return [
    svg("path", { d: `M ${ax} ${start} C ${ax} ${bend}, ${bx} ${bend}, ${bx} ${end + 5}`, fill: "none", stroke: colour, "stroke-width": on ? 3 : 1.25, "stroke-dasharray": DASHES[from.row] ?? "none" }),
    svg("path", { d: `M ${bx - 4} ${end + 6} L ${bx + 4} ${end + 6} L ${bx} ${end} Z`, fill: colour }),
  ];
}

/** A file: square for data, round for a delete, in the dashes of its kind. */
function box(point, on, [x, y], wide, block, context) {
  const isData = point.row === "data";
  const shape = svg("rect", {
    ...{ x: x - wide / 2, y: y - 11, width: wide, height: 22, rx: isData ? 3 : 11 },
    ...{ class: on ? "dk-chosen" : "", fill: "var(--dk-back)", stroke: `var(--dk-colour-${COLOURS[point.row]})` },
    ...{ "stroke-width": on ? 4 : 2, "stroke-dasharray": DASHES[point.row] ?? "none" },
  });
  const group = svg("g", isData ? { style: "cursor: pointer" } : {}, shape, svg("text", { x, y: y + 4, "text-anchor": "middle" }, point.name));
  if (isData) group.addEventListener("click", () => context.set({ [block.select]: point.key }));
  return group;
}

export default show({ files });
