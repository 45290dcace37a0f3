"""Find the place of tombstones among the other changes of their keys.

A tombstone of Kafka has a key and nothing else, so no value of a column says where it belongs. It comes where it
arrives: after what arrived before it, and before what arrives after it. Right behind a delete it is that delete's own.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from deletekit.errors import InvalidInputError

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def placed(values: Numbers, missing: Mask, codes: Numbers, order: Numbers, deletes: Mask) -> tuple[Numbers, Mask]:
    """Return the place of each change, and which tombstones are of no delete in the batch.

    Parameters
    ----------
    values: the places of changes, above 0; missing: the tombstones, which have none.
    codes: the number of each change's key; order: in which the changes of a key arrived.
    deletes: which changes delete.
    """
    if not missing.any():
        return values, missing
    values = np.where(missing, 0, values)
    by_key = np.lexsort((order, codes))
    own, starts = codes[by_key], np.append(True, codes[by_key][1:] != codes[by_key][:-1])
    highest = pl.DataFrame({"key": own, "value": values[by_key]}).select(pl.col("value").cum_max().over("key"))
    out, alone, gaps = values.copy(), missing.copy(), missing[by_key]
    out[by_key[gaps]] = highest["value"].to_numpy()[gaps]
    for place in np.flatnonzero(gaps & ~starts).tolist():
        row, before = by_key[place], by_key[place - 1]
        if deletes[before] and not (missing[before] and alone[before]):
            out[row], alone[row] = out[before], False
    return out, alone


def check_arrival(missing: Mask, codes: Numbers, order: Numbers | None, field: str | None) -> None:
    """Refuse a tombstone beside other changes of its key, if it is not known which of them came first."""
    if not missing.any():
        return
    same = codes if order is None else codes * (int(order.max()) + 1) + order
    _, inverse, counts = np.unique(same, return_inverse=True, return_counts=True)
    if (counts[inverse][missing] > 1).any():
        raise InvalidInputError(
            "a tombstone and other changes of its key, and their order is not known",
            kind="change-order",
            field=field or "order",
            found="a tombstone without a value",
            expected="a column that puts the changes of each key in order, of tombstones too",
        )
