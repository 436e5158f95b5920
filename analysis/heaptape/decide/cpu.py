# SPDX-License-Identifier: MIT
"""The change of a program's CPU time from one allocator to another, and how it is said.

It is known from counts of calls (an estimate without cache effects), from simulated misses (a range) or from live runs
(results/model/time_model.py has the model).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from heaptape.common import phrases
from heaptape.common.phrases import NOTHING, percent, signed
from heaptape.decide.worth import LEAST_PERCENT, is_reason
from heaptape.results.model.time_model import LEAST_PROGRAM_NS, effects_of, estimate, reasons

NOISY_FACTOR = 2.0  # a range of CPU time that spans this factor is not a figure
ESTIMATED, RANGE, MILLISECONDS, LIVE = "estimated", "range", "milliseconds", "live"


@dataclass(frozen=True)
class Cpu:
    """The change of the program's CPU time: percent of what it takes before, and ms, with their ends. `kind`: ESTIMATED
    (without cache effects, but the ends of the percentage include what they did to other programs), RANGE (the truth is
    expected between the ends), LIVE (of live runs, with its 95 % interval), or MILLISECONDS (without cache effects, and
    the program's CPU time is not known, so percent, low and high are NaN; a reason to change only if that time is below
    `reason_below_ns`). `because`: the counts that change, in words. Of live runs `chance`: that the program takes less
    time; `named`: that is enough to name the allocator (decide/weighing.py). Of an estimate `timed`: by bare passes,
    which replaced what was counted.
    """

    kind: str
    percent: float
    low: float
    high: float
    ms: float
    ms_low: float
    ms_high: float
    reason_below_ns: float = 0.0
    because: tuple[str, ...] = ()
    chance: float = math.nan
    named: bool = False
    timed: bool = False

    @property
    def gain(self) -> float:
        """Less CPU time, in percent; in ms where percent is not known."""
        return -(self.ms if self.kind == MILLISECONDS else self.percent)

    @property
    def error(self) -> float:
        """By how much the gain may be smaller, in percent."""
        return self.high - self.percent

    @property
    def width(self) -> float:
        """Of the range in percent; infinite where percent is not known."""
        return math.inf if math.isnan(self.percent) else self.high - self.low

    @property
    def is_reason(self) -> bool:
        """Is it known to be a reason to change?"""
        if self.kind == LIVE and not math.isnan(self.chance):
            return self.named and is_reason(self.gain)
        return self.kind != MILLISECONDS and is_reason(self.gain, self.error)

    @property
    def may_be_reason(self) -> bool:
        """Could it be a reason to change, by the lower end, or by what the program takes?"""
        return self.reason_below_ns > 0 if self.kind == MILLISECONDS else self.low <= -LEAST_PERCENT

    @property
    def is_figure(self) -> bool:
        return self.kind != RANGE or 100 + self.high < NOISY_FACTOR * (100 + self.low)

    @property
    def counts_differ(self) -> bool:
        """Is the sign known? Of an estimate, that of what was counted, whatever the caches do."""
        counted = not self.ms_low <= 0 <= self.ms_high
        return counted and (self.kind in (ESTIMATED, MILLISECONDS) or not self.low <= 0 <= self.high)


def of_counts(row: Mapping, cpu_ns: float | None) -> Cpu:
    """The change in a row of `time_model.changes`. `cpu_ns`: what the program takes before; None: not known."""
    kind, ends = RANGE, (row["percent"], row["low"], row["high"])
    ms, ms_low, ms_high = (row[key] / 1e6 for key in ("ns", "ns_low", "ns_high"))
    if math.isnan(row["percent"]):
        kind, ends = (ESTIMATED, estimate(row, cpu_ns)) if cpu_ns else (MILLISECONDS, ends)
    elif cpu_ns:  # those of bursts have percent of the whole, but ns of the bursts
        ms, ms_low, ms_high = (cpu_ns / 1e8 * end for end in ends)
    below_ns = reason_below_ns(row) if kind == MILLISECONDS else 0.0
    return Cpu(kind, *ends, ms, ms_low, ms_high, below_ns, tuple(reasons(row)), timed=bool(row["timed"]))


def mean(changes: Sequence[Cpu]) -> Cpu | None:
    """The geometric mean over workloads; of one it is itself. None where some are not known in percent."""
    if len(changes) == 1:
        return changes[0]
    if not changes or any(math.isnan(one.percent) for one in changes):
        return None
    kind = ESTIMATED if any(one.kind == ESTIMATED for one in changes) else RANGE
    ends = zip(*[(one.percent, one.low, one.high, one.ms, one.ms_low, one.ms_high) for one in changes])
    percents, lows, highs, *ms = (list(end) for end in ends)
    middle, low, high = (_geometric(one) for one in (percents, lows, highs))
    timed = all(one.timed for one in changes)
    return Cpu(kind, middle, low, high, sum(ms[0]), sum(ms[1]), sum(ms[2]), timed=timed)


def _geometric(percents: Sequence[float]) -> float:
    """The geometric mean of changes in percent."""
    return 100 * (math.prod(max(1 + one / 100, 1e-6) for one in percents) ** (1 / len(percents)) - 1)


def reason_below_ns(row: Mapping) -> float:
    """The CPU time of the program before below which the change in a row without misses is a reason to change, by the
    upper end of its `time_model.estimate`; 0: none is.
    """
    if not row["ns_high"] < 0:
        return 0.0
    calls = 0.0 if math.isnan(row["calls_ns"]) else row["calls_ns"]
    (_, up), floor = effects_of(row["timed"])
    within_error = (-100 * row["ns"] / up - 100 * calls) / floor
    most = min(-100 * row["ns"] / LEAST_PERCENT, within_error)
    return most if most > max(calls, LEAST_PROGRAM_NS) else 0.0


def cpu_text(cpu: Cpu) -> str:
    """ "≈ -5 %", "-8 to -3 %", "≈ -4.5 ms"; of live runs "-5.1 % (-8.0 to -3.0)", where these hold 0 "… to +0.5, faster
    with 92 % chance)".
    """
    if cpu.kind == LIVE:
        unsure = f", faster with {100 * cpu.chance:.0f} % chance" if cpu.named and cpu.high >= 0 else ""
        return f"{percent(cpu.percent)} ({range_text(cpu.low, cpu.high).removesuffix(' %')}{unsure})"
    if cpu.kind == MILLISECONDS:
        return f"≈ {signed(cpu.ms)} ms" if abs(cpu.ms) >= NOTHING else "≈ 0 ms"
    if cpu.kind == ESTIMATED:
        return f"≈ {cpu.percent:+.0f} %" if abs(cpu.percent) >= 0.5 else "≈ 0 %"
    return range_text(cpu.low, cpu.high)


def range_text(low: float, high: float) -> str:
    """ "-8 to -3 %"."""
    return " to ".join(percent(end).removesuffix(" %") for end in (low, high)) + " %"


def open_text(cpu: Cpu) -> str:
    """When a change in ms is a reason to change."""
    return f"a reason to change only if the program takes less than {phrases.seconds(cpu.reason_below_ns)} of it"
