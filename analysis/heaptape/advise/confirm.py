# SPDX-License-Identifier: MIT
"""Live runs of the program: a race of the candidates that may be the fastest, and the memory of what is advised."""

import math
import random
import statistics
import time
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from heaptape.advise import costs, latency
from heaptape.advise.budget import SHORTEST_S
from heaptape.advise.costs import Cost
from heaptape.advise.load import Load
from heaptape.advise.programs import line_of
from heaptape.advise.programs import run as run_program
from heaptape.advise.words import Advice
from heaptape.allocators.registry import Choice
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.common.phrases import counted
from heaptape.decide.cpu import Cpu, cpu_text
from heaptape.decide.verdict import CPU, MEMORY, Pick
from heaptape.decide.weighing import Live, weighed
from heaptape.decide.worth import is_reason
from heaptape.results.comparing import race
from heaptape.run import live
from heaptape.run.exact import TimeUpError
from heaptape.run.recipes import Finished, Recipe

LEAST_ROUNDS = 3  # of each that races
REPEATED = 0.25  # of all runs, at most: those that something disturbed
MEMORY_RUNS = 3  # the median: a program with threads peaks far higher now and then
MEMORY_POINTS = 1.0  # a smaller difference of peaks from the prediction is none, whatever the error of replays
CONFIRMED, LARGER, SMALLER, OPEN = "confirmed", "larger than predicted", "smaller than predicted", "not resolved"
REVERSED = "the opposite of the prediction"


@dataclass(frozen=True)
class Command:
    """The program as it is run live. `name`: of the process whose memory is observed; empty: the command's. `whole`:
    CPU time is that of all processes that it starts; else of those of that name. `status`: its exit status on success;
    None: that of its first run. `load`: what makes requests of a server. `budget_s`: wall time for all runs; `within`:
    a run that would take longer is ended. `tell`: gets what runs, and the share of that time that is over.
    `replayed`: the process that was replayed takes nearly all CPU time.
    """

    command: tuple[str, ...]
    name: str
    status: int | None
    home: Home
    budget_s: float
    load: Load | None = None
    tell: Callable[[str, float], None] = lambda text, share: None
    whole: bool = True
    within: bool = True
    replayed: bool = True


@dataclass(frozen=True)
class Confirmed:
    """The result of live runs for one candidate. `verdict`: CONFIRMED, LARGER, SMALLER, REVERSED or OPEN; empty:
    nothing was measured. `held`: is what was measured a reason to change; None where they could not decide. `line`: in
    words, empty for a racer that is not advised; `figures`: the measurements; `live`: of CPU time.
    """

    aim: str
    label: str
    held: bool | None
    line: str
    figures: Mapping
    verdict: str = ""
    live: Live | None = None


@dataclass
class Raced:
    """A race: its racers, and the runs of each round; none: there was no race. `replayed`: as of Command. `left_out`:
    racers for which there was no time, and the seconds that they would take. `repeated`: how many runs were made
    again, as something disturbed them. `failed`: who left the race as the program fails on it, and why.
    """

    today: str
    racers: tuple[str, ...] = ()
    replayed: bool = True
    left_out: tuple[int, float] = (0, 0.0)
    runs: list[dict[str, Cost]] = field(default_factory=list)
    repeated: int = 0
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def rounds(self) -> list[dict[str, float]]:
        """Of each, label -> CPU time in ns."""
        return costs.in_ns(self.runs)

    @property
    def live(self) -> dict[str, Live]:
        """racer -> its change against today's, the leader first."""
        if not self.runs or not self.racers:
            return {}
        rounds, counted = self.rounds, costs.counted(self.runs)
        today_ns = statistics.median(one[self.today] for one in rounds)
        found = {}
        changes = race.changes(rounds, self.racers, self.today, len(self.racers))
        for label, standing in race.standings(rounds, self.racers, self.today).items():
            made = changes[label]
            ends = (made.percent, made.low, made.high)
            error = made.deviation, made.freedom
            found[label] = Live(self.today, today_ns, *ends, made.rounds, standing, *error, self.replayed, counted)
        return found


def to_run(advice: Advice, pick: Pick) -> str:
    """The label of what is run live for a pick; empty: nothing."""
    return pick.label if pick.label != advice.today else (pick.best or "") if pick.open else ""


