"""Write docs/errors.md, every `kind` of error with its class, words and module: `python -m tests.tools.errors_page`.

The code is read, not run. A kind that a helper gets as an argument is followed to the helper's callers.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from tests.tools.lessons import ROOT

PAGE = ROOT / "docs" / "errors.md"
LIBRARY = ROOT / "deletekit"

# Class -> what a program does about it.
_ADVICE = """
InvalidInputError: The call asks for something that the specification, the table or this library forbids. Change the
    call: `expected` says to what. It is also a `ValueError`.
NotFoundError: Something that was named is not there. Look at the name, and at what `expected` lists. It is also a
    `LookupError`.
UnsupportedError: Legal Iceberg that deletekit does not do. Nothing was written. Use another way, or another engine. It
    is also a `NotImplementedError`.
FormatError: Bytes or metadata on storage break a specification; `file` says where. `dk.verify` looks for more, and
    `dk.repair` mends some. It is also a `ValueError`.
CommitConflictError: Another writer was first. Nothing of this commit is visible: call again.
CommitStateUnknownError: The catalog did not say whether the commit landed. No file was removed. Refresh the table and
    look before you call again.
StorageError: Storage refused access, is full or does not answer; `found` has its own words. It is also an `OSError`.
EnvironmentMissingError: A program or package that this feature needs is missing. `deletekit doctor` names the command
    that installs it. It is also a `RuntimeError`.
DeletekitError: The base of all of these. By itself it says that something beside deletekit failed: a catalog, a pool, a
    job.
"""
ADVICE = dict(" ".join(each.split()).split(": ", 1) for each in re.split(r"\n(?=\w)", _ADVICE) if each)
# What becomes an error by a method of its own.
_BECOMES = {"Contradiction": "FormatError"}
# Only the course raises these; its messages are for learners.
_LEFT_OUT = ("course",)
_HEAD = """\
<!-- Written by `python -m tests.tools.errors_page` from the code. -->
# Errors by kind

Every error that leaves deletekit is a `DeletekitError`, and has a `kind`: a stable code that programs may compare. The
words of a message may change. Where they apply, `file`, `field`, `found` and `expected` say where, what was there, and
what is wanted instead. Keys that are part of an address or of properties are `***` there and in the log, but not in the
errors of other libraries, which are the causes (`__cause__`).

```python
import deletekit as dk

catalog = dk.local_catalog("warehouse")
try:
    dk.load_table(catalog, "demo.users")
except dk.NotFoundError as error:
    print(error.kind, error.found)
```

```text output
table-not-found demo.users
```
"""


class Error(NamedTuple):
    """One way in which the code raises an error."""

    name: str
    kind: str
    message: str
    module: str


@dataclass(frozen=True)
class Scope:
    """Where an expression stands: its function, its module, and what the function's parameters are."""

    module: str
    function: ast.FunctionDef | None
    given: Mapping[str, tuple[ast.expr, Scope]] = field(default_factory=dict)


@cache
def all_errors() -> tuple[Error, ...]:
    """Return every error that the library makes."""
    return tuple(Code().errors())


