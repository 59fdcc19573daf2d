"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
import ssl
from pathlib import Path


def describe(folder: Path) -> dict[str, str]:
    """Facts of the machine, and of the file system that holds ``folder``."""
    cpu = Path("/proc/cpuinfo").read_text()
    facts = dict(line.split(":", 1) for line in cpu.split("\n\n")[0].splitlines() if ":" in line)
    facts = {name.strip(): value.strip() for name, value in facts.items()}
    flags = set(facts.get("flags", "").split())
    memory_kib = int(Path("/proc/meminfo").read_text().split()[1])  # MemTotal is its first line
    release = platform.freedesktop_os_release()
    return {
        "processor": f"{facts.get('model name', '?')}, {len(os.sched_getaffinity(0))} cores"
        + (", SHA extensions" if "sha_ni" in flags else ""),
        "memory": f"{memory_kib / (1 << 20):.1f} GiB",
        "disk": _file_system(folder),
        "system": f"{release.get('PRETTY_NAME', '?')}, kernel {platform.release()}",
        "libraries": f"Python {platform.python_version()}, {ssl.OPENSSL_VERSION}",
        "load before": " ".join(f"{load:.1f}" for load in os.getloadavg()),
    }


def _file_system(folder: Path) -> str:
    """Kind and device of the mount that holds a folder: the last of those whose place is above it."""
    best = ("", "?")
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        place, kind, source = left.split()[4], *right.split()[:2]
        if folder.resolve().is_relative_to(place) and len(place) >= len(best[0]):
            best = (place, f"{kind} on {source}")
    return best[1]
