# SPDX-License-Identifier: MIT
"""The gate: a corpus on the old and the new allocator, and the smallest tapes that show the regressions."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.common.processors import processors
from heaptape.common.scratch import scratch_folder
from heaptape.common.version import __version__
from heaptape.gate import artefact
from heaptape.gate.compared import MOST_RUNS, Compared, Pairing, compare
from heaptape.gate.condition import parse
from heaptape.gate.minimise import Limits, Minimiser, Question
from heaptape.run import replay
from heaptape.run.engine_process import Processes, side_by_side
from heaptape.run.registry import Choice, sha256_of

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
    return {"name": artefact.spelled(choice), "version": choice.version, "sha256": sha256_of(choice.path)}


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
    tell: Callable[[str, float], None] = lambda what, share: None,
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
            yield {"workload": one.found.name} | artefact.write(where, one.found.source, minimiser)
        if stopped:
            raise stopped


def _tell(tell: Callable[[str, float], None], name: str, events: int, share: float) -> None:
    tell(f"minimise {name}: {events:,} events", share)
