"""Where the tables of a test lie: on disk, or on S3 with `DELETEKIT_STORAGE=s3`; and what lies there, byte by byte.

Through pathlib and boto3 only: what deletekit stored is not read back by deletekit.
"""

from __future__ import annotations

import atexit
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import deletekit as dk
from tests.s3 import S3

ON_S3 = os.environ.get("DELETEKIT_STORAGE", "disk") == "s3"


@cache
def server() -> S3:
    """Start the one S3 server of this process; it ends with the process."""
    started = S3.start()
    atexit.register(started.stop)
    return started


def stored_at(location: str | Path) -> Any:
    """A file of a table: a `Path`, or what does the same to an object of S3."""
    text = str(location)
    if text.startswith("s3://"):
        return S3Path(location)
    return Path(re.sub(r"^file:(//(localhost)?)?(?=/)", "", text, flags=re.IGNORECASE))


def files_below(location: str) -> set[str]:
    """Every file below a table's location."""
    if not location.startswith("s3://"):
        return {str(path) for path in Path(location).rglob("*") if path.is_file()}
    bucket, _, prefix = location.removeprefix("s3://").partition("/")
    pages = client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{prefix}/")
    keys = (found["Key"] for page in pages for found in page.get("Contents", ()))
    # pyarrow leaves an empty object in place of a directory whose last file it deleted.
    return {f"s3://{bucket}/{key}" for key in keys if not key.endswith("/")}


def io_properties() -> dict[str, str]:
    """What opens the storage without a catalog."""
    return server().properties if ON_S3 else {}


@contextmanager
def catalog_on(directory: Path, s3: S3) -> Iterator[dk.Catalog]:
    """Open a catalog whose tables are in a new bucket; it is itself an SQLite file in `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    place = {"uri": f"sqlite:///{directory / 'catalog.db'}", "warehouse": f"s3://{s3.bucket()}/wh"}
    catalog = dk.load_catalog("s3", type="sql", **place, **s3.properties)
    try:
        yield catalog
    finally:
        catalog.pyiceberg.engine.dispose()  # type: ignore[attr-defined]


@cache
def client() -> Any:
    import boto3  # noqa: PLC0415  # takes a second, and only this storage needs it

    given = server().properties
    return boto3.client(
        "s3",
        endpoint_url=given["s3.endpoint"],
        aws_access_key_id=given["s3.access-key-id"],
        aws_secret_access_key=given["s3.secret-access-key"],
        region_name=given["s3.region"],
    )


@dataclass(frozen=True)
class Size:
    st_size: int


class S3Path:
    """An object, with the methods of `Path` that tests of tables use."""

    def __init__(self, location: str | Path) -> None:
        self._bucket, _, self._key = str(location).removeprefix("s3://").partition("/")

    def __str__(self) -> str:
        return f"s3://{self._bucket}/{self._key}"

    def __truediv__(self, name: str) -> S3Path:
        return S3Path(f"{self}/{name}")

    @property
    def name(self) -> str:
        return self._key.rpartition("/")[2]

    @property
    def parent(self) -> S3Path:
        return S3Path(str(self).rpartition("/")[0])

    def mkdir(self, **_: Any) -> None:
        """S3 has no directories."""

    def exists(self) -> bool:
        return str(self) in files_below(str(self.parent))

    def stat(self) -> Size:
        return Size(client().head_object(Bucket=self._bucket, Key=self._key)["ContentLength"])

    def read_bytes(self) -> bytes:
        return bytes(client().get_object(Bucket=self._bucket, Key=self._key)["Body"].read())

    def read_text(self, encoding: str = "utf-8") -> str:
        return self.read_bytes().decode(encoding)

    def write_bytes(self, data: bytes) -> None:
        client().put_object(Bucket=self._bucket, Key=self._key, Body=bytes(data))

    def write_text(self, text: str, encoding: str = "utf-8") -> None:
        self.write_bytes(text.encode(encoding))

    def unlink(self, *, missing_ok: bool = False) -> None:
        if not missing_ok and not self.exists():
            raise FileNotFoundError(str(self))
        client().delete_object(Bucket=self._bucket, Key=self._key)

    @contextmanager
    def open(self, mode: str) -> Iterator[BytesIO]:
        file = BytesIO() if mode == "wb" else BytesIO(self.read_bytes())
        yield file
        if mode == "wb":
            self.write_bytes(file.getvalue())
