# SPDX-License-Identifier: MIT
"""Which runs are made: repetition by repetition ("rounds"), and when there have been enough of them.

In each round every allocator is run once per pass that needs more runs, in a random order (seeded), so that a machine
that gets slower or warmer affects all in the same way, and rounds can be compared in pairs. Runs of a round that only
count are made several at a time; runs that read the clock are made one by one, with nothing beside them.

A pass is repeated as often as asked, twice or once, as it says itself (common/engine.py), but for these:

- time: with `until_ci_percent`, until every allocator's interval of its cycle ratio to the baseline is that narrow, or
  `repeats_limit` is reached. Checking after each round makes such an interval a little too narrow, so it must hold
  after at least FEWEST_ROUNDS rounds.
- memory: in the recorded order with fixed addresses, an allocator that reads neither the clock nor random numbers has
  bit-identical memory in each run (a test of replay/ checks glibc, jemalloc without decay and tcmalloc), and more
  repetitions add nothing. Two show whether that is so here; allocators for which it is not (MEMORY_AGREES) get as many
  repetitions as time has.
- instructions: twice, even if `repeats` is 1: the second run shows that the figures are exact (an allocator that reads
  the clock differs by 0.006 %).
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, fields

from heaptape.allocators.registry import Choice
from heaptape.common.engine import BY_NAME, DEFAULT_PASSES, ONCE, REPEATED
from heaptape.results import structs as results

FEW_REPEATS = 2
FEWEST_ROUNDS, MOST_ROUNDS = 5, 50
MEMORY_AGREES = 0.001  # of the figure
MEMORY_FIGURES = ("rss_anon_peak_bytes", "rss_anon_mean_bytes")
# Of Settings, what changes no figure, or is decided by the workload or the passes asked for.
NO_FIGURES = {
    "passes", "optional", "also_loaded", "at", "seed", "timeout_s", "repeats_limit", "until_ci_percent", "baseline",
    "jobs",
}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """How to replay. `order` empty: each pass's own default. `timeout_s` 0: no limit. `until_ci_percent` 0: no stop
    rule. `baseline`: label that the stop rule compares with; None: as choose_baseline. `caches`, `tlbs`: those that
    OF_ACCESSES simulate, as heaptape-replay takes them; empty: its own. `optional`: passes that are left out, and
    reported, if they can't be made. `also_loaded`: libraries that passes whose figures they change load on every
    allocator (engine_process.py). `at`: positions at which OF_ORIGINS attribute memory beside their own, as
    heaptape-replay takes them. `memory_map`: the memory pass makes one. `jobs`: how many runs that
    only count are made at a time; 0: as the machine has room. `instruction_ops`: the instructions pass counts at most
    this many ops, the first of the workload. Under our Valgrind tool an op takes 0.3 to 0.8 us in the recorded order
    with few threads, 2.5 us with 23. The recorded order can't be cut: a longer workload is run in `window`, in which
    the count of a single thread is as exact, and counts of several threads differ a little from run to run.
    """

    repeats: int = 5
    order: str = ""
    touch: str = "recorded"
    passes: tuple[str, ...] = DEFAULT_PASSES
    seed: int = 0
    timeout_s: float = 0
    until_ci_percent: float = 0
    repeats_limit: int = MOST_ROUNDS
    baseline: str | None = None
    aslr: bool = False
    as_malloc: bool = False
    threads_to_cores: bool = False
    real_clock: bool = False
    disturb_lines: int = 0
    warm_rounds: int = 0
    caches: str = ""
    tlbs: str = ""
    optional: tuple[str, ...] = ()
    also_loaded: tuple[str, ...] = ()
    at: tuple[str, ...] = ()
    jobs: int = 0
    instruction_ops: int = 20_000_000
    memory_map: bool = True

    @property
    def unusual(self) -> dict[str, str | int | bool]:
        """What changes figures and is not as usual."""
        names = [one.name for one in fields(self) if one.name not in NO_FIGURES]
        return {name: mine for name in names if (mine := getattr(self, name)) != getattr(Settings, name)}


@dataclass(frozen=True)
class Run:
    choice: Choice
    pass_: str
    repeat: int


class Rounds:
    """Plans one round after the other, from the results of the rounds so far."""

    def __init__(self, choices: Sequence[Choice], settings: Settings) -> None:
        self._choices, self._settings = list(choices), settings
        self._shuffler = random.Random(settings.seed)
        self.number = 0

    def next(self, finished: Sequence[results.Run]) -> list[Run]:
        """The next round's runs, in order; empty if there are enough. `finished`: the runs so far, as in results."""
        runs = []
        for pass_ in self._settings.passes:
            wanted = [c for c in self._choices if self._wants(c, pass_, finished)]
            self._shuffler.shuffle(wanted)
            runs += [Run(choice, pass_, self.number) for choice in wanted]
        self.number += 1
        return runs

    def least(self) -> dict[str, int]:
        """How many runs of each pass there will be at least."""
        of_pass = {REPEATED: self._settings.repeats, ONCE: 1}
        few = min(self._settings.repeats, FEW_REPEATS)
        often = {name: of_pass.get(one.repeats, few) for name, one in BY_NAME.items()} | {"instructions": FEW_REPEATS}
        return {pass_: len(self._choices) * often[pass_] for pass_ in self._settings.passes}

    def _wants(self, choice: Choice, pass_: str, finished: Sequence[results.Run]) -> bool:
        repeats = BY_NAME[pass_].repeats
        if repeats == ONCE:
            return self.number == 0
        if pass_ == "instructions":
            return self.number < FEW_REPEATS
        if repeats == REPEATED and self.number < self._settings.repeats:
            return True
        if pass_ == "time":
            return self._wants_narrower(finished)
        if self.number < min(self._settings.repeats, FEW_REPEATS):
            return True
        return pass_ == "memory" and self.number < self._settings.repeats and memory_varies(choice.label, finished)

    def _wants_narrower(self, finished: Sequence[results.Run]) -> bool:
        settings = self._settings
        if not settings.until_ci_percent or self.number >= settings.repeats_limit:
            return False
        if self.number < FEWEST_ROUNDS:
            return True
        return not widest_interval(finished, baseline_of(self._choices, settings)) <= settings.until_ci_percent


