// What all widgets share: a page (deletekit/course/views/page.py) drawn as elements, and the keyboard.
// Everything on a page is text: nothing here may make markup of it, and nothing may be loaded.

/** Make an element: attributes that are false or null are left out, children that are strings become text. */
function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") for (const [event, handler] of Object.entries(value)) made.addEventListener(event, handler);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** Scroll a list so that its chosen line is seen, and nothing else. */
function reveal(list) {
  const line = list.querySelector("[aria-selected=true]")?.getBoundingClientRect();
  if (!line) return;
  const seen = list.getBoundingClientRect();
  const top = seen.top + (list.querySelector("thead")?.offsetHeight ?? 0);
  if (line.top < top) list.scrollTop -= top - line.top;
  else if (line.bottom > seen.bottom) list.scrollTop += line.bottom - seen.bottom;
}

/** Put the focus on one of several elements, and make it the one that Tab comes to. */
function focusOn(elements, target) {
  for (const element of elements) element.tabIndex = element === target ? 0 : -1;
  target.focus();
  target.scrollIntoView({ block: "nearest", inline: "nearest" });
}

function control(c, context) {
  const set = (value) => context.set({ [c.trait]: value });
  const key = `control:${c.trait}:${c.kind}:${c.kind === "button" ? c.label : ""}`;
  if (c.kind === "button")
    return el("button", { type: "button", "data-key": key, disabled: c.disabled, on: { click: () => set(c.value) } }, c.label);
  if (c.kind === "check") {
    const box = el("input", { type: "checkbox", "data-key": key, on: { change: () => set(box.checked) } });
    box.checked = c.value;
    return el("label", {}, box, " ", c.label);
  }
  if (c.kind === "select") {
    const options = c.options.map(([value, text], i) => el("option", { value: i, selected: value === c.value }, text));
    const list = el("select", { "data-key": key, on: { change: () => set(c.options[Number(list.value)][0]) } }, ...options);
    return el("label", {}, c.label, " ", list);
  }
  const limits = c.kind === "number" ? { min: c.minimum, max: c.maximum } : {};
  const change = () => set(field.value === "" ? null : c.kind === "number" ? Math.trunc(Number(field.value)) : field.value);
  const field = el("input", { type: c.kind, "data-key": key, ...limits, on: { change } });
  field.value = c.value ?? "";
  return el("label", {}, c.label, " ", field);
}

// --- tree ------------------------------------------------------------------------------------------------------------

function tree(block, context) {
  const items = block.nodes.map((node) =>
    el(
      "div",
      {
        role: "treeitem",
        class: `dk-node dk-${node.mark || "plain"}`,
        style: `padding-inline-start: ${(node.level - 1) * 1.25 + 0.25}em`,
        tabindex: "-1",
        "data-key": `${block.name}:${node.key}`,
        "aria-level": node.level,
        "aria-posinset": node.position,
        "aria-setsize": node.size,
        "aria-selected": String(node.key === block.selected),
        "aria-expanded": node.expandable ? String(node.expanded) : null,
      },
      el("span", { class: "dk-twist", "aria-hidden": "true" }, node.expandable ? (node.expanded ? "▾" : "▸") : ""),
      el("span", { class: "dk-label" }, node.label),
      node.value ? el("span", { class: "dk-value" }, node.value) : null,
    ),
  );
  const current = Math.max(block.nodes.findIndex((node) => node.key === block.selected), 0);
  if (items.length) items[current].tabIndex = 0;
  const unfold = (node, open) => {
    const inside = (key) => key === node.key || key.startsWith(`${node.key}/`);
    const others = block.nodes.filter((n) => n.expanded && !(open ? n.key === node.key : inside(n.key))).map((n) => n.key);
    context.set({ [block.expand]: open ? [...others, node.key] : others, [block.select]: node.key });
  };
  const go = (i) => {
    if (i < 0 || i >= items.length) return;
    focusOn(items, items[i]);
    context.set({ [block.select]: block.nodes[i].key });
  };
  items.forEach((item, i) =>
    item.addEventListener("click", () => {
      focusOn(items, item);
      const node = block.nodes[i];
      if (node.expandable) unfold(node, !node.expanded);
      else go(i);
    }),
  );
  const onKey = (event) => {
    const i = items.indexOf(document.activeElement);
    const node = block.nodes[i];
    if (!node || event.ctrlKey || event.metaKey || event.altKey) return;
    const parent = block.nodes.slice(0, i).findLastIndex((n) => n.level < node.level);
    if (event.key === "ArrowDown") go(i + 1);
    else if (event.key === "ArrowUp") go(i - 1);
    else if (event.key === "Home") go(0);
    else if (event.key === "End") go(items.length - 1);
    else if (event.key === "ArrowRight") node.expandable && !node.expanded ? unfold(node, true) : node.expanded && go(i + 1);
    else if (event.key === "ArrowLeft") node.expanded ? unfold(node, false) : go(parent);
    else if (event.key === "Enter" || event.key === " ") node.expandable ? unfold(node, !node.expanded) : go(i);
    else if (event.key.length === 1) {
      const around = [...block.nodes.keys()].map((n) => (i + 1 + n) % items.length);
      go(around.find((n) => block.nodes[n].label.toLowerCase().startsWith(event.key.toLowerCase())) ?? -1);
    } else return;
    event.preventDefault();
  };
  const list = el("div", { role: "tree", class: "dk-tree", "data-scroll": block.name, "aria-label": block.caption, on: { keydown: onKey } }, ...items);
  return el("div", { class: "dk-block dk-wide" }, caption(block), list);
}