class Observer:
    """Runs the command live on an allocator. `latencies`: label -> what the load printed in each run, in ms, of those
    whose memory was not observed, which takes time.
    """

    def __init__(self, command: Command, scratch: Path) -> None:
        self.command, self._status = command, command.status
        self.latencies: dict[str, list[dict[str, float]]] = {}
        self._ends = time.monotonic() + command.budget_s
        name = command.name or Path(command.command[0]).name
        self._recipe = Recipe(name, Path(), summary="", stands_for="", command=command.command, trace=command.name)
        self._place = live.Place(scratch, scratch, command.home)

    @property
    def left_s(self) -> float:
        return self._ends - time.monotonic()

    def __call__(self, choice: Choice, memory: bool) -> dict:
        """Figures of a run (`live.observe`). Raises TimeUpError where no time is left for it."""
        spent = 1 - self.left_s / self.command.budget_s if self.command.budget_s else 1.0
        self.command.tell(f"live on {choice.label}", min(max(spent, 0.0), 1.0))
        if memory:
            return live.observed(self._recipe, self._place, choice, memory, self._run)
        subject = live.Subject(self._recipe.name, self._all_meant)
        figures = live.observe(subject, self._place, choice, memory, self._run)
        if not self.command.whole:  # counters are of all processes
            figures = {key: value for key, value in figures.items() if key != "counters"}
        if self.command.load:
            self.latencies.setdefault(choice.label, []).append(latency.printed_ms(self.command.load.printed))
        return figures

    def _all_meant(self, programs: Sequence[dict]) -> dict:
        meant = [one for one in programs if one] if self.command.whole else live.named(programs, self._recipe)
        return {"cpu_ns": sum(one["cpu_ns"] for one in meant), "exited": all(one["exited"] for one in meant)}

    def _run(self, wrapper: Sequence[str], environment: Mapping[str, str], printed: Path) -> Finished:
        began = time.monotonic()
        words = [*wrapper, *line_of(self.command.command).words]
        within_s = self.left_s if self.command.within else math.inf
        ended = run_program(words, environment, None, within_s, self.command.load)
        printed.write_bytes(ended.last_words)
        if self._status is None:
            self._status = ended.status
        status = 0 if ended.status == self._status else ended.status or 1
        return Finished(status, time.monotonic() - began, 0.0)


def run_race(advice: Advice, racers: Sequence[str], observe: Observer, run_s: float, reserved_s: float) -> Raced:
    """Rounds of `racers` and today's until the race is decided, or until less than `reserved_s` of the budget would be
    left after another one. `run_s`: wall time of one run; 0: not known, so a run of today's first, whose CPU time is
    not used, shows how many there is time for. Raises HeaptapeError where the program fails live on today's.
    """
    began = time.monotonic()
    try:
        if not run_s:
            observe(advice.choices[advice.today], memory=False)
    except TimeUpError:
        return Raced(advice.today)
    each_s = max(run_s or time.monotonic() - began, SHORTEST_S)
    fit = max(int((observe.left_s - reserved_s) / each_s / LEAST_ROUNDS) - 1, 1)
    left_out = racers[fit:]
    made = Raced(advice.today, tuple(racers[:fit]), observe.command.replayed,
                 (len(left_out), len(left_out) * LEAST_ROUNDS * each_s))  # fmt: skip
    running = list(made.racers)
    while running and observe.left_s - each_s * (1 + len(running)) >= (reserved_s if made.runs else 0.0):
        order = [advice.today, *running]
        random.Random(f"{observe.command.name} {len(made.runs)}").shuffle(order)
        began = time.monotonic()
        try:
            made.runs.append(_run_each(advice, order, observe, made.failed))
            each_s = max(each_s, (time.monotonic() - began) / len(order))
            again = costs.disturbed(made.runs) if made.repeated < REPEATED * len(made.runs) * len(order) else []
            if again and observe.left_s - each_s * (len(again) + 1 + len(running)) >= reserved_s:
                made.runs[-1] |= _run_each(advice, again, observe, made.failed)
                made.repeated += len(again)
        except TimeUpError:
            break
        made.racers = tuple(label for label in made.racers if label not in made.failed)
        running = race.goes_on(made.rounds, made.racers, advice.today) if made.racers else []
    return made


