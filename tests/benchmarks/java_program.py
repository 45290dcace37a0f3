"""Programs of the folder java/, compiled beside the Iceberg jar that Spark's session resolves."""

import os
import subprocess
from pathlib import Path

import pyspark


def java_command(name: str, folder: Path, heap: str = "2g") -> list[str]:
    """Compile a program into a folder, unless it is there, and return the command that runs it."""
    from deletekit.spark import fetch_jars  # noqa: PLC0415  # imports much

    folder.mkdir(parents=True, exist_ok=True)
    jars = [*Path(pyspark.__file__).parent.glob("jars/*.jar"), *fetch_jars(folder / "jars")]
    path = os.pathsep.join([str(folder), *map(str, jars)])
    source = Path(__file__).parent / "java" / f"{name}.java"
    compiled = folder / f"{name}.class"
    if not compiled.exists() or compiled.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["javac", "-nowarn", "-d", folder, "-cp", path, source], check=True)
    return ["java", f"-Xmx{heap}", "-cp", path, name]
