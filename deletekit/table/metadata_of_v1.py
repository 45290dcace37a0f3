"""Read table metadata that v1 writers left short: each field under v2's name, found where v1 has it, or refused.

Spec: Appendix E, "Reading v1 metadata for v2", https://iceberg.apache.org/spec/#version-2
"""

from collections.abc import Mapping, Sequence
from typing import Any

from deletekit.errors import FormatError

_CURRENT = (
    ("schemas", "schema-id", "current-schema-id", "schema"),
    ("partition-specs", "spec-id", "default-spec-id", "partition-spec"),
)


def in_v2_terms(raw: Mapping[str, Any], main: str) -> dict[str, Any]:
    """Return a metadata document with v2's fields, and `main` among its refs. A field that is null is absent.

    Which schema and spec are current is known only if there is one, or if it equals v1's single field. Raises
    FormatError where it is not known, and KeyError or TypeError for a document of another form.
    """
    raw = _present(raw)
    out = {k: v for k, v in raw.items() if k not in ("schema", "partition-spec")}
    for things, key, current, single in _CURRENT:
        if not raw.get(things) and single not in raw:
            raise _lacks(things, None)
        given = raw.get(single)
        only = None if given is None else _present({"fields": given} if single == "partition-spec" else given)
        found = [_present(thing) for thing in raw.get(things) or [only]]
        if single == "partition-spec":
            found = [{**thing, "fields": _with_ids(thing["fields"])} for thing in found]
            only = only and {"fields": _with_ids(only["fields"])}
        out[things] = [{key: 0, **thing} for thing in found]
        if current not in raw:
            same = [t for t in out[things] if len(found) == 1 or (only and t["fields"] == only["fields"])]
            if not same:
                raise _lacks(current, f"the id of one of its {things}")
            out[current] = same[-1][key]
    orders = [_present(order) for order in raw.get("sort-orders") or ()]
    if out.setdefault("default-sort-order-id", 0) == 0 and all(order.get("order-id") != 0 for order in orders):
        orders.append({"order-id": 0, "fields": []})
    out["sort-orders"] = orders
    ids = (f["field-id"] for spec in out["partition-specs"] for f in spec["fields"])
    out.setdefault("last-partition-id", max([999, *ids]))
    out.setdefault("snapshots", [])
    out["refs"] = refs = dict(out.get("refs") or {})
    head = out.setdefault("current-snapshot-id", None)
    if head == -1:
        out["current-snapshot-id"] = None
    elif head is not None:
        refs.setdefault(main, {"snapshot-id": head, "type": "branch"})
    return out


def _present(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in raw.items() if value is not None}


def _with_ids(fields: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Give partition fields the ids that they have in v1, which writes none: in order, from 1000."""
    return [{"field-id": 1000 + i, **_present(field)} for i, field in enumerate(fields)]


def _lacks(name: str, expected: str | None) -> FormatError:
    return FormatError("table metadata lacks a field", "table-metadata", name, expected=expected)