def _run_each(
    advice: Advice, labels: Sequence[str], observe: Observer, failed: MutableMapping[str, str]
) -> dict[str, Cost]:
    """`failed`: gets the reason of each racer on which the program fails."""
    runs = {}
    for label in labels:
        try:
            runs[label] = costs.of_run(observe(advice.choices[label], memory=False))
        except HeaptapeError as error:
            if label == advice.today or isinstance(error, TimeUpError):
                raise
            failed[label] = str(error)
    return runs


class Advising(Protocol):
    """Whoever makes advice of what is known. `live`: results of live runs."""

    live: Sequence[Confirmed]
    left_out: tuple[tuple[str, float], ...]
    verifying_s: float
    broken: dict[Path, str]

    def advice(self) -> Advice: ...

    def count(self, of: Collection[str] = ()) -> None: ...


def made(
    advisor: Advising, racers: Sequence[str], observe: Observer, run_s: float, timed: bool
) -> tuple[list[Confirmed], int]:
    """The race, then memory on what is advised after it; and the number of repeated runs. `run_s`: wall time of one
    run, at most; `timed`: of one that was not recorded. Raises HeaptapeError where the program fails live.
    """
    advice = advisor.advice()
    reserved_s = 2 * run_s + advisor.verifying_s
    raced = run_race(advice, racers, observe, run_s if timed else 0.0, reserved_s) if racers else Raced(advice.today)
    if raced.left_out[0]:
        advisor.left_out += ((f"live runs of {raced.left_out[0]} more", raced.left_out[1]),)
    advisor.broken |= {advice.choices[label].path: f"live, {why}" for label, why in raced.failed.items()}
    advisor.live = [_cpu(advice, label, one, raced, "", {}) for label, one in raced.live.items()]
    if raced.runs:  # counts say why
        advisor.count(
            {advice.today, *(label for pick in advisor.advice().picks for label in (pick.label, pick.best) if label)}
        )
    return confirm(advisor.advice(), raced, observe), raced.repeated


def confirm(advice: Advice, raced: Raced, observe: Observer) -> list[Confirmed]:
    """A result for each racer, and for each pick of memory that is not today's, with peaks of live runs on what is
    advised. Raises HeaptapeError where the program fails live.
    """
    picks = [(pick, label) for pick in advice.picks if (label := to_run(advice, pick)) and advice.can_be_set(label)]
    measured = raced.live
    advised = [label for pick, label in picks if pick.aim == CPU and label in measured]
    of_memory = [label for pick, label in picks if pick.aim == MEMORY]
    peaks = _peaks(advice, dict.fromkeys([*of_memory, *advised]), observe)
    if not peaks[advice.today]:  # no time was left for them
        of_memory, advised = [], []
    out = [_memory(advice, label, peaks) for label in of_memory]
    for label, one in measured.items():
        words, memory = _change_of_peak(advice, label, peaks) if label in advised else ("", {})
        out.append(_with_latency(_cpu(advice, label, one, raced, words, memory), advice.today, observe.latencies))
    return out


def _with_latency(made: Confirmed, today: str, latencies: Mapping[str, Sequence[Mapping[str, float]]]) -> Confirmed:
    kept = {label: latencies[label] for label in (today, made.label) if any(latencies.get(label, []))}
    words = latency.in_words(kept.get(today, []), kept.get(made.label, [])) if made.line else ""
    figures = {**made.figures, "latency_ms": kept} if kept else made.figures
    return replace(made, line=" ".join(filter(None, [made.line, words])), figures=figures)


def _peaks(advice: Advice, labels: Iterable[str], observe: Observer) -> dict[str, list[float]]:
    """label -> peak RSS in bytes of each run, for `labels` and today's allocator; no runs where no label is given."""
    peaks: dict[str, list[float]] = {label: [] for label in (advice.today, *labels)}
    longest_s = 0.0
    for made in range(MEMORY_RUNS if len(peaks) > 1 else 0):
        began = time.monotonic()
        if made and observe.left_s < longest_s:
            break
        try:
            seen = [float(observe(advice.choices[one], memory=True)["rss_anon_peak_bytes"]) for one in peaks]
        except TimeUpError:
            break
        for label, peak in zip(peaks, seen):
            peaks[label].append(peak)
        longest_s = max(longest_s, time.monotonic() - began)
    return peaks


