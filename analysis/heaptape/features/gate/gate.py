# SPDX-License-Identifier: MIT
"""The gate: a corpus on the old and the new allocator, and the smallest tapes that show the regressions.

One workload on the old and the new allocator: figures, and which of them are beyond their tolerance.

Each figure is counted once on each allocator. Most figures are the same each time, but some allocators use the clock or
random numbers. So where a figure is beyond its tolerance, both allocators are run again, alternately. The figure is
worse only if the least new value is beyond the tolerance of the largest old value, in MOST_RUNS runs of each. As soon
as that does not hold, it is noise. If both allocators are the same, all orders of the 16 runs are equally likely, and 1
of 12,870 has all old values below the new ones, whatever the figure's distribution. This is the largest probability of
calling a figure worse wrongly, even if nothing were tolerated.
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from heaptape.allocators.registry import Choice, sha256_of
from heaptape.common.engine import OF_ACCESSES
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.common.process import processors, scratch_folder
from heaptape.common.version import __version__
from heaptape.features.gate import minimise
from heaptape.features.gate.minimise import Limits, Minimiser, Question
from heaptape.run import judging, replay
from heaptape.run.condition import Condition, parse, tolerated
from heaptape.run.engine_process import Processes, side_by_side
from heaptape.run.exact import FIGURES, PEAK, UPPER, Bench, RunError
from heaptape.tape.workload_format import read_workload

MOST_RUNS = 8
# Figures that are shown even without a tolerance.
SHOWN = (PEAK, UPPER, "rss-mean", "vmsize-peak", "faults", "syscalls", "instructions")


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
        return bool(self.errors or self.is_worse)

    @property
    def is_worse(self) -> bool:
        return bool(self.worse or (self.broken_new and not self.broken_old))

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
                "tolerated": tolerated(tolerances[name]) if name in tolerances else None,
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
        found.about["mean_over_calls"] = read_workload(workload).mean_over_calls
        bench = Bench(workload, home, pairing.timeout_s, processes)
    except HeaptapeError as error:
        found.errors.append(str(error) or f"{source}: can't be compiled")
        return found
    if not bench.ops:
        found.errors.append(f"{source}: no calls")
        return found
    has_accesses = replay.has_accesses(workload)
    figures = [figure for figure in pairing.figures if FIGURES[figure].pass_ not in OF_ACCESSES or has_accesses]
    if wrong := judging.judged(source, workload, home):
        found.errors.append(wrong)
        figures = [figure for figure in figures if FIGURES[figure].pass_ != "memory"]
    _check_promises(bench, pairing, found)
    for pass_ in dict.fromkeys(FIGURES[figure].pass_ for figure in figures):
        of_pass = [figure for figure in figures if FIGURES[figure].pass_ == pass_]
        try:
            _compare_pass(bench, pairing, of_pass, found)
        except HeaptapeError as error:
            reason = str(error).partition(" pass: ")[2] or str(error)
            if not any(one.endswith(reason) for one in found.errors):  # said once, not of each pass
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
    if UPPER in values and values[UPPER] == values.get(PEAK):  # no range
        del values[UPPER]
    found.figures |= values
    found.noise = [name for name in found.noise if name in found.figures]
    found.worse += [name for name in suspected if name in values]


SCHEMA = 1


def compare_all(
    corpus: Mapping[str, Path],
    pairing: Pairing,
    home: Home,
    scratch: Path,
    on_done: Callable[[Compared, int], None] = lambda found, done: None,
) -> list[Compared]:
    """Compares each workload of the corpus, as many at once as processors. `on_done(found, how many are done)`."""
    processes = Processes()

    def work(name: str) -> Compared:
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            return compare(corpus[name], name, pairing, home, Path(folder), processes)

    found: dict[str, Compared] = {}
    for name, one in side_by_side(work, list(corpus), processors(), processes):
        found[name] = one
        on_done(one, len(found))
    return [found[name] for name in corpus]


def describe(results: Sequence[Compared], pairing: Pairing) -> dict:
    """The JSON content, as docs/use/GATE.md defines it; nothing is minimised yet."""
    return {
        "schema": SCHEMA,
        "heaptape": {"version": __version__, "commit": replay.commit()},
        "old": _about(pairing.old),
        "new": _about(pairing.new),
        "tolerated": {figure: condition.text for figure, condition in pairing.tolerances.items()},
        "most_runs": MOST_RUNS,
        "passed": not any(one.failed for one in results),
        "workloads": [one.as_json(pairing.tolerances) for one in results],
        "minimised": [],
        "not_minimised": [],
    }


def _about(choice: Choice) -> dict:
    return {"name": minimise.spelled(choice), "version": choice.version, "sha256": sha256_of(choice.path)}


@dataclass(frozen=True)
class Failing:
    """A workload's figure that is worse, or "broken". `excess`: ratio of the figure to its bound."""

    found: Compared
    figure: str
    excess: float


