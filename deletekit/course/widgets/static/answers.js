// An exercise that answers where there is no kernel. It runs in a function; the replies are made in advance.
const stored = document.currentScript.previousElementSibling;
const place = stored.previousElementSibling;
const { kind, predicted, replies, strange, other, words } = JSON.parse(stored.textContent);

function make(tag, attributes, ...children) {
  const made = Object.assign(document.createElement(tag), attributes);
  made.append(...children);
  return made;
}

/** An answer as it compares; null for what is of another kind. */
const read = {
  number: (text) => (/^[+-]?\d+$/.test(text.trim()) ? String(Number(text)) : null),
  text: (text) => text.normalize("NFKC").replace(/[^\p{L}\p{N}]/gu, "").toLowerCase() || text.trim(),
  ids: (text) => {
    const inside = text.trim().replace(/^set\(/, "(");
    const numbers = [...new Set((inside.match(/-?\d+/g) ?? []).map(Number))];
    return /^[-\d\s,;{}[\]()]+$/.test(inside) ? numbers.sort((a, b) => a - b).join(",") : null;
  },
}[kind];
if (!read) return; // the page says already that the notebook is needed

const known = new Map(replies.map(([answer, reply]) => [read(answer), reply]));
const said = make("p", { className: "dk-sentence", role: "status" });
const field = make("input", { type: "text" });
const judge = () => {
  const answer = read(field.value);
  said.textContent = answer === null ? strange : (known.get(answer) ?? other);
};
const inOrder = new Intl.Collator("en", { numeric: true }).compare;
const options = predicted ? replies.map(([answer]) => answer).sort(inOrder) : [];
const buttons = options.map((option) => {
  const button = make("button", { type: "button" }, option);
  button.addEventListener("click", () => {
    field.value = option;
    judge();
  });
  return button;
});
const label = make("label", {}, words["page-answer"], " ", field);
const line = make("div", { className: "dk-controls" }, ...buttons, label, make("button", {}, words["page-check"]));
const form = make("form", { className: "deletekit" }, line, said);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  judge();
});
place.replaceChildren(form);
