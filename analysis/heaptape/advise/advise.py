# SPDX-License-Identifier: MIT
"""Makes the advice: tries candidates, replays them, checks them against malloc's contract, and decides."""

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from heaptape.advise.budget import Ends
from heaptape.advise.confirm import Confirmed
from heaptape.advise.tried import (
    Bounds,
    Tried,
    candidates,
    replay_all,
    today,
    with_own_memory,
    with_time,
)
from heaptape.advise.words import Advice
from heaptape.allocators import registry
from heaptape.allocators.registry import DEFAULT_VARIANT, GLIBC, Choice
from heaptape.common import phrases
from heaptape.common.engine import OF_ACCESSES
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.common.phrases import counted
from heaptape.decide.answer import bypassed
from heaptape.decide.cpu import ESTIMATED, LIVE, MILLISECONDS, RANGE, Cpu
from heaptape.decide.verdict import AIMS, CPU, Candidate, CountsOf, Judge, Pick, contenders, decide, finalists, racers
from heaptape.decide.worth import most_percent
from heaptape.results import replay_errors
from heaptape.results.fits import killed_at, least_note, may_be_less, mean_notes, range_note
from heaptape.results.model.counts import Counts, without_instructions
from heaptape.results.model.penalties import Penalties
from heaptape.results.model.penalties import penalties as checked_penalties
from heaptape.results.recorded_on import huge_pages_note
from heaptape.results.structs import Run, workload_of
from heaptape.run import machine, replay
from heaptape.run.condition import Condition
from heaptape.run.exact import FIGURES, PEAK, UPPER, Bench, TimeUpError
from heaptape.run.judging import Recorded, disproved, read_recorded
from heaptape.run.live import c_library
from heaptape.run.recorded import recorded_on
from heaptape.run.rounds import Settings
from heaptape.tape.workload_format import read_workload

REFERENCE = "today"  # what limits refer to
MOST_CAVEATS = 2
# Instructions of so many calls are counted on every candidate of a workload that is SCREENED times as long, and of all
# calls only on those that are not beaten.
SCREEN_OPS, SCREENED = 1_000_000, 4
MOST_COUNTED_OPS = Settings().instruction_ops
ALONE = ""  # the one workload, for the judge
VERIFYING = 2.0  # memory passes: what the verify pass takes
VERIFYING_SHARE = 0.15  # of the time that is left, unless others took longer: the race is worth more
REPEATS = 0.1  # a program that is run again makes as many calls, but for this share


@dataclass(frozen=True)
class Wish:
    """The request. `names`: candidates, as of -a (none: all that are found); `baseline`: the allocator that the program
    runs on today (None: the one it was recorded on); `limits`: what a candidate has to keep; `memory_limit`: bytes of
    the memory limit that the program has to live with (results/fits.py). `exact`: instructions of all calls are
    counted on every candidate.
    """

    objective: str
    names: Sequence[str] = ()
    baseline: str | None = None
    limits: Sequence[Condition] = ()
    memory_limit: int | None = None
    exact: bool = False


@dataclass(frozen=True)
class Source:
    """A trace or workload, and its name in the advice. `cpu_ns`: CPU time of the recorded program, where known.
    `others`: programs that ran beside it, in words. `alone`: what was recorded took nearly all CPU time of the command.
    """

    path: Path
    name: str
    cpu_ns: float | None = None
    others: str = ""
    alone: bool = True


@dataclass(frozen=True)
class Place:
    """Where the work is done, and who is notified of its progress."""

    home: Home
    scratch: Path
    on_progress: Callable[[str, float | None], None] = lambda what, share: None


def no_ends() -> Ends:
    return Ends(math.inf, math.inf, math.inf, math.inf)


@dataclass(frozen=True)
class Found:
    """The advice and its sources. `about`: the workload (measure.replay.describe_workload)."""

    advice: Advice
    tried: Sequence[Tried]
    about: Mapping


