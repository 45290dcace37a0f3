"""The base of the widgets: traits in, a page out.

Python makes the page, JavaScript draws it. A widget is read-only. Its state is in its traits, which can be set from
both sides and linked. Every error is shown inside the widget.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from inspect import currentframe, signature
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, get_args, get_type_hints

from deletekit.course.translations import Messages
from deletekit.course.views.page import Control, Page, error_page
from deletekit.course.views.page_html import page_html
from deletekit.course.views.page_text import page_text, short_page_text
from deletekit.errors import DeletekitError, EnvironmentMissingError

try:
    import anywidget
    import traitlets
except ImportError as e:
    raise EnvironmentMissingError(
        "widgets need anywidget", kind="anywidget", expected="pip install 'deletekit[course]'"
    ) from e

Resets = Mapping[str, Mapping[str, Any]]
"""Traits that lose their meaning when another trait changes, and what they become: a row, in another file."""

SAVED_PAGE = "application/x-deletekit-widget+json"
"""In an output, it asks our extension of JupyterLab (`labextensions/`) to show the HTML until the widget is live.

Its name has no `vnd.`: VS Code tries types of vendors before HTML.
"""

_STATIC = files("deletekit.course.widgets").joinpath("static")
_SHARED_IMPORT = 'import { show } from "./shared.js";\n'


@cache
def esm_of(name: str) -> str:
    """Return a widget's script with the shared script in it: a notebook has no address to import that from."""
    return script("shared").replace("export function show", "function show") + script(name).replace(_SHARED_IMPORT, "")


def script(name: str) -> str:
    """Return a script of `static/`."""
    return _STATIC.joinpath(f"{name}.js").read_text(encoding="utf-8")


@cache
def css() -> str:
    """Return the style of the widgets."""
    return _STATIC.joinpath("shared.css").read_text(encoding="utf-8")


