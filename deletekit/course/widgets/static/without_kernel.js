// Stands in for the kernel where there is none: shows the pages that were made in advance, of which `workshop/explorable.py`
// says what they are. It runs in a function, after the script of `widget`.
const stored = document.currentScript.previousElementSibling;
const place = stored.previousElementSibling;
const { pages, parts, steps, beyond } = JSON.parse(stored.textContent);
const part = (i) => parts[i];
let [at, pending, refused, changed] = [0, {}, false, () => {}];
const model = {
  get() {
    const page = pages[at];
    const sentence = refused ? beyond : page.sentence;
    return { ...page, blocks: page.blocks.map(part), controls: page.controls.map(part), sentence };
  },
  set: (name, value) => (pending[name] = value),
  save_changes() {
    const next = steps[at][JSON.stringify(pending)];
    [at, pending, refused] = [next ?? at, {}, next === undefined];
    changed();
  },
  on: (_, handler) => (changed = handler),
  off() {},
};
place.replaceChildren();
widget.render({ model, el: place });