@dataclass
class Advisor:
    """The advice for one workload: by its calls at first (`replayed`), then refined by data accesses and by live runs.

    `now`: today's allocator, and why that is in doubt. `replayed_peak`: RSS of the allocator that the program was
    recorded on. `measured`: labels whose CPU time was measured further; empty: none was, or all. `uncounted`: where
    instructions of only the first calls were counted, the bench of all calls, and the runs. `live`: results of live
    runs. `simulated`: label -> counts with misses. `broken`: library -> the rule of malloc that it breaks; empty:
    none.
    """

    wish: Wish
    place: Place
    source: Source
    workload: Path
    about: Mapping
    now: Choice
    doubt: str
    recorded: Recorded
    bench: Bench
    penalties: Penalties | None
    replayed_peak: float | None
    tried: list[Tried]
    uncounted: tuple[Bench, dict[str, Run]] | None
    measured: Sequence[str] = ()
    simulated: dict[str, Counts] = field(default_factory=dict)
    live: Sequence[Confirmed] = ()
    broken: dict[Path, str] = field(default_factory=dict)
    share_of_accesses: float = 1.0
    counting_s: float = 0.0  # of one candidate's SCREEN_OPS
    verifying_s: float = 0.0  # the longest so far; before, an estimate
    left_out: tuple[tuple[str, float], ...] = ()  # what, and the seconds that it would take
    ends: float = math.inf  # of time.monotonic()

    @property
    def has_accesses(self) -> bool:
        return replay.has_accesses(self.workload)

    def count(self, of: Collection[str] = ()) -> None:
        """Counts instructions of all calls, where only those of the first were: on the candidates `of`, or on those
        that the first calls do not show to be beaten in both aims. The others have no figures of CPU time afterwards.
        """
        if self.uncounted is None:
            return
        bench, memory = self.uncounted
        labels = self._affordable(list(of) or (self._to_explain() if self._all_timed() else self._contenders()))
        ran = [one for one in self.tried if not one.failure]
        choices = [one.choice for one in ran if labels and (one.label in labels or one.choice.c_library)]
        tell = partial(self.place.on_progress, "counting instructions")
        bounds = Bounds(("instructions",), self.penalties, memory, self.ends)
        found = replay_all(bench, choices, bounds, self.about, tell)[0] if choices else []
        counted = {one.label: one for one in found}
        for at, one in enumerate(self.tried):
            took = one.counts.timed if one.counts else None
            if whole := counted.get(one.label):
                failure = one.failure or whole.failure
                counts = replace(whole.counts, timed=took) if whole.counts else None
                self.tried[at] = replace(one, figures=whole.figures, counts=counts, failure=failure)
            else:
                figures = {name: value for name, value in one.figures.items() if name != "instructions"}
                counts = without_instructions(one.counts) if one.counts and took else None
                self.tried[at] = replace(one, figures=figures, counts=counts)
        self.measured, self.uncounted = [] if self._all_timed() else labels, None

    def _all_timed(self) -> bool:
        return all(one.counts is not None and one.counts.timed is not None for one in self.tried if not one.failure)

    def _affordable(self, labels: list[str]) -> list[str]:
        """Those of the labels for which there is time to count all calls: today's first, then the most promising; none
        where only today's would be counted.
        """
        judge, rows = Judge(_error, {ALONE: self._cpu_ns}), self._rows
        now = _of(rows, self.now.label)
        costs = {row.label: cpu.ms if (cpu := judge.cpu(now, row)) else math.inf for row in rows}
        ordered = sorted(labels, key=lambda label: (label != self.now.label, costs.get(label, math.inf)))
        each_s = max(self.counting_s * min(self.about["ops"], MOST_COUNTED_OPS) / SCREEN_OPS, 1e-3)
        left_s = self.ends - time.monotonic()
        if each_s * math.ceil(len(ordered) / self.bench.jobs) <= left_s:
            return ordered
        fit = max(int(left_s / each_s), 0) * self.bench.jobs
        kept = ordered[:fit] if fit >= 2 else []
        needed_s = each_s * math.ceil((len(ordered) - len(kept)) / self.bench.jobs)
        self.left_out += ((f"counting {counted(len(ordered) - len(kept), 'candidate')} whole", needed_s),)
        return kept

    def _to_explain(self) -> list[str]:
        """Today's, and what is or would be picked: others' CPU time is known without counts of all calls."""
        rows = self._rows
        picks = self._decide(rows, self._judge())[0]
        return list(dict.fromkeys([self.now.label, *(one for pick in picks for one in (pick.label, pick.best) if one)]))

    def _contenders(self) -> list[str]:
        rows = self._rows
        return contenders(rows, _of(rows, self.now.label), Judge(_error, {ALONE: self._cpu_ns}))

    @property
    def _cpu_ns(self) -> float | None:
        """Of bare runs on today's allocator where they were made, else as recorded."""
        if self.has_accesses:
            return None  # of a simulated program it says nothing
        if not self.source.alone:  # live runs measure all its processes
            return self.source.cpu_ns
        bare = [one.live.cpu_ns for one in self.live if one.live and one.live.than == self.now.label]
        return bare[0] if bare else self.source.cpu_ns

    @property
    def _rows(self) -> list[Candidate]:
        live = {one.label: one.live for one in self.live if one.live}
        less = self._less
        return [
            Candidate(
                one.label,
                one.peak_bytes,
                one.mean_bytes,
                _alone(one.counts),
                _alone(self.simulated.get(one.label)),
                live.get(one.label),
                least=less[one.label][0] if one.label in less else None,
                other_means=one.other_means,
            )
            for one in self.tried
            if not one.failure
        ]

    def _judge(self) -> Judge:
        by_mean = phrases.idles(self.about.get("idle_percent"))
        judge, rows = Judge(_error, {ALONE: self._cpu_ns}, by_mean=by_mean), self._rows
        now = _of(rows, self.now.label)
        live = [row.label for row in rows if (cpu := judge.cpu(now, row)) and cpu.kind == LIVE]
        return replace(judge, measured=live or self.measured)

    def finalists(self) -> list[str]:
        """Labels of the candidates whose CPU time is worth measuring further; none if that is not asked for."""
        if CPU not in AIMS[self.wish.objective] or self.penalties is None or negligible(self.about, self.source):
            return []
        judge, rows = self._judge(), self._rows
        refused = self._decide(rows, judge)[1]
        kept = [row.label for row in rows if row.label not in refused]
        return finalists(rows, _of(rows, self.now.label), kept, judge)

    def racers(self) -> list[str]:
        """Labels of the candidates that may be the fastest in life, the most promising first."""
        if CPU not in AIMS[self.wish.objective] or negligible(self.about, self.source):
            return []
        judge, rows = self._judge(), self._rows
        refused = self._decide(rows, judge)[1]
        able = {one.label for one in self.tried if one.label not in refused and self._can_be_raced(one)}
        now = _of(rows, self.now.label)
        alone = {one.label for one in self.tried if one.choice.variant == DEFAULT_VARIANT} - {self.now.label}
        if not self.source.alone:  # of the other processes nothing is predicted
            return [row.label for row in rows if row.label in able & alone]
        unknown = [row.label for row in rows if row.label in able & alone and judge.cpu(now, row) is None]
        if self.uncounted and not self._all_timed():  # what they save of the whole program is not known yet
            return [*racers(rows, now, able & {*self._contenders()}, judge, whole=False), *unknown]
        return [*racers(rows, now, able, judge), *unknown]

    def simulate(self, trace: Path | None, share: float = 1.0, forced: bool = True) -> str:
        """Simulates the misses of the finalists and of today's allocator. `trace`: with the data accesses of another
        run of the program; None: the workload has them. `share`: of the program's accesses that were recorded.
        `forced`: whatever time is left. Returns why that is of no use; empty: it was done.
        """
        labels = [self.now.label, *self.finalists()]
        workload, bench, about = self.workload, self.bench, self.about
        if trace:
            scratch = self.place.scratch / "accesses"
            scratch.mkdir()
            within_s = math.inf if forced else self.ends - time.monotonic()
            workload = replay.prepare(str(trace), self.place.home, scratch, name=self.source.name, within_s=within_s)
            about = _about_workload(workload, self.source)
            if abs(about["ops"] / self.about["ops"] - 1) > REPEATS:
                return f"the program made {about['ops']:,} calls when it ran again, not {self.about['ops']:,}"
            bench = Bench(workload, self.place.home)
        tell = partial(self.place.on_progress, "simulating caches")
        bounds = Bounds(("memory", *OF_ACCESSES), self.penalties, until=math.inf if forced else self.ends)
        choices = [one.choice for one in self.tried if one.label in labels]
        found = replay_all(bench, choices, bounds, about, tell)[0]
        self.simulated = {one.label: one.counts for one in found if one.counts and not one.failure}
        self.measured, self.share_of_accesses = labels, share
        if self.now.label in self.simulated:
            return ""
        return next((one.failure for one in found if one.failure), "no misses were counted")

    def advice(self) -> Advice:
        return self.found().advice

    def found(self) -> Found:
        """The advice by what is known so far; picks are verified that were not yet."""
        tried, now = self.tried, self.now
        judge, rows = self._judge(), self._rows
        picks, refused = self._decide(rows, judge)
        base = _of(rows, now.label)
        idle = phrases.idle(self.about.get("idle_percent"))
        summary = " ".join(filter(None, [_about(self.about, tried, base, self._cpu_ns), self.source.others, idle]))
        linked = self.about.get("linked") or ""  # the program has it without a preload
        choices = {one.label: replace(one.choice, preload="" if linked else one.choice.preload) for one in tried}
        said = self._caveats(rows, judge, picks)
        live = tuple(one.line for one in self.live if one.line)
        fits_in = {one.label: one.smallest_limit_bytes for one in tried if one.smallest_limit_bytes}
        advice = Advice(summary, now.label, rows, picks, judge, choices, self.doubt, refused, said, live)
        advice = replace(advice, fits_in=fits_in, upgrades=self._upgrades(), linked=linked)
        return Found(advice, tried, self.about)

    def _decide(self, rows: Sequence[Candidate], judge: Judge) -> tuple[list[Pick], dict[str, str]]:
        """The picks, each of an allocator that kept malloc's contract on this workload, and label -> why another
        candidate is not advised. Only candidates that would be picked are checked; the verdict holds for all settings
        of an allocator.
        """
        wish, tried = self.wish, self.tried
        refused = {one.label: one.failure for one in tried if one.failure}
        refused |= _beyond_limits(tried, self.now.label, wish.limits)
        if wish.memory_limit is not None:
            refused |= _killed(tried, wish.memory_limit, self.about["ops"])
        while True:
            for one in tried:
                if why := self.broken.get(one.choice.path):
                    refused.setdefault(one.label, why)
            # Another glibc can't be set; what an upgrade to it brings is said apart.
            kept = [one.label for one in tried if one.label not in refused and self._can_be_set(one)]
            picks = decide(
                [row for row in rows if row.label in {*kept, self.now.label}],
                self.now.label,
                wish.objective,
                judge,
                kept,
            )
            if self.now.label in kept and CPU in AIMS[wish.objective] and (why := negligible(self.about, self.source)):
                picks = [*(pick for pick in picks if pick.aim != CPU), Pick(CPU, self.now.label, None, why=why)]
            if len(tried) > 1 and all(
                one.failure == str(TimeUpError()) for one in tried if one.label != self.now.label
            ):
                picks = [replace(pick, why="there was no time to replay another allocator") for pick in picks]
            labels = {label for pick in picks for label in pick.group} - {self.now.label}
            labels |= {pick.best for pick in picks if pick.best and pick.open}
            unchecked = [one.choice for one in tried if one.label in labels and one.choice.path not in self.broken]
            if not unchecked:
                return picks, refused
            self._verify(unchecked)

    def _can_be_set(self, one: Tried) -> bool:
        return one.choice.c_library is None or one.label == self.now.label

    def _can_be_raced(self, one: Tried) -> bool:
        in_program = self.about.get("linked") and one.choice.allocator != self.now.allocator
        return self._can_be_set(one) and not in_program

    def _upgrades(self) -> tuple[str, ...]:
        """What each other glibc brings to a program that runs on one: its calls' instructions, and its peak memory."""
        now = next(one for one in self.tried if one.label == self.now.label)
        if now.choice.allocator.partition("@")[0].partition("=")[0] != GLIBC:
            return ()
        others = [one for one in self.tried if not one.failure and not self._can_be_set(one)]
        return tuple(filter(None, (phrases.upgrade(one.label, *_changes(one, now)) for one in others)))

    def _verify(self, choices: Sequence[Choice]) -> None:
        by_path = {choice.path: choice for choice in reversed(choices)}
        self.place.on_progress("verifying the allocator", None)

        def promises(choice: Choice) -> str:
            began = time.monotonic()
            left_s = self.ends - began
            try:
                return self.bench.promises(choice, max(VERIFYING_SHARE * left_s, min(left_s, self.verifying_s)))
            except TimeUpError:
                self.left_out += ((f"verifying {choice.allocator}", self.verifying_s),)
                return ""
            finally:
                self.verifying_s = max(self.verifying_s, time.monotonic() - began)

        for choice, broken in self.bench.side_by_side(promises, list(by_path.values())):
            self.broken[choice.path] = broken

    def _caveats(self, rows: Sequence[Candidate], judge: Judge, picks: Sequence[Pick]) -> list[str]:
        """What could change the advice, the most important first."""
        said = [bypassed(workload_of(self.about), self.replayed_peak)]
        if self.about["threads"] > 1:
            settings = {one.label: one.choice.environment for one in self.tried}
            said += [line for pick in picks for line in phrases.serialising(pick.label, settings.get(pick.label, {}))]
        now = _of(rows, self.now.label)
        labels = {pick.best for pick in picks if pick.best} | {pick.label for pick in picks} - {now.label}
        if CPU in AIMS[self.wish.objective]:
            of_cpu = {label for pick in picks if pick.aim == CPU for label in (pick.best, pick.label)} - {now.label}
            known = [cpu for row in rows if row.label in of_cpu and (cpu := judge.cpu(now, row))]
            said.append(self._on_cpu(next(one.counts for one in self.tried if one.label == now.label), known))
        said += [
            self._ranges(),
            *self._other_means(labels),
            huge_pages_note(self.about.get("transparent_huge_pages"), machine.transparent_huge_pages()),
        ]
        if self.recorded.samples is None:
            said.append("Memory is the allocator's alone, as the recording has no samples of the program's.")
        if error := max((_error("peak_rss", label, now.label) for label in labels), default=0.0):
            said.append(f"Replayed peak memory was within {error:.1f} % of the live program's in 9 of 10 cases.")
        return [one for one in said if one][:MOST_CAVEATS]

    def _ranges(self) -> str:
        done = [one for one in self.tried if not one.failure]
        peaks = {one.label: (one.peak_bytes, one.upper_peak_bytes) for one in done}
        note = range_note(peaks, rule='limits and "fits in" take the upper end')
        return note or least_note(self._less)

    def _other_means(self, labels: Collection[str]) -> list[str]:
        shown = {
            one.label: (one.mean_bytes, one.other_means) for one in self.tried if one.label in {*labels, self.now.label}
        }
        return mean_notes(shown, workload_of(self.about))

    @property
    def _less(self) -> dict[str, tuple[float, float]]:
        peaks = {one.label: (one.least_peak_bytes, one.peak_bytes) for one in self.tried if not one.failure}
        return may_be_less(peaks, self.now.label)

    def _on_cpu(self, counts: Counts | None, known: Sequence[Cpu]) -> str:
        if counts is None and (self.left_out or negligible(self.about, self.source)):
            return ""  # said there
        if counts is None:
            return "CPU time is not estimated, as instructions could not be counted."
        if estimated := [cpu for cpu in known if cpu.kind in (ESTIMATED, MILLISECONDS)]:
            moved = estimated[0].low - estimated[0].percent, estimated[0].high - estimated[0].percent
            unknown = " The program's CPU time is not known." if self._cpu_ns is None else ""
            return phrases.without_cache_effects(*moved, "advise --accesses", estimated[0].timed) + unknown
        if any(cpu.kind == RANGE for cpu in known) and self.share_of_accesses < 1:
            return f"Caches are simulated for {100 * self.share_of_accesses:.0f} % of the program, in bursts."
        return ""


