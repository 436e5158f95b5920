# SPDX-License-Identifier: MIT
"""Which allocators with which settings are tried for a program, and what each costs on a workload: exact figures of one
replay for each pass, several replays at a time.
"""

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from heaptape.allocators import installed
from heaptape.allocators.registry import DEFAULT_VARIANT, Allocator, Choice, choose, choose_all
from heaptape.common import phrases
from heaptape.common.errors import HeaptapeError
from heaptape.results.fits import smallest_limit
from heaptape.results.judged import mean_over_time
from heaptape.results.model.counts import Counts, counts, timed
from heaptape.results.model.penalties import Penalties
from heaptape.results.recorded_on import short_version
from heaptape.results.schema import Results
from heaptape.results.structs import ResultsFile, Run, workload_of
from heaptape.run.exact import FIGURES, UPPER, Bench, TimeUpError
from heaptape.run.judging import Recorded
from heaptape.run.recorded import as_recorded, of_same_name, recorded_on

C_LIBRARY = "glibc"
# Bare passes of each candidate: at least, at most, and the seconds from which there are enough.
FEWEST_BARE, MOST_BARE, BARE_S = 2, 7, 4.0


def candidates(
    names: Sequence[str], registry: Mapping[str, Allocator], threads: int, recorded: Choice | None
) -> list[Choice]:
    """The named candidates; else each allocator that is found and not for study only, alone and with the variants that
    the registry marks for advice, and each installed candidate alone. Raises as `choose_all`.
    """
    known = dict(registry)
    if names:
        return as_recorded(names, choose_all(names, known), recorded)
    found = []
    for name, allocator in known.items():
        if not allocator.found or allocator.by_name:
            continue
        found += [name, *usual_settings(allocator, threads)]
    found += [one.record.label for one in installed.find_all(installed.root())]
    return as_recorded(found, choose_all(found, known), recorded)


def usual_settings(allocator: Allocator, threads: int) -> list[str]:
    """Labels of the variants that the registry marks for advice, for a program with so many threads."""
    wanted = ("always", "threads") if threads > 1 else ("always",)
    return [f"{allocator.name}:{key}" for key, one in allocator.variants.items() if one.advise in wanted]


def today(name: str | None, info: Mapping, registry: Mapping[str, Allocator]) -> tuple[Choice, str]:
    """The allocator to compare with, and why it is only assumed (else empty): `name` if one is given, else the
    allocator that the program was recorded on, else this machine's build of it, else the C library's.
    """
    recorded = recorded_on(info, registry)
    if name is not None:
        (named,) = as_recorded([name], [choose(name, dict(registry))], recorded)
        return named, ""
    if recorded:
        return recorded, ""
    library = info.get("linked") or info.get("allocator")
    other = of_same_name(info, registry)
    if other:
        version = info.get("allocator_version")
        was = f"{other.name} {version}" if version else f"another build of {library}"
        here = f"{other.name} {short_version(other.version)}".strip()
        return choose(other.name, dict(registry)), phrases.recorded_elsewhere(was, here)
    why = f"its own allocator ({library}) is not known here" if library else "the recording does not name its allocator"
    if library and (rows := info.get("recorded")):
        why += f"; on it the program peaked at {phrases.size(max(row[1] for row in rows))}"
    if C_LIBRARY not in registry:
        raise HeaptapeError(f"{why}: name one by --baseline")
    return choose(C_LIBRARY, dict(registry)), why