class Code:
    """The library's source: calls by the name they call, and defaults of kinds by class."""

    def __init__(self) -> None:
        self.calls: dict[str, list[tuple[ast.Call, Scope]]] = {}
        self.imports: dict[str, set[str]] = {}
        self.defaults: dict[str, str] = {}
        self.made_by = {name: name for name in ADVICE} | _BECOMES
        for file in sorted(LIBRARY.rglob("*.py")):
            module = str(file.relative_to(LIBRARY))
            if not module.startswith(_LEFT_OUT):
                self._visit(ast.parse(file.read_text(encoding="utf-8")), Scope(module, None))

    def _visit(self, node: ast.AST, scope: Scope) -> None:
        for child in ast.iter_child_nodes(node):
            inner = Scope(scope.module, child) if isinstance(child, ast.FunctionDef) else scope
            if isinstance(child, ast.Call):
                name = getattr(child.func, "id", getattr(child.func, "attr", ""))
                self.calls.setdefault(name, []).append((child, scope))
            if isinstance(child, ast.ImportFrom):
                self.imports.setdefault(scope.module, set()).update(alias.name for alias in child.names)
            if isinstance(child, ast.ClassDef) and child.name not in ADVICE:
                bases = {base.id for base in child.bases if isinstance(base, ast.Name)} & ADVICE.keys()
                self.made_by |= dict.fromkeys([child.name] if bases else [], min(bases, default=""))
            if isinstance(child, ast.ClassDef) and child.name in ADVICE:
                [value] = [a.value for a in child.body if isinstance(a, ast.Assign) and _is_default(a)]
                self.defaults[child.name] = ast.literal_eval(value)
            self._visit(child, inner)

    def errors(self) -> Iterator[Error]:
        """Yield every error that is made."""
        for maker, name in self.made_by.items():
            for call, scope in self.calls.get(maker, []):
                if maker in _BECOMES:
                    kind, message = [*call.args, ast.Constant("")][:2]
                else:
                    words = dict(zip(("message", "kind"), call.args, strict=False))
                    words |= {word.arg: word.value for word in call.keywords if word.arg}
                    kind = words.get("kind", ast.Constant(self.defaults[name]))
                    message = words.get("message", ast.Constant(""))
                for inside in self._givens(scope, {*_names(kind), *_names(message)}):
                    kinds, messages = self.texts(kind, inside), self.texts(message, inside)
                    if len(kinds) != len(messages):
                        messages = self.texts(message, inside, nearest=True)
                    if len(kinds) == len(messages):  # they were assigned together
                        pairs = list(zip(kinds, messages, strict=True))
                    else:
                        pairs = [(each, said) for each in kinds for said in (messages if len(kinds) == 1 else [""])]
                    yield from (Error(name, each, said, inside.module) for each, said in pairs)

    def _givens(self, scope: Scope, names: set[str], passed: tuple[ast.FunctionDef, ...] = ()) -> Iterator[Scope]:
        """Yield the scope once for each call of its function, if some of the names are its parameters.

        Functions that were passed on the way, which call each other, are not followed again.
        """
        function = scope.function
        parameters = [] if function is None else [*function.args.posonlyargs, *function.args.args]
        keywords = [] if function is None else function.args.kwonlyargs
        if function is None or not names & {p.arg for p in (*parameters, *keywords)}:
            yield scope
            return
        own = [p.arg for p in parameters if p.arg not in ("self", "cls")]
        for call, outer in self.calls.get(function.name, []):
            if not self._is_call_of(call, outer, function, scope):
                continue
            given = dict(zip(own, call.args, strict=False)) | {w.arg: w.value for w in call.keywords if w.arg}
            wanted = {n for name in names if name in given for n in _names(given[name])}
            passed_here = (*passed, function)
            for there in self._givens(outer, wanted, passed_here) if outer.function not in passed_here else ():
                yield Scope(there.module, function, {name: (value, there) for name, value in given.items()})

    def _is_call_of(self, call: ast.Call, outer: Scope, function: ast.FunctionDef, scope: Scope) -> bool:
        """Whether a call by this name is of this function: by an attribute for a method, else by an imported name."""
        if [p.arg for p in function.args.args[:1]] == ["self"]:
            return isinstance(call.func, ast.Attribute)
        named = isinstance(call.func, ast.Name)
        return named and (outer.module == scope.module or function.name in self.imports.get(outer.module, ()))

    def texts(self, value: ast.expr, scope: Scope, *, nearest: bool = False) -> list[str]:
        """Return what a text can be; an unknown part of it is `...`.

        Parameters
        ----------
        nearest: of several assignments to a name, take the last one before its use.
        """
        match value:
            case ast.Constant(value=str(text)):
                return [text]
            case ast.IfExp():
                return [
                    text for each in (value.body, value.orelse) for text in self.texts(each, scope, nearest=nearest)
                ]
            case ast.JoinedStr():
                made = [""]
                for part in value.values:
                    inner = part.value if isinstance(part, ast.FormattedValue) else part
                    made = [a + b for a in made for b in (self.texts(inner, scope, nearest=nearest) or ["..."])]
                return made
            case ast.Name(id=name) if name in scope.given:
                return self.texts(*scope.given[name], nearest=nearest)
            case ast.Name(id=name) if scope.function is not None:
                assigned = list(_assigned(scope.function, name))
                if nearest:
                    before = [each for each in assigned if each.lineno <= value.lineno]
                    assigned = sorted(before, key=lambda each: each.lineno)[-1:]
                return [text for each in assigned for text in self.texts(each, scope, nearest=nearest)]
            case ast.Call(func=ast.Attribute(value=inner, attr="lower")):
                return [text.lower() for text in self.texts(inner, scope)]
        return []


def _is_default(statement: ast.Assign) -> bool:
    return bool(getattr(statement.targets[0], "id", "") == "default_kind")


def _names(value: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}


def _assigned(function: ast.FunctionDef, name: str) -> Iterator[ast.expr]:
    """Yield what a function assigns to a name, and the name's default."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id == name:
                    yield node.value
                elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = zip(target.elts, node.value.elts, strict=False)
                    yield from (v for t, v in pairs if isinstance(t, ast.Name) and t.id == name)
    words = function.args
    defaults = zip(words.kwonlyargs, words.kw_defaults, strict=True)
    yield from (default for p, default in defaults if p.arg == name and default is not None)


def errors_page() -> str:
    """Return the page's text."""
    table: dict[str, dict[str, tuple[set[str], set[str]]]] = {name: {} for name in ADVICE}
    for error in all_errors():
        if not error.kind.startswith("..."):
            words, modules = table[error.name].setdefault(error.kind, (set(), set()))
            words.update({_one_line(error.message)} - {"", "..."})
            modules.add(error.module.removesuffix(".py"))
    parts = [_HEAD]
    for name, kinds in table.items():
        lines = [f"## {name}\n\n{ADVICE[name]}\n", "| kind | says | raised in |", "|---|---|---|"]
        for kind, (words, modules) in sorted(kinds.items()):
            said = "; ".join(sorted(words)).replace("|", "\\|")
            lines.append(f"| `{kind}` | {said} | {', '.join(f'`{module}`' for module in sorted(modules))} |")
        parts.append("\n".join([*lines, ""]))
    return "\n".join(parts)


def _one_line(message: str) -> str:
    """Return a message as a cell of a table: a line break ends the table, and unknown parts in a row are one."""
    return re.sub(r"(\.\.\.\s*){2,}", "... ", " ".join(message.split())).strip()


if __name__ == "__main__":
    PAGE.write_text(errors_page(), encoding="utf-8")
