"""Compile java/FileWriters.java and load it beside Iceberg in Spark's JVM."""

import subprocess
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

SOURCE = Path(__file__).parent / "java" / "FileWriters.java"


def load_file_writers(spark: SparkSession, classes: Path) -> Any:
    """An instance of deletekit.corpus.FileWriters, compiled into `classes` against the Iceberg jar of the session."""
    jvm = spark._jvm
    iceberg = jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass("org.apache.iceberg.Table")
    jar = iceberg.getProtectionDomain().getCodeSource().getLocation().getPath()
    javac = Path(jvm.java.lang.System.getProperty("java.home")) / "bin" / "javac"
    if not javac.exists():
        raise RuntimeError(f"The corpus needs a JDK, and Spark runs on a JRE: there is no {javac}. Set JAVA_HOME.")
    subprocess.run([javac, "-proc:none", "-cp", jar, "-d", classes, SOURCE], check=True)
    urls = _array(spark, jvm.java.net.URL, [jvm.java.io.File(str(classes)).toURI().toURL()])
    loader = jvm.java.net.URLClassLoader(urls, iceberg.getClassLoader())
    constructor = loader.loadClass("deletekit.corpus.FileWriters").getConstructor(_array(spark, jvm.java.lang.Class))
    return constructor.newInstance(_array(spark, jvm.java.lang.Object))


def _array(spark: SparkSession, java_class: Any, values: tuple[Any, ...] | list[Any] = ()) -> Any:
    array = spark.sparkContext._gateway.new_array(java_class, len(values))
    for index, value in enumerate(values):
        array[index] = value
    return array