def negligible(about: Mapping, source: Source) -> str:
    """Why no allocator can be a reason to change for CPU time, whatever is measured; empty: one may be."""
    all_known = source.alone and "calls" not in about.get("lacks", ())
    live_bytes = about.get("peak_live_os_page_bytes", math.inf)
    most = most_percent(about["ops"], live_bytes, source.cpu_ns if all_known else None)
    return "" if math.isnan(most) else phrases.negligible(about["ops"], most)


def replayed(
    source: Source, wish: Wish, place: Place, planned: Callable[[], Ends] = no_ends, until: float = math.inf
) -> Advisor:
    """Replays the calls on every candidate. `planned`: gives the ends, as of time.monotonic(), when the workload is
    made, which takes long of many calls; `until`: what any advice needs ends then, too. Raises HeaptapeError where the
    source can't be read or today's allocator can't be replayed.
    """
    home = place.home
    within_s = until - time.monotonic()
    workload = replay.prepare(str(source.path), home, place.scratch, name=source.name, within_s=within_s)
    ends = planned()
    about = _about_workload(workload, source)
    known = registry.load(home)
    info = read_workload(workload).info
    now, doubt = today(wish.baseline, info, known)
    made_on = recorded_on(info, known)
    wanted = candidates(wish.names, known, about["threads"], made_on)
    choices = {one.label: one for one in (now, *([made_on] if made_on else []), *wanted)}
    has_accesses = replay.has_accesses(workload)
    recorded = Recorded()
    if not has_accesses:
        recorded = read_recorded(source.path, workload)
    of_all = Bench(workload, home)
    penalties = _penalties(home)
    limited = has_accesses and any(FIGURES[one.figure].pass_ in OF_ACCESSES for one in wish.limits)
    needs_whole = any(one.figure == "instructions" for one in wish.limits)
    counts = wish.exact or needs_whole or not negligible(about, source)
    passes = ("memory", *(["instructions"] if counts else []), *(OF_ACCESSES if limited else ()))
    needed = {one.label for one in (now, made_on) if one}
    bounds = Bounds(
        passes, penalties, until=ends.counted_s, alone_until=ends.alone_s, needed=needed, needed_until=until
    )
    ops = about["ops"]
    whole = of_all.counting(ops) if wish.exact else of_all
    screens = ops > SCREENED * SCREEN_OPS and not wish.exact and not needs_whole
    first = of_all.counting(SCREEN_OPS) if screens else whole
    tell = place.on_progress
    all_tried, runs = replay_all(first, list(choices.values()), bounds, about, partial(tell, "replaying"))
    base = made_on.label if made_on else None
    if base in runs and (wrong := disproved(runs[base], recorded, workload_of(about))):
        raise HeaptapeError(wrong)
    replayed_peak = runs[base].rss_anon_peak_bytes if base in runs else None
    all_tried = with_own_memory(all_tried, runs, recorded, base)
    named = {now.label, *(one.label for one in wanted)}
    tried = [one for one in all_tried if one.label in named]
    _require(tried, now)
    if not has_accesses and CPU in AIMS[wish.objective]:
        tell("timing calls", None)
        tried = with_time(of_all, tried, ops, ends.replays_s)
    uncounted = (whole, runs) if screens else None  # of the rest only a prefix of the calls is counted
    return Advisor(
        wish, place, source, workload, about, now, doubt, recorded, of_all, penalties, replayed_peak, tried, uncounted,
        counting_s=bounds.took_s.get("instructions", 0.0),
        verifying_s=VERIFYING * bounds.took_s.get("memory", 0.0),
        left_out=_not_replayed(tried, bounds.took_s.get("memory", 0.0) / of_all.jobs),
        ends=ends.last_s,
    )  # fmt: skip


