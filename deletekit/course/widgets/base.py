"""What every widget is: traits in, a page out.

Law: Python answers, JavaScript draws. A widget is read-only; its state is in its traits, which can be set from either
side and linked; whatever goes wrong is shown inside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any, ClassVar

from deletekit.course.views.build import error_page
from deletekit.course.views.messages import Messages
from deletekit.course.views.page import Control, Page
from deletekit.course.views.page_html import document_html, page_html
from deletekit.course.views.page_text import page_text, short_page_text
from deletekit.errors import DeletekitError, EnvironmentMissingError

try:
    import anywidget
    import traitlets
except ImportError as e:
    raise EnvironmentMissingError(
        "widgets need anywidget", kind="anywidget", expected="pip install 'deletekit[course]'"
    ) from e

__all__ = ["PageWidget", "Resets", "esm_of"]

Resets = Mapping[str, Mapping[str, Any]]
"""Traits that mean nothing once another one has changed, and what they become: a row, in another file."""

_SHARED_IMPORT = 'import { show } from "./shared.js";\n'


@cache
def esm_of(name: str) -> str:
    """A widget's module with what all share in place of its import: a notebook has no address to import from."""
    folder = files("deletekit.course.widgets").joinpath("static")
    own = folder.joinpath(f"{name}.js").read_text(encoding="utf-8")
    shared = folder.joinpath("shared.js").read_text(encoding="utf-8")
    return shared.replace("export function show", "function show") + own.replace(_SHARED_IMPORT, "")


@cache
def _css() -> str:
    return files("deletekit.course.widgets").joinpath("static", "shared.css").read_text(encoding="utf-8")


class PageWidget(anywidget.AnyWidget):
    """Base of the widgets: keeps `page` up to date with the traits a subclass tags `state=True`.

    Attributes
    ----------
    lang: one of `en`, `ko`, `ja`, `zh-CN`, `es`; without it DELETEKIT_LANG, or that of the notebook's folder.

    Raises TypeError for a trait the widget does not have. What goes wrong with the table is shown inside.
    """

    module: ClassVar[str]
    resets: ClassVar[Resets] = {}

    page = traitlets.Dict(read_only=True).tag(sync=True)
    lang = traitlets.Unicode(allow_none=True, default_value=None).tag(sync=True, state=True)

    def __init__(self, **state: Any) -> None:
        unknown = sorted(set(state) - set(self.trait_names(state=True)) - set(self.trait_names(state=None)))
        if unknown:
            known = ", ".join(sorted(self.trait_names(state=True)))
            raise TypeError(f"{type(self).__name__} has no trait {', '.join(unknown)}; it has {known}")
        self._esm = esm_of(self.module)
        self._css = _css()
        self._page: Page | None = None
        self._drawing = False
        super().__init__(**state)
        self._draw()
        self.observe(self._changed, names=self.trait_names(state=True))

    def view(self) -> Page:
        """The page of the present state. Subclasses say how it is made; what they raise is shown."""
        raise NotImplementedError

    @property
    def shown(self) -> Page:
        """The page as it is shown now."""
        assert self._page is not None
        return self._page

    def to_html(self) -> str:
        """The present state as one HTML document that needs nothing else."""
        page = self.shown
        return document_html(page.title, page.lang, page.words.get("state", ""), [(page.view, page)])

    def __str__(self) -> str:
        return page_text(self.shown)

    def __repr__(self) -> str:
        return short_page_text(self.shown)

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        made = super()._repr_mimebundle_(**kwargs)
        data, metadata = made if made is not None else ({}, {})
        data["text/plain"] = short_page_text(self.shown)
        data["text/html"] = page_html(self.shown)
        return data, metadata

    def _state(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.trait_names(state=True)}

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
        """Make the page anew; where the view chose a default, the trait shall say which."""
        try:
            page = self.view()
        except Exception as e:  # noqa: BLE001  # a handler's error is seen by nobody, and the page would be an old one
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
        # Whoever chose what cannot be shown must be able to choose something else.
        return replace(page, controls=tuple(map(self._now, self._page.controls)) if self._page else ())

    def _now(self, control: Control) -> Control:
        return control if control.kind == "button" else replace(control, value=getattr(self, control.trait))

    def _location(self) -> str:
        """The table's location, which messages leave out."""
        return ""
