"""Wrap every public function: check its arguments against its signature, and raise only errors of deletekit.

A wrong request, a missing package and failing storage must leave a public function as a DeletekitError. Types are
checked here, before anything is done. Each verb checks the values itself.
"""

import inspect
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, wraps
from numbers import Integral, Real
from pathlib import Path
from reprlib import Repr
from types import NoneType, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, Unpack, get_args, get_origin, get_type_hints

from deletekit.deferred import imported
from deletekit.errors import (
    DeletekitError,
    EnvironmentMissingError,
    InvalidInputError,
    hide_causes_secrets,
    storage_error,
)
from deletekit.text import without_secrets

P = ParamSpec("P")
R = TypeVar("R")

_NO = object()
"""What `_fit` returns for a value that does not fit; None may fit."""

_PLAIN = (str, bytes, int, float, list, tuple, dict, set)
_SHOWN = Repr()
_SHOWN.maxstring = _SHOWN.maxother = 80

_WORDS = {
    "Table": "a deletekit Table (load_table, from_metadata and from_pyiceberg give one)",
    "Catalog": "a deletekit Catalog (local_catalog or load_catalog gives one)",
    "Engine": "an engine (an object with `map`, such as engine.local() gives)",
    "Sink": "a Sink (stream.sink gives one)",
    "BooleanExpression": "a pyiceberg expression",
    "NoneType": "None",
    "Any": "anything",
}


_EXTRAS = "spark|course|kafka|postgres|certificate"
_PACKAGES = {"mysqldb": "mysqlclient", "psycopg2": "psycopg2-binary"}
"""Packages that are named otherwise than their modules."""

_MORE = {
    ("pyarrow", "Schema"): " (of a DataFrame, pyarrow.table(df).schema)",
    ("pyarrow", "Table"): " without rows",
}
"""What is added to the names of other packages' classes."""