def _not_replayed(tried: Sequence[Tried], each_s: float) -> tuple[tuple[str, float], ...]:
    """Candidates for whose memory there was no time. Others' failures would be the same with more."""
    number = sum(one.failure == str(TimeUpError()) for one in tried)
    return ((f"replaying {counted(number, 'candidate')}", number * each_s),) * bool(number)


def _alone(counts: Counts | None) -> CountsOf | None:
    """Of the one workload."""
    return None if counts is None else {ALONE: [counts]}


def _of(rows: Sequence[Candidate], label: str) -> Candidate:
    return next(row for row in rows if row.label == label)


def _changes(one: Tried, now: Tried) -> tuple[float | None, float]:
    """Changes in percent: of the instructions of all calls (None: not counted), and of the program's peak memory."""
    ours, theirs = one.figures.get("instructions"), now.figures.get("instructions")
    return (
        100 * (ours / theirs - 1) if ours is not None and theirs else None,
        100 * (one.peak_bytes / now.peak_bytes - 1) if now.peak_bytes else 0.0,
    )


def _about_workload(workload: Path, source: Source) -> Mapping:
    about = replay.describe_workload(workload, source.name)
    if not about["ops"]:
        raise HeaptapeError(f"{source.path}: contains no calls of malloc")
    return about