@dataclass(frozen=True)
class Tried:
    """A candidate and its figures. Bytes are of the whole program: the allocator's, which are replayed, and the
    program's own. `upper_peak_bytes`: of a peak that is a range, else the peak; `least_peak_bytes`: likewise, 0: it is
    none. `other_means`: of its memory run. `figures`: those of measure.exact that its passes yield, of the allocator
    alone. `counts`: for the model of time; None where instructions can't be counted here. `smallest_limit_bytes`:
    memory limit under which the program runs; None where its own memory is not known. `line`: calls made and the
    program's bytes then. `failure`: why there are no figures; else empty.
    """

    choice: Choice
    peak_bytes: float = 0.0
    mean_bytes: float = 0.0
    upper_peak_bytes: float = 0.0
    figures: Mapping[str, float] = field(default_factory=dict)
    counts: Counts | None = None
    smallest_limit_bytes: float | None = None
    line: Sequence[tuple[float, float]] = ()
    failure: str = ""
    least_peak_bytes: float = 0.0
    other_means: Mapping[str, float] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return self.choice.label


@dataclass(frozen=True)
class Bounds:
    """How replays are made: which `passes`; this machine's `penalties`, None where they are not known. `memory`: by
    label, memory runs that were made before. `until`: of time.monotonic(): none goes on longer, but memory runs of
    allocators alone until `alone_until`, and of the labels `needed` until `needed_until`. `took_s`: what the passes
    took, the longest of each, for whoever plans more of them.
    """

    passes: tuple[str, ...]
    penalties: Penalties | None
    memory: Mapping[str, Run] = field(default_factory=dict)
    until: float = math.inf
    alone_until: float = -math.inf
    needed: Collection[str] = ()
    needed_until: float = math.inf
    took_s: dict[str, float] = field(default_factory=dict)


def replay_all(
    bench: Bench,
    choices: Sequence[Choice],
    bounds: Bounds,
    about: Mapping,
    on_progress: Callable[[float], None] = lambda share: None,
) -> tuple[list[Tried], dict[str, Run]]:
    """Each candidate with its figures, still without the program's own memory; and label -> its memory run."""

    def run(pair: tuple[Choice, str]) -> Run | HeaptapeError:
        (choice, pass_), began = pair, time.monotonic()
        until = bounds.until
        if pass_ == "memory":
            until = max(until, bounds.alone_until) if choice.variant == DEFAULT_VARIANT else until
            until = bounds.needed_until if choice.label in bounds.needed else until
        try:
            return bench.run(choice, pass_, until - began)
        except HeaptapeError as error:
            return error
        finally:
            bounds.took_s[pass_] = max(bounds.took_s.get(pass_, 0.0), time.monotonic() - began)

    first = [choice for choice in choices if choice.label in bounds.needed or choice.variant == DEFAULT_VARIANT]
    ordered = [*first, *(choice for choice in choices if choice not in first)]  # settings last, should time be short
    pairs = [(choice, pass_) for part in (first, ordered[len(first) :]) for pass_ in bounds.passes for choice in part]
    by_label: dict[str, dict[str, Run | HeaptapeError]] = {choice.label: {} for choice in choices}
    for label in by_label.keys() & bounds.memory.keys():
        by_label[label]["memory"] = bounds.memory[label]
    for done, ((choice, pass_), one) in enumerate(bench.side_by_side(run, pairs)):
        by_label[choice.label][pass_] = one
        on_progress((done + 1) / len(pairs))
    for made in by_label.values():  # without counts, memory still counts
        if not isinstance(made.get("memory"), TimeUpError):
            for pass_ in [pass_ for pass_, one in made.items() if isinstance(one, TimeUpError)]:
                del made[pass_]
    _without_impossible(by_label)
    tried = [_tried(choice, by_label[choice.label], bounds, about) for choice in choices]
    runs = {label: made["memory"] for label, made in by_label.items()}
    return tried, {label: run for label, run in runs.items() if isinstance(run, Run)}