class PageWidget(anywidget.AnyWidget):
    """Base of the widgets: keeps `page` up to date with the traits.

    A subclass names its view function: `class RowFate(TableWidget, view=row_fate)`. The keyword parameters of the
    function, with their types and defaults, become traits; its name is that of the script in `static/`.

    Attributes
    ----------
    lang: one of `en`, `ko`, `ja`, `zh-CN`, `es`; None is DELETEKIT_LANG, or the language of the notebook's folder.

    Raises TypeError for an unknown trait. Errors of the table are shown inside.
    """

    _make_page: ClassVar[Callable[..., Page]]
    module: ClassVar[str]
    resets: ClassVar[Resets] = {}
    _own: Sequence[str | None] = ()
    """The reader's names for what the widget was given."""

    page = traitlets.Dict(read_only=True).tag(sync=True)
    lang = traitlets.Unicode(allow_none=True, default_value=None).tag(sync=True, state=True)

    def __init_subclass__(cls, view: Callable[..., Page] | None = None, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if view is not None:
            cls._make_page, cls.module = staticmethod(view), view.__name__
            for name, trait in _traits(view).items():
                trait.class_init(cls, name)
                setattr(cls, name, trait)

    if TYPE_CHECKING:  # the traits

        def __getattr__(self, name: str) -> Any: ...

    def __init__(self, *sources: Any, **state: Any) -> None:
        if sources:
            raise TypeError(f"{type(self).__name__} shows no table of yours: it makes its own")
        unknown = sorted(set(state) - set(self.trait_names(state=True)) - set(self.trait_names(state=None)))
        if unknown:
            known = ", ".join(sorted(self.trait_names(state=True)))
            raise TypeError(f"{type(self).__name__} has no trait {', '.join(unknown)}; it has {known}")
        self._esm = esm_of(self.module)
        self._css = css()
        self._page: Page | None = None
        self._drawing = False
        super().__init__(**state)
        self._draw()
        self.observe(self._changed, names=self.trait_names(state=True))

    def view(self, **state: Any) -> Page:
        """Make the page of the present state, with other values of some traits. What this raises is shown."""
        return self._make_page(*self._sources(), **{**self.state(), **state}).of(*self._own)

    def _sources(self) -> tuple[Any, ...]:
        """Return the view's positional arguments: the table or record to show."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """Return the traits that the page is made of."""
        return {name: getattr(self, name) for name in self.trait_names(state=True)}

    @property
    def shown(self) -> Page:
        """The page that is shown now."""
        assert self._page is not None
        return self._page

    def __str__(self) -> str:
        return page_text(self.shown)

    def __repr__(self) -> str:
        return short_page_text(self.shown)

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        made = super()._repr_mimebundle_(**kwargs)
        data, metadata = made if made is not None else ({}, {})
        data["text/plain"] = short_page_text(self.shown)
        data["text/html"] = page_html(self.shown)
        data[SAVED_PAGE] = {}
        return data, metadata

    def _changed(self, change: Any) -> None:
        if self._drawing:
            return
        self._drawing = True
        try:
            for name, value in self.resets.get(change["name"], {}).items():
                setattr(self, name, value)
        finally:
            self._drawing = False
        self._draw()

    def _draw(self) -> None:
        """Make the page again, and set the traits that the view chose a value for."""
        try:
            page = self.view()
        except Exception as e:  # noqa: BLE001  # an error in a handler is not shown, and the page would be an old one
            page = self._failed(e)
        self._drawing = True
        try:
            with self.hold_sync():
                for name, value in page.state.items():
                    if self.has_trait(name) and getattr(self, name) != value:
                        setattr(self, name, value)
                self._page = page
                self.set_trait("page", page.to_json())
        finally:
            self._drawing = False

    def _failed(self, error: Exception) -> Page:
        lang = self.lang
        try:
            messages = Messages(lang)
        except DeletekitError:
            messages = Messages("en")
        page = error_page(type(self).__name__, error, messages, self._location())
        # After a choice that cannot be shown, another choice must be possible.
        return replace(page, controls=tuple(map(self._now, self._page.controls)) if self._page else ())

    def _now(self, control: Control) -> Control:
        return control if control.kind == "button" else replace(control, value=getattr(self, control.trait))

    def _location(self) -> str:
        """Return the table's location, which messages leave out."""
        return ""


def name_of(thing: Any) -> str | None:
    """Return the name of a thing in the code that called deletekit: `users`, or `tables['contacts']`."""
    frame = currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "deletekit":
        frame = frame.f_back
    found = {**frame.f_globals, **frame.f_locals} if frame is not None else {}
    known = [(n, v) for n, v in found.items() if n.isidentifier() and not n.startswith("_") and n != "Out"]
    dicts = ((n, list(d.items())) for n, d in known if type(d) is dict)
    inside = ((f"{n}[{k!r}]", value) for n, items in dicts for k, value in items if type(k) is str)
    return next((n for n, value in chain(known, inside) if value is thing), None)


def _traits(view: Callable[..., Page]) -> dict[str, Any]:
    """Return a trait for each keyword parameter of a view but `lang`, which every widget has."""
    hints = get_type_hints(view)
    keywords = (p for p in signature(view).parameters.values() if p.kind == p.KEYWORD_ONLY and p.name != "lang")
    return {p.name: _trait(hints[p.name], p.default).tag(sync=True, state=True) for p in keywords}


def _trait(hint: Any, default: Any) -> Any:
    """Return the trait of a type: `int`, `str`, `bool` or a sequence of them, each perhaps `| None`."""
    optional = type(None) in get_args(hint)
    plain = next(kind for kind in get_args(hint) if kind is not type(None)) if optional else hint
    if plain in _SIMPLE_TRAITS:
        return _SIMPLE_TRAITS[plain](default_value=default, allow_none=optional)
    items = _SIMPLE_TRAITS[get_args(plain)[0]]()
    return traitlets.List(items, default_value=None if default is None else list(default), allow_none=optional)


_SIMPLE_TRAITS: Mapping[Any, Any] = {int: traitlets.Int, str: traitlets.Unicode, bool: traitlets.Bool}