// --- grid ------------------------------------------------------------------------------------------------------------

/** Arrows, Home, End, Ctrl+Home and Ctrl+End, PageUp and PageDown over rows of cells; `beyond` is asked at the edges. */
function cellKeys(rows, moved, beyond) {
  const all = rows.flat();
  return (event) => {
    const y = rows.findIndex((row) => row.includes(document.activeElement));
    if (y < 0 || event.metaKey || event.altKey) return;
    const x = rows[y].indexOf(document.activeElement);
    const last = rows.length - 1;
    const aims = {
      ArrowDown: [y + 1, x],
      ArrowUp: [y - 1, x],
      ArrowRight: [y, x + 1],
      ArrowLeft: [y, x - 1],
      Home: [event.ctrlKey ? 0 : y, 0],
      End: event.ctrlKey ? [last, rows[last].length - 1] : [y, rows[y].length - 1],
      PageDown: [y === last ? last + 1 : Math.min(y + 10, last), x],
      PageUp: [y === 0 ? -1 : Math.max(y - 10, 0), x],
    };
    const aim = aims[event.key];
    if (!aim) return;
    event.preventDefault();
    const target = rows[aim[0]]?.[aim[0] === y ? aim[1] : Math.min(aim[1], (rows[aim[0]]?.length ?? 1) - 1)];
    if (target) {
      focusOn(all, target);
      moved(aim[0], rows[aim[0]].indexOf(target), aim[0] !== y);
    } else beyond?.(event.key);
  };
}

function grid(block, context) {
  const chosen = block.lines.findIndex((line) => block.select && line.key === block.selected);
  const select = (y) => block.select && context.set({ [block.select]: block.lines[y].key });
  const page = (start) => start !== null && context.set({ [block.page]: start, ...(block.select ? { [block.select]: null } : {}) });
  const rows = block.lines.map((line, y) =>
    line.cells.map((text, x) =>
      el(
        x === 0 ? "th" : "td",
        {
          role: x === 0 ? "rowheader" : "gridcell",
          scope: x === 0 ? "row" : null,
          class: block.numbers.includes(x) ? "dk-number" : null,
          tabindex: "-1",
          "data-key": `${block.name}:${line.key}:${x}`,
        },
        text,
      ),
    ),
  );
  if (rows.length) rows[Math.max(chosen, 0)][0].tabIndex = 0;
  const body = rows.map((cells, y) =>
    el(
      "tr",
      {
        role: "row",
        class: `dk-${block.lines[y].mark || "plain"}${block.select ? " dk-choice" : ""}`,
        "aria-selected": block.select ? String(y === chosen) : null,
        on: {
          click: (event) => {
            focusOn(rows.flat(), event.target.closest("th, td") ?? cells[0]);
            select(y);
          },
        },
      },
      ...cells,
    ),
  );
  const move = cellKeys(rows, (y, x, newLine) => newLine && select(y), (key) => {
    if (key === "PageDown") page(block.next);
    if (key === "PageUp") page(block.previous);
  });
  const keys = (event) => {
    const y = rows.findIndex((row) => row.includes(document.activeElement));
    if ((event.key === "Enter" || event.key === " ") && y >= 0) {
      event.preventDefault();
      select(y);
    } else move(event);
  };
  const head = block.columns.map((name, x) =>
    el("th", { role: "columnheader", scope: "col", class: block.numbers.includes(x) ? "dk-number" : null }, name),
  );
  const table = el(
    "table",
    { role: "grid", class: "dk-grid", "aria-label": block.caption, on: { keydown: keys } },
    el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...head)),
    el("tbody", { role: "rowgroup" }, ...body),
  );
  const pager = block.shown
    ? el(
        "div",
        { class: "dk-pager" },
        el("span", {}, block.shown),
        ...[["previous", block.previous], ["next", block.next]].map(([word, start]) =>
          block.page
            ? el(
                "button",
                { type: "button", "data-key": `${block.name}:${word}`, disabled: start === null, on: { click: () => page(start) } },
                context.page.words[word],
              )
            : null,
        ),
      )
    : null;
  return el("div", { class: "dk-block" }, caption(block), el("div", { class: "dk-scroll", "data-scroll": block.name }, table), pager);
}

