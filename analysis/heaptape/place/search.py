# SPDX-License-Identifier: MIT
"""Searches placements that save memory: a handful of groups of call sites, each replayed (docs/use/PLACE.md)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.passes import blame_data, proposals
from heaptape.passes.blame_data import Blame
from heaptape.place import plan as plans
from heaptape.place.plan import Plan, Site
from heaptape.results.comparing.compare import absolute
from heaptape.results.comparing.worth import is_reason
from heaptape.results.schema import Results, figures
from heaptape.run import rounds, whatif
from heaptape.run.registry import Choice
from heaptape.run.replay import origins_of
from heaptape.run.rounds import Run
from heaptape.tape.trace import open_trace

AIMS = {"peak": "peak_rss", "mean": "mean_rss"}
INSTRUCTIONS = "total_instructions"
MOST_FUNCTIONS = 4
LONG_LIVED, SHORT_LIVED = 0.25, 0.01  # mean lifetimes, as shares of the recording
MOST_OF_LIFETIMES = 64  # call sites of a candidate by lifetimes
MOST_OBJECTS = 0.95  # share of the live objects: more is the whole program


@dataclass(frozen=True)
class Candidate:
    """`regions`: the sites of each."""

    name: str
    regions: tuple[frozenset[int], ...]


@dataclass(frozen=True)
class Tried:
    """`figures`: metric -> value, NaN where it is not known."""

    candidate: Candidate
    figures: dict[str, float]


@dataclass(frozen=True)
class Found:
    """What a search found. `base`: figures as recorded. `tried`: the best first, by the aim. `best`: None: nothing is
    worth a change. `held_out`: the figures of the second recording as recorded and with the plan; None: not asked for.
    `left_out`: call sites of the best that the plan can't tell from others.
    """

    ops: int
    base: dict[str, float]
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
    first = _replay(asked, asked.source, scratch / "first", [], ("blame",))
    (found,) = blame_data.of_allocators(first).values()
    sites, program = _sites(asked.source, scratch / "first")
    all_tried = candidates(found, asked.choice.label, sites, asked.aim)
    results = _replay(asked, asked.source, scratch / "all", all_tried, ("memory",))
    base, tried = _figures(results, all_tried, asked.choice)
    metric = AIMS[asked.aim]
    tried.sort(key=lambda one: one.figures[metric])
    ops = int(first.workload.ops or 0)
    for at, one in enumerate(tried):
        if not _is_worth(base, one.figures, metric):
            break
        counted = _replay(asked, asked.source, scratch / f"counted-{at}", [one.candidate], ("instructions",))
        before, (after,) = _figures(counted, [one.candidate], asked.choice)
        base |= before
        tried[at] = best = Tried(one.candidate, one.figures | after.figures)
        more = 100 * (best.figures.get(INSTRUCTIONS, 0.0) / before.get(INSTRUCTIONS, 1.0) - 1)
        if more > asked.most_instructions:
            continue
        placed, left_out = plans.placed(sites, best.candidate.regions)
        made = Plan(placed, program, _predicted(asked, base, best.figures)) if placed else None
        held_out = _held_out(asked, made, scratch) if made and asked.held_out else None
        if held_out and not _is_worth(*held_out, metric):
            return Found(ops, base, tried, None, None, held_out, len(left_out))
        return Found(ops, base, tried, best if made else None, made, held_out, len(left_out))
    return Found(ops, base, tried, None, None, None, 0)


def _is_worth(before: dict[str, float], after: dict[str, float], metric: str) -> bool:
    saved = before[metric] - after[metric]
    return is_reason(100 * saved / before[metric] if before[metric] else 0.0, 0.0, saved)


def _predicted(asked: Search, base: dict[str, float], after: dict[str, float]) -> dict[str, str | int]:
    figures = {f"{metric}_{when}": round(values[metric]) for metric in AIMS.values()
               for when, values in (("before", base), ("after", after))}  # fmt: skip
    return {"allocator": asked.choice.label, "recording": asked.source.name, **figures}


# --- candidates ---


def candidates(found: Blame, allocator: str, sites: dict[int, Site], aim: str) -> list[Candidate]:
    """Functions whose objects keep most memory that they do not need, alone and together, each in its own region or in
    one; long-lived and short-lived objects apart.
    """
    functions = _functions(found, allocator, sites, aim)
    names = [name for name, _ in functions]
    own = [numbers for _, numbers in functions]
    made = [Candidate(" + ".join(names[:count]), tuple(own[:count])) for count in (1, 2, len(own)) if own]
    if len(own) > 1:
        made.append(Candidate(f"{' + '.join(names)}, in one region", (frozenset().union(*own),)))
    long_lived, short_lived = _by_lifetime(found, sites)
    made.append(Candidate("long-lived objects", (long_lived,)))
    made.append(Candidate("short-lived objects", (short_lived,)))
    seen, kept = set(), []
    for one in made:
        if all(one.regions) and one.regions not in seen:
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


def _by_lifetime(found: Blame, sites: dict[int, Site]) -> tuple[frozenset[int], frozenset[int]]:
    """The sites whose objects live long, and those whose objects live shortly: mean lifetimes by Little's law, from the
    mean of live objects and the births. Of each kind, those with most live objects.
    """
    even = np.flatnonzero(["even" in words.split(",") for words in found.positions["why"]])
    rows = found.groups[(found.groups["grouping"] == "site") & found.groups["at"].isin(even)]
    mean = rows.groupby("group")["objects"].sum() / max(len(even), 1)
    mean = mean[mean.index.isin(list(sites))].sort_values(ascending=False)
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


def _replay(
    asked: Search, source: Path, scratch: Path, wanted: Sequence[Candidate], passes: tuple[str, ...]
) -> Results:
    scratch.mkdir()
    experiments = [_experiment(one.regions) for one in wanted]
    settings = rounds.Settings(1, passes=passes, seed=1, optional=("instructions",))
    job = whatif.Job(source, experiments, [asked.choice], settings)
    return Results(str(source), whatif.run(job, asked.home, scratch, asked.on_progress, asked.on_failure))


def _experiment(regions: Iterable[Iterable[int]]) -> whatif.Experiment:
    return whatif.Experiment(tuple(f"site={','.join(map(str, sorted(one)))}=segregate" for one in regions))


def _figures(results: Results, wanted: Sequence[Candidate], choice: Choice) -> tuple[dict[str, float], list[Tried]]:
    values = absolute(figures([results])).xs(results.name)
    metrics = [metric for metric in (*AIMS.values(), INSTRUCTIONS) if metric in values.columns]

    def of(label: str) -> dict[str, float]:
        if label not in values.index:
            raise HeaptapeError(f"{results.name}: {label} gave no figures")
        return {metric: float(values.loc[label][metric]) for metric in metrics}

    labels = [about.labels[choice.label] for about in results.parsed.whatif or []]
    return of(choice.label), [Tried(one, of(label)) for one, label in zip(wanted, labels)]


def _sites(source: Path, scratch: Path) -> tuple[dict[int, Site], str]:
    """Its call sites, and the file name of its program."""
    origins = origins_of(scratch / f"{source.stem}.work")
    with open_trace(source) as trace:
        if origins is None:
            raise HeaptapeError(f"{source}: has no call stacks: record with --stacks")
        return plans.sites_of(trace, origins), str(trace.info.get("program", ""))


def _held_out(asked: Search, made: Plan, scratch: Path) -> tuple[dict[str, float], dict[str, float]]:
    assert asked.held_out
    _replay(asked, asked.held_out, scratch / "held-out", [], ("blame",))
    sites, _ = _sites(asked.held_out, scratch / "held-out")
    regions = plans.regions_in(sites, made.sites)
    if not regions:
        raise HeaptapeError(f"{asked.held_out}: has none of the plan's call sites: is it of another build?")
    one = Candidate("held out", tuple(map(frozenset, regions)))
    results = _replay(asked, asked.held_out, scratch / "held-out-plan", [one], ("memory",))
    base, (tried,) = _figures(results, [one], asked.choice)
    return base, tried.figures
