# SPDX-License-Identifier: MIT
"""Searches placements that save memory: a handful of groups of call sites, each replayed (docs/use/PLACE.md)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from heaptape.allocators.registry import Choice
from heaptape.common.console import Counted
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.decide.worth import is_reason
from heaptape.features.blame import data as blame_data
from heaptape.features.blame import proposals
from heaptape.features.blame.data import Blame
from heaptape.features.place import plan as plans
from heaptape.features.place.plan import Plan, Site
from heaptape.features.whatif import experiments as whatif
from heaptape.results.comparing.compare import absolute
from heaptape.results.schema import Results, figures
from heaptape.results.structs import Run as MemoryRun
from heaptape.results.structs import Workload, workload_of
from heaptape.run import judging, replay, rounds
from heaptape.run.rounds import Run
from heaptape.run.samples import Samples, read_samples
from heaptape.tape.trace import open_trace

AIMS = {"peak": "peak_rss", "mean": "mean_rss"}
INSTRUCTIONS = "total_instructions"
UPPER = "upper_peak_rss"  # upper end of a peak that is a range, else the peak
MOST_FUNCTIONS, MOST_CANDIDATES = 4, 6
LONG_LIVED, SHORT_LIVED = 0.25, 0.01  # mean lifetimes, as shares of the recording
KEPT_SHARES = 0.75, 0.95  # of empty bytes in pages with live objects
MOST_GROWTH = 1.02  # of the figure that is not the aim
MOST_OF_LIFETIMES = 64  # call sites of a candidate by lifetimes
MOST_OBJECTS = 0.95  # share of the live objects: more is the whole program


@dataclass(frozen=True)
class Candidate:
    """`regions`: the sites of each."""

    name: str
    regions: tuple[frozenset[int], ...]


@dataclass(frozen=True)
class Tried:
    """`figures`: metric -> value. `run`: of the memory pass."""

    candidate: Candidate
    figures: dict[str, float]
    run: MemoryRun


@dataclass(frozen=True)
class Found:
    """What a search found. `about`: the recording. `base`: figures as recorded, `base_run` their memory pass.
    `samples`: when the recorded program was sampled. `tried`: the best first, by the aim. `best`: None: nothing is
    worth a change. `held_out`: the figures of the second recording as recorded and with the plan; None: not asked for.
    `left_out`: call sites of the best that the plan can't tell from others.
    """

    about: Workload
    samples: Samples
    base: dict[str, float]
    base_run: MemoryRun
    tried: list[Tried]
    best: Tried | None
    plan: Plan | None
    held_out: tuple[dict[str, float], dict[str, float]] | None
    left_out: int


@dataclass(frozen=True)
class Search:
    """`most_instructions`: of malloc and free, in percent more than as recorded."""

    source: Path
    held_out: Path | None
    choice: Choice
    aim: str
    most_instructions: float
    home: Home
    on_progress: Callable[[Run | None, float, str], None]
    on_failure: Callable[[Run, str], None]


def search(asked: Search, scratch: Path) -> Found:
    """Raises HeaptapeError, also for a recording without call stacks."""
    steps = _Steps(asked, MOST_CANDIDATES + 4)  # memory, blame, instructions, and those of the best
    bench = _Bench(asked, asked.source, scratch / "source", steps)
    base, base_run = bench.memory(bench.workload)
    if wrong := judging.judged(asked.source, bench.workload, asked.home, {asked.choice.label: base_run}):
        raise HeaptapeError(wrong)
    (found,) = blame_data.of_allocators(bench.replay(bench.workload, "blame")).values()
    made = candidates(found, asked.choice.label, bench.sites, asked.aim)
    steps.total -= MOST_CANDIDATES - len(made)
    workloads = {one: bench.compile(one.regions, f"candidate-{at}") for at, one in enumerate(made)}
    tried = [Tried(one, *bench.memory(workload)) for one, workload in workloads.items()]
    nothing = Found(bench.about, bench.samples, base, base_run, tried, None, None, None, 0)
    metric = AIMS[asked.aim]
    tried.sort(key=lambda one: one.figures[UPPER if metric == "peak_rss" else metric])
    if tried and _is_worth(base, tried[0].figures, metric):
        base |= bench.instructions(bench.workload)
    for at, one in enumerate(tried):
        if not _is_worth(base, one.figures, metric):
            continue
        if any(one.figures[other] > MOST_GROWTH * base[other] for other in AIMS.values()):
            continue
        tried[at] = best = replace(one, figures=one.figures | bench.instructions(workloads[one.candidate]))
        more = 100 * (best.figures.get(INSTRUCTIONS, 0.0) / base.get(INSTRUCTIONS, 1.0) - 1)
        if more > asked.most_instructions:
            continue
        placed, left_out = plans.placed(bench.sites, best.candidate.regions)
        if not placed:
            continue
        plan = Plan(placed, bench.program, _predicted(asked, base, best.figures))
        held_out = _held_out(asked, plan, scratch, steps) if asked.held_out else None
        if held_out and not _is_worth(*held_out, metric):
            return replace(nothing, base=base, held_out=held_out, left_out=len(left_out))
        return Found(bench.about, bench.samples, base, base_run, tried, best, plan, held_out, len(left_out))
    return replace(nothing, base=base)


def _is_worth(before: dict[str, float], after: dict[str, float], metric: str) -> bool:
    """Of a peak that is a range, at both ends."""
    ends = [metric, UPPER] if metric == "peak_rss" else [metric]
    saved = min(before[end] - after[end] for end in ends)
    return is_reason(100 * saved / before[metric] if before[metric] else 0.0, 0.0, saved)


def _predicted(asked: Search, base: dict[str, float], after: dict[str, float]) -> dict[str, str | int]:
    figures = {f"{metric}_{when}_bytes": round(values[metric]) for metric in AIMS.values()
               for when, values in (("before", base), ("after", after))}  # fmt: skip
    return {"allocator": asked.choice.label, "recording": asked.source.name, **figures}


# --- candidates ---


def candidates(found: Blame, allocator: str, sites: dict[int, Site], aim: str) -> list[Candidate]:
    """Functions whose objects keep most memory that they do not need, alone and together, each in its own region or in
    one; long-lived and short-lived objects apart.
    """
    functions = _functions(found, allocator, sites, aim)
    made = [
        Candidate(" + ".join(name for name, _ in some), tuple(numbers for _, numbers in some))
        for some in (functions[:1], functions)
    ]
    made += [
        Candidate(f"sites that keep {100 * share:.0f} % of empty space", (_keepers(found, sites, share),))
        for share in KEPT_SHARES
    ]
    long_lived, short_lived = _by_lifetime(found, sites)
    made.append(Candidate("long-lived objects", (long_lived,)))
    made.append(Candidate("short-lived objects", (short_lived,)))
    seen, kept = set(), []
    for one in made:
        if one.regions and all(one.regions) and one.regions not in seen:
            seen.add(one.regions)
            kept.append(one)
    return kept


def _functions(found: Blame, allocator: str, sites: dict[int, Site], aim: str) -> list[tuple[str, frozenset[int]]]:
    table = proposals.estimates(found, allocator, blame_data.widest(found))
    column = {"peak": "peak_saving_bytes", "mean": "mean_saving_bytes"}[aim]
    wanted = table[(table["action"] == "segregate") & (table[column] > 0)].sort_values(column, ascending=False)
    made = []
    for row in wanted.head(MOST_FUNCTIONS).itertuples():
        grouping, _, value = str(row.group).partition("=")
        if grouping == "site":
            numbers = {int(value)} & set(sites)
        else:
            of = {number for number, name in found.functions.items() if name == row.name}
            numbers = {number for number, site in sites.items() if site.function in of}
        if numbers:
            made.append((str(row.name).partition(" < ")[0], frozenset(numbers)))
    return made


def _by_site(found: Blame, sites: dict[int, Site], figure: str) -> pd.Series:
    """A figure of each site, its mean over even positions; the largest first."""
    even = np.flatnonzero(["even" in words.split(",") for words in found.positions["why"]])
    rows = found.groups[(found.groups["grouping"] == "site") & found.groups["at"].isin(even)]
    mean = rows.groupby("group")[figure].sum() / max(len(even), 1)
    return mean[mean.index.isin(list(sites))].sort_values(ascending=False)


def _keepers(found: Blame, sites: dict[int, Site], share: float) -> frozenset[int]:
    """The fewest sites that keep that share of the empty bytes in pages with live objects."""
    kept = _by_site(found, sites, "empty_bytes")
    return frozenset(int(number) for number in kept.index[kept.cumsum() - kept < share * kept.sum()])


def _by_lifetime(found: Blame, sites: dict[int, Site]) -> tuple[frozenset[int], frozenset[int]]:
    """The sites whose objects live long, and those whose objects live shortly: mean lifetimes by Little's law, from the
    mean of live objects and the births. Of each kind, those with most live objects.
    """
    mean = _by_site(found, sites, "objects")
    life = {int(number): objects / max(sites[int(number)].births, 1) for number, objects in mean.items()}
    kinds = (
        [number for number, share in life.items() if share >= LONG_LIVED],
        [number for number, share in life.items() if 0 < share < SHORT_LIVED],
    )
    kept = [frozenset(numbers[:MOST_OF_LIFETIMES]) for numbers in kinds]
    most = MOST_OBJECTS * mean.sum()
    long_lived, short_lived = (one if mean[list(one)].sum() <= most else frozenset[int]() for one in kept)
    return long_lived, short_lived


# --- replays ---


@dataclass
class _Steps:
    """How many replays are done, of how many at most: of unlike length, so nothing is told of the time left."""

    asked: Search
    total: int
    done: int = 0

    def tell(self, run: Run | None, share: float, workload: str) -> None:
        self.asked.on_progress(run, Counted(min((self.done + share) / self.total, 1.0)), workload)
        self.done += run is None  # the end of a replay


class _Bench:
    """A recording, compiled once, and replays of it and of its rewritten workloads."""

    def __init__(self, asked: Search, source: Path, scratch: Path, steps: _Steps) -> None:
        scratch.mkdir()
        self.asked, self.scratch, self.steps = asked, scratch, steps
        self.job = whatif.Job(source, [], [asked.choice], rounds.Settings(1, seed=1))
        self.workload = replay.prepare(str(source), asked.home, scratch, origins=True)
        origins = replay.origins_of(self.workload)
        if origins is None:
            raise HeaptapeError(f"{source}: has no call stacks: record with --stacks")
        with open_trace(source) as trace:
            self.sites, self.program = plans.sites_of(trace, origins), str(trace.info.get("program", ""))
        self.samples, _ = read_samples(source, self.workload)
        self.about = workload_of(replay.describe_workload(self.workload, ""))

    def compile(self, regions: Iterable[Iterable[int]], name: str) -> Path:
        """The workload with these sites segregated."""
        groups = tuple(f"site={','.join(map(str, sorted(one)))}=segregate" for one in regions)
        output = self.scratch / f"{name}.work"
        return whatif.compile_workload(self.job, whatif.Experiment(groups), output, self.asked.home).workload

    def replay(self, workload: Path, pass_: str) -> Results:
        about = replay.describe_workload(workload, self.job.source.name.partition(".")[0])
        settings = rounds.Settings(1, passes=(pass_,), seed=1, optional=("instructions",))

        def on_progress(run: Run | None, share: float) -> None:
            self.steps.tell(run, share, workload.stem)

        data = replay.replay(
            workload, about, [self.asked.choice], settings, self.asked.home, on_progress, self.asked.on_failure
        )
        return Results(about["name"], data)

    def memory(self, workload: Path) -> tuple[dict[str, float], MemoryRun]:
        """Peak and mean."""
        results = self.replay(workload, "memory")
        run = results.first_runs("rss_anon_peak_bytes").get(self.asked.choice.label)
        if run is None:
            raise HeaptapeError(f"{results.name}: {self.asked.choice.label} gave no figures")
        peak, mean = run.rss_anon_peak_bytes or 0.0, run.rss_anon_mean_bytes or 0.0
        return {"peak_rss": peak, "mean_rss": mean, UPPER: max(peak, run.spread_peak_bytes or 0)}, run

    def instructions(self, workload: Path) -> dict[str, float]:
        """Of malloc and free; empty where they can't be counted."""
        values = absolute(figures([self.replay(workload, "instructions")]))
        return {INSTRUCTIONS: float(values[INSTRUCTIONS].iloc[0])} if INSTRUCTIONS in values.columns else {}


def _held_out(asked: Search, made: Plan, scratch: Path, steps: _Steps) -> tuple[dict[str, float], dict[str, float]]:
    assert asked.held_out
    steps.total = steps.done + 2
    bench = _Bench(asked, asked.held_out, scratch / "held-out", steps)
    regions = plans.regions_in(bench.sites, made.sites)
    if not regions:
        raise HeaptapeError(f"{asked.held_out}: has none of the plan's call sites: is it of another build?")
    (before, _), (after, _) = bench.memory(bench.workload), bench.memory(bench.compile(regions, "placed"))
    return before, after
