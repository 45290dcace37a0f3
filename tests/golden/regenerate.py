"""Rewrite the golden files beside this script with Iceberg Java, and the few that Java cannot write with Python.

Needs a JDK 17 (java, javac), pyspark (its jars, and Ivy to find Iceberg's) and lz4:

    pip install pyspark==4.1.* lz4
    python tests/golden/regenerate.py

What each file is, and which of them come out with the same bytes every time, is in PROVENANCE.md.
"""

import hashlib
import json
import os
import shutil
import struct
import subprocess
import tempfile
import zlib
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import lz4.frame  # type: ignore[import-untyped]
import pyspark
from pyspark.sql import SparkSession

ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
GOLDEN = Path(__file__).resolve().parent
KINDS = ["deletion_vectors", "puffin", "manifests", "delete_files", "metadata"]
# Made once by the histories of tests/operations/convert_delta/delta_tables.py: Delta names its files at random.
BY_DELTA = ["delta_deletion_vectors"]
PUFFIN_MAGIC = b"PFA1"

Entry = dict[str, Any]

SOME_BLOB: Entry = {"type": "some-blob", "fields": [1], "snapshot-id": 2, "sequence-number": 1}
DELETION_VECTOR: Entry = {  # what a footer says of sparse_keys.bin
    "type": "deletion-vector-v1",
    "fields": [2147483645],
    "snapshot-id": -1,
    "sequence-number": -1,
    "properties": {"referenced-data-file": "s3://bucket/db/t/data/a.parquet", "cardinality": "3"},
}


def main() -> None:
    """Write every golden file anew, then the list of their hashes."""
    with tempfile.TemporaryDirectory() as directory:
        target = Path(directory)
        for kind in KINDS:
            (target / kind).mkdir()
        vectors = craft_deletion_vectors(target / "deletion_vectors")
        puffins = craft_puffins(target / "puffin")
        run_java(target)
        add_to_index(target / "deletion_vectors", vectors)
        add_to_index(target / "puffin", puffins)
        for kind in KINDS:
            shutil.rmtree(GOLDEN / kind, ignore_errors=True)
            shutil.move(target / kind, GOLDEN / kind)
    write_manifest()
    write_provenance()


# Java


def run_java(target: Path) -> None:
    """Compile the classes in java/ and run Golden with the directory to write to."""
    class_path = os.pathsep.join([str(iceberg_jar()), str(Path(pyspark.__file__).parent / "jars" / "*")])
    with tempfile.TemporaryDirectory() as classes:
        sources = [str(source) for source in sorted((GOLDEN / "java").glob("*.java"))]
        subprocess.run(
            ["javac", "-nowarn", "-encoding", "UTF-8", "-d", classes, "-cp", class_path, *sources], check=True
        )
        # ORC keeps the writer's time zone in the file.
        program = ["java", "-Duser.timezone=UTC", "-cp", f"{classes}{os.pathsep}{class_path}"]
        subprocess.run([*program, "org.apache.iceberg.golden.Golden", str(target)], check=True)


def iceberg_jar() -> Path:
    """Return the Iceberg jar as a Spark session resolves it: from Ivy's cache, or else from Maven Central."""
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config("spark.jars.packages", ICEBERG).getOrCreate()
    jars = [Path(unquote(urlparse(jar).path)) for jar in str(session.conf.get("spark.jars")).split(",")]
    session.stop()
    _, artifact, version = ICEBERG.split(":")
    return next(jar for jar in jars if jar.name.endswith(f"{artifact}-{version}.jar"))


# Deletion vectors that Java does not write


def craft_deletion_vectors(directory: Path) -> list[Entry]:
    """Write blobs whose vector has no empty bitmaps for gap keys, as the format allows and Java never does."""
    return [
        craft_deletion_vector(
            directory, "sparse_keys", "keys 0, 2 and 5 without bitmaps between", [3, (2 << 32) + 1, 5 << 32]
        ),
        craft_deletion_vector(
            directory,
            "sparse_largest_position",
            "the largest position; Java needs a bitmap for each of 2^31 - 1 keys: it neither writes nor reads this",
            [(0x7FFFFFFE << 32) + 0x80000000],
        ),
        craft_deletion_vector(directory, "empty_bitmaps_only", "two bitmaps, both empty", [], empty_keys=[0, 1]),
    ]


def craft_deletion_vector(
    directory: Path, name: str, note: str, positions: list[int], empty_keys: list[int] | None = None
) -> Entry:
    """Write one blob in which each key holds at most one position, in an array container."""
    bitmaps = {key: empty_bitmap() for key in empty_keys or []}
    bitmaps |= {position >> 32: single_bitmap(position & 0xFFFFFFFF) for position in positions}
    vector = struct.pack("<q", len(bitmaps))
    vector += b"".join(struct.pack("<i", key) + bitmap for key, bitmap in bitmaps.items())
    data = struct.pack("<I", 1681511377) + vector
    blob = struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    (directory / f"{name}.bin").write_bytes(blob)
    return {
        "file": f"{name}.bin",
        "note": note,
        "written_by": "regenerate.py",
        "cardinality": len(positions),
        "canonical": False,
        "positions": [[position, position + 1] for position in positions],
    }


