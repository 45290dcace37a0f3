"""How much memory the machine, the container and the process's own limit leave, by Linux's files."""

import re
from pathlib import Path


def available_memory(root: Path = Path("/")) -> int | None:
    """Return the bytes that may still be taken, by Linux's files under `root`; None if these do not exist."""
    process = root / "proc" / "self"
    machine = re.search(r"^MemAvailable:\s+(\d+) kB", content_of(root / "proc" / "meminfo"), re.MULTILINE)
    if machine is None:
        return None
    left = [int(machine[1]) * 1024]
    groups = root / "sys" / "fs" / "cgroup"
    old = ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")
    for limit, used in (("memory.max", "memory.current"), old):
        if (allowed := content_of(groups / limit)).isdigit():
            left.append(int(allowed) - int(content_of(groups / used) or 0))
    most = re.search(r"^Max address space +(\d+)", content_of(process / "limits"), re.MULTILINE)
    taken = re.search(r"^VmSize:\s+(\d+) kB", content_of(process / "status"), re.MULTILINE)
    if most and taken:
        left.append(int(most[1]) - int(taken[1]) * 1024)
    return max(min(left), 0)


def content_of(file: Path) -> str:
    """Return the text of a file, none if it cannot be read."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