def baseline_of(choices: Sequence[Choice], settings: Settings) -> str:
    """Label of the allocator that the stop rule compares with."""
    labels = [choice.label for choice in choices]
    usual = (*(choice.label for choice in choices if choice.as_recorded), "glibc", labels[0])
    return settings.baseline or next(label for label in usual if label in labels)


def memory_varies(label: str, finished: Sequence[results.Run]) -> bool:
    """Do the allocator's memory runs differ by more than MEMORY_AGREES of the largest, in peak or mean?"""
    runs = [run for run in finished if run.pass_ == "memory" and run.label == label]
    for key in MEMORY_FIGURES:
        values = [value for run in runs if (value := getattr(run, key)) is not None]
        if values and max(values) - min(values) > MEMORY_AGREES * max(values):
            return True
    return False


def widest_interval(finished: Sequence[results.Run], baseline: str) -> float:
    """The widest half interval (95 %) of the ratio of an allocator's total cycles to the baseline's, in percent of the
    ratio. 0 if there is nothing to compare (one allocator, or all others failed); infinite if it is not known.
    """
    import pandas as pd

    from heaptape.results.comparing.intervals import log_ratio

    timed: dict[str, dict[int, float]] = {}
    for run in finished:
        if run.pass_ == "time" and run.cycles_total is not None:
            timed.setdefault(run.label, {})[run.repeat or 0] = run.cycles_total
    base = pd.Series(timed.pop(baseline, {}), dtype=float)
    widest = 0.0
    for values in timed.values():
        ratio = log_ratio(base, pd.Series(values, dtype=float))
        half = ratio.half_width() if ratio else math.nan
        widest = max(widest, math.inf if math.isnan(half) else 100 * math.expm1(min(half, 100.0)))
    return widest
