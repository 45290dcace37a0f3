"""Stored values as text, digit for digit."""

from __future__ import annotations

from base64 import b64encode
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

import deletekit as dk
from deletekit.cli.stored_values import StoredValues
from tests.tables import new_catalog


def test_decimals_of_38_digits(tmp_path: Path) -> None:
    value = Decimal("-1234567890123456789012345678.9012345678")
    stored = b64encode(int(str(value).replace(".", "")).to_bytes(16, "big", signed=True)).decode()
    schema = pa.schema([("n", pa.decimal128(38, 10))])
    with new_catalog(tmp_path) as catalog:
        metadata = dk.create_table(catalog, "t.n", schema, format_version=2, partition_by=["n"]).metadata
    assert StoredValues(metadata).partition(0, [stored]) == f"partition n={value}"
