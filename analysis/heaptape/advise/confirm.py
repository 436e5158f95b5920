# SPDX-License-Identifier: MIT
"""Does the advice hold? The live program on the advised allocator and on today's, alternately."""

import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from heaptape.advise.choose import CPU, MEMORY, WORTH_PERCENT, Pick
from heaptape.advise.programs import run as run_program
from heaptape.advise.words import Advice
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.common.process import scratch_folder
from heaptape.common.tables import size
from heaptape.results.comparing.sequential import DIFFERENT, UNDECIDED
from heaptape.run import live
from heaptape.run.live import Session, add_rounds
from heaptape.run.live import found as decided
from heaptape.run.recipes import Finished, Recipe
from heaptape.run.registry import Choice

MEMORY_RUNS = 2
HELD_SHARE = 0.5  # a prediction held if at least this share of the predicted saving was measured


@dataclass(frozen=True)
class Command:
    """The program as it is run live. `name`: of the process to observe; empty: the command's. `status`: its exit status
    on success; None: that of its first run. `budget_s`: CPU time for the runs that measure CPU time; 0: no such runs.
    """

    command: tuple[str, ...]
    name: str
    status: int | None
    home: Home
    budget_s: float = 60.0
    tell: Callable[[str], None] = lambda text: None


@dataclass(frozen=True)
class Confirmed:
    """The result of live runs for one pick. `held`: None where they could not decide. `line`: in words; `figures`: the
    measurements.
    """

    aim: str
    label: str
    held: bool | None
    line: str
    figures: Mapping


def confirm(advice: Advice, command: Command) -> list[Confirmed]:
    """A result for each pick that is not today's. Raises HeaptapeError where the program fails live."""
    picks = [pick for pick in advice.picks if pick.label != advice.today]
    with scratch_folder() as scratch:
        observe = _Observer(command, scratch)
        peaks = _peaks(advice, dict.fromkeys(pick.label for pick in picks), observe)
        return [
            _memory(advice, pick, peaks) if pick.aim == MEMORY else _cpu(advice, pick, peaks, observe) for pick in picks
        ]


class _Observer:
    """Runs the command live on an allocator."""

    def __init__(self, command: Command, scratch: Path) -> None:
        self.command, self._status = command, command.status
        name = command.name or Path(command.command[0]).name
        self._recipe = Recipe(name, Path(), summary="", stands_for="", command=command.command, trace=command.name)
        self._place = live.Place(scratch, scratch, command.home)

    def __call__(self, choice: Choice, memory: bool) -> dict:
        self.command.tell(f"live on {choice.label}")
        return live.observed(self._recipe, self._place, choice, memory, self._run)

    def _run(self, wrapper: Sequence[str], environment: Mapping[str, str], printed: Path) -> Finished:
        began = time.monotonic()
        ended = run_program([*wrapper, *self.command.command], environment)
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


def _memory(advice: Advice, pick: Pick, peaks: Mapping[str, Sequence[float]]) -> Confirmed:
    words, figures = _change_of_peak(advice, pick.label, peaks)
    held = -figures["change_percent"] >= max(HELD_SHARE * -figures["predicted_percent"], WORTH_PERCENT)
    return Confirmed(MEMORY, pick.label, held, f"Live, memory: {pick.label} {words}: {_verdict(held)}.", figures)


def _change_of_peak(advice: Advice, label: str, peaks: Mapping[str, Sequence[float]]) -> tuple[str, dict]:
    """In words, and as figures: peaks in bytes, change and its prediction in percent of today's peak."""
    before, after = (statistics.median(peaks[one]) for one in (advice.today, label))
    predicted = -advice.judge.saves(advice.row(label), advice.row(advice.today))
    change = 100 * (after / before - 1) if before else 0.0
    words = f"peaks at {size(after)} instead of {size(before)} ({change:+.1f} %, predicted {predicted:+.1f} %)"
    kept = {one: list(peaks[one]) for one in (advice.today, label)}
    return words, {"rss_anon_peak_bytes": kept, "change_percent": change, "predicted_percent": predicted}


def _cpu(advice: Advice, pick: Pick, peaks: Mapping[str, Sequence[float]], observe: _Observer) -> Confirmed:
    words, memory = _change_of_peak(advice, pick.label, peaks)
    if not observe.command.budget_s:
        line = f"Live: {pick.label} {words}; CPU time was not measured."
        return Confirmed(CPU, pick.label, None, line, {"memory": memory})
    data: dict = {
        "app": {"name": observe.command.name},
        "baseline": advice.today,
        "predicted": {pick.label: {}},
        "live": [],
        "looks": [],
        "failures": {},
        "sittings": [],
    }

    def run(label: str) -> float:
        return float(observe(advice.choices[label], memory=False)["cpu_ns"])

    add_rounds(data, run, Session(observe.command.budget_s))
    if data["failures"]:
        raise HeaptapeError(next(iter(data["failures"].values())))
    decision = decided(data)[pick.label]
    held = None if decision.verdict == UNDECIDED else decision.verdict == DIFFERENT and decision.percent < 0
    span = f"{decision.percent:+.1f} % ({decision.low:+.1f} to {decision.high:+.1f})"
    rounds = f"{span} in {decision.rounds} rounds: {_verdict(held)}"
    line = f"Live, CPU time: {pick.label} {rounds}; it {words}."
    figures = {"cpu_ns": [one["cpu_ns"] for one in data["live"]], "change_percent": decision.percent, "memory": memory}
    return Confirmed(CPU, pick.label, held, line, figures | {"low": decision.low, "high": decision.high})


def _verdict(held: bool | None) -> str:
    return "undecided" if held is None else "it holds" if held else "it does not hold"