def _penalties(home: Home) -> Penalties | None:
    """This machine's; a machine that can't be measured gets no prediction of CPU time."""
    try:
        return checked_penalties(machine.of_this_machine(home))
    except HeaptapeError:
        return None


def _beyond_limits(tried: Sequence[Tried], now: str, limits: Sequence[Condition]) -> dict[str, str]:
    out: dict[str, str] = {}
    ran = [one for one in tried if not one.failure]
    base = next(one for one in ran if one.label == now)
    for limit in limits:
        reference = figure_of(base, limit.figure)
        for one in ran:
            value = figure_of(one, limit.figure)
            if value is None or reference is None:
                raise HeaptapeError(f"--limit '{limit.text}': {limit.figure} was not counted on {one.label}")
            kept = limit.holds(value, reference)
            if limit.figure == PEAK:  # at both ends of a range
                kept &= limit.holds(one.upper_peak_bytes, base.upper_peak_bytes)
            if one is not base and not kept:
                out.setdefault(one.label, f"beyond {limit.text}")
    return out


def _killed(tried: Sequence[Tried], limit_bytes: int, ops: int) -> dict[str, str]:
    """label -> when the memory limit would kill the program; today's allocator too."""
    out = {}
    for one in tried:
        if one.failure:
            continue
        if one.smallest_limit_bytes is None:
            raise HeaptapeError(
                "--limit memory: the program's own memory is not known: "
                "the recording has no samples of it, or names no allocator that is known here"
            )
        if one.smallest_limit_bytes > limit_bytes:
            at = killed_at(one.line, limit_bytes)
            needed = phrases.size(phrases.size_above(one.smallest_limit_bytes))
            out[one.label] = f"killed at call {at:,} of {ops:,}, needs {needed}"
    return out


