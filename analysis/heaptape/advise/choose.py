# SPDX-License-Identifier: MIT
"""Which candidate to use, for memory and for CPU time: from figures and their errors to one pick for each aim.

For memory the candidate with the least peak RSS; for CPU time the one with the least predicted time. Candidates that do
not differ from it by more than the error are ties. Of ties, the one that is best in the other aim is picked. Today's
allocator is replaced only where the gain is a reason to change (results/comparing/worth.py).

CPU time is known from calls, from simulated misses and from live runs, in this order of cost (Judge.change).
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from heaptape.common.phrases import NONE_FASTER, NONE_LEANER, NOTHING, too_small_gain
from heaptape.results.comparing.worth import LEAST_PERCENT, WITHIN_ERROR, is_reason, why_not
from heaptape.results.model.counts import Counts
from heaptape.results.model.time_model import calls_ns, changes, estimate, reason_below_ns
from heaptape.show.answer import ESTIMATED, LIVE, MILLISECONDS, RANGE, Cpu, open_text, range_text

MEMORY, CPU, BOTH = "memory", "cpu", "both"
AIMS = {MEMORY: (MEMORY,), CPU: (CPU,), BOTH: (MEMORY, CPU)}
# How far the change of CPU time from a prefix of the calls may be from that of all, by what all calls cost.
SCREEN_MARGIN = 0.2
MOST_FINALISTS = 2  # whose CPU time is measured further
# (figure, a, b) -> percent by which a comparison of two labels may be off
ErrorOf = Callable[[str, str, str], float]


@dataclass(frozen=True)
class Live:
    """Live runs against the allocator `than`, which took `cpu_ns` (median): the change in percent, and its ends."""

    than: str
    cpu_ns: float
    percent: float
    low: float
    high: float
    rounds: int


@dataclass(frozen=True)
class Row:
    """A candidate's figures. `counts`: of calls; None where CPU time can't be predicted. `smallest_limit_bytes`: as of
    Tried. `simulated`: counts with misses, `live`: of live runs; None: not made.
    """

    label: str
    peak_bytes: float
    mean_bytes: float
    counts: Counts | None = None
    smallest_limit_bytes: float | None = None
    simulated: Counts | None = None
    live: Live | None = None


@dataclass(frozen=True)
class Change:
    """The change of the program's CPU time, from one candidate to another: in ns, and in percent where the program's
    time is known, else NaN. `kind`: as of Cpu. `row`: the counts behind it, from the model of time.
    """

    kind: str
    ns: float
    ns_low: float
    ns_high: float
    percent: float
    low: float
    high: float
    row: Mapping = field(default_factory=dict)

    @property
    def is_clear(self) -> bool:
        """Is the sign known?"""
        if not math.isnan(self.percent) and self.low <= 0 <= self.high:
            return False
        return not self.ns_low <= 0 <= self.ns_high


@dataclass(frozen=True)
class Pick:
    """The advice for one aim. `best`: label of the best other candidate, equal to `label` unless today's stays; None:
    there is no other. `ties`: labels that are as good as `label`, within the error. `why`: the reason to stay. `open`:
    the best may be a reason to change, but that is not resolved.
    """

    aim: str
    label: str
    best: str | None
    ties: tuple[str, ...] = ()
    why: str = ""
    open: bool = False


@dataclass(frozen=True)
class Judge:
    """How two candidates are compared. `cpu_ns`: CPU time of the recorded program; None: not known. `field`: the
    candidates whose CPU time was measured further: no others are picked for it; empty: all are.
    """

    error: ErrorOf
    cpu_ns: float | None = None
    field: Collection[str] = ()

    def saves(self, one: Row, other: Row) -> float:
        """By how many percent the peak of `one` is below that of `other`."""
        return 100 * (1 - one.peak_bytes / other.peak_bytes) if other.peak_bytes > 0 else 0.0

    def memory_apart(self, one: Row, other: Row, of_mean: bool = False) -> bool:
        """Do their peaks (means) differ by more than the error?"""
        a, b = (one.mean_bytes, other.mean_bytes) if of_mean else (one.peak_bytes, other.peak_bytes)
        error = self.error("mean_rss" if of_mean else "peak_rss", one.label, other.label)
        return abs(a - b) > error / 100 * max(a, b)

    def gains_memory(self, row: Row, now: Row) -> bool:
        """Is its lower peak a reason to change?"""
        saved_bytes = now.peak_bytes - row.peak_bytes
        return is_reason(self.saves(row, now), self.error("peak_rss", row.label, now.label), saved_bytes)

    def gains_cpu(self, row: Row, now: Row) -> bool:
        """Is the CPU time that is predicted to be saved a reason to change?"""
        cpu = self.cpu(now, row)
        return cpu is not None and cpu.is_reason

    def cpu(self, before: Row, after: Row) -> Cpu | None:
        """The change of CPU time as the answer has it; None: not known for one of the two."""
        change = self.change(before, after)
        return None if change is None else self.as_cpu(change)

    def as_cpu(self, change: Change) -> Cpu:
        """The change as the answer has it."""
        known = (change.percent, change.low, change.high)
        ends = list(estimate(change.row, self.cpu_ns) if change.kind == ESTIMATED else known)
        ends += [one / 1e6 for one in (change.ns, change.ns_low, change.ns_high)]
        return Cpu(change.kind, *ends, *([reason_below_ns(change.row)] if change.kind == MILLISECONDS else []))

    def gains(self, row: Row, now: Row) -> bool:
        return self.gains_memory(row, now) or self.gains_cpu(row, now)

    def change(self, before: Row, after: Row) -> Change | None:
        """The change of CPU time, of an estimate without what cache effects may add, as these are much alike for two
        other allocators. Simulated misses replace an estimate, unless their range says nothing; live runs replace
        what they contradict, or narrow. None: not known for one of the two.
        """
        found: Change | None = None
        for one in self.known(before, after):
            is_figure = one.kind == RANGE and self.as_cpu(one).is_figure
            if found is None or is_figure or self._width(one) < self._width(found) or self._contradicts(one, found):
                found = one
        return found

    def _contradicts(self, live: Change, predicted: Change) -> bool:
        measured, narrowest = self.as_cpu(live), self.as_cpu(predicted)
        return live.kind == LIVE and (measured.high < narrowest.low or measured.low > narrowest.high)

    def known(self, before: Row, after: Row) -> list[Change]:
        """The change by calls, by simulated misses and by live runs, as far as these were made."""
        if before.counts is None or after.counts is None:
            return []
        out = [self._of_counts(before.counts, after.counts)]
        if before.simulated and after.simulated:
            out.append(self._of_counts(before.simulated, after.simulated))
        live = after.live
        if live and live.than == before.label and not math.isnan(live.low):
            ns, row = live.cpu_ns / 100, out[-1].row
            change = (ns * live.percent, ns * live.low, ns * live.high)
            out.append(Change(LIVE, *change, live.percent, live.low, live.high, row))
        return out

    def _of_counts(self, before: Counts, after: Counts) -> Change:
        row = changes([before], [after])[0]
        ns = (row["ns"], row["ns_low"], row["ns_high"])
        percent, low, high = row["percent"], row["low"], row["high"]
        if not math.isnan(percent):
            if self.cpu_ns:  # those of bursts have percent of the whole, but ns of the bursts
                ns = (self.cpu_ns * percent / 100, self.cpu_ns * low / 100, self.cpu_ns * high / 100)
            return Change(RANGE, *ns, percent, low, high, row)
        if not self.cpu_ns:
            return Change(MILLISECONDS, *ns, percent, low, high, row)
        of = 100 / self.cpu_ns
        return Change(ESTIMATED, *ns, of * ns[0], of * ns[1], of * ns[2], row)

    def _width(self, change: Change) -> float:
        """Of its range in percent; infinite where percent is not known."""
        cpu = self.as_cpu(change)
        return math.inf if math.isnan(cpu.percent) else cpu.high - cpu.low


def decide(rows: Sequence[Row], today: str, objective: str, judge: Judge, kept: Sequence[str]) -> list[Pick]:
    """One pick for each aim of `objective`; none for CPU time where it can't be predicted. `rows`: with today's, in the
    order in which equals are preferred; `kept`: labels of the rows that keep the limits. If today's does not, it is
    replaced without any gain, too.
    """
    now = next(row for row in rows if row.label == today)
    others = [row for row in rows if row.label != today and row.label in kept]
    leave = today not in kept
    made = {MEMORY: lambda: _for_memory(now, others, judge, leave), CPU: lambda: _for_cpu(now, others, judge, leave)}
    picks = [made[aim]() for aim in AIMS[objective]]
    return [pick for pick in picks if pick is not None]


def between(rows: Sequence[Row], now: Row, judge: Judge) -> list[Row]:
    """The rows for which no other row needs both less peak RSS and less CPU time, least RSS first: the choices between
    the two aims. CPU time is compared with that of `now`.
    """
    costs = {row.label: change.ns for row in rows if (change := judge.change(now, row))}
    able = sorted((row for row in rows if row.label in costs), key=lambda row: (row.peak_bytes, costs[row.label]))
    front: list[Row] = []
    for row in able:
        if not front or costs[row.label] < costs[front[-1].label]:
            front.append(row)
    return front


def finalists(rows: Sequence[Row], now: Row, kept: Collection[str], judge: Judge) -> list[str]:
    """Labels of the candidates whose CPU time is worth measuring further, the best first: those that may be a reason to
    change by the end of their range. Settings of one allocator are much alike, so each allocator is there once.
    """
    costs = {row.label: change for row in rows if row.label in kept and (change := judge.change(now, row))}
    out: dict[str, str] = {}
    for label, change in sorted(costs.items(), key=lambda item: item[1].ns):
        if label != now.label and judge.as_cpu(change).may_be_reason:
            out.setdefault(label.partition(":")[0], label)
    return list(out.values())[:MOST_FINALISTS]


def contenders(rows: Sequence[Row], now: Row, judge: Judge) -> list[str]:
    """Labels of today's row and of all that no other row beats in both aims: no other has as low a peak and needs less
    CPU time, by SCREEN_MARGIN of what its calls cost.
    """

    def beats(one: Row, other: Row) -> bool:
        change = judge.change(one, other)
        if change is None or one.counts is None or one.peak_bytes > other.peak_bytes:
            return False
        return change.ns > SCREEN_MARGIN * calls_ns(one.counts)

    return [row.label for row in rows if row is now or not any(beats(one, row) for one in rows if one is not row)]


def _for_memory(now: Row, others: Sequence[Row], judge: Judge, leave: bool) -> Pick:
    if not others:
        return Pick(MEMORY, now.label, None, why="no other allocator qualifies")
    best = min(others, key=lambda row: row.peak_bytes)
    saved = judge.saves(best, now)
    if not leave and saved < NOTHING:
        return Pick(MEMORY, now.label, best.label, why=NONE_LEANER)
    if not leave and not judge.gains_memory(best, now):
        error = judge.error("peak_rss", best.label, now.label)
        reason = why_not(saved, error, now.peak_bytes - best.peak_bytes)
        why = too_small_gain("leanest", best.label, f"{saved:.1f} % of peak memory", reason)
        return Pick(MEMORY, now.label, best.label, why=why)
    equal = [row for row in others if not judge.memory_apart(row, best) and (leave or judge.gains_memory(row, now))]
    least_mean = min(equal, key=lambda row: row.mean_bytes)
    equal = [row for row in equal if not judge.memory_apart(row, least_mean, of_mean=True)]
    picked = _least_cpu(equal, now, judge)
    return Pick(MEMORY, picked.label, best.label, tuple(row.label for row in equal if row is not picked))


def _least_cpu(rows: Sequence[Row], now: Row, judge: Judge) -> Row:
    """The row with the least CPU time; the first where CPU time is not known."""

    def cost(row: Row) -> float:
        change = judge.change(now, row)
        return change.ns if change else 0.0

    return min(rows, key=cost)


def _for_cpu(now: Row, others: Sequence[Row], judge: Judge, leave: bool) -> Pick | None:
    if now.counts is None:
        return None
    costs = {row.label: change for row in others if (change := judge.change(now, row))}
    if not costs:
        return Pick(CPU, now.label, None, why="no other allocator qualifies")
    able = [row for row in others if row.label in costs]
    able = [row for row in able if row.label in judge.field] or able
    best = min(able, key=lambda row: costs[row.label].ns)
    cpu = judge.as_cpu(costs[best.label])
    if not leave and cpu.gain < NOTHING:
        return Pick(CPU, now.label, best.label, why=NONE_FASTER)
    if not leave and not cpu.is_reason:
        return Pick(CPU, now.label, best.label, why=_why_no_faster(best, cpu), open=cpu.may_be_reason)
    equal = [row for row in able if row is best or _is_tie(row, best, None if leave else now, judge)]
    leanest = min(equal, key=lambda row: row.peak_bytes)
    as_lean = [row for row in equal if not judge.memory_apart(row, leanest)]
    picked = min(as_lean, key=lambda row: costs[row.label].ns)
    return Pick(CPU, picked.label, best.label, tuple(row.label for row in equal if row is not picked))


def _why_no_faster(best: Row, cpu: Cpu) -> str:
    if cpu.kind == MILLISECONDS:
        if cpu.may_be_reason:
            return f"{best.label} saves {cpu.gain:.1f} ms of CPU time, {open_text(cpu)}"
        return too_small_gain("fastest", best.label, f"{cpu.gain:.1f} ms of CPU time", WITHIN_ERROR)
    if cpu.gain >= LEAST_PERCENT:
        runs = best.live.rounds if best.live else 0
        what = {
            ESTIMATED: ": live runs or data accesses decide",
            RANGE: ": live runs decide",
            LIVE: f" after {runs} live runs: a longer --budget decides",
        }
        return f"whether {best.label} is faster is not known ({range_text(cpu)}{what[cpu.kind]})"
    return too_small_gain("fastest", best.label, f"{cpu.gain:.1f} % of CPU time", why_not(cpu.gain, cpu.error))


def _is_tie(row: Row, best: Row, now: Row | None, judge: Judge) -> bool:
    """Is it as good as the best, within the error, and better than today's (None: any is)?"""
    apart = judge.change(best, row)
    return apart is not None and not apart.is_clear and (now is None or judge.gains_cpu(row, now))