def with_time(bench: Bench, tried: Sequence[Tried], ops: int, until: float) -> list[Tried]:
    """The candidates with the CPU time of their calls, by rounds of bare passes with nothing beside them, which end at
    `until` (of time.monotonic()). Those of a round that did not come to its end are used, too.
    """
    able = [one for one in tried if one.counts and not one.failure]
    made: dict[str, list[Run]] = {one.label: [] for one in able}
    began = time.monotonic()
    for finished in range(MOST_BARE if len(able) > 1 else 0):
        if finished >= FEWEST_BARE and time.monotonic() - began > BARE_S:
            break
        try:
            for one in able:
                made[one.label].append(bench.run(one.choice, "bare", until - time.monotonic()))
        except HeaptapeError:  # there is no more time, or it can't be run here
            break
    return [
        replace(one, counts=replace(one.counts, timed=timed(made[one.label], ops)))
        if one.counts and one.label in made
        else one
        for one in tried
    ]


def _without_impossible(by_label: Mapping[str, dict[str, Run | HeaptapeError]]) -> None:
    """Removes a pass other than memory that failed on every allocator: it can't be run here, so no allocator failed."""
    for pass_ in {pass_ for made in by_label.values() for pass_ in made} - {"memory"}:
        if all(isinstance(made.get(pass_), HeaptapeError | None) for made in by_label.values()):
            for made in by_label.values():
                made.pop(pass_, None)


def _tried(choice: Choice, made: Mapping[str, Run | HeaptapeError], bounds: Bounds, about: Mapping) -> Tried:
    failed = [str(one) for one in made.values() if isinstance(one, HeaptapeError)]
    if failed:
        return Tried(choice, failure=failed[0])
    runs = {pass_: one for pass_, one in made.items() if not isinstance(one, HeaptapeError)}
    values = {name: figure.read(runs[figure.pass_]) for name, figure in FIGURES.items() if figure.pass_ in runs}
    content = ResultsFile(list(runs.values()), workload=workload_of(about))
    found = counts(Results("", content), bounds.penalties) if bounds.penalties else {}
    memory = runs["memory"]
    return Tried(
        choice,
        memory.rss_anon_peak_bytes or 0.0,
        memory.rss_anon_mean_bytes or 0.0,
        values[UPPER] or 0.0,
        {name: value for name, value in values.items() if value is not None},
        found[choice.label][0] if choice.label in found else None,
        other_means=memory.other_means or {},
    )


def with_own_memory(
    tried: Sequence[Tried], runs: Mapping[str, Run], recorded: Recorded, base: str | None
) -> list[Tried]:
    """The candidates with the whole program's bytes. The program's own memory is the recording's memory less the replay
    of the allocator that it was made on (`base`; None: not known); it is added to each candidate.
    """
    if recorded.samples is None or recorded.rss is None:
        return list(tried)
    samples = recorded.samples
    own_peak, own_mean = None, 0.0
    if own := runs.get(base or ""):
        own_peak = recorded.peak_bytes - (own.rss_anon_peak_bytes or 0.0)
        own_mean = mean_over_time(samples.time_ns, recorded.rss) - (own.rss_anon_mean_bytes or 0.0)
    return [_whole(one, runs[one.label], own_peak, own_mean) if one.label in runs else one for one in tried]


def _whole(one: Tried, run: Run, own_peak: float | None, own_mean: float) -> Tried:
    """`own_peak`: the program's own memory, added to its peak and at each point of its time line; None: not known."""
    others = {name: mean + own_mean for name, mean in one.other_means.items()}
    one = replace(one, mean_bytes=one.mean_bytes + own_mean, other_means=others)
    if own_peak is None:
        return one
    peak, upper = one.peak_bytes + own_peak, one.upper_peak_bytes + own_peak
    line = [(position, rss + own_peak) for position, rss, *_ in run.timeline or ()]
    line.append((int(run.rss_anon_peak_position or 0), peak))
    return replace(
        one,
        peak_bytes=peak,
        upper_peak_bytes=upper,
        least_peak_bytes=run.least_peak_bytes + own_peak if run.least_peak_bytes else 0.0,
        smallest_limit_bytes=smallest_limit(upper),
        line=sorted(line),
    )
