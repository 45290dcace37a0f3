import { show } from "./shared.js";

const LANES = ["data", "deletion-vector", "position-delete", "equality-delete"];
const COLOURS = { data: 1, "deletion-vector": 4, "position-delete": 2, "equality-delete": 5 };

/** Files over the axis of sequence numbers, a lane for each kind; an arrow for every delete that applies. */
function files(block, context) {
  const { points, arrows } = block.figure;
  const numbers = [...new Set(points.map((p) => p.at))].sort((a, b) => a - b);
  const lanes = LANES.filter((lane) => points.some((p) => p.row === lane));
  const step = 84;
  const stacked = {};
  const places = {};
  let deepest = 0;
  for (const point of points) {
    const key = `${point.row}:${point.at}`;
    stacked[key] = (stacked[key] ?? -1) + 1;
    deepest = Math.max(deepest, stacked[key]);
    places[point.name] = { ...point, depth: stacked[key] };
  }
  const tall = 34 + deepest * 26;
  const x = (at) => 50 + numbers.indexOf(at) * step;
  const y = (p) => 26 + lanes.indexOf(p.row) * (tall + 22) + p.depth * 26;
  const height = 26 + lanes.length * (tall + 22) + 24;
  const width = 60 + numbers.length * step;
  const parts = [];
  for (const [from, to] of arrows) {
    const [a, b] = [places[from], places[to]];
    if (!a || !b) continue;
    const on = to === block.selected;
    const [ax, ay, bx, by] = [x(a.at), y(a) - 11, x(b.at), y(b) + 11];
    const bend = (ay + by) / 2;
    parts.push(
      svg("path", {
        d: `M ${ax} ${ay} C ${ax} ${bend}, ${bx} ${bend}, ${bx} ${by + 5}`,
        fill: "none",
        stroke: `var(--dk-colour-${COLOURS[a.row]})`,
        "stroke-width": on ? 3 : 1.25,
        "stroke-dasharray": a.row === "equality-delete" ? "5 3" : "none",
      }),
      svg("path", { d: `M ${bx - 4} ${by + 6} L ${bx + 4} ${by + 6} L ${bx} ${by} Z`, fill: `var(--dk-colour-${COLOURS[a.row]})` }),
    );
  }
  for (const point of Object.values(places)) {
    const on = point.name === block.selected;
    const shape = svg("rect", {
      x: x(point.at) - 24,
      y: y(point) - 11,
      width: 48,
      height: 22,
      rx: point.row === "data" ? 3 : 11,
      class: on ? "dk-chosen" : "",
      fill: "var(--dk-back)",
      stroke: `var(--dk-colour-${COLOURS[point.row]})`,
      "stroke-width": on ? 4 : 2,
    });
    const label = svg("text", { x: x(point.at), y: y(point) + 4, "text-anchor": "middle" }, point.name);
    const group = svg("g", point.row === "data" ? { style: "cursor: pointer" } : {}, shape, label);
    if (point.row === "data") group.addEventListener("click", () => context.set({ [block.select]: point.name }));
    parts.push(group);
  }
  for (const at of numbers) parts.push(svg("text", { x: x(at), y: height - 6, "text-anchor": "middle" }, String(at)));
  const line = svg("line", { x1: 20, x2: width - 10, y1: height - 22, y2: height - 22, stroke: "var(--dk-line)" });
  const drawing = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, line, ...parts);
  drawing.style.maxWidth = "none";
  return el("div", {}, el("div", { class: "dk-figure" }, drawing), context.plain(block));
}

export default show({ files });
