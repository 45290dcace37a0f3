"""Write to S3 with two requests a file, where pyiceberg's FileIO makes five."""

from functools import lru_cache
from typing import Any

from pyarrow import fs


def with_fewer_requests(impl: Any) -> Any:
    """Return pyiceberg's FileIO over Arrow, whose small files are one PUT each on S3.

    Arrow begins a multipart upload when a file is opened: three requests. With `allow_delayed_open`, which pyiceberg
    does not offer, it waits for the first part to be full. Then an error of opening is one of closing.
    A strategy of retries that the properties name would get lost, so they leave all as it is.
    """
    if hasattr(impl, "fs_by_scheme") and "s3.retry-strategy-impl" not in impl.properties:
        impl.fs_by_scheme = lru_cache(_Systems(impl.fs_by_scheme))
    return impl


def is_on_s3(output: Any) -> bool:
    """Tell whether an `OutputFile` of pyiceberg is on an S3 that Arrow writes to."""
    return isinstance(getattr(output, "_filesystem", None), fs.S3FileSystem)


class _Systems:
    """Arrow's file systems by scheme and authority."""

    def __init__(self, made: Any) -> None:
        self._made = made

    def __call__(self, scheme: str, authority: str | None = None) -> fs.FileSystem:
        system = self._made(scheme, authority)
        if not isinstance(system, fs.S3FileSystem):
            return system
        make, (options,) = system.__reduce__()  # there is no other way to what it was made of
        return make(options | {"allow_delayed_open": True}) if "allow_delayed_open" in options else system
