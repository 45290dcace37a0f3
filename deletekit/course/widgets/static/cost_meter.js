import { show } from "./shared.js";

/** Two bars for each mode: what was written and what has to be read; the numbers stand in the table below. */
function costs(block, context) {
  const { bars, names, texts } = block.figure;
  const most = Math.max(...bars.flatMap(([, written, read]) => [written, read]), 1);
  const height = bars.length * 58 + 8;
  const parts = bars.flatMap(([mode, ...values], i) => [
    svg("text", { x: 0, y: i * 58 + 22, "font-weight": 600 }, mode),
    ...values.flatMap((value, n) => {
      const width = Math.max((value / most) * 420, 2);
      const y = i * 58 + 4 + n * 24;
      return [
        svg("rect", { x: 130, y, width, height: 20, rx: 3, fill: `var(--dk-colour-${n === 0 ? 5 : 1})`, class: n ? "dk-read" : "dk-written" }),
        svg("text", { x: 138 + width, y: y + 15 }, `${names[n]}: ${texts[i][n]}`),
      ];
    }),
  ]);
  const drawing = svg("svg", { width: 820, height, viewBox: `0 0 820 ${height}`, "aria-hidden": "true" }, ...parts);
  return el("div", { class: "dk-together" }, el("div", { class: "dk-block dk-wide dk-figure" }, drawing), context.plain(block));
}

export default show({ costs });
