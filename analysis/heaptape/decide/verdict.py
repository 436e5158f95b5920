# SPDX-License-Identifier: MIT
"""Which candidate to use, for memory and for CPU time: from figures and their errors to one pick for each aim.

For memory the candidate with the least peak RSS; for CPU time the one with the least time. Candidates that can't be
told from it are its ties: in memory within the error, in CPU time where what was counted is the same. Of ties, the one
that is best in the other aim is picked, and of settings of one allocator that are as good in both its default ones.
For CPU time, candidates whose range reaches the pick's estimate are its rivals: any of them may be the fastest, and
only a measurement decides. Today's allocator is replaced only where the gain is a reason to change (worth.py).
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from heaptape.common.phrases import NONE_FASTER, NONE_KNOWN_LEANER, NONE_LEANER, NOTHING, too_small_gain
from heaptape.decide import cpu as cpus
from heaptape.decide.cpu import ESTIMATED, LIVE, MILLISECONDS, RANGE, Cpu, open_text, range_text
from heaptape.decide.weighing import Live, weighed
from heaptape.decide.worth import LEAST_PERCENT, WITHIN_ERROR, is_reason, why_not
from heaptape.results.comparing import race
from heaptape.results.model.counts import Counts
from heaptape.results.model.time_model import calls_ns, changes

MEMORY, CPU, BOTH = "memory", "cpu", "both"
AIMS = {MEMORY: (MEMORY,), CPU: (CPU,), BOTH: (MEMORY, CPU)}
# How far the change of CPU time from a prefix of the calls may be from that of all, by what all calls cost.
SCREEN_MARGIN = 0.2
MOST_FINALISTS = 2  # whose CPU time is measured further
# (figure, a, b) -> percent by which a comparison of two labels may be off
ErrorOf = Callable[[str, str, str], float]
# Workload -> counts of its repetitions.
CountsOf = Mapping[str, Sequence[Counts]]


@dataclass(frozen=True)
class Candidate:
    """An allocator with its settings, and its figures. `peak`, `mean`: of memory, in bytes, or in any unit that is the
    same for all candidates where `in_bytes` is false (geometric means of several workloads); None: not measured.
    `counts`: of calls, or with misses where these were simulated at once; None where CPU time can't be predicted.
    `simulated`: counts with misses, made later; `live`: of live runs; None: not made. `least`: the lower end of a
    peak that is a range. `other_means`: the mean by other clocks that the program may have had (Run.other_means).
    """

    label: str
    peak: float | None
    mean: float | None = None
    counts: CountsOf | None = None
    simulated: CountsOf | None = None
    live: Live | None = None
    in_bytes: bool = True
    least: float | None = None
    other_means: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Pick:
    """The verdict for one aim. `best`: label of the best other candidate, equal to `label` unless today's stays; None:
    there is no other. `ties`: labels that are as good as `label`; `rivals`: that may be better, by what is known.
    `why`: the reason to stay. `open`: the best may be a reason to change, but that is not resolved. `of_mean`: not
    the peak but the mean is the reason.
    """

    aim: str
    label: str
    best: str | None
    ties: tuple[str, ...] = ()
    rivals: tuple[str, ...] = ()
    why: str = ""
    open: bool = False
    of_mean: bool = False

    @property
    def group(self) -> tuple[str, ...]:
        """All that may be the best."""
        return (self.label, *self.ties, *self.rivals)

    @property
    def families(self) -> tuple[str, ...]:
        """The group, each allocator once: the pick with its settings, others with their default ones where these are
        in the group, too.
        """
        return once_each(self.group)

    @property
    def other_rivals(self) -> tuple[str, ...]:
        """The rivals of other allocators, each once: without any the pick is named, as its settings are much alike."""
        return once_each((self.label, *self.rivals))[1:]


@dataclass(frozen=True)
class Judge:
    """How two candidates are compared. `cpu_ns`: workload -> CPU time of the recorded program; None: not known.
    `measured`: the candidates whose CPU time was measured further: no others are picked for it; empty: all are.
    `by_mean`: the program idles, so peak and mean both count: one is a reason to change where the other is not higher.
    """

    error: ErrorOf
    cpu_ns: Mapping[str, float | None] = field(default_factory=dict)
    measured: Collection[str] = ()
    by_mean: bool = False

    def saves(self, one: Candidate, other: Candidate) -> float:
        """By how many percent the peak of `one` is below that of `other`; NaN where one is not known."""
        if one.peak is None or other.peak is None:
            return math.nan
        return 100 * (1 - one.peak / other.peak) if other.peak > 0 else 0.0

    def saves_bytes(self, one: Candidate, other: Candidate) -> float | None:
        return (other.peak or 0.0) - (one.peak or 0.0) if one.in_bytes else None

    def memory_apart(self, one: Candidate, other: Candidate, of_mean: bool = False) -> bool:
        """Do their peaks (means) differ by more than the error?"""
        a, b = (one.mean, other.mean) if of_mean else (one.peak, other.peak)
        if a is None or b is None:
            return False
        error = self.error("mean_rss" if of_mean else "peak_rss", one.label, other.label)
        return abs(a - b) > error / 100 * max(a, b)

    def gains_memory(self, one: Candidate, now: Candidate) -> bool:
        """Is its lower peak a reason to change?"""
        if self.by_mean and self.has_higher_mean(one, now):
            return False
        return self.gains_peak(one, now)

    def has_higher_mean(self, one: Candidate, now: Candidate) -> bool:
        """Beyond the error, by any clock?"""
        error = self.error("mean_rss", one.label, now.label)
        return any(mean - before > error / 100 * mean for mean, before in _means(one, now))

    def gains_peak(self, one: Candidate, now: Candidate) -> bool:
        """The same, whatever its mean is."""
        error = self.error("peak_rss", one.label, now.label)
        return is_reason(self.saves(one, now), error, self.saves_bytes(one, now))

    def gains_mean(self, one: Candidate, now: Candidate) -> bool:
        """Is its lower mean a reason to change, by each clock?"""
        if not self.by_mean or one.mean is None or not now.mean:
            return False
        if _peak(one) > _peak(now) and self.memory_apart(one, now):
            return False
        error = self.error("mean_rss", one.label, now.label)
        return all(
            is_reason(100 * (1 - mean / before) if before else 0.0, error, before - mean if one.in_bytes else None)
            for mean, before in _means(one, now)
        )

    def gains_cpu(self, one: Candidate, now: Candidate) -> bool:
        """Is the CPU time that is predicted to be saved a reason to change?"""
        cpu = self.cpu(now, one)
        return cpu is not None and cpu.is_reason

    def gains(self, one: Candidate, now: Candidate) -> bool:
        return self.gains_memory(one, now) or self.gains_mean(one, now) or self.gains_cpu(one, now)

    def cpu(self, before: Candidate, after: Candidate) -> Cpu | None:
        """The change of CPU time. Simulated misses replace an estimate, unless their range says nothing; live runs are
        weighed against that. None: not known for one of the two.
        """
        found: Cpu | None = None
        for one in self._of_both_counts(before, after):
            if found is None or one.kind == RANGE and one.is_figure or one.width < found.width:
                found = one
        live = after.live
        return weighed(live, found) if live and _is_of(live, before) else found

    def predicted(self, before: Candidate, after: Candidate) -> Cpu | None:
        """The change without live runs."""
        return self.cpu(before, replace(after, live=None))

    def known(self, before: Candidate, after: Candidate) -> list[Cpu]:
        """The change by calls, by simulated misses and by live runs, as far as these were made."""
        live = after.live
        return self._of_both_counts(before, after) + ([live.cpu] if live and _is_of(live, before) else [])

    def _of_both_counts(self, before: Candidate, after: Candidate) -> list[Cpu]:
        counted = ((before.counts, after.counts), (before.simulated, after.simulated))
        return [found for both in counted if (found := self._of_counts(*both))]

    def _of_counts(self, before: CountsOf | None, after: CountsOf | None) -> Cpu | None:
        """None also where the other one lacks a workload."""
        if not before or not after or before.keys() - after.keys():
            return None
        found = [
            cpus.of_counts(changes(counts, after[name])[0], self.cpu_ns.get(name)) for name, counts in before.items()
        ]
        return cpus.mean(found)


def _means(one: Candidate, other: Candidate) -> list[tuple[float, float]]:
    """Their means, and those by each other clock that the program may have had."""
    if one.mean is None:
        return []
    both = [(one.mean, other.mean or 0.0)]
    for clock in {**one.other_means, **other.other_means}:
        both.append((one.other_means.get(clock, one.mean), other.other_means.get(clock, other.mean or 0.0)))
    return both


def once_each(labels: Sequence[str]) -> tuple[str, ...]:
    """The first label, and of each other allocator its default settings if they are there, else its first."""
    found: dict[str, str] = {}
    for label in labels:
        name = _allocator_of(label)
        found.setdefault(name, name if found and name in labels else label)
    return tuple(found.values())


def _allocator_of(label: str) -> str:
    return label.partition(":")[0]


def _is_of(live: Live, before: Candidate) -> bool:
    return live.than == before.label and not math.isnan(live.low)


def decide(rows: Sequence[Candidate], today: str, objective: str, judge: Judge, kept: Sequence[str]) -> list[Pick]:
    """One pick for each aim of `objective` that can be judged. `rows`: with today's, in the order in which equals are
    preferred; `kept`: labels of the rows that keep the limits. If today's does not, it is replaced without any gain.
    """
    now = next(row for row in rows if row.label == today)
    others = [row for row in rows if row.label != today and row.label in kept]
    leave = today not in kept
    made = {MEMORY: lambda: _for_memory(now, others, judge, leave), CPU: lambda: _for_cpu(now, others, judge, leave)}
    picks = [made[aim]() for aim in AIMS[objective]]
    return [pick for pick in picks if pick is not None]


def between(rows: Sequence[Candidate], now: Candidate, judge: Judge) -> list[Candidate]:
    """The rows for which no other row needs both less peak RSS and less CPU time, least RSS first: the choices between
    the two aims. CPU time is compared with that of `now`.
    """
    costs = {row.label: cpu.ms for row in rows if (cpu := judge.cpu(now, row))}
    able = sorted((row for row in rows if row.label in costs), key=lambda row: (_peak(row), costs[row.label]))
    front: list[Candidate] = []
    for row in able:
        if not front or costs[row.label] < costs[front[-1].label]:
            front.append(row)
    return front


def finalists(rows: Sequence[Candidate], now: Candidate, kept: Collection[str], judge: Judge) -> list[str]:
    """Labels of the candidates whose CPU time is worth measuring further, the best first: those that may be a reason to
    change by the end of their range. Settings of one allocator are much alike, so each allocator is there once.
    """
    costs = {row.label: cpu for row in rows if row.label in kept and (cpu := judge.cpu(now, row))}
    able = {label: cpu.ms for label, cpu in costs.items() if label != now.label and cpu.may_be_reason}
    return _of_each(rows, able, judge)[:MOST_FINALISTS]


def racers(
    rows: Sequence[Candidate], now: Candidate, kept: Collection[str], judge: Judge, whole: bool = True
) -> list[str]:
    """Labels of the candidates that may be the fastest, the most promising first: those whose range reaches the
    estimate of the best, and that may be a reason to change. Settings of one allocator are much alike, so each
    allocator is there once. Not `whole`: a part of the calls was counted, which says only who is before whom.
    """
    costs = {row.label: cpu for row in rows if row.label in kept and (cpu := judge.cpu(now, row))}
    able = {label: cpu for label, cpu in costs.items() if label != now.label and (cpu.may_be_reason or not whole)}
    best = min((cpu.ms for cpu in able.values()), default=0.0)
    return _of_each(rows, {label: cpu.ms for label, cpu in able.items() if cpu.ms_low <= best or not whole}, judge)


def _of_each(rows: Sequence[Candidate], costs: Mapping[str, float], judge: Judge) -> list[str]:
    """The label of each allocator with the least cost, the least first; but its default settings, which need no
    variable, unless the other's calls are known to cost less.
    """
    out: dict[str, str] = {}
    for label in sorted(costs, key=costs.__getitem__):
        out.setdefault(_allocator_of(label), label)
    by_label = {row.label: row for row in rows}
    for name, label in out.items():
        apart = judge.cpu(by_label[name], by_label[label]) if name in costs else None
        if apart and not apart.counts_differ:
            out[name] = name
    return list(out.values())


def contenders(rows: Sequence[Candidate], now: Candidate, judge: Judge) -> list[str]:
    """Labels of today's row and of all that no other row beats in both aims: no other has as low a peak and needs less
    CPU time, by SCREEN_MARGIN of what its calls cost.
    """

    def beats(one: Candidate, other: Candidate) -> bool:
        cpu = judge.cpu(one, other)
        if cpu is None or one.counts is None or _peak(one) > _peak(other):
            return False
        return cpu.ms > SCREEN_MARGIN * sum(calls_ns(counts[0]) for counts in one.counts.values()) / 1e6

    return [row.label for row in rows if row is now or not any(beats(one, row) for one in rows if one is not row)]


def _peak(row: Candidate) -> float:
    return math.inf if row.peak is None else row.peak


def _for_memory(now: Candidate, others: Sequence[Candidate], judge: Judge, leave: bool) -> Pick | None:
    sized = [row for row in others if row.peak is not None]
    if now.peak is None or others and not sized:
        return None
    if not sized:
        return Pick(MEMORY, now.label, None, why="no other allocator qualifies")
    best = min(sized, key=_peak)
    if judge.by_mean and not leave:
        if able := [row for row in sized if judge.gains_memory(row, now) or judge.gains_mean(row, now)]:
            return _of_idle(able, now, judge)
        if judge.gains_peak(best, now):
            more = max(100 * (mean / before - 1) if before else math.inf for mean, before in _means(best, now))
            less = f"saves {judge.saves(best, now):.0f} % of peak memory"
            why = f"{best.label} {less}, but its mean is {more:.0f} % higher"
            return Pick(MEMORY, now.label, best.label, why=why)
    saved = judge.saves(best, now)
    if not leave and saved < NOTHING:
        unknown = any(row.least is not None and row.least < now.peak for row in sized)
        return Pick(MEMORY, now.label, best.label, why=NONE_KNOWN_LEANER if unknown else NONE_LEANER)
    if not leave and not judge.gains_memory(best, now):
        error = judge.error("peak_rss", best.label, now.label)
        reason = why_not(saved, error, judge.saves_bytes(best, now))
        why = too_small_gain("leanest", best.label, f"{saved:.1f} % of peak memory", reason)
        return Pick(MEMORY, now.label, best.label, why=why)
    equal = [row for row in sized if not judge.memory_apart(row, best) and (leave or judge.gains_memory(row, now))]
    return _of_least_mean(equal, now, judge, best)


def _of_idle(rows: Sequence[Candidate], now: Candidate, judge: Judge) -> Pick:
    """The row that saves most of peak and mean together."""

    def both(row: Candidate) -> float:
        return _peak(row) * (row.mean or 0.0)

    best = min(rows, key=both)
    equal = [
        row for row in rows if not judge.memory_apart(row, best) and not judge.memory_apart(row, best, of_mean=True)
    ]
    picked = _least_cpu(equal, now, judge)
    of_mean = not judge.gains_memory(picked, now)
    return Pick(MEMORY, picked.label, best.label, _labels(equal, picked), of_mean=of_mean)


def _of_least_mean(rows: Sequence[Candidate], now: Candidate, judge: Judge, best: Candidate) -> Pick:
    least = min(rows, key=lambda row: math.inf if row.mean is None else row.mean)
    equal = [row for row in rows if not judge.memory_apart(row, least, of_mean=True)]
    picked = _least_cpu(equal, now, judge)
    return Pick(MEMORY, picked.label, best.label, _labels(equal, picked))


def _labels(rows: Sequence[Candidate], but: Candidate) -> tuple[str, ...]:
    return tuple(row.label for row in rows if row is not but)


def _least_cpu(rows: Sequence[Candidate], now: Candidate, judge: Judge) -> Candidate:
    """The row with the least CPU time; the first where CPU time is not known."""

    def cost(row: Candidate) -> float:
        cpu = judge.cpu(now, row)
        return cpu.ms if cpu else 0.0

    return min(rows, key=cost)


def _for_cpu(now: Candidate, others: Sequence[Candidate], judge: Judge, leave: bool) -> Pick | None:
    if now.counts is None and not any(row.live for row in others):
        return None
    costs = {row.label: cpu for row in others if (cpu := judge.cpu(now, row))}
    if not costs:
        return None if others else Pick(CPU, now.label, None, why="no other allocator qualifies")
    able = [row for row in others if row.label in costs]
    able = [row for row in able if row.label in judge.measured] or able
    able = [row for row in able if _standing(row) not in (race.BEATEN, race.NEAR)] or able
    best = min(able, key=lambda row: -costs[row.label].gain)
    cpu = costs[best.label]
    if not leave and cpu.gain < NOTHING:
        return Pick(CPU, now.label, best.label, why=NONE_FASTER)
    if not leave and not cpu.is_reason:
        return Pick(CPU, now.label, best.label, why=_why_no_faster(best, cpu), open=cpu.may_be_reason)
    equal = [row for row in able if row is best or _is_tie(row, best, None if leave else now, judge)]
    leanest = min(equal, key=_peak)
    as_lean = [row for row in equal if not judge.memory_apart(row, leanest)]
    picked = min(as_lean, key=lambda row: -costs[row.label].gain)
    picked = next((row for row in as_lean if row.label == _allocator_of(picked.label)), picked)
    rivals = [] if leave else [row for row in able if row not in equal and _is_rival(row, costs[row.label], cpu)]
    rivals.sort(key=lambda row: -costs[row.label].gain)
    return Pick(CPU, picked.label, best.label, _labels(equal, picked), _labels(rivals, picked))


def _why_no_faster(best: Candidate, cpu: Cpu) -> str:
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
        return f"whether {best.label} is faster is not known ({range_text(cpu.low, cpu.high)}{what[cpu.kind]})"
    return too_small_gain("fastest", best.label, f"{cpu.gain:.1f} % of CPU time", why_not(cpu.gain, cpu.error))


def _is_tie(row: Candidate, best: Candidate, now: Candidate | None, judge: Judge) -> bool:
    """Does what was counted or raced not tell it from the best, and is it better than today's (None: any is)?"""
    if _standing(row):
        return _standing(row) == race.EQUAL and (now is None or judge.gains_cpu(row, now))
    apart = judge.cpu(best, row)
    return apart is not None and not apart.counts_differ and (now is None or judge.gains_cpu(row, now))


def _standing(row: Candidate) -> str:
    return row.live.standing if row.live else ""


def _is_rival(row: Candidate, cpu: Cpu, best: Cpu) -> bool:
    """May it be faster than the best, by the range of its change? Of the same program run live, both were measured."""
    if _standing(row):
        return _standing(row) == race.OPEN
    return cpu.kind != MILLISECONDS and cpu.gain > NOTHING and cpu.low <= best.percent
