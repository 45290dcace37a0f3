"""The house's docstrings as reStructuredText: in a section such as `Parameters`, a line is `name: meaning`.

An extension of Sphinx, for autodoc.
"""

import re

_TITLE = re.compile(r"[A-Z]\w*")
_UNDERLINE = re.compile(r"-{3,}")
_CODE = re.compile(r"(``[^`]+``|`[^`]+`)(\w?)")
_PARAMETER = re.compile(r"(?P<names>\*{0,2}\w+(?:, (?:\*{0,2}\w+|\.\.\.))*): ")


def setup(app):
    """Let autodoc hand every docstring to `to_rst`."""
    app.connect("autodoc-process-docstring", lambda app, what, name, obj, options, lines: to_rst(lines))
    return {"parallel_read_safe": True}


def to_rst(lines):
    """Change the lines of a docstring in place."""
    made, within = [], None
    for number, line in enumerate(lines):
        after = lines[number + 1 : number + 2]
        if _TITLE.fullmatch(line) and after and _UNDERLINE.fullmatch(after[0]):
            within = line
            made += [f"**{line}**", ""]
            continue
        if _UNDERLINE.fullmatch(line):
            continue
        if within:
            if line and not line.startswith(" "):
                named = _PARAMETER.match(line)
                if named is None:
                    within = None  # the sentences after the section
                else:
                    names = ", ".join(f"``{name}``" for name in named["names"].split(", "))
                    line = f"* {names}: {line[named.end() :]}"
            elif line:
                line = line[2:]
        made.append(_CODE.sub(_apart, line))
    lines[:] = [_code(made, number) for number in range(len(made))]


def _apart(found):
    """Part code from the letters after it, as in `Clause`s."""
    return f"{found[1]}\\ {found[2]}" if found[2] else found[1]


def _code(lines, number):
    """Let a colon before deeper lines begin code."""
    line = lines[number]
    after = lines[number + 1 : number + 3]
    deeper = len(after) == 2 and not after[0] and _depth(after[1]) > _depth(line.replace("* ", "  ", 1))
    return f"{line}:" if line.endswith(":") and deeper else line


def _depth(line):
    return len(line) - len(line.lstrip(" "))
