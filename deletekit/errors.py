"""The error tree, grouped by what a handler does about it.

    DeletekitError
    ├── InvalidInputError       the call asks for something illegal: change the call        (also ValueError)
    ├── NotFoundError           a table, snapshot, ref, column or file is not there         (also LookupError)
    ├── UnsupportedError        legal Iceberg that deletekit does not do: named, not tried  (also NotImplementedError)
    ├── FormatError             bytes or metadata on disk break the specification           (also ValueError)
    ├── CommitConflictError     another writer won: nothing was committed, retry is safe
    ├── CommitStateUnknownError the catalog did not say whether the commit landed: look before retrying
    ├── StorageError            storage refused access, is full or does not answer          (also OSError)
    └── EnvironmentMissingError a program or package this feature needs is not installed    (also RuntimeError)

No error shows a key of an address or of properties: each is made here, also of other libraries' words.
Every error carries `kind` (a stable code to match on), and where they apply `file`, `field`, `found` and `expected`.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from deletekit.text import without_secrets

__all__ = [
    "KNOWN_CHECKSUMS",
    "UNREADABLE",
    "CommitConflictError",
    "CommitStateUnknownError",
    "DeletekitError",
    "EnvironmentMissingError",
    "FormatError",
    "InvalidInputError",
    "NotFoundError",
    "StorageError",
    "UnsupportedError",
    "hide_causes_secrets",
    "is_storage_failure",
    "naming",
    "storage_error",
]

_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS}
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_AWAY = {
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.ECONNABORTED,
    errno.EHOSTUNREACH,
    errno.ENETUNREACH,
    errno.ETIMEDOUT,
}
# pyarrow's clients of object stores set no errno, and are known by their words.
_CLIENT = re.compile(r"AWS Error|Azure Error|google::cloud|curlCode|HTTP status|HDFS")
_KEYS = re.compile(r"(?:Expired|Invalid)Token|INVALID_ACCESS_KEY|InvalidAccessKey|(?i:SIGNATURE_?DOES_?NOT_?MATCH)")
_UNTRUSTED = re.compile(r"curlCode: 60,|InvalidCertificate")
# S3 answers HEAD without a word about why. Some servers do the same to checksums that they do not know.
_WORDLESS = re.compile(r"HTTP status 400\) during (HeadObject|PutObject|UploadPart)(?!.*: InvalidBucketName)")
_DENIED = re.compile(r"AWS Error ACCESS_DENIED|^PermissionDeniedError|^UnauthenticatedError")
_VALID_KEYS = "valid keys: temporary ones end, so give new ones, or load the table again if its catalog gives them"
KNOWN_CHECKSUMS = (
    "a server that knows checksums behind the bytes, or the variable "
    "AWS_REQUEST_CHECKSUM_CALCULATION=when_required, set before Python starts"
)
_BUSY = re.compile(r"HTTP status 5\d\d|AWS Error (?:SLOW_DOWN|INTERNAL_FAILURE|SERVICE_UNAVAILABLE|THROTTLING)")


class DeletekitError(Exception):
    """Base of every error deletekit raises on purpose.

    Parameters
    ----------
    message: what is wrong, in one sentence without the values below.
    kind: stable code, for example `"puffin-magic"`; matching on it is supported, matching on text is not.
    field: name of the field, column, property or argument concerned.
    found, expected: the offending value, and what was wanted instead.
    file: location of the file concerned.
    """

    default_kind = "error"
    retryable = False

    def __init__(
        self,
        message: str,
        kind: str | None = None,
        field: str | None = None,
        found: Any = None,
        expected: Any = None,
        *,
        file: str | None = None,
    ) -> None:
        self.message: str = without_secrets(message)
        self.kind = kind or self.default_kind
        self.file: str | None = without_secrets(file)
        self.field: str | None = without_secrets(field)
        self.found = without_secrets(found, str(field or ""))
        self.expected = without_secrets(expected)
        super().__init__(self._sentence())

    def _sentence(self) -> str:
        parts = [f"{name} {value}" for name, value in (("file", self.file), ("field", self.field)) if value is not None]
        values = (("found", self.found), ("expected", self.expected))
        parts += [f"{name} {_short(value)}" for name, value in values if value is not None]
        return "; ".join([self.message, *parts])

    def in_file(self, file: str) -> DeletekitError:
        """Return the same error with `file`, for code that found it and knew only bytes."""
        return self if self.file is not None else self.changed(file=file)

    def changed(self, **details: Any) -> DeletekitError:
        """Return the same error with other details: parameters of the constructor."""
        return type(self)(**{"message": self.message, **self._details(), **details})

    def _details(self) -> dict[str, Any]:
        return {k: getattr(self, k) for k in ("kind", "file", "field", "found", "expected")}

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions cross process boundaries on Spark; keyword-only arguments need help to be pickled.
        return _rebuild, (type(self), self.message, self._details())


@contextmanager
def naming(file: str) -> Iterator[None]:
    """Name a file in the errors of code that knows only its bytes."""
    try:
        yield
    except DeletekitError as e:
        raise e.in_file(file) from e


def hide_causes_secrets(error: BaseException) -> None:
    """Put a stand-in without keys in the place of each cause and context of an error whose text shows one.

    A traceback prints them, also where the error is caught by others. A stand-in has the name, traceback and own causes
    of what it stands for. Its class is another one, so only what shows a key is replaced.
    """
    done: dict[int, BaseException] = {}

    def cleaned(linked: BaseException) -> BaseException:
        if id(linked) in done:
            return done[id(linked)]
        texts = [_text_of(linked), *map(repr, linked.args), *getattr(linked, "__notes__", ())]
        shown = without_secrets(texts) != texts and not isinstance(linked, DeletekitError)
        done[id(linked)] = made = _stand_in(linked) if shown else linked
        clean_links(made)
        return made

    def clean_links(of: BaseException) -> None:
        if of.__context__ is not None:
            of.__context__ = cleaned(of.__context__)
        if of.__cause__ is not None:
            of.__cause__ = cleaned(of.__cause__)

    done[id(error)] = error
    clean_links(error)


def _stand_in(error: BaseException) -> Exception:
    kind = type(error)
    named = type(kind.__name__, (Exception,), {"__module__": kind.__module__, "__qualname__": kind.__qualname__})
    made: Exception = named(without_secrets(_text_of(error))).with_traceback(error.__traceback__)
    for note in getattr(error, "__notes__", ()):
        made.add_note(without_secrets(note))
    made.__cause__, made.__context__ = error.__cause__, error.__context__
    made.__suppress_context__ = error.__suppress_context__
    return made


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as e:  # noqa: BLE001  # another library's error that has no text
        return f"no text: {type(e).__name__}"


def _rebuild(cls: type[DeletekitError], message: str, details: dict[str, Any]) -> DeletekitError:
    return cls(message, **details)


def _short(value: Any) -> str:
    text: str = value if isinstance(value, str) else without_secrets(repr(value))
    return text if len(text) <= 300 else text[:297] + "..."


class InvalidInputError(DeletekitError, ValueError):
    """The call asks for something the specification, the table or this library forbids."""

    default_kind = "invalid-input"


class NotFoundError(DeletekitError, LookupError):
    """A table, snapshot, ref, column or file that was named does not exist."""

    default_kind = "not-found"


class UnsupportedError(DeletekitError, NotImplementedError):
    """Legal Iceberg that deletekit does not implement; refused before anything is written."""

    default_kind = "unsupported"


class FormatError(DeletekitError, ValueError):
    """Bytes or metadata on storage that break the Iceberg, Puffin, Avro or Roaring specification."""

    default_kind = "format"


class CommitConflictError(DeletekitError):
    """Another commit changed the table first; nothing of this one is visible, and retrying is safe."""

    default_kind = "commit-conflict"
    retryable = True


class CommitStateUnknownError(DeletekitError):
    """The catalog failed while committing and a re-check could not tell whether the commit landed."""

    default_kind = "commit-state-unknown"


class StorageError(DeletekitError, OSError):
    """Storage refused access, is full, does not answer, or failed.

    `kind` is `storage-permission`, `storage-full`, `storage-connection`, `storage-certificate`, `storage-busy` or
    `storage`. The library's own error is the cause.
    """

    default_kind = "storage"


class EnvironmentMissingError(DeletekitError, RuntimeError):
    """Java, a jar or an optional Python package that the feature needs is missing or too old."""

    default_kind = "environment"


def is_storage_failure(error: BaseException) -> bool:
    """Whether an OSError says that storage failed. pyarrow also raises OSError, without an errno, for damaged bytes."""
    if isinstance(error, StorageError):
        return True
    return isinstance(error, OSError) and (error.errno is not None or bool(_CLIENT.search(str(error))))


def storage_error(error: Exception, file: str | None = None) -> StorageError:
    """Return what a storage library raised as a StorageError, which names the file if it is known."""
    number, text = getattr(error, "errno", None), f"{type(error).__name__}: {error}"
    kind, message, expected = "storage", "storage failed", None
    if number is None and _KEYS.search(text):
        kind, message, expected = "storage-permission", "storage refuses the keys", _VALID_KEYS
    elif number in _REFUSED or isinstance(error, PermissionError) or _DENIED.search(text):
        kind, message = "storage-permission", "storage refuses access"
    elif number in _FULL:
        kind, message = "storage-full", "storage is full"
    elif _UNTRUSTED.search(text):
        kind, message = "storage-certificate", "certificate of the storage is not trusted"
        expected = "SSL_CERT_FILE or SSL_CERT_DIR with its authority's certificate, set before Python starts"
    elif number in _AWAY or isinstance(error, ConnectionError | TimeoutError) or "NETWORK_CONNECTION" in text:
        kind, message = "storage-connection", "storage cannot be reached"
    elif _BUSY.search(text):
        kind, message, expected = "storage-busy", "storage answered each try with an error of its own", "the same later"
    elif wordless := _WORDLESS.search(text):
        expected = f"{_VALID_KEYS}, and the bucket's region" if wordless[1] == "HeadObject" else KNOWN_CHECKSUMS
    named = getattr(error, "filename", None)
    made = StorageError(message, kind=kind, file=file or (str(named) if named else None), found=text, expected=expected)
    made.errno = number
    return made


UNREADABLE = (FormatError, NotFoundError, UnsupportedError)
"""What one file says that is damaged, gone, or of a kind that deletekit does not read; others may be fine."""
