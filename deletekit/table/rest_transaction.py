"""Commit changes of several tables to a REST catalog in one request, which pyiceberg has no function for.

It goes through pyiceberg's own session, which knows how the catalog signs requests. A test fails if pyiceberg moves the
private names.
Spec: REST catalog, `POST /v1/{prefix}/transactions/commit`, "CommitTransactionRequest".
"""

import json
from collections.abc import Sequence
from typing import Any

from deletekit.errors import UnsupportedError
from deletekit.table.any_catalog import TableChange

_PATH = "transactions/commit"
_NO_CONTENT = 204


def check_rest_transactions(catalog: Any) -> None:
    """Raise UnsupportedError if a server does not name the endpoint among those that it has."""
    endpoints = {str(e) for e in catalog._supported_endpoints}  # noqa: SLF001
    if not any(e.startswith("POST ") and e.endswith(f"/{_PATH}") for e in endpoints):
        raise UnsupportedError(
            "this REST catalog cannot commit several tables in one transaction",
            kind="catalog-transaction",
            field=catalog.name,
            found="a server without this endpoint",
            expected=f"POST /v1/{{prefix}}/{_PATH}",
        )


def send_rest_transaction(catalog: Any, changes: Sequence[TableChange]) -> None:
    """Send changes of tables in one request. Raise what pyiceberg raises for a commit of one table."""
    from pyiceberg.catalog.rest.response import _handle_non_200_response  # noqa: PLC0415  # slow to import
    from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException  # noqa: PLC0415

    body = {
        "table-changes": [
            {
                "identifier": {"namespace": list(identifier[:-1]), "name": identifier[-1]},
                "requirements": list(requirements),
                "updates": list(updates),
            }
            for identifier, requirements, updates in changes
        ]
    }
    session = catalog._session  # noqa: SLF001
    answer = session.post(catalog.url(_PATH), data=json.dumps(body).encode(), headers=session.headers)
    try:
        answer.raise_for_status()
    except OSError as e:  # the HTTPError of pyiceberg's session
        unknown = dict.fromkeys((500, 502, 503, 504), CommitStateUnknownException)
        _handle_non_200_response(e, {409: CommitFailedException, **unknown})  # type: ignore[arg-type]
    if answer.status_code != _NO_CONTENT:  # a gateway's page, or a redirect that was not followed
        raise CommitStateUnknownException(f"status {answer.status_code} instead of {_NO_CONTENT}")