def figure_of(one: Tried, name: str) -> float | None:
    """A figure by its name in measure.exact: memory is the whole program's, other figures are the allocator's."""
    whole = {PEAK: one.peak_bytes, UPPER: one.upper_peak_bytes, "rss-mean": one.mean_bytes}
    return whole.get(name, one.figures.get(name))


def _require(tried: Sequence[Tried], now: Choice) -> None:
    base = next(one for one in tried if one.label == now.label)
    if base.failure:
        raise HeaptapeError(f"today's allocator can't be replayed, so nothing can be compared with it: {base.failure}")


def _error(figure: str, a: str, b: str) -> float:
    """The larger error of the two; for an allocator without its own errors, that of all allocators together."""
    return max(replay_errors.errors_of([figure], [a, b]).values(), default=0.0) if a != b else 0.0


def _about(about: Mapping, tried: Sequence[Tried], now: Candidate, cpu_ns: float | None) -> str:
    allocators = len({one.choice.path for one in tried})
    more = [f"{phrases.seconds(cpu_ns)} CPU"] if cpu_ns else []
    whole = any(one.smallest_limit_bytes is not None for one in tried)
    peak = "whole program's peak memory" if whole else "peak memory"
    more.append(f"{peak} {phrases.size(now.peak or 0.0)} on {now.label}")
    tried_text = f"{counted(len(tried), 'setting')} of {counted(allocators, 'allocator')} replayed."
    said = phrases.about_workload(about["name"], about["ops"], about["threads"], more, about.get("witness"))
    return f"{said} {tried_text}"


