"""Create a file only if there is none: by a link on a local disk, by a request with a condition in an object store.

pyarrow and fsspec look whether a file is there, and write it then: two writers could both believe that they are the
only one. obstore sends the condition with the bytes (`If-None-Match: *`; on Google `x-goog-if-generation-match: 0`),
and storage decides.
Spec: none; RFC 9110, "If-None-Match"; Amazon S3, "How to prevent object overwrites with conditional writes".
"""

import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from deletekit.errors import CommitConflictError, EnvironmentMissingError, StorageError, UnsupportedError
from deletekit.table.file_io import answering, existing_file
from deletekit.table.local_files import regular
from deletekit.table.locations import local_path

_FOLDER = re.compile(r"([A-Za-z0-9]+)://(?:([^/@]+)@)?([^/]+)/?(.*)", re.DOTALL)
# What obstore would take from the environment, and how it signs or addresses: each has a variable `AWS_...`.
_FROM_ENVIRONMENT = (
    "skip_signature",
    "virtual_hosted_style_request",
    "request_payer",
    "unsigned_payload",
    "s3_express",
)
# What obstore's settings are called in the properties of a catalog.
_S3: Mapping[str, tuple[str, ...]] = {
    "access_key_id": ("s3.access-key-id", "client.access-key-id"),
    "secret_access_key": ("s3.secret-access-key", "client.secret-access-key"),
    "session_token": ("s3.session-token", "client.session-token"),
    "region": ("s3.region", "client.region"),
    "skip_signature": ("s3.anonymous",),
    "virtual_hosted_style_request": ("s3.force-virtual-addressing",),
    "server_side_encryption": ("s3.server-side-encryption",),
    "sse_kms_key_id": ("s3.sse-kms-key-id",),
}
_GCS = {"bearer_token": ("gcs.oauth2.token",), "base_url": ("gcs.service.host",)}
_AZURE = {
    "account_key": ("adls.account-key",),
    "sas_key": ("adls.sas-token",),
    "tenant_id": ("adls.tenant-id",),
    "client_id": ("adls.client-id",),
    "client_secret": ("adls.client-secret",),
    "token": ("adls.token",),
    "skip_signature": ("adls.anon",),
}
# Ways to sign in that obstore does not have. Beside a key they are not needed.
_NO_KEYS = {
    "S3Store": ("access_key_id", ("s3.role-arn", "client.role-arn", "s3.profile-name", "s3.signer")),
    "AzureStore": ("account_key", ("adls.connection-string", "adls.credential", "adls.account-host")),
    "GCSStore": ("bearer_token", ()),
}
_STORES: Mapping[str, tuple[str, Mapping[str, tuple[str, ...]]]] = {
    **dict.fromkeys(("s3", "s3a", "s3n"), ("S3Store", _S3)),
    "gs": ("GCSStore", _GCS),
    **dict.fromkeys(("abfs", "abfss"), ("AzureStore", _AZURE)),
}
_CLIENT = {"proxy_url": "s3.proxy-uri", "connect_timeout": "s3.connect-timeout", "timeout": "s3.request-timeout"}
_RETRY = {"max_retries": 3, "retry_timeout": timedelta(seconds=60)}


class CreateIfAbsent:
    """Creates files below a folder, each only if there is none. Of several writers, one wins.

    Raises, before anything is written, UnsupportedError for storage or properties with which this is not possible, and
    EnvironmentMissingError if obstore is missing.
    """

    def __init__(self, folder: str, properties: Mapping[str, str]) -> None:
        self._folder = folder.rstrip("/")
        self._store: Any = None if local_path(folder) is not None else store_of(folder, properties)

    def check(self) -> None:
        """Prove that storage keeps the promise: some S3-compatible servers ignore the condition, and overwrite.

        Two files of one new name are created, and removed. Raises UnsupportedError if there was no conflict.
        """
        if self._store is None:
            return
        import obstore  # noqa: PLC0415  # an extra

        probe = f"{self._folder}/_deletekit_{uuid4().hex}.tmp"
        try:
            self.create(probe, b"1")
            self.create(probe, b"2")
        except CommitConflictError:
            return
        finally:
            with suppress(Exception):
                obstore.delete(self._store, self._name(probe))
        raise _unsupported(self._folder, "a file that was overwritten", "storage that obeys If-None-Match")

    def create(self, path: str, data: bytes) -> None:
        """Create a whole file. Equal bytes that are there count as created: an answer may have been lost.

        Raises CommitConflictError if there is a file with other bytes.
        """
        write = self._link if self._store is None else self._put
        try:
            write(path, data)
        except (CommitConflictError, StorageError):
            if self._read(path) != data:
                raise

    def _link(self, path: str, data: bytes) -> None:
        target = Path(local_path(path) or path)
        draft = target.with_name(f".{target.name}.{os.getpid()}.{time.time_ns()}.tmp")
        with answering(path, is_new=True):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                draft.write_bytes(data)
                os.link(draft, target)
            finally:
                draft.unlink(missing_ok=True)

    def _put(self, path: str, data: bytes) -> None:
        import obstore  # noqa: PLC0415  # an extra
        from obstore.exceptions import AlreadyExistsError  # noqa: PLC0415

        with answering(path, is_new=True):
            try:
                obstore.put(self._store, self._name(path), data, mode="create")
            except AlreadyExistsError as e:
                raise existing_file(path) from e

    def _read(self, path: str) -> bytes | None:
        """Return the bytes of a file; None if it cannot be read."""
        with suppress(Exception):
            if self._store is None:
                return Path(regular(path)).read_bytes()
            return bytes(self._store.get(self._name(path)).bytes())
        return None

    def _name(self, path: str) -> str:
        return path[len(self._folder) + 1 :]


