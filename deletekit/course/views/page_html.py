"""A page as HTML that needs no style and no script: tables, lists and captions, as GitHub and nbviewer show them.

Every text goes through `_t`: what a table holds must never become markup.
"""

from collections.abc import Iterator, Sequence

from deletekit.course.views.page import Block, Cells, Facts, Grid, Node, Page, Tree
from deletekit.html_table import html_table, reached_by_keyboard
from deletekit.html_table import safe_html as _t

# Nothing is loaded and nothing runs.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
:root { color-scheme: light dark; --line: #767676; --soft: #eef1f5; --head: #1a4f8b; --back: #ffffff; --text: #1b1b1b; }
@media (prefers-color-scheme: dark) {
  :root { --line: #8a8a8a; --soft: #23282f; --head: #9cc4f5; --back: #14171a; --text: #e8e8e8; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 0 auto; padding: 1rem 1.5rem 4rem;
  background: var(--back); color: var(--text); word-break: keep-all; overflow-wrap: break-word; }
h1, h2, h3 { color: var(--head); line-height: 1.2; } a { color: var(--head); }
section { border-top: 2px solid var(--line); margin-top: 2rem; }
div.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 14px; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { border: 1px solid var(--line); padding: .2rem .6rem; text-align: left; vertical-align: top; }
thead th { background: var(--soft); } td.number { text-align: right; font-variant-numeric: tabular-nums; }
tr[aria-current=true] > * { outline: 2px solid var(--head); outline-offset: -2px; }
code, td.cells { font-family: ui-monospace, monospace; } td.cells { white-space: pre; letter-spacing: .1em; }
pre { background: var(--soft); padding: .6rem; white-space: pre-wrap; }
ul { padding-left: 1.4rem; } li { list-style: none; }
"""


def page_html(page: Page) -> str:
    """Return the page as one section without style."""
    return "\n".join(_section(page, "h3"))


def document_html(title: str, lang: str, contents: str, pages: Sequence[Page]) -> str:
    """Return a document of several pages, whose ids are the names of their views. It loads nothing.

    Parameters
    ----------
    contents: the title of the list of the pages.
    """
    items = "".join(f'<li><a href="#{_t(page.view)}">{_t(page.title)}</a></li>' for page in pages)
    body = "\n".join("\n".join(_section(page, "h2", page.view)) for page in pages)
    policy = f'<meta http-equiv="Content-Security-Policy" content="{_t(_POLICY)}">\n'
    nav = f'<nav aria-label="{_t(contents)}"><ul>{items}</ul></nav>'
    return html_file(lang, title, _STYLE, f"<main>\n<h1>{_t(title)}</h1>\n{nav}\n{body}\n</main>", policy)


def html_file(lang: str, title: str, style: str, body: str, policy: str = "") -> str:
    """Return an HTML file; `style`, `body` and `policy` are markup."""
    return (
        f'<!DOCTYPE html>\n<html lang="{_t(lang)}">\n<head>\n<meta charset="utf-8">\n{policy}'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_t(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _section(page: Page, heading: str, anchor: str = "") -> Iterator[str]:
    identity = f' id="{_t(anchor)}"' if anchor else ""
    yield f'<section{identity} lang="{_t(page.lang)}">'
    yield f"<{heading}>{_t(page.title)}</{heading}>"
    role = ' role="alert"' if page.error else ""
    yield f"<p{role}>{_t(page.sentence)}</p>"
    for block in page.blocks:
        yield from _block(block)
    if page.code:
        yield f"<pre><code>{_t(page.code)}</code></pre>"
    if page.note:
        yield f"<p>{_t(page.note)}</p>"
    yield "</section>"


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Grid):
        yield from _grid(block)
    elif isinstance(block, Tree):
        yield f"<p><strong>{_t(block.caption)}</strong></p>"
        yield from _tree(block)
    elif isinstance(block, Facts):
        yield html_table((), block.items, caption=block.caption)
    else:
        yield from _cells(block)


def _grid(grid: Grid) -> Iterator[str]:
    chosen = (i for i, line in enumerate(grid.lines) if grid.select and line.key == grid.selected)
    rows = [line.cells for line in grid.lines]
    yield html_table(grid.columns, rows, caption=grid.caption, numbers=grid.numbers, current=next(chosen, None))
    if grid.shown:
        yield f"<p>{_t(grid.shown)}</p>"


def _tree(tree: Tree) -> Iterator[str]:
    """Make nested lists of the nodes, which come in order, each with its level."""
    level = 0
    for node in tree.nodes:
        while level < node.level:
            yield "<ul>"
            level += 1
        while level > node.level:
            yield "</ul></li>"
            level -= 1
        yield f"<li>{_node(node, chosen=node.key == tree.selected)}"
        if not (node.expandable and node.expanded):
            yield "</li>"
    while level > 1:
        yield "</ul></li>"
        level -= 1
    if level:
        yield "</ul>"


def _node(node: Node, *, chosen: bool) -> str:
    value = f": <code>{_t(node.value)}</code>" if node.value else ""
    label = f"<strong>{_t(node.label)}</strong>" if chosen else _t(node.label)
    sign = ("▾ " if node.expanded else "▸ ") if node.expandable else ""
    return f"{sign}{label}{value}"


def _cells(block: Cells) -> Iterator[str]:
    rows = "".join(
        f'<tr><th scope="row">{first:,}</th><td class="cells"><code>{_t(signs)}</code></td></tr>'
        for first, signs in block.lines()
    )
    place = f'<div class="wide"{reached_by_keyboard(block.caption)}>'
    yield f"{place}<table><caption>{_t(block.caption)}</caption><tbody>{rows}</tbody></table></div>"
    meanings = "".join(f"<li><code>{_t(sign)}</code> {_t(meaning)}</li>" for sign, meaning in block.meanings)
    yield f"<p>{_t(block.legend)}</p><ul>{meanings}</ul>"