function facts(block) {
  const rows = block.items.map(([name, value]) => el("tr", { class: `dk-${block.mark || "plain"}` }, el("th", { scope: "row" }, name), el("td", {}, value)));
  const table = el("table", { class: "dk-facts", "aria-label": block.caption }, el("tbody", {}, ...rows));
  return el("div", { class: "dk-block" }, caption(block), el("div", { class: "dk-scroll", tabindex: "0", role: "group", "aria-label": block.caption }, table));
}

function caption(block) {
  return el("div", { class: "dk-caption" }, block.caption);
}

/** What the forms of a figure mean: `[class of a square, text]` each. */
function legend(items) {
  return el("div", { class: "dk-legend" }, ...items.map(([form, text]) => el("span", {}, el("span", { class: `dk-swatch ${form}`, "aria-hidden": "true" }), text)));
}

// --- page ------------------------------------------------------------------------------------------------------------

function code(page) {
  const button = el("button", { type: "button", "data-key": "copy" }, page.words.copy);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(page.code);
      button.textContent = page.words.copied;
    } catch {
      getSelection()?.selectAllChildren(button.previousElementSibling);
    }
  });
  const line = el("div", { class: "dk-code", role: "group", "aria-label": page.words.code }, el("code", {}, page.code), button);
  return el("div", {}, line, page.note ? el("p", { class: "dk-note" }, page.note) : null);
}

/**
 * The widget: `render` for anywidget.
 * @param figures what a widget draws by itself, by the block's name: (block, context) => element; `context.plain(block)`
 *   is the block as everybody draws it.
 */
export function show(figures = {}) {
  const shapes = { tree, grid, facts };
  return {
    render({ model, el: place }) {
      const root = el("div", { class: "deletekit", role: "group", "data-lm-suppress-shortcuts": "true" });
      const content = el("div");
      const chosen = new Map();
      const spoken = el("p", { class: "dk-sentence", role: "status", "aria-live": "polite" });
      const context = {
        page: {},
        set(traits) {
          for (const [name, value] of Object.entries(traits)) model.set(name, value);
          model.save_changes();
        },
        plain: (block) => shapes[block.type](block, context),
      };
      const draw = () => {
        const page = (context.page = model.get("page"));
        if (!page.view) return;
        const held = root.contains(document.activeElement) ? document.activeElement.getAttribute("data-key") : null;
        const lists = () => [...content.querySelectorAll("[data-scroll]")];
        const places = new Map(lists().map((list) => [list.getAttribute("data-scroll"), [list.scrollLeft, list.scrollTop]]));
        root.lang = page.lang;
        root.setAttribute("aria-label", page.title);
        root.setAttribute("data-view", page.view);
        root.classList.toggle("dk-failed", page.error || page.blocks.some((block) => block.mark === "wrong"));
        if (spoken.textContent !== page.sentence) spoken.textContent = page.sentence;
        const controls = page.controls.map((c) => control(c, context));
        const blocks = page.blocks.map((block) => (figures[block.name] ?? shapes[block.type])(block, context));
        content.replaceChildren(
          ...(controls.length ? [el("div", { class: "dk-controls", role: "group", "aria-label": page.words.state }, ...controls)] : []),
          el("div", { class: "dk-blocks" }, ...blocks),
          ...(page.code ? [code(page)] : []),
        );
        for (const list of lists()) {
          const name = list.getAttribute("data-scroll");
          [list.scrollLeft, list.scrollTop] = places.get(name) ?? [0, 0];
          const selected = page.blocks.find((block) => block.name === name)?.selected;
          if (chosen.get(name) !== selected) reveal(list);
          chosen.set(name, selected);
        }
        const again = held === null ? null : [...content.querySelectorAll("[data-key]")].find((e) => e.getAttribute("data-key") === held);
        if (again) {
          const group = again.closest("[role=grid], [role=tree]");
          if (group) focusOn([...group.querySelectorAll("[data-key]")], again);
          else again.focus();
        } else if (held !== null) content.querySelector(`[data-key^="${CSS.escape(held.split(":")[0])}:"][tabindex="0"]`)?.focus();
      };
      // Whatever is typed in a widget is for the widget: in JupyterLab a single letter may delete a cell.
      root.addEventListener("keydown", (event) => event.stopPropagation());
      const heading = el("div", { class: "dk-title", role: "heading", "aria-level": "3" });
      const title = () => (heading.textContent = model.get("page").title ?? "");
      root.append(heading, spoken, content);
      place.append(root);
      const changed = () => {
        title();
        draw();
      };
      changed();
      // What was drawn while nothing of it was seen, in another tab or before the first layout, could not scroll.
      let wide = 0;
      const watch = new ResizeObserver(([{ contentRect }]) => {
        if (!wide && contentRect.width) content.querySelectorAll("[data-scroll]").forEach(reveal);
        wide = contentRect.width;
      });
      watch.observe(root);
      model.on("change:page", changed);
      return () => {
        watch.disconnect();
        model.off("change:page", changed);
      };
    },
  };
}