def empty_bitmap() -> bytes:
    """Return a 32-bit Roaring bitmap without containers: cookie, size."""
    return struct.pack("<II", 12346, 0)


def single_bitmap(value: int) -> bytes:
    """Return a 32-bit Roaring bitmap of one value: cookie, size, key and cardinality - 1, offset, array container."""
    return struct.pack("<IIHHIH", 12346, 1, value >> 16, 0, 16, value & 0xFFFF)


# Puffin files that Java cannot write


def craft_puffins(directory: Path) -> list[Entry]:
    """Write Puffin files with LZ4 frames and with flags that nobody has defined."""
    text = b"LZ4 frame with content size. " * 40
    vector = (directory.parent / "deletion_vectors" / "sparse_keys.bin").read_bytes()
    return [
        craft_puffin(directory, "lz4_footer", "the footer as one LZ4 frame, flag bit 0", text, lz4_footer=True),
        craft_puffin(directory, "lz4_blob", "the blob as one LZ4 frame", text, lz4_blob=True),
        craft_puffin(directory, "lz4_footer_and_blob", "both as LZ4 frames", text, lz4_footer=True, lz4_blob=True),
        craft_puffin(
            directory, "lz4_footer_dv", "a deletion vector below an LZ4 footer", vector, lz4_footer=True, dv=True
        ),
        craft_puffin(directory, "unknown_flag_byte_0_bit_1", "a reserved flag is set", text, flags=b"\x02\0\0\0"),
        craft_puffin(
            directory, "unknown_flag_byte_3_bit_7", "the last reserved flag is set", text, flags=b"\0\0\0\x80"
        ),
    ]


def craft_puffin(
    directory: Path,
    name: str,
    note: str,
    payload: bytes,
    *,
    lz4_footer: bool = False,
    lz4_blob: bool = False,
    dv: bool = False,
    flags: bytes | None = None,
) -> Entry:
    """Write a Puffin file of one blob."""
    stored = lz4_frame(payload) if lz4_blob else payload
    blob = dict(DELETION_VECTOR if dv else SOME_BLOB)
    blob |= {"offset": len(PUFFIN_MAGIC), "length": len(stored)} | ({"compression-codec": "lz4"} if lz4_blob else {})
    footer = {"blobs": [blob], "properties": {"created-by": "deletekit tests/golden/regenerate.py"}}
    footer_json = json.dumps(footer, separators=(",", ":"), ensure_ascii=False).encode()
    footer_payload = lz4_frame(footer_json) if lz4_footer else footer_json
    flags = flags or (b"\x01\0\0\0" if lz4_footer else bytes(4))
    tail = PUFFIN_MAGIC + footer_payload + struct.pack("<i", len(footer_payload)) + flags + PUFFIN_MAGIC
    content = PUFFIN_MAGIC + stored + tail
    (directory / f"{name}.puffin").write_bytes(content)
    return {
        "file": f"{name}.puffin",
        "note": note,
        "written_by": "regenerate.py",
        "file_size": len(content),
        "footer": footer,
        "payloads": [{"length": len(payload), "sha256": hashlib.sha256(payload).hexdigest()}],
    }


def lz4_frame(content: bytes) -> bytes:
    """Return one LZ4 frame with the content size in its header, as the Puffin spec asks."""
    frame: bytes = lz4.frame.compress(content, store_size=True)
    return frame


# Indexes


def add_to_index(directory: Path, crafted: list[Entry]) -> None:
    """Complete what Java said of the files it did not write with what they hold."""
    path = directory / "index.json"
    by_java = {entry["file"]: entry for entry in json.loads(path.read_text(encoding="utf-8"))}
    entries = by_java | {entry["file"]: entry | by_java.get(entry["file"], {}) for entry in crafted}
    lines = [json.dumps(entry, separators=(",", ":"), ensure_ascii=False) for entry in entries.values()]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def write_manifest() -> None:
    """List every golden file with its hash, in the form that sha256sum --check reads."""
    files = sorted(path for kind in (*KINDS, *BY_DELTA) for path in (GOLDEN / kind).iterdir())
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(GOLDEN).as_posix()}\n" for path in files
    ]
    (GOLDEN / "MANIFEST.sha256").write_text("".join(lines))


def write_provenance() -> None:
    """Rewrite the tables of PROVENANCE.md, which begin at its heading Files, from the indexes."""
    path = GOLDEN / "PROVENANCE.md"
    text, heading, _ = path.read_text(encoding="utf-8").partition("\n## Files\n")
    path.write_text(text + heading + "".join(provenance_table(kind) for kind in (*KINDS, *BY_DELTA)), encoding="utf-8")


def provenance_table(kind: str) -> str:
    """Return a directory's files as a Markdown table: file, who wrote it, what it shows."""
    entries = json.loads((GOLDEN / kind / "index.json").read_text(encoding="utf-8"))
    rows = [f"| `{entry['file']}` | `{entry['written_by']}` | {entry['note']} |\n" for entry in entries]
    return f"\n### {kind}\n\n| file | written by | what it shows |\n| --- | --- | --- |\n{''.join(rows)}"


if __name__ == "__main__":
    main()
