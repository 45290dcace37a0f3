"""Spark: a session with Iceberg on the catalogs that deletekit opens, and the data source.

Names are imported when they are first used: Spark imports the data source in each of its planning processes, which need
nothing else of this package.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deletekit.spark.releases import JARS
    from deletekit.spark.sessions import fetch_jars, java_problem, java_program, session
    from deletekit.spark.views import register

__all__ = ["JARS", "fetch_jars", "java_problem", "java_program", "register", "session"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'deletekit.spark' has no attribute {name!r}")
    from deletekit.spark import sessions, views  # noqa: PLC0415  # they import catalogs' libraries

    return getattr(views if name == "register" else sessions, name)