_FROM = {RANGE: "accesses", LIVE: "live"}


def as_json(found: Found, confirmed: Sequence[Confirmed] = ()) -> dict:
    """The advice for programs to read. Bytes, ns; percentages of the program's CPU time. `pick` and `environment`: of
    the first aim for which a change is advised, else of today's allocator.
    """
    advice = found.advice
    kept = ("name", "sha256", "ops", "threads", "program", "allocator")
    picks = [_pick_json(advice, pick) for pick in advice.picks]
    first = next((pick for pick in picks if not pick["stay"]), {"use": advice.today, "environment": {}})
    return {
        "schema": 1,
        "workload": {key: found.about[key] for key in kept if key in found.about},
        "today": advice.today,
        "pick": first["use"],
        "environment": first["environment"],
        "picks": picks,
        "refused": dict(advice.refused),
        "candidates": [_tried_json(advice, one) for one in found.tried],
        "live": [asdict(one) for one in confirmed],
    }


def _pick_json(advice: Advice, pick: Pick) -> dict:
    stays = pick.label == advice.today
    return {
        "aim": pick.aim,
        "use": pick.label,
        "stay": stays,
        "why": pick.why,
        "ties": list(pick.ties),
        "rivals": list(pick.rivals),
        "environment": {} if stays else advice.environment(pick.label, c_library()),
    }


