"""Does the advice hold? What is advised and today's allocator, in turns, in the live program."""

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from heaptape.advice.choose import CPU, MEMORY, WORTH_PERCENT, Pick
from heaptape.advice.programs import run as run_program
from heaptape.advice.words import Advice
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.common.quantities import size
from heaptape.fidelity import live, timed
from heaptape.fidelity.sequential import DIFFERENT, UNDECIDED
from heaptape.measure.recipes import Finished, Recipe
from heaptape.measure.registry import Choice

MEMORY_RUNS = 2
HELD_SHARE = 0.5  # of the predicted saving, at least, is a prediction that held


@dataclass(frozen=True)
class Command:
    """The program as it is run live. `name`: of the process that is meant; empty: that of the command. `status`: what
    it exits with when all is well; None: what its first run exits with. `budget_s`: CPU time for the runs that measure
    CPU time; 0: none are made.
    """

    command: tuple[str, ...]
    name: str
    status: int | None
    home: Home
    budget_s: float = 60.0
    tell: Callable[[str], None] = lambda text: None


@dataclass(frozen=True)
class Confirmed:
    """What live runs say of one pick. `held`: None where they could not decide. `line`: in words; `figures`: what was
    measured.
    """

    aim: str
    label: str
    held: bool | None
    line: str
    figures: Mapping


def confirm(advice: Advice, command: Command) -> list[Confirmed]:
    """One for each pick that is not today's. Raises HeaptapeError where the program fails live on today's allocator."""
    picks = [pick for pick in advice.picks if pick.label != advice.today]
    picks = [pick for pick in picks if pick.aim != CPU or command.budget_s > 0]
    with tempfile.TemporaryDirectory(prefix="heaptape.") as scratch:
        observe = _Observer(command, Path(scratch))
        made = {MEMORY: _memory, CPU: _cpu}
        return [made[pick.aim](advice, pick, observe) for pick in picks]


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


def _memory(advice: Advice, pick: Pick, observe: _Observer) -> Confirmed:
    labels = (advice.today, pick.label)
    peaks: dict[str, list[float]] = {label: [] for label in labels}
    for _ in range(MEMORY_RUNS):
        for label in labels:
            peaks[label].append(float(observe(advice.choices[label], memory=True)["rss_anon_peak_bytes"]))
    before, after = (statistics.median(peaks[label]) for label in labels)
    predicted = advice.judge.saves(advice.row(pick.label), advice.row(advice.today))
    saved = 100 * (1 - after / before) if before else 0.0
    held = saved >= max(HELD_SHARE * predicted, WORTH_PERCENT)
    line = (
        f"Live, memory: {pick.label} peaks at {size(after)} instead of {size(before)} ({-saved:+.1f} %, predicted "
        f"{-predicted:+.1f} %): {_verdict(held)}."
    )
    figures = {"rss_anon_peak_bytes": peaks, "change_percent": -saved, "predicted_percent": -predicted}
    return Confirmed(MEMORY, pick.label, held, line, figures)


def _cpu(advice: Advice, pick: Pick, observe: _Observer) -> Confirmed:
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

    timed.add_rounds(data, run, timed.Sitting(observe.command.budget_s))
    if data["failures"]:
        raise HeaptapeError(next(iter(data["failures"].values())))
    decision = timed.found(data)[pick.label]
    held = None if decision.verdict == UNDECIDED else decision.verdict == DIFFERENT and decision.percent < 0
    span = f"{decision.percent:+.1f} % ({decision.low:+.1f} to {decision.high:+.1f})"
    line = f"Live, CPU time: {pick.label} {span} in {decision.rounds} rounds: {_verdict(held)}."
    figures = {"cpu_ns": [one["cpu_ns"] for one in data["live"]], "change_percent": decision.percent}
    return Confirmed(CPU, pick.label, held, line, figures | {"low": decision.low, "high": decision.high})


def _verdict(held: bool | None) -> str:
    return "undecided" if held is None else "it holds" if held else "it does not hold"
