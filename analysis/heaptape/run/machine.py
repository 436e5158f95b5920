# SPDX-License-Identifier: MIT
"""The machine of a measurement: everything that is known to change figures, nothing that identifies its owner."""

import os
import platform
import re
from pathlib import Path

from heaptape.common.processors import processors


def describe() -> dict[str, object]:
    """cpu, cores, kernel, memory_bytes, os, libc, transparent_huge_pages, governor, load_before (1, 5, 15 minutes),
    hypervisor.

    An unknown value is None. No host name, user or path.
    """
    cpu_info = text_of("/proc/cpuinfo")
    release = text_of("/etc/os-release")
    return {
        "cpu": _match(r"model name\s*:\s*(.+)", cpu_info) or platform.machine(),
        "arch": platform.machine(),
        "cores": processors(),
        "kernel": platform.release(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "os": _match(r'^PRETTY_NAME="?([^"\n]+)', release),
        "libc": _libc(),
        "os_page_bytes": os.sysconf("SC_PAGE_SIZE"),
        "transparent_huge_pages": _match(r"\[(\w+)\]", text_of("/sys/kernel/mm/transparent_hugepage/enabled")),
        "governor": text_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip() or None,
        "virtual": "hypervisor" in cpu_info.split(),
        "load_before": list(os.getloadavg()),
    }


def available_bytes() -> int:
    """Memory that programs could still take without swapping; all memory if the kernel doesn't report that."""
    kib = _match(r"^MemAvailable:\s*(\d+) kB", text_of("/proc/meminfo"))
    return int(kib) * 1024 if kib else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _libc() -> str | None:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):
        return None


def text_of(path: str) -> str:
    """The text of a kernel file; empty if it can't be read."""
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _match(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text, re.MULTILINE)
    return match[1].strip() if match else None
