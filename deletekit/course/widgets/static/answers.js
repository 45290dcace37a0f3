// An exercise that answers where there is no kernel: the replies were made in advance (deletekit/course/checking.py).
{
  const stored = document.currentScript.previousElementSibling;
  const place = stored.previousElementSibling;
  const { kind, options, replies, strange, other, words } = JSON.parse(stored.textContent);
  const make = (tag, attributes, ...children) => {
    const made = Object.assign(document.createElement(tag), attributes);
    made.append(...children);
    return made;
  };
  const letters = (text) => text.normalize("NFKC").replace(/[^\p{L}\p{N}]/gu, "").toLowerCase() || text.trim();
  /** The key of an answer as Python writes it; null for what is of another kind. */
  const read = {
    number: (text) => (/^[+-]?\d+$/.test(text.trim()) ? String(Number(text)) : null),
    text: letters,
    ids: (text) => {
      const inside = text.trim().replace(/^(set|frozenset)?\(/, "(");
      const numbers = [...new Set((inside.match(/-?\d+/g) ?? []).map(Number))];
      return /^[-\d\s,;{}[\]()]*$/.test(inside) && text.trim() ? numbers.sort((a, b) => a - b).join(",") : null;
    },
  }[kind];
  const said = make("p", { className: "dk-sentence", role: "status" });
  const field = make("input", { type: "text" });
  const judge = () => {
    const key = read(field.value);
    said.textContent = key === null ? strange : Object.hasOwn(replies, key) ? replies[key] : other;
  };
  const buttons = options.map((option) => {
    const button = make("button", { type: "button" }, option);
    button.addEventListener("click", () => {
      field.value = option;
      judge();
    });
    return button;
  });
  const check = make("button", {}, words.check);
  const line = make("div", { className: "dk-controls" }, ...buttons, make("label", {}, words.answer, " ", field), check);
  const form = make("form", { className: "deletekit" }, line, said);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    judge();
  });
  place.replaceChildren(form);
}
