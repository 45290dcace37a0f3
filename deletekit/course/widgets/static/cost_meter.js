import { show } from "./shared.js";

/** Two bars for each mode: what was written and what has to be read; the numbers stand in the table too. */
function costs(block, context) {
  const { bars, names, texts } = block.figure;
  const most = Math.max(...bars.flatMap(([, written, read]) => [written, read]), 1);
  const forms = ["dk-written", "dk-read"];
  const parts = bars.flatMap(([mode, ...values], i) => [
    el("div", { class: "dk-mode" }, mode),
    el("div", {}, ...values.map((value, n) => {
      const bar = el("span", { class: `dk-bar ${forms[n]}`, style: `width: ${(value / most) * 70}%` });
      return el("div", { class: "dk-bars" }, bar, texts[i][n]);
    })),
  ]);
  const drawing = el("div", { class: "dk-costs", "aria-hidden": "true" }, ...parts);
  const figure = el("div", { class: "dk-block dk-half" }, drawing, legend(names.map((name, n) => [forms[n], name])));
  return el("div", { class: "dk-together" }, figure, context.plain(block));
}

export default show({ costs });
