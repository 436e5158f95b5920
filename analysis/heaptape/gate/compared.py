# SPDX-License-Identifier: MIT
"""One workload on the old and the new allocator: figures, and which of them are beyond their tolerance.

Each figure is counted once on each allocator. Most figures are the same each time, but some allocators use the clock or
random numbers. So where a figure is beyond its tolerance, both allocators are run again, alternately. The figure is
worse only if the least new value is beyond the tolerance of the largest old value, in MOST_RUNS runs of each. As soon
as that does not hold, it is noise. If both allocators are the same, all orders of the 16 runs are equally likely, and 1
of 12,870 has all old values below the new ones, whatever the figure's distribution. This is the largest probability of
calling a figure worse wrongly, even if nothing were tolerated.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.gate.condition import Condition
from heaptape.results import margins
from heaptape.run import replay
from heaptape.run.engine_process import Processes
from heaptape.run.exact import FIGURES, Bench, RunError
from heaptape.run.registry import Choice

MOST_RUNS = 8
# Figures that are shown even without a tolerance.
SHOWN = ("rss-peak", "rss-mean", "vmsize-peak", "faults", "syscalls", "instructions")


@dataclass
class Values:
    """A figure's values in each run, on both allocators."""

    old: list[float] = field(default_factory=list)
    new: list[float] = field(default_factory=list)

    def beyond(self, tolerance: Condition) -> bool:
        """Is each new value beyond the tolerance of each old value?"""
        return tolerance.holds(min(self.new), max(self.old))

    @property
    def change_percent(self) -> float | None:
        """The change between the least values; None where the old one is 0 and the new one is not."""
        old, new = min(self.old), min(self.new)
        if old == new:
            return 0.0
        return 100 * (new - old) / old if old else None

    @property
    def span_percent(self) -> float:
        """By how much runs of one allocator differ, of their smallest value; the larger of both. 0: exact so far."""
        return max(100 * (max(runs) - min(runs)) / (min(runs) or 1) for runs in (self.old, self.new))


@dataclass
class Compared:
    """The results for one workload. `broken_old`, `broken_new`: which promise they break, "": none. `errors`: what
    could not be measured, and why. `figures`: by name.
    """

    name: str
    source: str
    about: dict = field(default_factory=dict)
    broken_old: str = ""
    broken_new: str = ""
    errors: list[str] = field(default_factory=list)
    figures: dict[str, Values] = field(default_factory=dict)
    worse: list[str] = field(default_factory=list)
    noise: list[str] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Is this a reason to reject the new allocator? A promise that the old one breaks as well is not."""
        return bool(self.worse or self.errors or (self.broken_new and not self.broken_old))

    def as_json(self, tolerances: Mapping[str, Condition]) -> dict:
        """The JSON content, as docs/use/GATE.md defines it."""
        figures = {}
        for name, values in self.figures.items():
            verdict = "worse" if name in self.worse else "noise" if name in self.noise else "within"
            figures[name] = {
                "unit": FIGURES[name].unit,
                "old": values.old,
                "new": values.new,
                "change_percent": values.change_percent,
                "span_percent": values.span_percent,
                "beyond": tolerances[name].text if name in tolerances else None,
                "verdict": verdict if name in tolerances else "shown",
            }
        return {
            "name": self.name,
            "source": self.source,
            "workload": self.about,
            "failed": self.failed,
            "errors": self.errors,
            "broken": {"old": self.broken_old, "new": self.broken_new},
            "figures": figures,
        }


@dataclass(frozen=True)
class Pairing:
    """Which allocators are compared, with which tolerances."""

    old: Choice
    new: Choice
    tolerances: Mapping[str, Condition]
    timeout_s: float = 0

    @property
    def figures(self) -> list[str]:
        return [name for name in FIGURES if name in SHOWN or name in self.tolerances]


def compare(
    source: Path, name: str, pairing: Pairing, home: Home, scratch: Path, processes: Processes | None = None
) -> Compared:
    """Measures a tape or workload on both allocators. Failures are in the result's errors."""
    found = Compared(name, str(source))
    try:
        workload = replay.prepare(str(source), home, scratch)
        described = replay.describe_workload(workload, name)
        found.about = {key: described[key] for key in ("sha256", "ops", "threads", "ideal_rss_bytes")}
        if one := margins.stand_in(described):
            found.about["stand_in"] = one.as_json() | {"sentence": one.sentence(name)}
        bench = Bench(workload, home, [pairing.old, pairing.new], pairing.timeout_s, processes)
    except HeaptapeError as error:
        found.errors.append(str(error) or f"{source}: can't be compiled")
        return found
    if not bench.ops:
        found.errors.append(f"{source}: no calls")
        return found
    figures = [figure for figure in pairing.figures if figure != "misses" or replay.has_accesses(workload)]
    _check_promises(bench, pairing, found)
    for pass_ in dict.fromkeys(FIGURES[figure].pass_ for figure in figures):
        of_pass = [figure for figure in figures if FIGURES[figure].pass_ == pass_]
        try:
            _compare_pass(bench, pairing, of_pass, found)
        except HeaptapeError as error:
            found.errors.append(str(error))
    return found


def _check_promises(bench: Bench, pairing: Pairing, found: Compared) -> None:
    """Checks the promises of the new allocator; of the old one only where the new one breaks a promise."""
    try:
        found.broken_new = bench.promises(pairing.new)
        if found.broken_new:
            found.broken_old = bench.promises(pairing.old)
    except RunError as error:
        found.errors.append(str(error))


def _compare_pass(bench: Bench, pairing: Pairing, names: Iterable[str], found: Compared) -> None:
    """Runs one pass on both allocators, as often as needed. Raises HeaptapeError."""
    values = {name: Values() for name in names}
    suspected = [name for name in values if name in pairing.tolerances]
    for run in range(MOST_RUNS):
        if run and not suspected:
            break
        # Alternately, so that changes over time affect both in the same way.
        both = [(pairing.old, "old"), (pairing.new, "new")]
        for choice, which in both if run % 2 == 0 else reversed(both):
            for name, value in bench.figures(choice, values).items():
                getattr(values[name], which).append(value)
        beyond = [name for name in suspected if values[name].beyond(pairing.tolerances[name])]
        if run:
            found.noise += [name for name in suspected if name not in beyond]
        suspected = beyond
    found.figures |= values
    found.worse += suspected
