# SPDX-License-Identifier: MIT
"""Does the advice hold? The live program on the advised allocator and on today's, alternately."""

import math
import random
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from heaptape.advise.programs import line_of
from heaptape.advise.programs import run as run_program
from heaptape.advise.words import Advice
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.common.process import scratch_folder
from heaptape.decide.cpu import cpu_text
from heaptape.decide.verdict import CPU, MEMORY, Live, Pick
from heaptape.decide.worth import is_reason
from heaptape.results.comparing.sequential import UNDECIDED, Decision, decisions, next_look
from heaptape.run import live
from heaptape.run.recipes import Finished, Recipe
from heaptape.run.registry import Choice

MEMORY_RUNS = 2
MEMORY_POINTS = 1.0  # a smaller difference of peaks from the prediction is none, whatever the error of replays
CONFIRMED, LARGER, SMALLER, OPEN = "confirmed", "larger than predicted", "smaller than predicted", "not resolved"
REVERSED = "the opposite of the prediction"


@dataclass(frozen=True)
class Command:
    """The program as it is run live. `name`: of the process to observe; empty: the command's. `status`: its exit status
    on success; None: that of its first run. `budget_s`: wall time for all runs; those that are begun are finished.
    """

    command: tuple[str, ...]
    name: str
    status: int | None
    home: Home
    budget_s: float
    tell: Callable[[str], None] = lambda text: None


@dataclass(frozen=True)
class Confirmed:
    """The result of live runs for one pick. `verdict`: CONFIRMED, LARGER, SMALLER, REVERSED or OPEN; empty: nothing was
    measured. `held`: is what was measured a reason to change; None where they could not decide. `line`: in words;
    `figures`: the measurements; `live`: of CPU time.
    """

    aim: str
    label: str
    held: bool | None
    line: str
    figures: Mapping
    verdict: str = ""
    live: Live | None = None


def confirm(advice: Advice, command: Command) -> list[Confirmed]:
    """A result for each pick that is not today's, or whose best candidate is not resolved. Raises HeaptapeError where
    the program fails live.
    """
    began = time.monotonic()
    picks = [(pick, label) for pick in advice.picks if (label := to_run(advice, pick))]
    with scratch_folder() as scratch:
        observe = _Observer(command, scratch)
        peaks = _peaks(advice, dict.fromkeys(label for _, label in picks), observe)
        out = [_memory(advice, label, peaks) for pick, label in picks if pick.aim == MEMORY]
        observe.left_s = command.budget_s - (time.monotonic() - began)
        return out + [_cpu(advice, label, peaks, observe) for pick, label in picks if pick.aim == CPU]


def to_run(advice: Advice, pick: Pick) -> str:
    """The label of what is run live for a pick; empty: nothing."""
    return pick.label if pick.label != advice.today else (pick.best or "") if pick.open else ""


class _Observer:
    """Runs the command live on an allocator."""

    def __init__(self, command: Command, scratch: Path) -> None:
        self.command, self._status, self.left_s = command, command.status, command.budget_s
        self.cpu_share = 1.0  # CPU time by wall time, of the last run
        name = command.name or Path(command.command[0]).name
        self._recipe = Recipe(name, Path(), summary="", stands_for="", command=command.command, trace=command.name)
        self._place = live.Place(scratch, scratch, command.home)

    def __call__(self, choice: Choice, memory: bool) -> dict:
        self.command.tell(f"live on {choice.label}")
        figures = live.observed(self._recipe, self._place, choice, memory, self._run)
        self.cpu_share = figures["cpu_ns"] / 1e9 / max(figures["wall_s"], 1e-3)
        return figures

    def _run(self, wrapper: Sequence[str], environment: Mapping[str, str], printed: Path) -> Finished:
        began = time.monotonic()
        ended = run_program([*wrapper, *line_of(self.command.command).words], environment)
        printed.write_bytes(ended.last_words)
        if self._status is None:
            self._status = ended.status
        status = 0 if ended.status == self._status else ended.status or 1
        return Finished(status, time.monotonic() - began, 0.0)


def _peaks(advice: Advice, labels: Iterable[str], observe: _Observer) -> dict[str, list[float]]:
    """label -> peak RSS in bytes of each run, for `labels` and today's allocator; no runs where no label is given."""
    peaks: dict[str, list[float]] = {label: [] for label in (advice.today, *labels)}
    for _ in range(MEMORY_RUNS if len(peaks) > 1 else 0):
        for label, found in peaks.items():
            found.append(float(observe(advice.choices[label], memory=True)["rss_anon_peak_bytes"]))
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


def _cpu(advice: Advice, label: str, peaks: Mapping[str, Sequence[float]], observe: _Observer) -> Confirmed:
    words, memory = _change_of_peak(advice, label, peaks)
    budget_s = max(observe.left_s, 0.0) * observe.cpu_share
    if not budget_s:
        line = f"Live, peak memory of {label}: {words}; CPU time was not measured."
        return Confirmed(CPU, label, None, line, {"memory": memory})
    rounds, decision = _rounds(advice, label, observe, budget_s)
    predicted = advice.judge.cpu(advice.row(advice.today), advice.row(label))
    verdict = _verdict(predicted.percent if predicted else math.nan, decision.low, decision.high)
    held = None if verdict == OPEN else is_reason(-decision.percent)
    span = f"{decision.percent:+.1f} % ({decision.low:+.1f} to {decision.high:+.1f})"
    said = f"predicted {cpu_text(predicted)}, " if predicted else ""
    line = (
        f"Live, CPU time of {label}: {said}measured {span} in {decision.rounds} rounds: {verdict}. "
        f"Peak memory: {words}."
    )
    figures = {"cpu_ns": rounds, "change_percent": decision.percent, "memory": memory}
    figures |= {"low": decision.low, "high": decision.high}
    today_ns = statistics.median(one[advice.today] for one in rounds)
    measured = Live(advice.today, today_ns, decision.percent, decision.low, decision.high, decision.rounds)
    return Confirmed(CPU, label, held, line, figures, verdict, measured)


def _rounds(advice: Advice, label: str, observe: _Observer, budget_s: float) -> tuple[list[dict[str, float]], Decision]:
    """Today's allocator and `label` in random order, again and again, until the two are decided (sequential.py) or the
    budget of CPU time is spent: CPU time in ns by label, of each round; and the decision.
    """
    rounds: list[dict[str, float]] = []
    looks: list[int] = []
    spent_ns = 0.0
    while True:
        order = [advice.today, label]
        random.Random(f"{observe.command.name} {len(rounds)}").shuffle(order)
        try:
            rounds.append({one: float(observe(advice.choices[one], memory=False)["cpu_ns"]) for one in order})
        except HeaptapeError as error:
            raise HeaptapeError(f"live: {error}") from None
        spent_ns += sum(rounds[-1].values())
        over = spent_ns >= 1e9 * budget_s
        if over or len(rounds) == next_look(looks):
            looks.append(len(rounds))
            decision = decisions(rounds, looks, advice.today)[label]
            if over or decision.verdict != UNDECIDED or next_look(looks) is None:
                return rounds, decision


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
