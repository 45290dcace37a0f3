"""Translate what catalogs' libraries raise into deletekit's errors: failures, lost races, unknown commit states.

Every error keeps its cause. Only what certainly did not happen is reported as a failure.
Spec: REST catalog, responses of "updateTable"; Java ErrorHandlers, and `commit.status-check.*`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from pydantic import ValidationError as UnexpectedAnswer
from pyiceberg import exceptions as theirs

from deletekit.deferred import Deferred
from deletekit.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    DeletekitError,
    EnvironmentMissingError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
    is_storage_failure,
    storage_error,
)
from deletekit.public import install_command
from deletekit.table.back_off import BackOff
from deletekit.table.format_version import NEWEST, later_version

if TYPE_CHECKING:
    import sqlalchemy as sa
else:
    sa = Deferred("sqlalchemy")

_ROLLED_BACK = {"40001", "40P01"}  # SQL states: serialisation failure, deadlock
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_UNKNOWN_STATUS = {408, 499}  # HTTP client errors that do not tell whether anything was done
_REFUSALS = (theirs.NoSuchTableError, theirs.NoSuchNamespaceError, theirs.TableAlreadyExistsError, NotImplementedError)

T = TypeVar("T")


@contextmanager
def opening(name: str) -> Iterator[None]:
    """Translate errors of making a pyiceberg catalog: wrong properties, or a missing package."""
    try:
        yield
    except (theirs.NotInstalledError, ImportError) as e:
        cause = e if isinstance(e, ImportError) else e.__cause__
        module = getattr(cause, "name", None)  # pyiceberg itself calls each one SQLAlchemy
        found, expected = (str(cause), install_command(module)) if module else (str(e), None)
        message, kind = "a package for this catalog is missing", "catalog"
        raise EnvironmentMissingError(message, kind=kind, field=module, found=found, expected=expected) from e
    except (ValueError, theirs.NoSuchPropertyException, KeyError, sa.exc.ArgumentError) as e:
        raise InvalidInputError("catalog cannot be opened", kind="catalog", field=name, found=_text(e)) from e
    except Exception as e:
        raise _failed(e) from e


@contextmanager
def _translating(translate: Callable[[Exception, str], DeletekitError], name: str) -> Iterator[None]:
    try:
        yield
    except DeletekitError:
        raise
    except Exception as e:
        raise translate(e, name) from e


def asking(name: str) -> AbstractContextManager[None]:
    """Translate errors of a request that changes no table. `name` is that of the table or namespace."""
    return _translating(_translated, name)


def row_errors(name: str) -> AbstractContextManager[None]:
    """Translate errors of a SQL transaction before its COMMIT. Whatever fails here certainly did not happen."""
    return _translating(_row_error, name)


def committing(name: str) -> AbstractContextManager[None]:
    """Translate errors of pyiceberg's commit of a table. Its state is unknown unless the catalog certainly refused."""
    return _translating(_commit_error, name)


@contextmanager
def committing_row(connection: sa.Connection) -> Iterator[None]:
    """Translate errors of a SQL catalog's COMMIT. Without an answer, its state is unknown."""
    try:
        yield
    except Exception as e:  # drivers also let errors of sockets and files through as they are
        # If a reader makes SQLite's COMMIT fail, the transaction stays open, and SQLAlchemy would pool the connection.
        # We would read what is not committed, and a later COMMIT would commit it.
        with suppress(Exception):
            connection.rollback()
        raise (_lost_race(e) or _unknown_state(e)) from e


def _row_error(error: Exception, name: str) -> DeletekitError:
    if isinstance(error, sa.exc.IntegrityError):  # a new row with the key of another: a table's, or a view's
        return InvalidInputError("table exists already", kind="table-exists", found=name)
    return _lost_race(error) or _failed(error)


def _commit_error(error: Exception, name: str) -> DeletekitError:
    if isinstance(error, theirs.CommitFailedException):
        return CommitConflictError("another writer committed first", found=_text(error))
    if isinstance(error, _REFUSALS):
        return _translated(error, name)
    # pyiceberg names its errors after status codes, but not all of them, and gives 503 and 418 the same base class.
    status = getattr(getattr(error.__cause__, "response", None), "status_code", None)
    if status == 404:
        return NotFoundError("no such table", kind="table-not-found", found=name)
    if status is not None and 400 <= status < 500 and status not in _UNKNOWN_STATUS:
        return DeletekitError("the catalog refused the commit", kind="catalog-refused", found=_text(error))
    return _unknown_state(error)