def _memory(advice: Advice, label: str, peaks: Mapping[str, Sequence[float]]) -> Confirmed:
    words, figures = _change_of_peak(advice, label, peaks)
    change, predicted = figures["change_percent"], figures["predicted_percent"]
    off = max(MEMORY_POINTS, advice.judge.error("peak_rss", label, advice.today))
    verdict = _verdict(predicted, change - off, change + off)
    if verdict == OPEN:  # a peak is not a sample: what was measured decides
        verdict = CONFIRMED if abs(change - predicted) <= off else SMALLER
    line = f"Live, peak memory of {label}: {words}: {verdict}."
    today, picked = _median_peaks(advice, label, peaks)
    held = is_reason(-change, gain_bytes=today - picked)
    return Confirmed(MEMORY, label, held, line, figures, verdict)


def _median_peaks(advice: Advice, label: str, peaks: Mapping[str, Sequence[float]]) -> tuple[float, float]:
    """Of today's allocator, and of `label`."""
    return statistics.median(peaks[advice.today]), statistics.median(peaks[label])


def _change_of_peak(advice: Advice, label: str, peaks: Mapping[str, Sequence[float]]) -> tuple[str, dict]:
    """In words, and as figures: peaks in bytes, change and its prediction in percent of today's peak."""
    before, after = _median_peaks(advice, label, peaks)
    predicted = -advice.judge.saves(advice.row(label), advice.row(advice.today))
    change = 100 * (after / before - 1) if before else 0.0
    words = f"predicted {predicted:+.1f} %, measured {change:+.1f} %"
    kept = {one: list(peaks[one]) for one in (advice.today, label)}
    return words, {"rss_anon_peak_bytes": kept, "change_percent": change, "predicted_percent": predicted}


def _cpu(advice: Advice, label: str, found: Live, raced: Raced, words: str, memory: Mapping) -> Confirmed:
    """`words`, `memory`: of its peak; empty: it is not advised, so it has no line."""
    predicted = advice.judge.predicted(advice.row(advice.today), advice.row(label))
    verdict = _verdict(predicted.percent if predicted else math.nan, found.low, found.high)
    held = None if verdict == OPEN else is_reason(-found.percent)
    span = f"{found.percent:+.1f} % ({found.low:+.1f} to {found.high:+.1f})"
    said = f"predicted {cpu_text(predicted)}, " if predicted else ""
    others = len(raced.racers) - 1
    against = f" in a race with {counted(others, 'other')}" if others else ""
    how = ", by cycles that the processor counted" if found.counted else ""
    line = (
        f"Live, CPU time of {label}: {said}measured {span} in {counted(found.rounds, 'round')}{against}{how}: "
        f"{verdict}{_with_prediction(found, predicted) if verdict == OPEN else ''}. Peak memory: {words}."
    )
    figures = {"cpu_ns": raced.rounds, "change_percent": found.percent, "memory": memory}
    figures |= {"counters": [_counters(made) for made in raced.runs]} if found.counted else {}
    figures |= {"low": found.low, "high": found.high, "standing": found.standing}
    return Confirmed(CPU, label, held if words else None, line if words else "", figures, verdict, found)


def _with_prediction(found: Live, predicted: Cpu | None) -> str:
    """What was advised on, where live runs alone decide nothing."""
    weighed_with = (
        f", with the prediction {cpu_text(weighed(found, predicted))}" if predicted and found.replayed else ""
    )
    return f" by them alone{weighed_with}"


def _counters(runs: Mapping[str, Cost]) -> dict[str, Mapping[str, float]]:
    return {label: one.counters for label, one in runs.items()}


def _verdict(predicted: float, low: float, high: float) -> str:
    """`predicted`: a saving, so a negative change in percent, NaN where only its sign is known; `low`, `high`: the ends
    of what was measured.
    """
    if math.isnan(low) or low <= 0 <= high:
        return OPEN
    if low > 0:
        return REVERSED
    if math.isnan(predicted) or low <= predicted <= high:
        return CONFIRMED
    return LARGER if high < predicted else SMALLER
