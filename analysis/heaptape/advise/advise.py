# SPDX-License-Identifier: MIT
"""Makes the advice: tries candidates, replays them, checks them against malloc's contract, and decides."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from heaptape.advise.choose import AIMS, CPU, Judge, Pick, Row, decide
from heaptape.advise.confirm import Confirmed
from heaptape.advise.fits import killed_at
from heaptape.advise.tried import (
    Bounds,
    Recorded,
    Tried,
    candidates,
    read_recorded,
    recorded_on,
    replay_all,
    today,
    with_own_memory,
)
from heaptape.advise.words import Advice, environment
from heaptape.common import phrases
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.common.phrases import counted
from heaptape.gate.condition import Condition
from heaptape.results import margins, replay_errors
from heaptape.results.model.penalties import penalties as checked_penalties
from heaptape.results.model.time_model import cache_effects, calls_ns
from heaptape.results.structs import workload_of
from heaptape.run import machine, registry, replay
from heaptape.run.exact import Bench
from heaptape.run.live import c_library
from heaptape.run.passes import OF_ACCESSES
from heaptape.run.registry import Choice
from heaptape.show.answer import bypassed
from heaptape.tape.workload_format import read_workload

REFERENCE = "today"  # what limits refer to
MOST_CAVEATS = 2
ONE_ARENA = re.compile(r"(arena_max=1|narenas:1)(?![0-9])")  # settings that make threads share a lock


@dataclass(frozen=True)
class Wish:
    """The request. `names`: candidates, as of -a (none: all that are found); `baseline`: the allocator that the program
    runs on today (None: the one it was recorded on); `limits`: what a candidate has to keep; `memory_limit`: bytes of
    the memory limit that the program has to live with (advise/fits.py).
    """

    objective: str
    names: Sequence[str] = ()
    baseline: str | None = None
    limits: Sequence[Condition] = ()
    memory_limit: int | None = None


@dataclass(frozen=True)
class Source:
    """A trace or workload, and its name in the advice. `cpu_ns`: CPU time of the recorded program, where known."""

    path: Path
    name: str
    cpu_ns: float | None = None


@dataclass(frozen=True)
class Place:
    """Where the work is done, and who is notified of its progress."""

    home: Home
    scratch: Path
    on_progress: Callable[[str, float], None] = lambda what, share: None


@dataclass(frozen=True)
class Found:
    """The advice and its sources. `about`: the workload (measure.replay.describe_workload)."""

    advice: Advice
    tried: Sequence[Tried]
    about: Mapping


@dataclass
class _Job:
    """One workload under candidates. `broken`: for each library that was checked against malloc's contract, the rule
    that it breaks; empty: none.
    """

    bench: Bench
    bounds: Bounds
    about: Mapping
    recorded: Recorded
    now: Choice
    cpu_ns: float | None
    broken: dict[Path, str] = field(default_factory=dict)


def advise(source: Source, wish: Wish, place: Place) -> Found:
    """Makes the advice. Raises HeaptapeError where the source can't be read or today's allocator can't be replayed."""
    home, on_progress = place.home, place.on_progress
    workload = replay.prepare(str(source.path), home, place.scratch)
    about = replay.describe_workload(workload, source.name)
    if not about["ops"]:
        raise HeaptapeError(f"{source.path}: contains no calls of malloc")
    if margins.stand_in(workload_of(about)):
        raise HeaptapeError(
            f"{source.path}: a distillate has nothing of the program's own memory and CPU time, which advice needs; "
            "'heaptape replay' and 'heaptape compare' compare allocators by it, with margins"
        )
    known = registry.load(home)
    info = read_workload(workload).info
    now, doubt = today(wish.baseline, info, known)
    made_on = recorded_on(info, known)
    wanted = candidates(wish.names, known, about["threads"])
    choices = list({one.label: one for one in (now, *([made_on] if made_on else []), *wanted)}.values())
    with_accesses = replay.has_accesses(workload)
    recorded = Recorded() if with_accesses else read_recorded(source.path, workload, about)
    bench = Bench(workload, home, choices)
    bounds = _bounds(with_accesses, home)
    job = _Job(bench, bounds, about, recorded, now, None if with_accesses else source.cpu_ns)
    tried, runs = replay_all(bench, choices, bounds, about, partial(on_progress, "replaying"))
    tried = with_own_memory(tried, runs, recorded, made_on.label if made_on else None)
    named = {now.label, *(one.label for one in wanted)}
    tried = [one for one in tried if one.label in named]
    _require(tried, now)
    judge = Judge(_error, job.cpu_ns)
    picks, refused = _decide(job, tried, wish, judge, on_progress)
    rows = [_row(one) for one in tried if not one.failure]
    by_label = {one.label: one.choice for one in tried}
    summary = _about(about, tried, next(row for row in rows if row.label == now.label), source.cpu_ns)
    advice = Advice(summary, now.label, rows, picks, judge, by_label, doubt, refused, _caveats(job, tried, picks, wish))
    return Found(advice, tried, about)