def _tried_json(advice: Advice, one: Tried) -> dict:
    choice = one.choice
    about: dict[str, Any] = {
        "label": one.label,
        "allocator": choice.allocator,
        "variant": choice.variant,
        "path": str(choice.path),
    }
    if one.failure:
        return about | {"error": one.failure}
    about |= {"peak_bytes": round(one.peak_bytes), "mean_bytes": round(one.mean_bytes), "figures": dict(one.figures)}
    if one.smallest_limit_bytes is not None:
        about["smallest_limit_bytes"] = math.ceil(one.smallest_limit_bytes)
    now = advice.row(advice.today)
    cpu = advice.judge.cpu(now, advice.row(one.label))
    if cpu:
        ends = {"": cpu.ms, "low_": cpu.ms_low, "high_": cpu.ms_high}
        about |= {f"cpu_{end}ns": 1e6 * ms for end, ms in ends.items()}
        about["cpu_from"] = _FROM.get(cpu.kind, "calls")
        if not math.isnan(cpu.percent):
            about |= {"cpu_percent": cpu.percent, "cpu_low_percent": cpu.low, "cpu_high_percent": cpu.high}
        if not math.isnan(cpu.chance):
            about["cpu_chance"] = cpu.chance
        about["cpu_steps"] = [
            {"from": _FROM.get(step.kind, "calls"), "percent": step.percent, "low": step.low, "high": step.high}
            for step in advice.judge.known(now, advice.row(one.label))
            if not math.isnan(step.percent)
        ]
    return about