def store_of(folder: str, properties: Mapping[str, str]) -> Any:
    """Return obstore's store of a folder, with what the catalog's properties say. Raises as `CreateIfAbsent`."""
    properties = {name: text for name, text in properties.items() if text}  # an empty text is none, as for pyiceberg
    match = _FOLDER.fullmatch(folder)
    kind, settings = _STORES.get(match[1].lower() if match else "", ("", {}))
    if match is None or not kind:
        raise _unsupported(folder, folder.partition("://")[0], "a local folder, s3://, gs:// or abfss://")
    try:
        import obstore.store  # noqa: PLC0415  # an extra
    except ImportError as e:
        message = "obstore is not installed: pip install 'deletekit[object-store]'"
        raise EnvironmentMissingError(message, kind="obstore") from e
    found = {name: [properties[key] for key in keys if key in properties] for name, keys in settings.items()}
    config: dict[str, Any] = {name: values[0] for name, values in found.items() if values}
    key, others = _NO_KEYS[kind]
    other = next((name for name in others if name in properties), None)
    if other is not None and key not in config:
        raise _unsupported(folder, f"{other} without a key", settings[key][0])
    bucket = match[2] or match[3]
    more = _for_s3(config, bucket, properties.get("s3.endpoint")) if kind == "S3Store" else {}
    if kind == "AzureStore":
        config["account_name"] = account = properties.get("adls.account-name", match[3].partition(".")[0])
        host = properties.get("adls.blob-storage-authority", ".blob.core.windows.net")
        host = account + host if host.startswith(".") else f"{host}/{account}"  # as pyarrow
        config["endpoint"] = f"{properties.get('adls.blob-storage-scheme', 'https')}://{host}"
    client: dict[str, Any] = {name: properties[key] for name, key in _CLIENT.items() if key in properties}
    client = {name: text if name == "proxy_url" else f"{text}s" for name, text in client.items()}
    if any(str(value).startswith("http://") for value in config.values()):
        client["allow_http"] = True
    with answering(folder):
        make: Any = getattr(obstore.store, kind)
        return make(bucket, prefix=match[4] or None, config=config, client_options=client, retry_config=_RETRY, **more)


def _for_s3(config: dict[str, Any], bucket: str, endpoint: str | None) -> dict[str, Any]:
    """Complete the settings of S3, and return obstore's further arguments."""
    config["disable_bulk_delete"] = True  # one key is removed, and some servers have no DeleteObjects
    config["conditional_put"] = "etag"  # whatever the environment says: without it no file can be created safely
    if endpoint:
        scheme, _, host = endpoint.rpartition("://")
        below = f"{bucket}." if str(config.get("virtual_hosted_style_request")).lower() == "true" else ""
        config["endpoint"] = f"{scheme or 'https'}://{below}{host}"
    keys = {name: config.get(name) for name in ("access_key_id", "secret_access_key")}
    if not all(keys.values()):
        return {}
    # Whose keys they are is said: a session token or another setting of the environment is not for them.
    for name in _FROM_ENVIRONMENT:
        config.setdefault(name, False)
    given = {**keys, "token": config.get("session_token"), "expires_at": None}
    return {"credential_provider": lambda: given}


def _unsupported(folder: str, found: str, expected: str) -> UnsupportedError:
    message = "storage cannot create a file only if there is none: write to a local folder, and copy it"
    return UnsupportedError(message, kind="storage", file=folder, found=found, expected=expected)