def failing(results: Sequence[Compared], pairing: Pairing) -> list[Failing]:
    """All failing figures, the worst of each figure first."""
    worse = []
    for one in results:
        for figure in one.worse:
            bound = pairing.tolerances[figure].bound(max(one.figures[figure].old))
            worse.append(Failing(one, figure, min(one.figures[figure].new) / bound if bound else float("inf")))
        if one.broken_new and not one.broken_old:
            # No workload breaks a promise more than another: the shortest is minimised fastest.
            worse.append(Failing(one, "broken", 1 / max(one.about["ops"], 1)))
    return sorted(worse, key=lambda one: (one.figure, -one.excess))


def worst(all_failing: Sequence[Failing]) -> list[Failing]:
    return list({one.figure: one for one in reversed(all_failing)}.values())[::-1]


def minimise_each(
    wanted: Sequence[Failing],
    pairing: Pairing,
    home: Home,
    folder: Path,
    limits: Limits,
    tell: Callable[[str], None] = lambda what: None,
) -> Iterator[dict]:
    """Yields the content of each minimised tape's folder, one after the other; `why` for a tape that can't be
    minimised, as another run is within the tolerance. An interrupt is raised after the best so far is written and
    yielded.
    """
    for one in wanted:
        condition = parse("broken>0") if one.figure == "broken" else pairing.tolerances[one.figure]
        question = Question(condition, pairing.old, pairing.new)
        name = f"{one.found.name}, {one.figure}"
        with scratch_folder() as scratch:
            try:
                workload = replay.prepare(one.found.source, home, scratch)
                minimiser = Minimiser(workload, question, home, scratch, limits)
            except HeaptapeError as error:
                yield {"workload": one.found.name, "figure": one.figure, "why": str(error)}
                continue
            minimiser.tell = partial(_tell, tell, name)
            stopped: BaseException | None = None
            try:
                minimiser.run()
            except (KeyboardInterrupt, SystemExit) as interrupt:
                stopped = interrupt
            where = folder / f"{one.found.name.replace('/', '-')}-{one.figure}"
            yield {"workload": one.found.name} | minimise.write(where, one.found.source, minimiser)
        if stopped:
            raise stopped


def _tell(tell: Callable[[str], None], name: str, found: str) -> None:
    tell(f"minimise {name}: {found}")


ENDINGS = (".tape", ".work", ".zip")  # used from a folder; a file that is named may be of any format


def find(names: Iterable[str]) -> dict[str, Path]:
    """name -> file, in the order given, each file once. Raises HeaptapeError where there is no such file, or a folder
    contains none.
    """
    files: list[Path] = []
    for name in names:
        path = Path(name)
        if not name or not path.exists():  # Path("") is the current folder
            raise HeaptapeError(f"{name or repr(name)}: no such file or folder")
        inside = sorted(one for one in path.rglob("*") if one.suffix in ENDINGS and one.is_file())
        if path.is_dir() and not inside:
            raise HeaptapeError(f"{name}: no {', '.join(ENDINGS)} files in it")
        files += inside if path.is_dir() else [path]
    files = list({file.resolve(): file for file in files}.values())
    often = Counter(file.stem for file in files)
    return {file.stem if often[file.stem] == 1 else str(file): file for file in files}
