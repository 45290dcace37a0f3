"""Widgets for notebooks: each shows one aspect of a table, and `explore` shows all of a table together, linked."""

from deletekit.course.widgets.all import *  # noqa: F403  # `__all__` there says which names
from deletekit.course.widgets.all import __all__ as __all__