def state_after(error: DeletekitError, look: Callable[[], T | None], properties: Mapping[str, str]) -> T:
    """Return what `look` finds if the commit happened although there was an error. Otherwise raise the error.

    A refusal is definite only if the table was read afterwards and does not hold the commit: an SDK or a gateway may
    have sent the request twice, and the answer is that to the second. So look again while the table cannot be read, by
    its `commit.status-check.*` properties; if it stays so, raise CommitStateUnknownError. After an unknown state look
    as often: the catalog may be restarting, or still working. There, finding nothing proves nothing.

    Parameters
    ----------
    look: returns None if the table was read and does not hold the commit; raises if it cannot tell.
    """
    refused = not isinstance(error, CommitStateUnknownError)
    back_off = BackOff(properties, "commit.status-check")
    try:
        back_off.limits()
    except InvalidInputError:  # too late to refuse a wrong property: the commit was already sent
        back_off = BackOff({}, "commit.status-check")
    while True:
        unread = None
        try:
            found = look()
        except CommitConflictError:
            raise
        except DeletekitError as e:  # still down, or the table was dropped, renamed or replaced
            found, unread = None, e
        if found is not None:
            return found
        if refused and unread is None:
            raise error
        if not back_off.wait():
            if refused and unread is not None:
                raise _unproven(error, unread) from error
            if unread is not None and error.found is None:  # it landed, so only the look tells what is wrong
                where = {"file": error.file, "field": error.field}
                raise CommitStateUnknownError(error.message, **where, found=str(unread)) from unread
            raise error


def _translated(error: Exception, name: str) -> DeletekitError:
    if isinstance(error, theirs.NoSuchTableError):
        return NotFoundError("no such table", kind="table-not-found", found=name)
    if isinstance(error, theirs.NoSuchNamespaceError):
        return NotFoundError("no such namespace", kind="namespace-not-found", found=name)
    if isinstance(error, theirs.NamespaceAlreadyExistsError):
        return InvalidInputError("namespace exists already", kind="namespace-exists", found=name)
    if isinstance(error, theirs.TableAlreadyExistsError):
        return InvalidInputError("table exists already", kind="table-exists", found=name)
    if isinstance(error, NotImplementedError):
        return UnsupportedError("this catalog cannot do that", kind="catalog", field=name, found=_text(error))
    if isinstance(error, theirs.ValidationError | UnexpectedAnswer):  # such as a type that pyiceberg does not know
        version = _unknown_version(error)
        if version is not None:
            return later_version(version)
        return UnsupportedError("pyiceberg cannot read this table", kind="catalog", field=name, found=_text(error))
    if isinstance(error, ValueError):  # what a catalog does not support, such as nested namespaces
        return InvalidInputError("the catalog refused", kind="catalog-refused", field=name, found=_text(error))
    return _failed(error)


def _unknown_version(error: Exception) -> int | None:
    """Return the format version that pyiceberg's model of a table has no case for, if that is what is wrong."""
    model = error.__cause__ if isinstance(error, theirs.ValidationError) else error
    details = model.errors() if isinstance(model, UnexpectedAnswer) else []
    tags = [d["ctx"]["tag"] for d in details if d["type"] == "union_tag_invalid" and "format" in str(d["ctx"])]
    return next((int(tag) for tag in tags if tag.isdecimal() and int(tag) > NEWEST), None)


def _lost_race(error: Exception) -> CommitConflictError | None:
    """Return a lost race if the database rolled back because of another transaction: nothing happened."""
    original = getattr(error, "orig", None)
    state = getattr(original, "sqlstate", None) or getattr(original, "pgcode", None)
    busy = getattr(original, "sqlite_errorcode", 0) & 0xFF  # extended codes are in the higher bits
    if state not in _ROLLED_BACK and busy not in _BUSY:
        return None
    return CommitConflictError("the catalog was busy with another writer", found=_text(error))


def _unknown_state(error: Exception) -> CommitStateUnknownError:
    return CommitStateUnknownError("the catalog failed while committing", found=f"{type(error).__name__}: {error}")


def _unproven(refusal: DeletekitError, unread: DeletekitError) -> CommitStateUnknownError:
    message = "the catalog refused the commit, and the table cannot be read to see whether it landed before that"
    return CommitStateUnknownError(message, found=f"{refusal}; then {unread}")


def _failed(error: Exception) -> DeletekitError:
    if is_storage_failure(error):
        return storage_error(error)
    return DeletekitError(
        "the catalog or its storage failed", kind="catalog-failed", found=f"{type(error).__name__}: {error}"
    )


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__
