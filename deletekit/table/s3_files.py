"""Use S3 with fewer requests: one to read bytes, where Arrow asks for a file's size first, and two to write a file."""

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import copy
from functools import lru_cache
from typing import Any

from pyarrow import fs

from deletekit.errors import KNOWN_CHECKSUMS, NotFoundError, StorageError, UnsupportedError

_LOCATION = re.compile(r"(s3[an]?://[^/@?#]+)/([^?#]+)", re.DOTALL)
_ENDPOINT = re.compile(r"(https?://)?([\w.-]+|\[[\da-fA-F:]+\])(:\d+)?/?")
_MAX_ATTEMPTS = 6
_PROCESS = os.getpid()  # a fork has none of obstore's threads
# What both clients understand in the same way. A catalog's property that is not here leaves reading to Arrow.
_KEYS = {f"{at}.{name}" for at in ("s3", "client") for name in ("access-key-id", "secret-access-key")}
_SAME = _KEYS | {f"{at}.{name}" for at in ("s3", "client") for name in ("session-token", "region")}
_SAME |= {f"s3.{name}" for name in ("endpoint", "connect-timeout", "request-timeout", "proxy-uri")}
# A REST catalog may add these; pyiceberg's Arrow does not look at them.
_SAME |= {"s3.session-token-expires-at-ms", "s3.path-style-access"}
_SAME |= {f"client.refresh-credentials-{name}" for name in ("endpoint", "enabled")}
_CLIENTS: dict[str, Any] = {}
_MOST_CLIENTS = 64
_PROVEN: set[str] = set()  # endpoints of servers that keep what they get


class S3Reads:
    """Reads bytes of files on S3 by obstore, where that is installed and signs in with the keys of the properties.

    Its answer is bytes or None. None is for Arrow to answer, and to say what is wrong.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        # An empty text is none, as for pyiceberg.
        settings = {name for name, text in properties.items() if text and name.startswith(("s3.", "client."))}
        named = _ENDPOINT.fullmatch(properties["s3.endpoint"]) if "s3.endpoint" in settings else not _away()
        # Without a key the clients look for one at different places.
        signs = all({f"s3.{name}", f"client.{name}"} & settings for name in ("access-key-id", "secret-access-key"))
        placed = any(name.endswith(".region") for name in settings)
        works = bool(signs and named and placed and settings <= _SAME)
        # Arrow takes no proxy from the environment, obstore does.
        self._works = works and ("s3.proxy-uri" in settings or not _has_proxy())
        self._properties = {name: text for name, text in properties.items() if name in settings}

    def read(self, path: str, offset: int, length: int | None) -> bytes | None:
        """Return `length` bytes from `offset` (None: to the end) by one request, or None."""
        match = _LOCATION.fullmatch(path)
        if not self._works or match is None or (length is not None and length < 1) or os.getpid() != _PROCESS:
            return None
        try:
            import obstore  # noqa: PLC0415  # an extra
        except ImportError:
            self._works = False
            return None
        try:
            if length is not None:
                return bytes(obstore.get_range(self._store(match[1]), match[2], start=offset, length=length))
            answer = self._store(match[1]).get(match[2], options={"range": {"offset": offset}} if offset else None)
            return bytes(answer.bytes())
        except FileNotFoundError:
            return None
        except Exception:  # noqa: BLE001  # whatever it is, Arrow says it in words that are known
            self._works = False
            return None

    def _store(self, bucket: str) -> Any:
        from deletekit.table.create_if_absent import store_of  # noqa: PLC0415  # it imports this module's users

        return _shared((bucket, self._properties), lambda: store_of(bucket, self._properties))


def with_fewer_requests(impl: Any) -> Any:
    """Return pyiceberg's FileIO over Arrow, whose small files are one PUT each on S3.

    Arrow begins a multipart upload when a file is opened: three requests. With `allow_delayed_open`, which pyiceberg
    does not offer, it waits for the first part to be full. Then an error of opening is one of closing.
    A refused or broken request is tried again up to five times, as by Iceberg's Java, not twice; the waits are random
    and twice as long each time. Whole requests only: a PUT of the same bytes.
    A strategy of retries that the properties name would get lost, so they leave all as it is.
    """
    if hasattr(impl, "fs_by_scheme") and "s3.retry-strategy-impl" not in impl.properties:
        impl = copy(impl)  # it may be a catalog's own
        impl.fs_by_scheme = lru_cache(_Systems(impl.fs_by_scheme))
    return impl


def is_on_s3(output: Any) -> bool:
    """Tell whether an `OutputFile` of pyiceberg is on an S3 that Arrow writes to."""
    return isinstance(getattr(output, "_filesystem", None), fs.S3FileSystem)


def prove_written(io: Any, path: str, length: int) -> None:
    """Compare the size of the first file that was written to a server of S3: an old one keeps other bytes than it gets.

    Arrow sends a checksum behind the bytes. A server that does not know this keeps both, and says that all is well.
    AWS's own S3 knows it. Raises UnsupportedError, and removes the file.
    """
    endpoint = _LOCATION.fullmatch(path) and (io.properties.get("s3.endpoint") or _away())
    if not endpoint or endpoint in _PROVEN:
        return
    with suppress(NotFoundError, StorageError):  # the next file will tell
        if (found := io.size(path)) != length:
            io.delete(path)
            message, expected = "storage keeps other bytes than were sent", KNOWN_CHECKSUMS
            raise UnsupportedError(message, kind="storage-checksums", file=path, found=found, expected=expected)
        _PROVEN.add(endpoint)


def _away() -> str | None:
    """Return the endpoint, or another that is not AWS's usual one, that the environment names."""
    places = ("AWS_ENDPOINT", "AWS_USE_")
    return next((text for name, text in os.environ.items() if text and name.startswith(places)), None)


def _has_proxy() -> bool:
    from urllib.request import getproxies  # noqa: PLC0415  # it brings a client of HTTP, which other storage needs not

    return bool(getproxies().keys() - {"no"})


class _Systems:
    """Arrow's file systems by scheme and authority."""

    def __init__(self, made: Any) -> None:
        self._made = made

    def __call__(self, scheme: str, authority: str | None = None) -> fs.FileSystem:
        system = self._made(scheme, authority)
        if not isinstance(system, fs.S3FileSystem):
            return system
        make, (options,) = system.__reduce__()  # there is no other way to what it was made of
        if "allow_delayed_open" not in options:
            return system
        options |= {"allow_delayed_open": True}
        settings = [each for each in os.environ.items() if each[0].startswith("AWS_")]
        patient = fs.AwsStandardS3RetryStrategy(max_attempts=_MAX_ATTEMPTS)
        return _shared((options, _MAX_ATTEMPTS, settings), lambda: make(options | {"retry_strategy": patient}))


def _shared(settings: Any, make: Callable[[], Any]) -> Any:
    """Return the one client of these settings, with its open connections. Each load of a table would make new ones."""
    key = repr((os.getpid(), settings))
    client = _CLIENTS.get(key)
    if client is None:
        if len(_CLIENTS) >= _MOST_CLIENTS:
            _CLIENTS.clear()  # in use they go on
        client = _CLIENTS.setdefault(key, make())
    return client
