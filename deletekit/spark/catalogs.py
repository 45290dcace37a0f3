"""Translate catalog properties of pyiceberg, as `load_catalog` takes them, into Spark's settings for Iceberg's Java.

Both must open the same tables. A property that says how to reach the catalog or its storage is translated, or refused
by name. One that concerns Python alone is left out. Any other is passed on: Iceberg ignores what it does not know.
Source: Iceberg's `CatalogProperties`, `S3FileIOProperties`, `AwsClientProperties`, `OAuth2Properties`, `JdbcUtil`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from deletekit.errors import InvalidInputError, UnsupportedError
from deletekit.spark.releases import AWS_JAR
from deletekit.table.locations import normalised

POSTGRESQL_JAR = "org.postgresql:postgresql:42.7.7"

_TYPES = {"rest": "rest", "sql": "jdbc", "hive": "hive", "glue": "glue"}
_RENAMED = {
    "client.access-key-id": "s3.access-key-id",
    "client.secret-access-key": "s3.secret-access-key",
    "client.session-token": "s3.session-token",
    "glue.region": "client.region",
    "s3.region": "client.region",
}
_PYTHON_ONLY = frozenset({
    "downcast-ns-timestamp-to-us-on-write", "echo", "init_catalog_tables", "pool_pre_ping", "py-io-impl",
    "rest-page-size", "s3.connect-timeout", "s3.request-timeout", "s3.resolve-region", "s3.retry-strategy-impl",
})  # fmt: skip
_REFUSED = frozenset({
    "auth", "auth.manager", "botocore_session", "client.profile-name", "glue.access-key-id", "glue.profile-name",
    "glue.secret-access-key", "glue.session-token", "py-catalog-impl", "s3.anonymous", "s3.profile-name",
    "s3.proxy-uri", "s3.role-arn", "s3.role-session-name", "s3.server-side-encryption", "s3.signer",
    "s3.sse-kms-key-id", "ssl",
})  # fmt: skip
_VIRTUAL_ADDRESSING = "s3.force-virtual-addressing"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkCatalog:
    """Spark's settings for a catalog, `spark.sql.catalog.<name>` and below, and its jars beside `spark.JARS`."""

    settings: Mapping[str, str]
    jars: tuple[str, ...] = ()


def spark_catalog(name: str, properties: Mapping[str, str]) -> SparkCatalog:
    """Return the catalog of `load_catalog(name, **properties)` for Spark, on S3 too if the properties say so.

    Raises UnsupportedError that names a kind of catalog, or a property, without a counterpart in Iceberg's Java.
    """
    kind = _kind(properties)
    refused = sorted(_REFUSED & properties.keys())
    if refused:
        raise UnsupportedError("catalog property has no counterpart in Spark", "spark-catalog-property", refused[0])
    plain = {k: v for k, v in properties.items() if k not in _PYTHON_ONLY | _RENAMED.keys() | {"type", "uri"}}
    for old, new in _RENAMED.items():
        if old in properties:
            plain.setdefault(new, properties[old])
    jars: list[str] = []
    if kind == "sql":
        plain.update(_jdbc(properties["uri"]))
        jars += [POSTGRESQL_JAR] if plain["uri"].startswith("jdbc:postgresql:") else []
    elif "uri" in properties:
        plain["uri"] = properties["uri"]
    if any(k.startswith("s3.") for k in plain) or properties.get("warehouse", "").startswith(("s3://", "s3a://")):
        plain.update(_s3(plain))
        jars.append(AWS_JAR)
    elif kind == "glue":
        jars.append(AWS_JAR)
    if plain.get("warehouse", "").startswith(("/", ".", "file:")):  # a REST catalog's may be a name
        plain["warehouse"] = normalised(plain["warehouse"], "warehouse")
    # Another writer, deletekit, commits to the same tables.
    settings = {"type": _TYPES[kind], "cache-enabled": "false", **plain}
    prefix = f"spark.sql.catalog.{name}"
    named = {f"{prefix}.{k}": str(v) for k, v in settings.items()}
    return SparkCatalog(settings={prefix: "org.apache.iceberg.spark.SparkCatalog", **named}, jars=tuple(jars))


def embedded_spark_catalog(name: str, warehouse: Path) -> SparkCatalog:
    """Return the embedded catalog of a directory for Spark, which opens it as Iceberg's JdbcCatalog."""
    uri = sa.URL.create("sqlite", database=str(warehouse / "catalog.db"))
    return spark_catalog(name, {"uri": uri.render_as_string(), "warehouse": str(warehouse)})


def _kind(properties: Mapping[str, str]) -> str:
    uri = properties.get("uri", "")
    starts = {"http": "rest", "thrift": "hive", "sqlite": "sql", "postgresql": "sql"}
    kind = properties.get("type") or next((k for start, k in starts.items() if uri.startswith(start)), None)
    if kind is None:
        message = "catalog properties name no kind of catalog"
        raise InvalidInputError(message, "catalog", "type", expected=", ".join(_TYPES))
    if kind not in _TYPES:
        raise UnsupportedError("Spark has no catalog of this kind", "spark-catalog", "type", kind, ", ".join(_TYPES))
    if kind != "glue" and not uri:
        raise InvalidInputError("catalog needs a uri", kind="catalog", field="uri")
    return kind


def _jdbc(uri: str) -> dict[str, str]:
    """Return a SQLAlchemy URL as JdbcCatalog's properties."""
    try:
        url = sa.make_url(uri)
    except sa.exc.ArgumentError as e:
        raise InvalidInputError("bad uri of a SQL catalog", kind="catalog", field="uri") from e
    # V1 has the column iceberg_type that pyiceberg's SqlCatalog writes and asks for.
    version = {"jdbc.schema-version": "V1"}
    if url.get_backend_name() == "sqlite" and url.database and url.database != ":memory:":
        return {"uri": f"jdbc:sqlite:{Path(url.database).absolute()}", **version}
    if url.get_backend_name() == "postgresql" and url.host:
        port = f":{url.port}" if url.port else ""
        login = {"jdbc.user": url.username, "jdbc.password": url.password}
        given = {k: str(v) for k, v in login.items() if v is not None}
        return {"uri": f"jdbc:postgresql://{url.host}{port}/{url.database or ''}", **given, **version}
    found, expected = url.render_as_string(hide_password=True), "a SQLite file, or PostgreSQL on a host"
    raise UnsupportedError("Spark cannot open this SQL catalog", "spark-catalog", "uri", found, expected)


def _s3(plain: Mapping[str, str]) -> dict[str, str]:
    """Return what S3FileIO needs. It puts the bucket into the host; pyiceberg, with an endpoint, into the path."""
    virtual = plain.get(_VIRTUAL_ADDRESSING, "").lower() == "true"
    path_style = {"s3.path-style-access": "true"} if "s3.endpoint" in plain and not virtual else {}
    return {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO", **path_style}
