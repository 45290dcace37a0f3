"""Catalog properties in Iceberg Java's words. tests/spark/test_sessions.py shows that they open the same tables."""

from pathlib import Path

import pytest

import deletekit as dk
from deletekit.spark.catalogs import AWS_JAR, POSTGRESQL_JAR, spark_catalog

KEYS = {"s3.endpoint": "http://127.0.0.1:9000", "s3.access-key-id": "key", "s3.secret-access-key": "secret"}
S3 = {**KEYS, "s3.region": "eu-west-1"}
JDBC = {"type": "jdbc", "jdbc.schema-version": "V1", "warehouse": "/data"}
JAVA_IO = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}
JAVA_S3 = {**KEYS, **JAVA_IO, "client.region": "eu-west-1", "s3.path-style-access": "true"}


def settings(properties: dict[str, str]) -> dict[str, str]:
    made = dict(spark_catalog("c", properties).settings)
    assert made.pop("spark.sql.catalog.c") == "org.apache.iceberg.spark.SparkCatalog"
    assert made.pop("spark.sql.catalog.c.cache-enabled") == "false"
    return {k.removeprefix("spark.sql.catalog.c."): v for k, v in made.items()}


CASES: list[tuple[dict[str, str], dict[str, str], tuple[str, ...]]] = [
    (
        {"uri": "http://host/api", "credential": "id:secret", "token": "t", "header.X": "y", "warehouse": "w"},
        {
            "type": "rest",
            "uri": "http://host/api",
            "credential": "id:secret",
            "token": "t",
            "header.X": "y",
            "warehouse": "w",
        },
        (),
    ),
    (
        {"type": "rest", "uri": "http://host", "warehouse": "s3://b/w", **S3},
        {"type": "rest", "uri": "http://host", "warehouse": "s3://b/w", **JAVA_S3},
        (AWS_JAR,),
    ),
    (
        {"type": "rest", "uri": "http://host", "warehouse": "s3://b/w", "client.region": "us-east-1"},
        {"type": "rest", "uri": "http://host", "warehouse": "s3://b/w", "client.region": "us-east-1", **JAVA_IO},
        (AWS_JAR,),
    ),
    (
        {"type": "sql", "uri": "sqlite:////data/c.db", "warehouse": "/data", "echo": "true", "py-io-impl": "x.Y"},
        {**JDBC, "uri": "jdbc:sqlite:/data/c.db"},
        (),
    ),
    (
        {"uri": "postgresql+psycopg2://me:p%40ss@db.example:5433/cat", "warehouse": "/data"},
        {**JDBC, "uri": "jdbc:postgresql://db.example:5433/cat", "jdbc.user": "me", "jdbc.password": "p@ss"},
        (POSTGRESQL_JAR,),
    ),
    (
        {"uri": "thrift://host:9083", "warehouse": "hdfs://n/w", "hive.x": "y"},
        {"type": "hive", "uri": "thrift://host:9083", "warehouse": "hdfs://n/w", "hive.x": "y"},
        (),
    ),
    (
        {"type": "glue", "glue.region": "eu-west-1", "glue.id": "7", "warehouse": "/w"},
        {"type": "glue", "client.region": "eu-west-1", "glue.id": "7", "warehouse": "/w"},
        (AWS_JAR,),
    ),
]


@pytest.mark.parametrize(("properties", "expected", "jars"), CASES)
def test_translated(properties: dict[str, str], expected: dict[str, str], jars: tuple[str, ...]) -> None:
    assert settings(properties) == expected
    assert spark_catalog("c", properties).jars == jars


def test_virtual_addressing() -> None:
    made = settings({"uri": "http://host", **S3, "s3.force-virtual-addressing": "true"})
    assert "s3.path-style-access" not in made


def test_a_relative_sqlite_file_is_where_python_has_it() -> None:
    assert settings({"uri": "sqlite:///c.db"})["uri"] == f"jdbc:sqlite:{Path('c.db').absolute()}"


@pytest.mark.parametrize(
    ("properties", "error", "field"),
    [
        ({}, dk.InvalidInputError, "type"),
        ({"type": "rest"}, dk.InvalidInputError, "uri"),
        ({"type": "sql", "uri": "://"}, dk.InvalidInputError, "uri"),
        ({"type": "in-memory"}, dk.UnsupportedError, "type"),
        ({"type": "dynamodb"}, dk.UnsupportedError, "type"),
        ({"type": "sql", "uri": "sqlite:///:memory:"}, dk.UnsupportedError, "uri"),
        ({"type": "sql", "uri": "mysql://host/db"}, dk.UnsupportedError, "uri"),
        ({"type": "sql", "uri": "postgresql://me:secret@/db?host=/socket"}, dk.UnsupportedError, "uri"),
        ({"uri": "http://h", "py-catalog-impl": "x.Y"}, dk.UnsupportedError, "py-catalog-impl"),
        ({"uri": "http://h", "s3.role-arn": "arn"}, dk.UnsupportedError, "s3.role-arn"),
        ({"uri": "http://h", "auth": "x"}, dk.UnsupportedError, "auth"),
    ],
)
def test_refused(properties: dict[str, str], error: type[dk.DeletekitError], field: str) -> None:
    with pytest.raises(error) as caught:
        spark_catalog("c", properties)
    assert caught.value.field == field
    assert "secret" not in str(caught.value)
