"""Say what `dk.explain` found in the learner's language: the library has the sentences, the catalogs translate them."""

from collections.abc import Callable, Mapping

from deletekit.course.printing import notebook_shell
from deletekit.course.svg import GAP, KINDS, PAD, Canvas, Label, Mark, Svg, label
from deletekit.course.translations import Messages, language, text
from deletekit.text import brief
from deletekit.tools.explain import SENTENCES, Explanation

_MOST_DRAWN = 8
_LONGEST_NAME = 24
_MARKS: Mapping[str, Mark] = {"live": "chosen", "hidden": "removed", "unknown": "wrong"}


def translated(found: Explanation, named: Callable[[str], str] = str) -> dict[str, str]:
    """Return an explanation as text, and as HTML with a picture, by media type.

    `named` puts names for paths and ids.
    """
    html = named(found.to_html(text, language()))
    if any(version.hidden_by or version.spared_by for version in found):
        html += f"<p>{_picture(found, named).to_html()}</p>"
    return {"text/plain": named(found.to_text(text)), "text/html": html}


def translate_in_notebook() -> None:
    """Let a notebook show every explanation in the learner's language."""
    shell = notebook_shell()
    if shell is not None:
        shell.display_formatter.mimebundle_formatter.for_type(Explanation, translated)


def _picture(found: Explanation, named: Callable[[str], str]) -> Svg:
    """Draw rows, the deletes that name each, and how their sequence numbers compare."""
    canvas, say, facts = Canvas("", language()), Messages(), list[str]()

    def named_label(path: str, more: str, number: int, mark: Mark = "", kind: str = "data-file") -> Label:
        name = brief(named(path).rpartition("/")[2], _LONGEST_NAME)
        return label(f"{name}, {more}", f"sequence_number {number}", fill=KINDS[kind], mark=mark)

    shown = found.versions[:_MOST_DRAWN]
    rows = [
        named_label(v.data_file, f"_pos {v.position}: {text(SENTENCES[v.state])}", v.sequence_number, _MARKS[v.state])
        for v in shown
    ]
    wide, y = max(row.size[0] for row in rows), canvas.below
    left = GAP + wide + 7 * GAP
    for version, row in zip(shown, rows, strict=True):
        deletes = version.hidden_by or version.spared_by
        high = len(deletes) * (row.size[1] + PAD) - PAD
        canvas.box(GAP, y, row, wide, high)
        facts.append(row.shown[0])
        for delete in deletes:
            kind = say("kind-" + delete.kind)
            what = named_label(delete.file_path, kind, delete.sequence_number, kind=delete.kind)
            middle = canvas.box(left, y, what).at(0, 0.5)
            sign = f"{delete.data_sequence_number} {'<' if delete.key else '<='} {delete.sequence_number}"
            canvas.arrow(middle, (GAP + wide, middle[1]), "applies" if delete.applies else "removed")
            canvas.words(GAP + wide + PAD, middle[1] - 5, sign if delete.applies else f"{sign} ✗")
            facts.append(f"{what.shown[0]}: {sign}")
            y += what.size[1] + PAD
        y = canvas.below
    if found.versions[_MOST_DRAWN:]:
        canvas.words(GAP, y + GAP, say("draw-more", count=len(found) - _MOST_DRAWN))
    return canvas.finish(facts)
