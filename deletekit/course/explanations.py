"""Say what `dk.explain` found in the learner's language: the library has the sentences, the catalogs translate them."""

from deletekit.course.printing import notebook_shell
from deletekit.course.translations import language, text
from deletekit.tools.explain import Explanation


def translated(found: Explanation) -> dict[str, str]:
    """Return an explanation as text and as HTML, by media type."""
    return {"text/plain": found.to_text(text), "text/html": found.to_html(text, language())}


def translate_in_notebook() -> None:
    """Let a notebook show every explanation in the learner's language."""
    shell = notebook_shell()
    if shell is not None:
        shell.display_formatter.mimebundle_formatter.for_type(Explanation, translated)
