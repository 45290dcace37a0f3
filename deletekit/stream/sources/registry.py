"""Ask a schema registry for the schemas of messages: Confluent's API, which Apicurio and Redpanda have too."""

from __future__ import annotations

import base64
import json
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import Request, urlopen

from deletekit.errors import InvalidInputError, NotFoundError, StorageError

_SECONDS = 30


class Registry:
    """A schema registry.

    Parameters
    ----------
    url: its address. User and password in it are sent as basic authentication, and are in no error.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            expected = "http://host:port or https://user:password@host"
            raise InvalidInputError(
                "this is no address of a schema registry", kind="format-option", field="registry", expected=expected
            )
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        if parts.port is not None:
            host += f":{parts.port}"
        self._url = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"

    def schema(self, number: int) -> Any:
        """Return the Avro schema of an id.

        Raises NotFoundError for an unknown id, InvalidInputError for a schema that is not Avro, StorageError if the
        registry refuses or does not answer. A message is not to blame for the first and the last, and is not rejected.
        """
        address = f"{self._url}/schemas/ids/{number}"
        try:
            with urlopen(Request(address, headers=self._headers), timeout=_SECONDS) as answer:  # noqa: S310  # http(s)
                document = json.load(answer)
            text = document["schema"]
            kind, references = document.get("schemaType", "AVRO"), document.get("references")
            schema = json.loads(text) if kind == "AVRO" else None
        except HTTPError as e:
            e.close()
            if e.code == 404:
                message = "the schema registry does not know a schema"
                raise NotFoundError(message, kind="schema-id", file=address, found=number) from None
            message = "the schema registry refuses"
            raise StorageError(message, kind="schema-registry", file=address, found=f"HTTP {e.code}") from None
        except (URLError, OSError, HTTPException) as e:
            message = "the schema registry does not answer"
            raise StorageError(message, kind="schema-registry", file=address, found=type(e).__name__) from e
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
            message = "the answer of the schema registry is no schema"
            raise StorageError(message, kind="schema-registry", file=address, found=type(e).__name__) from e
        if kind != "AVRO" or references:
            found = kind if kind != "AVRO" else "a schema with references"
            message = "a schema of the registry is not read"
            raise InvalidInputError(message, kind="message-schema", file=address, found=found, expected="Avro alone")
        return schema
