"""Iceberg's own REST catalog server, in a process of its own: the class that Iceberg tests its REST clients with.

Its jars are found by Maven coordinates through the Ivy that pyspark ships, into Ivy's own cache in the home folder:
nothing of Maven's is filled half, and no registry is named here.
"""

import importlib.util
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ICEBERG = "1.11.0"
JARS = (
    # group, name, version, classifier
    ("org.apache.iceberg", "iceberg-core", ICEBERG, ""),
    ("org.apache.iceberg", "iceberg-core", ICEBERG, "tests"),
    ("org.apache.iceberg", "iceberg-open-api", ICEBERG, "test-fixtures"),
    ("org.apache.hadoop", "hadoop-client-api", "3.4.2", ""),
    ("org.apache.hadoop", "hadoop-client-runtime", "3.4.2", ""),
    ("org.xerial", "sqlite-jdbc", "3.50.3.0", ""),
    ("org.eclipse.jetty.ee10", "jetty-ee10-servlet", "12.1.1", ""),
    ("org.eclipse.jetty.compression", "jetty-compression-server", "12.1.1", ""),
    ("org.eclipse.jetty.compression", "jetty-compression-gzip", "12.1.1", ""),
    ("org.slf4j", "slf4j-simple", "2.0.17", ""),
)
S3_JARS = (
    ("org.apache.iceberg", "iceberg-aws", ICEBERG, ""),
    ("org.apache.iceberg", "iceberg-aws-bundle", ICEBERG, ""),
)
"""What the server needs for tables on S3."""
SERVER = "org.apache.iceberg.rest.RESTCatalogServer"
PATIENCE = 60

Jar = tuple[str, str, str, str]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class RestServer:
    """A server on a free port, with its catalog in a SQLite file and its tables under `folder`.

    `environment` holds further settings: CATALOG_S3_PATH__STYLE__ACCESS is its `s3.path-style-access`.
    """

    java: str
    jars: str
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    def start(self) -> None:
        """Start, and wait until it answers; may follow a stop: the catalog is kept."""
        self.folder.mkdir(parents=True, exist_ok=True)
        environment = {
            **os.environ,
            "CATALOG_WAREHOUSE": str(self.folder / "warehouse"),
            # Two connections of the server's pool may write at once.
            "CATALOG_URI": f"jdbc:sqlite:{self.folder / 'catalog.db'}?busy_timeout=30000",
            "CATALOG_REST_PORT": str(self.port),
            **self.environment,
        }
        command = [self.java, "-Xmx256m", "-XX:+UseSerialGC", "-cp", self.jars, SERVER]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"the REST server does not start:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.1)

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.uri}/v1/config", timeout=PATIENCE) as answer:  # noqa: S310  # own server
                return answer.status == 200
        except (urllib.error.URLError, ConnectionError):
            return False

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it without a goodbye."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(PATIENCE)
            self.process = None


def class_path(java: str, folder: Path, jars: Sequence[Jar] = JARS) -> str:
    """Find the server's jars and what they need; raises CalledProcessError with Ivy's words where they cannot be."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ivy.xml").write_text(_ivy_module(jars), encoding="utf-8")
    found = folder / "class_path.txt"
    command = [java, "-jar", str(_ivy()), "-ivy", str(folder / "ivy.xml"), "-cachepath", str(found), "-error"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return found.read_text(encoding="utf-8").strip()


def _ivy() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("pyspark is not installed, and it has the Ivy that finds the server's jars")
    return next(Path(spec.origin).parent.glob("jars/ivy-*.jar"))


def _ivy_module(jars: Sequence[Jar]) -> str:
    # Ivy keeps one dependency for each module: jars that differ by classifier are artifacts of one.
    modules: dict[tuple[str, str, str], list[str]] = {}
    for group, name, version, classifier in jars:
        modules.setdefault((group, name, version), []).append(classifier)
    lines = []
    for (group, name, version), classifiers in modules.items():
        lines.append(f'<dependency org="{group}" name="{name}" rev="{version}" conf="default->default">')
        for classifier in classifiers if any(classifiers) else ():
            named = f' m:classifier="{classifier}"' if classifier else ""
            lines.append(f'<artifact name="{name}" type="jar" ext="jar"{named}/>')
        lines.append("</dependency>")
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="deletekit" module="rest-server"/>'
        f"<dependencies>{''.join(lines)}</dependencies></ivy-module>"
    )
