# SPDX-License-Identifier: MIT
"""Runs of the whole and of distillates: exact passes, each made once; and which heaps age.

A heap ages where RSS grows while live bytes do not, as objects are replaced by others many times. The calls that cause
such growth are left out of a distillate, so its RSS is that of a younger heap than the whole's.
"""

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.common.process import convert_json
from heaptape.distil.plan import Cells, Plan, column
from heaptape.results import distilled
from heaptape.results.structs import Distilled, Run, timeline_frame, workload_of
from heaptape.run import exact, replay
from heaptape.run.registry import Choice
from heaptape.tape.workload_format import read_workload

SAME_LIVE = 0.95  # share of the most live bytes, from which on live bytes count as the same
AGES_PERCENT = 10  # growth from which on a heap counts as ageing
FEWEST_FAMILIES = 2  # on which it has to grow this much: a single allocator may release late, or keep caches


def growth_percent(timeline: pd.DataFrame) -> float:
    """By how many percent RSS per live byte rose, from where live bytes are first at their most to its highest at the
    same live bytes (SAME_LIVE). `timeline`: of runs.timeline_frame; 0 where it has no live bytes.
    """
    full = timeline[timeline["live_bytes"] >= SAME_LIVE * timeline["live_bytes"].max()]
    per_byte = full["rss_anon_bytes"] / full["live_bytes"]
    if not len(full) or not per_byte.iloc[0] > 0:
        return 0.0
    return float(100 * (per_byte.max() / per_byte.iloc[0] - 1))


def ages(growth: Mapping[str, float], families: Mapping[str, str]) -> bool:
    """Does the heap age, by the growth on each allocator (by label; `families`: label -> allocator)?"""
    return len({families[label] for label, percent in growth.items() if percent >= AGES_PERCENT}) >= FEWEST_FAMILIES


MISSES = "misses"  # in place of a figure's name: the misses of all caches and TLBs that are simulated
MOST_CELLS = 20_000
FEWEST_OPS_OF_A_CELL = 50
SHARE_OF_KIND = 0.01  # of the calls: a few windows contain hardly any calls of a rarer kind

Runs = Mapping[str, Mapping[str, Run]]  # label -> pass -> run
Tell = Callable[[float], None]


@dataclass(frozen=True, eq=False)
class Whole:
    """The whole workload's `figures`, one row per choice (by label), one column per figure; its cells; `growth`: label
    -> percent, empty where memory was not measured.
    """

    figures: pd.DataFrame
    cells: Cells
    growth: Mapping[str, float] = field(default_factory=dict)


def cell_edges(ops: int) -> np.ndarray:
    """Positions at which the whole is cut: at equal distances, from 0 to the end."""
    length = max(FEWEST_OPS_OF_A_CELL, -(-ops // MOST_CELLS))
    return np.append(np.arange(0, ops, length), ops)


def run(
    workload: Path, edges: Sequence[int], choices: Sequence[Choice], figures: Sequence[str], home: Home, tell: Tell
) -> Runs:
    """One run on each choice of each pass that the figures need; instructions and misses are also counted between the
    edges. Raises HeaptapeError.
    """
    passes = list(dict.fromkeys(distilled.pass_of(figure) for figure in figures))
    items = [(choice, pass_) for choice in choices for pass_ in passes]
    made: dict[str, dict[str, Run]] = {choice.label: {} for choice in choices}
    with replay.windows_file(edges) as file:
        bench = exact.Bench(workload, home, choices, windows=Path(file.name))
        done = bench.side_by_side(lambda item: bench.run(item[0], item[1]), items)
        for number, ((choice, pass_), result) in enumerate(done, 1):
            made[choice.label][pass_] = result
            tell(number / len(items))
    return made


def whole(workload: Path, choices: Sequence[Choice], figures: Sequence[str], home: Home, tell: Tell) -> Whole:
    """Measures the whole. `figures`: may contain MISSES. Raises HeaptapeError."""
    edges = cell_edges(read_workload(workload).ops)
    runs = run(workload, edges.tolist(), choices, figures, home, tell)
    values = {label: _values(figures, of_choice, label) for label, of_choice in runs.items()}
    counts: dict[str, np.ndarray] = {}
    beside: dict[str, np.ndarray] = {}
    for label, of_choice in runs.items():
        if (counted := of_choice.get(distilled.INSTRUCTIONS)) and counted.windows:
            counts |= {f"calls of {call}": np.array(made) for call, made in (counted.windows.calls or {}).items()}
        # Strata of similar instructions and first-level misses suit all other figures too (docs/use/DISTILLATION.md).
        chosen_by = (distilled.INSTRUCTIONS, next((name for name in values[label] if name.startswith("misses")), ""))
        for figure in filter(distilled.is_by_windows, values[label]):
            into = counts if figure in chosen_by else beside
            into[column(figure, label)] = np.diff(distilled.until(figure, of_choice[distilled.pass_of(figure)])[1])
    growth = {
        label: growth_percent(timeline_frame(of_choice["memory"].timeline))
        for label, of_choice in runs.items()
        if "memory" in of_choice
    }
    table = pd.DataFrame.from_dict(values, orient="index")
    table = table.loc[:, table.gt(0).all()]  # no percentage of 0
    return Whole(table, Cells(pd.DataFrame(counts), edges, pd.DataFrame(beside)), growth)


def _values(figures: Sequence[str], runs: Mapping[str, Run], label: str) -> dict[str, float]:
    """By figure: instructions also by each frequent kind of call; each cache and TLB in place of MISSES."""
    values = {figure: exact.read(figure, runs, label) for figure in figures if figure != MISSES}
    counted = runs.get(distilled.INSTRUCTIONS)
    calls = (counted and counted.calls) or {}
    every = sum(about.count or 0 for about in calls.values())
    values |= {
        distilled.OF_KIND + call: about.instructions_mean
        for call, about in calls.items()
        if about.instructions_mean is not None and (about.count or 0) >= SHARE_OF_KIND * every
    }
    simulated = [run.misses for run in runs.values() if run.misses] if MISSES in figures else []
    return values | (simulated[0].of_levels() if simulated else {})


def write(workload: Path, plan: Plan, manifest: Mapping, tape: Path, home: Home, accesses: bool = False) -> None:
    """Writes the distillate of a plan, with the given part of its manifest. `accesses`: with the data accesses of its
    windows. Raises HeaptapeError.
    """
    _convert(workload, plan.rules() | {"manifest": manifest}, ["-o", str(tape), *_accesses(workload, accesses)], home)


def count(workload: Path, rules: Mapping, home: Home, accesses: bool = False) -> int:
    """The number of ops that a distillate by these rules would have. Raises HeaptapeError."""
    return int(_convert(workload, rules, _accesses(workload, accesses), home)["ops"])


def _accesses(workload: Path, wanted: bool) -> list[str]:
    return ["--accesses", str(replay.accesses_of(workload))] if wanted else []


def _convert(workload: Path, rules: Mapping, options: Sequence[str], home: Home) -> dict:
    with tempfile.NamedTemporaryFile("w", prefix="heaptape.", suffix=".json") as file:
        json.dump(rules, file)
        file.flush()
        return convert_json(home, "distil", str(workload), "--plan", file.name, *options)


def manifest_of(workload: Path) -> Distilled:
    """The manifest of a compiled distillate. Raises HeaptapeError."""
    found = workload_of(read_workload(workload).info).distilled
    if found is None:
        raise HeaptapeError(f"{workload.name}: not a distillate")
    return found
