# SPDX-License-Identifier: MIT
"""The machine's noise while a run was measured: time stolen by the hypervisor, other programs, frequency.

Read before and after each run from /proc; costs a fraction of a millisecond. Linux counts processor time in ticks of
10 ms, so runs of less than LEAST_S have no figures.
"""

import os
import re
import resource
import time
from dataclasses import dataclass
from pathlib import Path

from heaptape.run.machine import text_of

LEAST_S = 0.2


@dataclass(frozen=True)
class Reading:
    """Seconds since boot or start, all processors together; `mhz`: mean frequency now, None if it is not known."""

    clock: float
    busy: float
    steal: float
    own: float
    mhz: float | None


def read() -> Reading:
    """Reads the machine's state. `own`: CPU time used by this process and its ended children."""
    ticks = [int(n) for n in text_of("/proc/stat").partition("\n")[0].split()[1:9]] or [0] * 8
    user, nice, system, _idle, _wait, irq, soft_irq, steal = ticks + [0] * (8 - len(ticks))
    hz = os.sysconf("SC_CLK_TCK")
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    return Reading(time.monotonic(), (user + nice + system + irq + soft_irq) / hz, steal / hz, own, _mhz())


def between(before: Reading, after: Reading) -> dict | None:
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
