"""The public names of deletekit with their signatures, one a line; `python tests/public_api.py` rewrites the pin."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import deletekit

PIN = Path(__file__).parent / "public_api.txt"


def public_api() -> str:
    """Describe every name in `deletekit.__all__`: what a caller can type, and what would break him if it changed."""
    lines = [line for name in sorted(deletekit.__all__) for line in _describe(name, getattr(deletekit, name))]
    return "\n".join(lines) + "\n"


def _describe(name: str, thing: object) -> list[str]:
    if isinstance(thing, ModuleType):
        members = sorted(getattr(thing, "__all__", ()))
        return [f"module {name}"] + [line for m in members for line in _describe(f"{name}.{m}", getattr(thing, m))]
    if inspect.isclass(thing):
        return [_class(name, thing)] + [_member(name, m, thing.__dict__[m]) for m in sorted(_public_members(thing))]
    if callable(thing):
        return [f"def {name}{_signature(thing)}"]
    return [f"value {name}: {type(thing).__name__}"]


def _signature(function: Callable[..., object]) -> str:
    """Return the signature with each class by its own name: the module that it is in is not a part of the interface."""
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z])", "", str(inspect.signature(function)).replace("'", ""))


def _class(name: str, cls: type) -> str:
    bases = ", ".join(base.__name__ for base in cls.__bases__ if base is not object)
    return f"class {name}({bases})"


def _public_members(cls: type) -> list[str]:
    # A dataclass's fields are in the signature of its __init__; slots show them as members too.
    return [m for m, value in cls.__dict__.items() if m == "__init__" or not (m.startswith("_") or _is_slot(value))]


def _is_slot(value: object) -> bool:
    return inspect.ismemberdescriptor(value)


def _member(owner: str, name: str, value: object) -> str:
    if isinstance(value, property):
        return f"    property {owner}.{name}"
    function = getattr(value, "__func__", value)
    if inspect.isfunction(function):
        return f"    def {owner}.{name}{_signature(function)}"
    return f"    value {owner}.{name}"


if __name__ == "__main__":
    PIN.write_text(public_api(), encoding="utf-8")
