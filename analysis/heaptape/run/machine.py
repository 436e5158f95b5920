# SPDX-License-Identifier: MIT
"""The machine of a measurement: what is known to change figures, and nothing that identifies its owner; its noise while
a run is measured; what misses, faults and instructions cost on it, measured once by heaptape-machine and kept.
"""

import contextlib
import fcntl
import json
import os
import platform
import re
import resource
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from heaptape.common.engine import OF_ACCESSES, PRICED
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.common.output import write_text
from heaptape.common.process import locked, processors
from heaptape.results.model.costs import Described, Sizes
from heaptape.results.model.penalties import (
    Geometry,
    Level,
    cache_file,
    checked,
    geometry_of,
    kept,
    machine_geometry,
    penalties,
    plan,
)

T = TypeVar("T")


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
        "transparent_huge_pages": transparent_huge_pages(),
        "governor": text_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip() or None,
        "virtual": "hypervisor" in cpu_info.split(),
        "load_before": list(os.getloadavg()),
    }


def transparent_huge_pages() -> str | None:
    """always, madvise or never; None: the kernel doesn't say."""
    return _match(r"\[(\w+)\]", text_of("/sys/kernel/mm/transparent_hugepage/enabled"))


def available_bytes() -> int:
    """Memory that programs could still take without swapping, within the limits of this process's cgroups; all memory
    if the kernel doesn't report that.
    """
    kib = _match(r"^MemAvailable:\s*(\d+) kB", text_of("/proc/meminfo"))
    whole = int(kib) * 1024 if kib else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([whole, *_left_in_cgroups(text_of("/proc/self/cgroup"), Path("/sys/fs/cgroup"))])


def _left_in_cgroups(memberships: str, mounted: Path) -> Iterator[int]:
    """Bytes left under each limit of memory of a process's cgroups and those around them. Cached files, which the
    kernel drops first, are no use.
    """
    for line in memberships.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        root = mounted / controllers
        limit, usage = (
            ("memory.limit_in_bytes", "memory.usage_in_bytes") if controllers else ("memory.max", "memory.current")
        )
        group = root / path.lstrip("/")
        for folder in (group, *group.parents):
            most, used = text_of(str(folder / limit)).strip(), text_of(str(folder / usage)).strip()
            if most.isdigit() and used.isdigit():
                cached = _match(r"^(?:total_)?inactive_file (\d+)", text_of(str(folder / "memory.stat")))
                yield max(0, int(most) - int(used) + int(cached or 0))
            if folder == root:
                break


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


# The machine's noise while a run was measured: time stolen by the hypervisor, other programs, frequency.
#
# Read before and after each run from /proc; costs a fraction of a millisecond. Linux counts processor time in ticks
# of 10 ms, so runs of less than LEAST_S have no figures.
LEAST_S = 0.2


@dataclass(frozen=True)
class Reading:
    """Seconds since boot or start, all processors together; `mhz`: mean frequency now, None if it is not known."""

    clock: float
    busy: float
    steal: float
    own: float
    mhz: float | None


def read_noise() -> Reading:
    """Reads the machine's state. `own`: CPU time used by this process and its ended children."""
    ticks = [int(n) for n in text_of("/proc/stat").partition("\n")[0].split()[1:9]] or [0] * 8
    user, nice, system, _idle, _wait, irq, soft_irq, steal = ticks + [0] * (8 - len(ticks))
    hz = os.sysconf("SC_CLK_TCK")
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    return Reading(time.monotonic(), (user + nice + system + irq + soft_irq) / hz, steal / hz, own, _mhz())


def noise_between(before: Reading, after: Reading) -> dict | None:
    """A run's "noise": steal_percent, other_load_percent (both of all processors' time), cpu_mhz. None if too short."""
    elapsed = after.clock - before.clock
    if elapsed < LEAST_S or after.busy == before.busy:
        return None
    whole = elapsed * (os.cpu_count() or 1)
    other = max(after.busy - before.busy - (after.own - before.own), 0.0)
    noise = {
        "steal_percent": round(100 * (after.steal - before.steal) / whole, 2),
        "other_load_percent": round(100 * other / whole, 2),
    }
    return noise | ({"cpu_mhz": round(after.mhz, 1)} if after.mhz else {})


