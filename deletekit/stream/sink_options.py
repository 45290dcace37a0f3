"""The options of a sink, as one value that never changes, and what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError
from deletekit.stream.applied_batches import check_sink_id
from deletekit.stream.change_order import sequence_field
from deletekit.stream.change_rows import ChangeFormat
from deletekit.table.metadata import MAIN
from deletekit.table.table import Table
from deletekit.verbs.shared.key_fields import equality_fields_of

SinkMode = Literal["auto", "eq-only", "index-only"]
Evolve = Literal["refuse", "add", "widen"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintain:
    """When a sink maintains its table, and how.

    Parameters
    ----------
    every: after so many batches.
    min_small_files: so many data files of about one size, in one partition, are written as one. The fewer, the faster a
        scan, and the more often a row is written again. A file of three quarters of `write.target-file-size-bytes` is
        not small.
    max_deletes_ratio: a data file is written again if deletes hide this share of its rows.
    convert: replace equality deletes by positions. The sink's index finds them, so it is also built in the mode
        `eq-only`.
    expire: `own`: expire the snapshots of this sink that the table's `history.expire.*` keeps no longer (by default
        those of more than 5 days), as soon as they are as many as all others. A number: as soon as the branch has twice
        as many, keep so many of every branch, unless the branch has its own `min-snapshots-to-keep`, and tags keep
        theirs; staged snapshots, which no ref leads to, expire however young they are. None: never. With `gc.enabled`
        false `own` expires nothing.
    metadata_files: how many earlier metadata files the table keeps. The first round sets `write.metadata.
        delete-after-commit.enabled` and `write.metadata.previous-versions-max`, unless the table has one of them or
        `gc.enabled` is false. None: they stay as they are.

    Raises InvalidInputError for numbers that make no sense.
    """

    every: int = 20
    min_small_files: int = 4
    max_deletes_ratio: float = 0.3
    convert: bool = True
    expire: int | Literal["own"] | None = "own"
    metadata_files: int | None = 10

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense."""
        _check("every", self.every, _is_count(self.every), "1 or more")
        _check("min_small_files", self.min_small_files, _is_count(self.min_small_files, 2), "2 or more")
        ratio: object = self.max_deletes_ratio
        is_share = isinstance(ratio, int | float) and 0 < ratio <= 1
        _check("max_deletes_ratio", ratio, is_share, "more than 0, at most 1")
        named = self.expire is None or self.expire == "own"
        _check("expire", self.expire, named or _is_count(self.expire), "1 or more, own or None")
        kept = self.metadata_files
        _check("metadata_files", kept, kept is None or _is_count(kept), "1 or more, or None")


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The options of `sink`, which describes them.

    Attributes
    ----------
    starts_anywhere: the stream gives the table a batch only if it has rows for it, so the first has any number.

    Raises InvalidInputError for options that are unknown or do not go together.
    """

    sink_id: str
    on: str | Sequence[str] | None = None
    mode: SinkMode = "auto"
    ref: str = MAIN
    change_type: str | None = "_change_type"
    order: str | None = None
    allow_rewind: bool = False
    allow_gaps: bool = False
    sequence_by: str | None = None
    forget_deletes_after: int | None = None
    evolve: Evolve = "refuse"
    maintain: int | Maintain | Literal["auto"] | None = "auto"
    dead_letters: Table | None = None
    max_dead_letters: int = 1000
    engine: Engine | None = None
    readable_by: str | Sequence[str] | None = None
    starts_anywhere: bool = False

    def __post_init__(self) -> None:
        """Refuse options that are unknown or do not go together."""
        check_sink_id(self.sink_id)
        modes, found = get_args(SinkMode), self.forget_deletes_after
        if self.mode not in modes:
            raise _refused("unknown mode", "mode", self.mode, ", ".join(modes), kind="sink-mode")
        if self.sequence_by is not None and not self.is_indexed:
            message = "sequence_by needs the index, to find the stored row of each change"
            raise _refused(message, "sequence_by", f"mode {self.mode}", "auto or index-only")
        if found is not None and (self.sequence_by is None or found < 1):
            message, given = "only deletes of sequence_by are remembered, for some batches", self.sequence_by
            raise _refused(
                message, "forget_deletes_after", f"{found}, sequence_by {given}", "sequence_by, and 1 or more"
            )
        if self.evolve not in get_args(Evolve):
            raise _refused("unknown way to evolve a schema", "evolve", self.evolve, ", ".join(get_args(Evolve)))
        _ = self.policy

    @property
    def is_indexed(self) -> bool:
        """Whether old rows are found in an index."""
        return self.mode in ("auto", "index-only")

    @property
    def policy(self) -> Maintain | None:
        """When and how the table is maintained. Without an index `auto` converts no equality deletes.

        Raises InvalidInputError.
        """
        if self.maintain == "auto":
            return Maintain(convert=self.is_indexed)
        given = self.maintain
        return given if given is None or isinstance(given, Maintain) else Maintain(every=given)

    @property
    def columns(self) -> tuple[str | None, str | None]:
        """The columns with the change's type and with the order."""
        return self.change_type, self.order

    def key_fields(self, schema: Schema) -> tuple[NestedField, ...]:
        """Return the key columns. Raise InvalidInputError."""
        names: Any = self.on if self.on is not None else schema.identifier_field_ids
        if not names:
            message = "a sink needs key columns, but the schema has no identifier fields"
            raise InvalidInputError(message, kind="equality-key", field="on")
        return equality_fields_of(schema, names)

    def form(self, schema: Schema, *, ordered: bool) -> ChangeFormat:
        """Return what the columns of change rows mean. Raise InvalidInputError."""
        return ChangeFormat(
            fields=self.key_fields(schema),
            change_type=self.change_type,
            order=self.order,
            ordered=ordered,
            sequence=sequence_field(schema, self.sequence_by),
        )


def _is_count(value: object, least: int = 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _check(field: str, found: object, fits: bool, expected: str) -> None:
    if not fits or isinstance(found, bool):
        message = "bad number for the maintenance of a sink"
        raise InvalidInputError(message, kind="maintain", field=field, found=found, expected=expected)


def _refused(message: str, field: str, found: object, expected: str, *, kind: str = "sink-option") -> InvalidInputError:
    return InvalidInputError(message, kind=kind, field=field, found=found, expected=expected)