def _bounds(with_accesses: bool, home: Home) -> Bounds:
    """The passes, and this machine's penalties. A machine that can't be measured gets no prediction of CPU time."""
    passes = ("memory", "instructions", *(OF_ACCESSES if with_accesses else ()))
    try:
        return Bounds(passes, checked_penalties(machine.of_this_machine(home)))
    except HeaptapeError:
        return Bounds(passes, None)


def _decide(
    job: _Job, tried: Sequence[Tried], wish: Wish, judge: Judge, on_progress: Callable[[str, float], None]
) -> tuple[list[Pick], dict[str, str]]:
    """The picks, each of an allocator that kept malloc's contract on this workload, and label -> why another candidate
    is not advised. Only candidates that would be picked are checked; the verdict holds for all settings of an
    allocator.
    """
    refused = {one.label: one.failure for one in tried if one.failure}
    refused |= _beyond_limits(tried, job.now.label, wish.limits)
    if wish.memory_limit is not None:
        refused |= _killed(tried, wish.memory_limit, job.about["ops"])
    while True:
        rows = [_row(one) for one in tried if not one.failure]
        kept = [one.label for one in tried if one.label not in refused]
        picks = decide(rows, job.now.label, wish.objective, judge, kept)
        labels = {label for pick in picks for label in (pick.label, *pick.ties)} - {job.now.label}
        open_ = [one.choice for one in tried if one.label in labels and one.choice.path not in job.broken]
        if not open_:
            return picks, refused
        _verify(job, open_, on_progress)
        for one in tried:
            if why := job.broken.get(one.choice.path):
                refused.setdefault(one.label, why)


def _verify(job: _Job, choices: Sequence[Choice], on_progress: Callable[[str, float], None]) -> None:
    by_path = {choice.path: choice for choice in reversed(choices)}
    on_progress("verifying the allocator", 1.0)
    for choice, broken in job.bench.side_by_side(job.bench.promises, list(by_path.values())):
        job.broken[choice.path] = broken


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
            if one is not base and not limit.holds(value, reference):
                out.setdefault(one.label, f"beyond {limit.text}")
    return out


def _killed(tried: Sequence[Tried], limit_bytes: int, ops: int) -> dict[str, str]:
    """label -> when the memory limit would kill the program; today's allocator too."""
    out = {}
    for one in tried:
        if one.failure:
            continue
        if one.smallest_limit_bytes is None:
            raise HeaptapeError("--limit memory: the recording has no samples of the program's own memory")
        if one.smallest_limit_bytes > limit_bytes:
            at = killed_at(one.line, limit_bytes)
            out[one.label] = f"killed at call {at:,} of {ops:,}, needs {phrases.size(one.smallest_limit_bytes)}"
    return out


def figure_of(one: Tried, name: str) -> float | None:
    """A figure by its name in measure.exact: memory is the whole program's, other figures are the allocator's."""
    whole = {"rss-peak": one.peak_bytes, "rss-mean": one.mean_bytes}
    return whole.get(name, one.figures.get(name))


