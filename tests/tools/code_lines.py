"""Count lines of code, by folder of the package: `python -m tests.tools.code_lines`.

Blank lines, comments and docstrings are not code.
"""

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIBRARY = ("formats", "table", "rows", "filters", "deletes", "commit", "engines", "verbs", "files at the top")
_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_lines(file: Path) -> int:
    """Return how many lines of a file are code."""
    text = file.read_text(encoding="utf-8")
    texts = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Expr))
    docstrings = {
        line
        for node in texts
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    tokens = (token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in _NO_CODE)
    return len({line for token in tokens for line in range(token.start[0], token.end[0] + 1)} - docstrings)


def by_folder(package: Path = ROOT / "deletekit") -> Counter[str]:
    """Return the lines of each folder of the package."""
    found: Counter[str] = Counter()
    for file in package.rglob("*.py"):
        parts = file.relative_to(package).parts
        found[parts[0] if len(parts) > 1 else "files at the top"] += code_lines(file)
    return found


def totals() -> dict[str, int]:
    """Return the lines of the library, of the whole package and of the tests."""
    found = by_folder()
    tests = sum(code_lines(file) for file in (ROOT / "tests").rglob("*.py"))
    return {"library": sum(found[name] for name in LIBRARY), "deletekit": found.total(), "tests": tests}


if __name__ == "__main__":
    for name, lines in [*sorted(by_folder().items()), *totals().items()]:
        print(f"{name:18} {lines:7,}")
