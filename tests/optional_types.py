"""Types of libraries that may be missing, for annotations: tests that need none of these are collected without them."""

from typing import TYPE_CHECKING, Any

__all__ = ["Browser", "DataFrame", "Locator", "Page", "SparkSession"]

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page
    from pyspark.sql import DataFrame, SparkSession
else:
    Browser = DataFrame = Locator = Page = SparkSession = Any
