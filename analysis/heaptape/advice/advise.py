"""The whole of an advice: what is tried, replayed and held to malloc's promises, and what follows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from heaptape.advice.candidates import candidates, recorded_on, today
from heaptape.advice.choose import AIMS, CPU, Judge, Pick, Row, decide
from heaptape.advice.tried import Bounds, Recorded, Tried, read_recorded, replay_all, with_own_memory
from heaptape.advice.words import Advice
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.formats.workload_format import read_workload
from heaptape.gate.condition import Condition
from heaptape.measure import penalties, registry, replay
from heaptape.measure.exact import Bench
from heaptape.measure.registry import Choice
from heaptape.measure.side_by_side import side_by_side
from heaptape.model.penalties import Penalties
from heaptape.model.penalties import penalties as checked_penalties
from heaptape.results import replay_errors

REFERENCE = "today"  # what limits are held against


@dataclass(frozen=True)
class Wish:
    """What is asked. `names`: candidates, as of -a (none: all that are found); `baseline`: what the program runs on
    today (None: what it was recorded on); `limits`: what a candidate has to keep.
    """

    objective: str
    names: Sequence[str] = ()
    baseline: str | None = None
    limits: Sequence[Condition] = ()


@dataclass(frozen=True)
class Found:
    """The advice and what it is made of. `about`: the workload (measure.replay.describe_workload)."""

    advice: Advice
    tried: Sequence[Tried]
    about: Mapping


@dataclass
class _Job:
    """One workload under candidates."""

    bench: Bench
    bounds: Bounds
    about: Mapping
    recorded: Recorded
    made_on: Choice | None
    now: Choice
    kept_promises: dict[Path, str] = field(default_factory=dict)


def advise(
    source: Path,
    wish: Wish,
    home: Home,
    scratch: Path,
    cpu_ns: float | None = None,
    on_progress: Callable[[str, float], None] = lambda what, share: None,
) -> Found:
    """`source`: a trace or workload; `cpu_ns`: CPU time of the recorded program, where it is known. Raises
    HeaptapeError where it can't be read or today's allocator can't be replayed.
    """
    workload = replay.prepare(str(source), home, scratch)
    about = replay.describe_workload(workload, source.name.split(".")[0])
    if not about["ops"]:
        raise HeaptapeError(f"{source}: no calls of malloc are in it")
    known = registry.load(home)
    info = read_workload(workload).info
    now, doubt = today(wish.baseline, info, known)
    made_on = recorded_on(info, known)
    choices = _unique([now, *([made_on] if made_on else []), *candidates(wish.names, known, about["threads"])])
    with_accesses = replay.has_accesses(workload)
    recorded = Recorded() if with_accesses else read_recorded(source, workload, about)
    bench = Bench(workload, home, choices)
    bounds = Bounds(*_passes(bench, now, with_accesses, home))
    job = _Job(bench, bounds, about, recorded, made_on, now)
    tried, runs = replay_all(bench, choices, bounds, about, partial(on_progress, "replaying"))
    tried = with_own_memory(tried, runs, recorded, made_on.label if made_on else None)
    _require(tried, now)
    judge = Judge(_error, None if with_accesses else cpu_ns)
    picks, refused = _decide(job, tried, wish, judge, on_progress)
    rows = [_row(one) for one in tried if not one.failure]
    by_label = {one.label: one.choice for one in tried}
    told = _about(about, tried)
    advice = Advice(told, now.label, rows, picks, judge, by_label, doubt, refused, _sure(job, picks, wish))
    return Found(advice, tried, about)


def _passes(bench: Bench, now: Choice, with_accesses: bool, home: Home) -> tuple[tuple[str, ...], Penalties | None]:
    """Which passes can be made, and what things cost here. Without our Valgrind tool memory is all that is known."""
    if with_accesses:
        return ("memory", "instructions", "misses"), checked_penalties(penalties.of_this_machine(home))
    try:
        bench.run(now, "instructions")
        return ("memory", "instructions"), checked_penalties(penalties.of_this_machine(home))
    except HeaptapeError:
        return ("memory",), None


def _decide(
    job: _Job, tried: Sequence[Tried], wish: Wish, judge: Judge, on_progress: Callable[[str, float], None]
) -> tuple[list[Pick], dict[str, str]]:
    """The picks, each of an allocator that kept malloc's promises on this workload, and label -> why others are not
    advised. Only what would be picked is held to them; with it all of its allocator's settings stand or fall.
    """
    refused = {one.label: one.failure for one in tried if one.failure}
    refused |= _beyond_limits(tried, job.now.label, wish.limits)
    while True:
        rows = [_row(one) for one in tried if not one.failure]
        kept = [one.label for one in tried if one.label not in refused]
        picks = decide(rows, job.now.label, wish.objective, judge, kept)
        labels = {label for pick in picks for label in (pick.label, *pick.ties)} - {job.now.label}
        open_ = [one.choice for one in tried if one.label in labels and one.choice.path not in job.kept_promises]
        if not open_:
            return picks, refused
        _verify(job, open_, on_progress)
        for one in tried:
            if why := job.kept_promises.get(one.choice.path):
                refused.setdefault(one.label, why)


def _verify(job: _Job, choices: Sequence[Choice], on_progress: Callable[[str, float], None]) -> None:
    """One choice for each library."""
    by_path = {choice.path: choice for choice in reversed(choices)}
    jobs = [partial(job.bench.run, choice, "verify") for choice in by_path.values()]
    made = side_by_side(jobs, partial(on_progress, "checking promises"))
    for path, one in zip(by_path, made):
        job.kept_promises[path] = str(one).partition(": ")[2] if isinstance(one, HeaptapeError) else ""


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


def figure_of(one: Tried, name: str) -> float | None:
    """A figure by its name in measure.exact: memory of the whole program, the others of its allocator."""
    whole = {"rss-peak": one.peak_bytes, "rss-mean": one.mean_bytes}
    return whole.get(name, one.figures.get(name))


def _require(tried: Sequence[Tried], now: Choice) -> None:
    base = next(one for one in tried if one.label == now.label)
    if base.failure:
        raise HeaptapeError(f"today's allocator can't be replayed, so nothing can be compared with it: {base.failure}")


def _unique(choices: Iterable[Choice]) -> list[Choice]:
    return list({choice.label: choice for choice in choices}.values())


def _row(one: Tried) -> Row:
    return Row(one.label, one.peak_bytes, one.mean_bytes, one.counts)


def _error(figure: str, a: str, b: str) -> float:
    """Of allocators that no program was tried on: that of all together."""
    return max(replay_errors.errors_of([figure], [a, b]).values(), default=0.0) if a != b else 0.0


def _about(about: Mapping, tried: Sequence[Tried]) -> str:
    threads = f"{about['threads']} thread" + ("s" if about["threads"] != 1 else "")
    allocators = len({one.choice.path for one in tried})
    settings = f"{len(tried)} settings of {allocators} allocators replayed"
    return f"{about['name']}: {about['ops']:,} calls of {threads}; {settings}"


def _sure(job: _Job, picks: Sequence[Pick], wish: Wish) -> str:
    labels = {pick.best for pick in picks if pick.best} | {pick.label for pick in picks}
    said = []
    error = max((_error("peak_rss", label, job.now.label) for label in labels), default=0.0)
    if error:
        said.append(f"peak RSS of 9 in 10 programs was within {error:.1f} % of its replay (docs/FIDELITY.md)")
    if job.recorded.samples is None:
        said.append("memory is the allocator's alone")
    if CPU in AIMS[wish.objective] and job.bounds.penalties is None:
        said.append("CPU time is not predicted: instructions can't be counted here")
    elif CPU in AIMS[wish.objective] and "misses" not in job.bounds.passes:
        said.append("CPU time is of instructions, page faults and system calls; cache misses are left out (--accesses)")
    return f"How sure: {'; '.join(said)}." if said else ""


def with_next_step(found: Found, told: Sequence[str]) -> Found:
    """The same with what else is to be said at its end."""
    return replace(found, advice=replace(found.advice, next_step=tuple(told)))
