# SPDX-License-Identifier: MIT
"""How near 60 replays of `heaptape tune` come to the best of an exhaustive grid, over ten workloads of the corpus:
those with most live memory, sliced so that a replay takes about a second; memcached has too few calls. The grid: all
combinations of three levels of five tunables of glibc (both ends and the default). The search may try every level.

    .venv/bin/python -m tests.bench.decisions.tuning FOLDER [--objective rss-peak]... [WORKLOAD]...

FOLDER keeps the measurements; a second start continues where the first ended. All figures are exact.
"""

import argparse
import itertools
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from heaptape.common.home import default_home
from heaptape.run import registry, replay
from heaptape.tune.confirm import judged
from heaptape.tune.goals import UNSET, Goals, Settings, Space, space_of
from heaptape.tune.search import Budget, Search
from heaptape.tune.trials import Trials, opened, require_optuna

from tests.support import CONVERT, REPOSITORY, succeed

WORKLOADS = ("389-ds", "git", "python3", "mariadb", "perl", "libreoffice", "redis", "sqlite3", "gs", "qemu-virtio")
TUNABLES = ("tcache_count", "mxfast", "mmap_threshold", "trim_threshold", "top_pad")
SLICE = "progress=0..120000"
REPLAYS = 60
WITHIN = 1.02
JOBS = 2
HOME = default_home()


def grid(space: Space) -> list[Settings]:
    """The default and both ends of each tunable, in all combinations."""
    tunables = space.allocator.tunables
    assert tunables
    levels = [[UNSET, *tunables.space[name].ends] for name in space.levels]
    found = [space.normal(dict(zip(space.levels, values))) for values in itertools.product(*levels)]
    return list({frozenset(one.items()): one for one in found}.values())


def compare(name: str, objectives: Sequence[str], folder: Path) -> list[dict]:
    """A row for each objective: ratios to the default of the grid's best and of the search's."""
    space = space_of("glibc", registry.load(HOME), TUNABLES)
    tape = folder / f"{name}.tape"
    if not tape.exists():
        succeed(CONVERT, "convert", "--slice", SLICE, REPOSITORY / "workloads" / "corpus" / f"{name}.tape", tape)
    workload = replay.prepare(str(tape), HOME, folder)
    rows = []
    exhaustive = _best(Goals(tuple(objectives), (), {name: 1.0}), space, name, workload, folder, grid(space))
    for objective in objectives:
        searched = _best(Goals((objective,), (), {name: 1.0}), space, name, workload, folder)
        (best, _), (found, points) = exhaustive[objective], searched[objective]
        row = {"workload": name, "objective": objective, "grid": best}
        row |= {"search": found, "replays": points, "within": found <= WITHIN * best}
        print(*(f"{value:.4f}" if isinstance(value, float) else value for value in row.values()), flush=True)
        rows.append(row)
    return rows


def _best(
    goals: Goals, space: Space, name: str, workload: Path, folder: Path, settings: list[Settings] | None = None
) -> dict[str, tuple[float, int]]:
    """objective -> the least ratio to the default's, and the number of points: of these settings, or of a search."""
    kind = "grid" if settings else "search"
    file = folder / f"{name}.{'+'.join(goals.objectives)}.{kind}.sqlite"
    trials = Trials({name: workload}, space, goals, HOME)
    about = {"bench": [kind, SLICE, REPLAYS, list(goals.objectives), {key: list(v) for key, v in space.levels.items()}]}
    with opened(file, about, len(goals.objectives), space) as kept:
        if settings:
            there = {point.key for point in kept.points}
            missing = [one for one in settings if frozenset(one.items()) not in there]
            for point in trials.measure(missing, 0, JOBS):
                kept.keep(point, [] if point.error else [point.figures[name][one] for one in goals.objectives])
        else:
            Search(space, goals, trials, kept, seed=0).run(Budget(REPLAYS, jobs=JOBS))
        rows = judged(kept.points, goals)
        best = {one: min(row.ratios[one] for row in rows) for one in goals.objectives}
        return {one: (least, len(kept.points)) for one, least in best.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD")
    parser.add_argument("--objective", action="append")
    arguments = parser.parse_args()
    require_optuna()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    objectives = arguments.objective or ["rss-peak", "rss-mean"]
    rows = [row for name in arguments.workloads or WORKLOADS for row in compare(name, objectives, arguments.folder)]
    table = pd.DataFrame(rows)
    for column in ("grid", "search"):
        table[column] = (100 * table[column]).round(2)
    print(table.to_string(index=False))
    for objective, part in table.groupby("objective"):
        print(
            f"{objective}: within {100 * (WITHIN - 1):.0f} % of the grid's best: {part['within'].sum()} of {len(part)}"
        )


if __name__ == "__main__":
    main()