def public(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function. `help`, `inspect.signature` and type checkers see no difference."""
    name = function.__name__

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        with _own_errors():
            call = _checked(function, name, args, kwargs)
            return function(*call.args, **call.kwargs)

    @wraps(function)
    def checked_rows(*args: P.args, **kwargs: P.kwargs) -> Any:
        with _own_errors():
            call = _checked(function, name, args, kwargs)
            yield from function(*call.args, **call.kwargs)  # type: ignore[misc]

    return checked_rows if inspect.isgeneratorfunction(function) else checked


def public_methods(cls: type[R]) -> type[R]:
    """Wrap each public method that a class defines itself, as `public` does."""
    for name, member in list(vars(cls).items()):
        if inspect.isfunction(member) and not name.startswith("_"):
            setattr(cls, name, public(member))
    return cls


@cache
def load(package: str, name: str) -> Any:
    """Import what `deletekit.<name>` is: a module of the package, or a name in it. A function is wrapped by `public`.

    Raise EnvironmentMissingError if a package of an extra is missing.
    """
    with _own_errors():
        names = vars(imported(package))
        found = names[name] if name in names else imported(f"{package}.{name}")
    if not inspect.isfunction(found):
        return found
    wrapped = public(found)
    wrapped.__module__, wrapped.__qualname__ = "deletekit", name  # where pickle finds it
    return wrapped


@contextmanager
def _own_errors() -> Iterator[None]:
    """Turn errors of the machine and its storage into deletekit's, whose causes show no key. Other errors are bugs."""
    try:
        with _translated():
            yield
    except DeletekitError as e:
        hide_causes_secrets(e)
        raise


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except DeletekitError:
        raise
    except ImportError as e:
        if (e.name or "deletekit").partition(".")[0] == "deletekit":
            raise
        raise EnvironmentMissingError(
            "a Python package is missing or too old", field=e.name, found=str(e), expected=install_command(e.name or "")
        ) from e
    except OSError as e:
        raise storage_error(e) from e


def install_command(module: str) -> str:
    """Return the command that installs a package: by the extra that has it, if there is one."""
    from importlib.metadata import PackageNotFoundError, requires  # noqa: PLC0415  # only for an error

    name = module.partition(".")[0].replace("_", "-").lower()
    name = _PACKAGES.get(name, name)
    with suppress(PackageNotFoundError):
        for need in requires("deletekit") or ():
            if found := re.match(rf"{re.escape(name)}\b.*extra == [\"']({_EXTRAS})\b", need.lower()):
                return f"pip install 'deletekit[{found[1]}]'"
    return f"pip install {name}"


# --- arguments --------------------------------------------------------------------------------------------------------


def _checked(function: Any, name: str, args: Any, kwargs: Any) -> inspect.BoundArguments:
    """Return the arguments, each fitted to its annotation. Raise InvalidInputError that names the argument."""
    signature, hints = _signature(function)
    try:
        call = signature.bind(*args, **kwargs)
    except TypeError as e:
        known = [n for n, p in signature.parameters.items() if p.kind is not p.VAR_KEYWORD and n != "self"]
        raise InvalidInputError(f"{name}() {e}", kind="argument", expected=", ".join(known)) from e
    for parameter, value in call.arguments.items():
        hint = hints[parameter]
        kind = signature.parameters[parameter].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            call.arguments[parameter] = _options(name, value, hint)
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            call.arguments[parameter] = tuple(argument(name, parameter, each, hint) for each in value)
        else:
            call.arguments[parameter] = argument(name, parameter, value, hint)
    return call


@cache
def _signature(function: Any) -> tuple[inspect.Signature, dict[str, Any]]:
    """Return a function's signature, and its annotations as types; Any if only type checkers can resolve one."""
    signature = inspect.signature(function)
    hints: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        hint = parameter.annotation
        if isinstance(hint, str):
            try:
                hint = eval(hint, function.__globals__)  # noqa: S307  # an annotation of our own
            except NameError:
                hint = Any
        hints[name] = Any if hint is inspect.Parameter.empty else hint
    return signature, hints


def _options(name: str, given: Mapping[str, Any], hint: Any) -> dict[str, Any]:
    """Check keyword options: those of a TypedDict, where None asks for the default, or any names of one type."""
    if get_origin(hint) is not Unpack:
        return {option: argument(name, option, value, hint) for option, value in given.items()}
    known = get_type_hints(get_args(hint)[0])
    for option in given:
        if option not in known:
            raise InvalidInputError(f"{name}() has no such option", "argument", option, expected=", ".join(known))
    return {option: argument(name, option, value, known[option] | None) for option, value in given.items()}


def argument(name: str, parameter: str, value: Any, hint: Any) -> Any:
    """Return an argument of a public function, fitted to a type. Raise InvalidInputError that names it."""
    fitted = _fit(value, hint)
    if fitted is _NO:
        raise InvalidInputError(
            f"{name}() cannot take this `{parameter}`", "argument", parameter, _shown(value), _wanted(hint)
        )
    return fitted


def _fit(value: Any, hint: Any) -> Any:
    """Return the value as the type of the hint, or `_NO`. numpy's numbers become Python's, and any iterable a tuple."""
    kind = get_origin(hint) or hint
    if kind in (Union, UnionType):
        return next((fit for fit in (_fit(value, each) for each in get_args(hint)) if fit is not _NO), _NO)
    if kind is Literal:
        return value if isinstance(value, tuple(type(each) for each in get_args(hint))) else _NO
    if kind is Mapping:
        return value if isinstance(value, Mapping) else _NO  # the verb checks its entries, which have names
    if kind in (Sequence, Iterable):
        return _several(value, kind, get_args(hint)[0])
    if kind is Callable:
        return value if callable(value) else _NO
    return _single(value, NoneType if kind is None else kind)


def _several(value: Any, kind: Any, each: Any) -> Any:
    if isinstance(value, str | bytes | bytearray | Mapping) or not isinstance(value, Iterable):
        return _NO
    if kind is Iterable and each is Any:
        return value  # it may be endless; the verb reads it
    try:
        items = list(value)
    except (TypeError, ValueError, OSError):  # a 0-dimensional array, a closed file
        return _NO
    fitted = [_fit(item, each) for item in items]
    if any(item is _NO for item in fitted):
        return _NO
    return fitted if isinstance(value, list) else tuple(fitted)


def _single(value: Any, kind: Any) -> Any:
    if kind in (bool, int, float):
        is_bool = isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")
        if kind is bool:
            return bool(value) if is_bool else _NO
        if is_bool or not isinstance(value, Real):
            return _NO
        return value if kind is float else int(value) if isinstance(value, Integral) else _NO
    if kind is Path:
        return Path(value) if isinstance(value, os.PathLike) else _NO
    if inspect.isclass(kind) and kind is not Any:
        return value if isinstance(value, kind) else _NO
    return value


# --- words ------------------------------------------------------------------------------------------------------------


def _shown(value: Any) -> str:
    """Return a value's type as text, and for plain values also the value, shortened; of a dict the keys.

    Properties of a catalog may be given where they do not belong: no password gets into an error, and so into a log.
    """
    kind = type(value)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    if value is None or kind is type:
        return repr(value)
    if isinstance(value, dict):
        return f"the keys {_SHOWN.repr(list(value))} ({name})"
    return f"{_SHOWN.repr(without_secrets(value))} ({name})" if isinstance(value, _PLAIN) else name


def _wanted(hint: Any) -> str:
    """Return in words what a hint asks for."""
    kind, args = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        return " or ".join(_wanted(each) for each in args)
    if kind is Literal:
        return " or ".join(repr(each) for each in args)
    if kind is Mapping:
        return f"a mapping of {_wanted(args[0])} to {_wanted(args[1])}"
    if kind in (Sequence, Iterable):
        return f"a list of {_wanted(args[0])}"
    if kind is Callable:
        return "a function"
    name, package = getattr(kind, "__name__", str(hint)), getattr(kind, "__module__", "").partition(".")[0]
    if package in ("pyarrow", "pyiceberg") and name not in ("BooleanExpression", "Any"):
        return f"a {package} {name}{_MORE.get((package, name), '')}"
    return "anything" if kind is Any else _WORDS.get(name, name)
