# SPDX-License-Identifier: MIT
"""What a live run costs: its CPU time, or, where the processor counts them, its cycles, which other load hardly moves;
and how far the machine was busy with something else meanwhile.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from heaptape.results.disturbance import OTHER_PERCENT, STEAL_PERCENT

CYCLES = "core_cycles"
DISTURBING = {"steal_percent": STEAL_PERCENT, "other_load_percent": OTHER_PERCENT}  # more than in the other runs


@dataclass(frozen=True)
class Cost:
    """Of a live run, all its processes: CPU time in ns, and that in the kernel; `counters` in user space, name ->
    count, empty where there are none. `noise`: of the machine meanwhile (run.machine.noise_between); empty: not known.
    """

    cpu_ns: float
    system_ns: float = 0.0
    counters: Mapping[str, float] = field(default_factory=dict)
    noise: Mapping[str, float] = field(default_factory=dict)


def of_run(figures: Mapping) -> Cost:
    """Of a run as `run.live.observe` returns it."""
    return Cost(
        float(figures["cpu_ns"]), figures.get("system_ns", 0.0), figures.get("counters", {}), figures.get("noise", {})
    )


def counted(runs: Sequence[Mapping[str, Cost]]) -> bool:
    """Were cycles counted in each run?"""
    return bool(runs) and all(one.counters.get(CYCLES) for made in runs for one in made.values())


def in_ns(runs: Sequence[Mapping[str, Cost]]) -> list[dict[str, float]]:
    """For each round, label -> ns of CPU time. Where cycles were counted, they stand for the user time, at the mean
    frequency of all runs; time in the kernel is added.
    """
    if not counted(runs):
        return [{label: one.cpu_ns for label, one in made.items()} for made in runs]
    every = [one for made in runs for one in made.values()]
    cycle_ns = sum(max(one.cpu_ns - one.system_ns, 0.0) for one in every) / sum(one.counters[CYCLES] for one in every)
    return [{label: cycle_ns * one.counters[CYCLES] + one.system_ns for label, one in made.items()} for made in runs]


def disturbed(runs: Sequence[Mapping[str, Cost]]) -> list[str]:
    """Labels of the last round in whose runs more of the machine's time was stolen, or taken by something else, than in
    half of all runs. A load that is always there disturbs none: it can't be waited for.
    """
    usual = {
        key: statistics.median(one.noise.get(key, 0.0) for made in runs for one in made.values()) for key in DISTURBING
    }
    return [
        label
        for label, one in runs[-1].items()
        if any(one.noise.get(key, 0.0) > usual[key] + more for key, more in DISTURBING.items())
    ]
