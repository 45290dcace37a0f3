"""Tell which query of Spark a micro-batch belongs to."""

from typing import Any

from deletekit.errors import UnsupportedError


def query_of_frame(frame: Any) -> str:
    """Return the id of the query that a micro-batch of Spark belongs to.

    Raises UnsupportedError under Spark Connect, where a batch does not know its query.
    """
    try:
        query_id = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    except Exception as e:
        raise UnsupportedError(
            "the query of a batch is not known here", kind="spark-connect", found=type(e).__name__
        ) from e
    return query_id or ""