def _mhz() -> float | None:
    """Mean of the processors: from the driver, else from /proc/cpuinfo (on virtual machines a constant)."""
    scaling = [
        text_of(str(path)) for path in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_cur_freq")
    ]
    known = [int(text) / 1000 for text in scaling if text.strip().isdigit()]
    known = known or [float(m) for m in re.findall(r"^cpu MHz\s*:\s*([\d.]+)", text_of("/proc/cpuinfo"), re.MULTILINE)]
    return sum(known) / len(known) if known else None


ROUNDS = 30
LOADED_LIBRARY = "libheaptape-machine-loads.so"  # loading it is what the dynamic linker's instructions are priced by
TIMEOUT_S = 600


def known_costs() -> dict[str, Any] | None:
    """The kept measurement of this processor model, if there is one."""
    return kept(str(describe()["cpu"] or "") or None)


def measure_costs(home: Home, rounds: int = ROUNDS, path: Path | None = None) -> dict[str, Any]:
    """Measures this machine and keeps the result in `path` (default: the user's cache). Returns it. It is not an error
    if `path` can't be written. Raises HeaptapeError if the program fails or a figure is missing.
    """
    program = home.program("machine")
    geometry = machine_geometry(_tlbs(program))
    sets, pages = plan([Geometry(), geometry])
    arguments = ["--working-sets", ",".join(map(str, sets)), "--os-pages", ",".join(map(str, pages))]
    arguments += ["--rounds", str(rounds)]
    library = home.library(LOADED_LIBRARY)
    if library:
        arguments += ["--library", str(library)]
    before = describe()
    measured = _run([str(program), *arguments], dict[str, Any])
    measured |= {
        "cpu": before["cpu"],
        "kernel_release": before["kernel"],
        "cores": before["cores"],
        "load_before": before["load_before"],
        "created_unix_s": round(time.time()),
        "geometry": {
            "caches": [{"bytes": level.capacity, "ways": level.ways} for level in geometry.caches],
            "tlbs": [{"entries": level.capacity, "ways": level.ways} for level in geometry.tlbs],
        },
    }
    penalties(measured)
    place = path or cache_file()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_text(str(place), json.dumps(measured, indent=1) + "\n")
    except (OSError, HeaptapeError):
        pass
    return measured


def of_this_machine(home: Home) -> dict[str, Any]:
    """The kept measurement, else a new one, which takes a few seconds. Of several processes that need one, the first
    measures, and the others wait for it: so all predict from the same costs.
    """
    if known := known_costs():
        return known
    place = cache_file()
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):  # a folder that can't be written: each measures for itself
            place.parent.mkdir(parents=True, exist_ok=True)
            held.enter_context(locked(place.with_suffix(".lock"), fcntl.LOCK_EX))
        return known_costs() or measure_costs(home)


def for_passes(passes: Sequence[str], home: Home) -> dict[str, Any] | None:
    """The measurement that results of these passes carry: for those of data accesses this machine's, made if none is
    kept; for others from which CPU time is predicted only a kept one. None also if this machine can't be measured.
    """
    if not set(passes) & set(PRICED):
        return None
    try:
        return of_this_machine(home) if set(passes) & set(OF_ACCESSES) else known_costs()
    except HeaptapeError:
        return None


def measured_geometry() -> Geometry | None:
    """This machine's caches and TLBs, if it was measured."""
    measured = known_costs()
    return geometry_of(checked(measured, Described)) if measured else None


def _tlbs(program: Path) -> list[Level]:
    """TLBs from CPUID; none on a processor that does not report them."""
    return [Level(one.entries, one.ways) for one in _run([str(program), "--sizes"], Sizes).tlbs]


def _run(command: list[str], kind: type[T]) -> T:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, errors="replace", timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise HeaptapeError(f"measuring this machine took more than {TIMEOUT_S} s") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise HeaptapeError(lines[-1] if lines else f"heaptape-machine: status {done.returncode}")
    try:
        return msgspec.json.decode(done.stdout, type=kind)
    except msgspec.DecodeError as error:
        raise HeaptapeError(f"heaptape-machine gave no JSON: {error}") from error
