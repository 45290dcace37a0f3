"""A PostgreSQL server of Debian's package, in a folder of its own: no port, no password, nothing left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

USER = "postgres"
PATIENCE = 60
QUICK = {  # what is in this folder need not outlive the machine
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "max_connections": "60",
    "listen_addresses": "",
    "wal_level": "logical",  # for the source of changes
}


def programs() -> Path | None:
    """Find the folder of initdb and postgres, which Debian keeps off the PATH; None where there is none."""
    folders = [p.parent for p in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    on_path = shutil.which("initdb")
    return max(folders, key=lambda p: int(p.parent.name), default=Path(on_path).parent if on_path else None)


@dataclass
class Postgres:
    """A server in `folder`, reached through a Unix socket there."""

    folder: Path
    process: subprocess.Popen[bytes]

    @classmethod
    def start(cls, bin_folder: Path) -> Postgres:
        """Make a data directory and start on it, and wait until it takes connections."""
        # Not pytest's own folder: that one only its owner may enter, and postgres refuses to run as root.
        folder = Path(tempfile.mkdtemp(prefix="dk-pg-"))
        owner = USER if os.geteuid() == 0 else None
        if owner:
            shutil.chown(folder, owner, owner)
        data = str(folder / "data")
        initdb = [str(bin_folder / "initdb"), "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "-N"]
        subprocess.run(initdb, check=True, capture_output=True, cwd="/", **_as(owner))
        settings = [part for key, value in QUICK.items() for part in ("-c", f"{key}={value}")]
        command = [str(bin_folder / "postgres"), "-D", data, "-k", str(folder), *settings]
        with (folder / "server.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/", **_as(owner))
        server = cls(folder, process)
        ready = [str(bin_folder / "pg_isready"), "-q", "-h", str(folder), "-U", USER]
        deadline = time.monotonic() + PATIENCE
        while subprocess.run(ready, check=False).returncode != 0:
            if process.poll() is not None or time.monotonic() > deadline:
                text = (folder / "server.log").read_text()
                server.stop()
                raise RuntimeError(f"PostgreSQL does not start:\n{text[-2000:]}")
            time.sleep(0.05)
        return server

    @property
    def socket(self) -> str:
        """The socket's path, for a proxy in front of it."""
        return str(self.folder / ".s.PGSQL.5432")

    @property
    def uri(self) -> str:
        return f"postgresql+psycopg2://{USER}@/postgres?host={self.folder}"

    def stop(self) -> None:
        """End it by its own pid, cutting off whoever is still connected, and remove its folder."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(PATIENCE)
        shutil.rmtree(self.folder)


def _as(owner: str | None) -> dict[str, object]:
    return {"user": owner, "group": owner, "extra_groups": []} if owner else {}