def _require(tried: Sequence[Tried], now: Choice) -> None:
    base = next(one for one in tried if one.label == now.label)
    if base.failure:
        raise HeaptapeError(f"today's allocator can't be replayed, so nothing can be compared with it: {base.failure}")


def _row(one: Tried) -> Row:
    return Row(one.label, one.peak_bytes, one.mean_bytes, one.counts, one.smallest_limit_bytes)


def _error(figure: str, a: str, b: str) -> float:
    """The larger error of the two; for an allocator without its own errors, that of all allocators together."""
    return max(replay_errors.errors_of([figure], [a, b]).values(), default=0.0) if a != b else 0.0


def _about(about: Mapping, tried: Sequence[Tried], now: Row, cpu_ns: float | None) -> str:
    allocators = len({one.choice.path for one in tried})
    more = [f"{phrases.seconds(cpu_ns)} CPU"] if cpu_ns else []
    more.append(f"peak memory {phrases.size(now.peak_bytes)} on {now.label}")
    tried_text = f"{counted(len(tried), 'setting')} of {counted(allocators, 'allocator')} replayed"
    return f"{phrases.about_workload(about['name'], about['ops'], about['threads'], more)} {tried_text}."


def _caveats(job: _Job, tried: Sequence[Tried], picks: Sequence[Pick], wish: Wish) -> list[str]:
    """What could change the advice, the most important first."""
    said = [bypassed(workload_of(job.about))]
    if job.about["threads"] > 1:
        settings = {one.label: " ".join(one.choice.environment.values()) for one in tried}
        said += [
            f"{pick.label} makes all threads share one arena, and so wait for each other."
            for pick in picks
            if ONE_ARENA.search(settings.get(pick.label, ""))
        ]
    counts = next(one for one in tried if one.label == job.now.label).counts
    if CPU in AIMS[wish.objective] and counts is None:
        said.append("CPU time is not estimated, as instructions could not be counted.")
    elif CPU in AIMS[wish.objective] and not set(OF_ACCESSES) & set(job.bounds.passes):
        low, high = cache_effects(calls_ns(counts), job.cpu_ns) if job.cpu_ns and counts else (math.nan, math.nan)
        unknown = " The program's CPU time is not known." if job.cpu_ns is None else ""
        said.append(phrases.without_cache_effects(low, high, "advise --accesses") + unknown)
    if job.recorded.samples is None:
        said.append("Memory is the allocator's alone, as the recording has no samples of the program's.")
    labels = {pick.best for pick in picks if pick.best} | {pick.label for pick in picks}
    if error := max((_error("peak_rss", label, job.now.label) for label in labels), default=0.0):
        said.append(f"Replayed peak memory was within {error:.1f} % of the live program's in 9 of 10 cases.")
    return [one for one in said if one][:MOST_CAVEATS]


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
    choice = advice.choices[pick.label]
    stays = pick.label == advice.today
    return {
        "aim": pick.aim,
        "use": pick.label,
        "stay": stays,
        "why": pick.why,
        "ties": list(pick.ties),
        "environment": {} if stays else environment(choice, advice.today, c_library()),
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
        about["smallest_limit_bytes"] = round(one.smallest_limit_bytes)
    change = advice.judge.change(advice.row(advice.today), advice.row(one.label))
    if change:
        simulated = not math.isnan(change.row["percent"])
        about |= {"cpu_ns": change.ns, "cpu_low_ns": change.ns_low, "cpu_high_ns": change.ns_high}
        about["cpu_from"] = "accesses" if simulated else "calls"
        if not math.isnan(change.percent):
            about |= {"cpu_percent": change.percent}
            about |= {"cpu_low_percent": change.low, "cpu_high_percent": change.high}
    return about


def with_next_step(found: Found, confirmed: Sequence[Confirmed], next_step: Sequence[tuple[str, str]]) -> Found:
    """The same advice with what live runs showed, and what else can be done."""
    live = tuple(one.line for one in confirmed)
    return replace(found, advice=replace(found.advice, live=live, next_step=tuple(next_step)))
