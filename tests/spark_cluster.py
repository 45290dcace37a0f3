"""A standalone Spark cluster on loopback: a master and two workers, processes of pyspark's own classes.

Each worker has one core and a loopback address of its own, for Spark gives no host a second attempt at a task that runs
there; it starts executors as children; all are ended by their pids.
"""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from tests.rest_server import free_port

ROOT = Path(__file__).parents[1]
PATIENCE = 90
EXECUTOR = b"CoarseGrainedExecutorBackend"


@dataclass
class SparkCluster:
    """A running cluster; `master` is its URL."""

    folder: Path
    workers: int = 2
    worker_memory: str = "1g"
    port: int = field(default_factory=free_port)
    web_port: int = field(default_factory=free_port)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start, and wait until every worker is registered."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._run("master.Master", "127.0.0.1", "--port", str(self.port), "--webui-port", str(self.web_port))
        for number in range(self.workers):
            place = ["--work-dir", str(self.folder / f"work{number}"), "--webui-port", "0"]
            address = f"127.0.0.{1 + number}"
            self._run("worker.Worker", address, "--cores", "1", "--memory", self.worker_memory, *place, self.master)
        deadline = time.monotonic() + PATIENCE
        while self._registered() < self.workers:
            if time.monotonic() > deadline or any(p.poll() is not None for p in self.processes):
                self.stop()
                raise RuntimeError(f"the cluster does not start:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.2)

    @property
    def log(self) -> Path:
        return self.folder / "cluster.log"

    def executors(self) -> list[int]:
        """Pids of the executors that run now."""
        lists = (f for p in self.processes for f in Path(f"/proc/{p.pid}/task").glob("*/children"))
        pids = [int(pid) for children in lists for pid in children.read_text(encoding="ascii").split()]
        return [pid for pid in pids if EXECUTOR in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def stop(self) -> None:
        """End executors, workers and master."""
        for pid in self.executors():
            os.kill(pid, signal.SIGKILL)
        for process in reversed(self.processes):
            process.kill()
            process.wait(PATIENCE)

    def _run(self, name: str, address: str, *arguments: str) -> None:
        import pyspark  # noqa: PLC0415  # an extra

        home = Path(pyspark.__file__).parent
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": address,
            "SPARK_DAEMON_MEMORY": "256m",
            # The workers' Python finds this checkout.
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": sys.executable,
        }
        # The script ends in exec: its pid is the JVM's.
        command = [home / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", "--host", address, *arguments]
        with self.log.open("ab") as log:
            self.processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))

    def _registered(self) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.web_port}/json/", timeout=PATIENCE) as answer:
                state = json.loads(answer.read())
        except (urllib.error.URLError, ConnectionError):
            return 0
        return sum(worker["state"] == "ALIVE" for worker in state["workers"])
