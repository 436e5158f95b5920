# SPDX-License-Identifier: MIT
"""Makes a distillate: measures the whole once, plans, measures the plan's result, fits, writes it with its errors; and
what is said about it.
"""

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.distil import fit, measured
from heaptape.distil.fit import Fitted
from heaptape.distil.plan import Kind, Plan, Planner
from heaptape.results import distilled, misses
from heaptape.run import replay
from heaptape.run.registry import Choice, sha256_of
from heaptape.tape.workload_format import read_workload

RATIO = 0.01
SMALLEST_RATIO, LARGEST_RATIO = 0.005, 0.5  # that --error tries, doubling from the first to the last


@dataclass(frozen=True)
class Wanted:
    """One of `ops`, `ratio` and `error_percent`; if none is set, RATIO. `misses`: estimate cache and TLB misses too."""

    kind: Kind = "both"
    ops: int | None = None
    ratio: float | None = None
    error_percent: float | None = None
    seed: int = 0
    misses: bool = False

    def ops_to_try(self, whole: int) -> list[int]:
        """Numbers of ops, rising; the first that keeps the error is used, else the last."""
        if self.error_percent is None:
            return [self.ops or max(1, round((self.ratio or RATIO) * whole))]
        ratios = [SMALLEST_RATIO]
        while ratios[-1] < LARGEST_RATIO:
            ratios.append(min(2 * ratios[-1], LARGEST_RATIO))
        return [max(1, round(ratio * whole)) for ratio in ratios]


@dataclass(frozen=True, eq=False)
class Distilled:
    """`wanted_ops`: the ops it was planned for. `manifest`: as in the trace. `errors`: fit.table."""

    plan: Plan
    wanted_ops: int
    whole_ops: int
    fitted: Fitted
    errors: pd.DataFrame
    manifest: dict

    @property
    def growth(self) -> dict[str, float]:
        """For a heap that ages: label -> percent by which RSS grew (measured.py); else empty."""
        return self.manifest.get("ages", {})

    @property
    def worst(self) -> float:
        """The largest expected error in percent, except errors by kind of call."""
        return max(of for figure, of in self.fitted.expected.items() if not figure.startswith(distilled.OF_KIND))


class Distiller:
    """Distils one workload on these allocators. `name`: of the whole, in the manifest."""

    def __init__(
        self, workload: Path, name: str, choices: Sequence[Choice], wanted: Wanted, home: Home, scratch: Path
    ) -> None:
        """Raises HeaptapeError for a workload that can't be distilled."""
        about = read_workload(workload)
        if not about.ops:
            raise HeaptapeError(f"{name}: no calls")
        if "distilled" in about.info:
            raise HeaptapeError(f"{name}: is a distillate itself")
        if wanted.misses:
            replay.require_accesses(workload, name, ["misses"])
            if "bursts" in about.info.get("accesses", {}):
                raise HeaptapeError(f"{name}: recorded in bursts, but misses are distilled only from whole recordings")
        self._ops = about.ops
        self.tell: Callable[[str, float], None] = lambda what, share: None
        self._workload, self._name, self._choices, self._wanted = workload, name, list(choices), wanted
        self._home, self._scratch = home, scratch

    def make(self, tape: Path) -> Distilled:
        """Writes the distillate to `tape`. Raises HeaptapeError."""
        figures = [*distilled.FIGURES_OF_KIND[self._wanted.kind], *([measured.MISSES] if self._wanted.misses else [])]
        whole = measured.whole(self._workload, self._choices, figures, self._home, self._part("the whole"))
        count = functools.partial(measured.count, self._workload, home=self._home, accesses=self._wanted.misses)
        planner = Planner(whole.cells, count, self._wanted.kind, self._wanted.seed)
        made: Distilled | None = None
        for ops in self._wanted.ops_to_try(self._ops):
            plan = planner.plan(ops)
            if made and plan.ops == made.plan.ops == plan.floor:
                continue  # below the floor all plans are the same
            made = self._try(plan, ops, whole, tape)
            if self._wanted.error_percent is None or made.worst <= self._wanted.error_percent:
                break
        assert made
        self._write(made.plan, made.manifest, tape)
        return made

    def _write(self, plan: Plan, manifest: dict, tape: Path) -> None:
        measured.write(self._workload, plan, manifest, tape, self._home, self._wanted.misses)

    def _try(self, plan: Plan, ops: int, whole: measured.Whole, tape: Path) -> Distilled:
        first = self._scratch / f"{tape.name}.try.tape"
        self._write(plan, {}, first)
        workload = replay.prepare(str(first), self._home, self._scratch)
        manifest = measured.manifest_of(workload)
        edges = distilled.edges(manifest)
        runs = measured.run(
            workload, edges, self._choices, list(whole.figures), self._home, self._part(f"{plan.ops:,} ops")
        )
        families = {choice.label: choice.allocator for choice in self._choices}
        left_out = plan.left_out(whole.cells, families)
        fitted = fit.fit(runs, whole, manifest, list(families.values()), left_out)
        table = fit.table(fitted, list(whole.figures.index))
        manifest = self._manifest(plan, fitted, table)
        if measured.ages(whole.growth, families):
            manifest["ages"] = dict(whole.growth)
        return Distilled(plan, ops, self._ops, fitted, table, manifest)

    def _manifest(self, plan: Plan, fitted: Fitted, table: pd.DataFrame) -> dict:
        """The part of the manifest that heaptape-convert can't compute."""
        return {
            "kind": self._wanted.kind,
            "whole": {"name": self._name, "sha256": sha256_of(self._workload)},
            "kept": {"floor_ops": plan.floor, "seed_of_windows": self._wanted.seed},
            "corrections": fitted.corrections,
            "errors": [row.dropna().to_dict() for _, row in table.iterrows()],
            "expected": fitted.expected,
            "sampling": fitted.largest_sampling,
        }

    def _part(self, what: str) -> Callable[[float], None]:
        return lambda share: self.tell(what, share)


def answer_lines(made: Distilled, wanted: Wanted, output: str) -> list[str]:
    """At most ten lines: what was kept, then one for each figure; one for all kinds of calls, one for all misses."""
    plan = made.plan
    kept = [f"{output}: {plan.ops:,} of {made.whole_ops:,} ops ({100 * plan.ops / made.whole_ops:.2g} %)"]
    if plan.segments:
        often = "over the whole history" if plan.segments == 1 else f"in each of {plan.segments} parts of the history"
        kept.append(f"for memory: large objects, and those live when their size class is at its high, {often}")
    if wanted.kind != "memory":
        counted = int((plan.windows["end"] - plan.windows["counted"]).sum())
        warm = int((plan.windows["counted"] - plan.windows["begin"]).sum())
        kept.append(f"for time: {len(plan.windows)} windows of {counted:,} ops in all, after {warm:,} to warm up")
    kept.append(f"the least that shows the peak: {plan.floor:,} ops ({100 * plan.floor / made.whole_ops:.2g} %)")
    return kept + _of_figures(made)


def _of_figures(made: Distilled) -> list[str]:
    rows = []
    for figure, found in made.fitted.errors.items():
        if "/" in figure:
            continue
        of_figure = made.errors[made.errors["figure"] == figure]
        worst = of_figure.loc[of_figure["left_out_percent"].abs().idxmax()]
        rows.append(
            f"{figure}: within {found.expected:.2g} % on an allocator not seen (95 %{_sampling(made, figure)}); worst "
            f"left out: "
            f"{worst['allocator']} {worst['left_out_percent']:+.2g} %"
        )
    of_kinds = {figure.removeprefix(distilled.OF_KIND): figure for figure in _of(made, distilled.OF_KIND)}
    of_levels = {misses.heading(figure.removeprefix(misses.OF_ALL)): figure for figure in _of(made, misses.OF_ALL)}
    return rows + _together("instructions per call", of_kinds, made) + _together("misses", of_levels, made)


def _of(made: Distilled, prefix: str) -> list[str]:
    return [figure for figure in made.fitted.errors if figure.startswith(prefix)]


def _together(what: str, figures: dict[str, str], made: Distilled) -> list[str]:
    """One line for several figures; none without figures. `figures`: name in the line -> figure."""
    each = [
        f"{name} {made.fitted.expected[figure]:.2g} % ({made.fitted.largest_sampling[figure]:.2g})"
        for name, figure in figures.items()
    ]
    return [f"{what}, each within (by the choice of windows alone): {', '.join(each)}"] if each else []


def _sampling(made: Distilled, figure: str) -> str:
    largest = made.fitted.largest_sampling
    return f"; by the choice of windows alone {largest[figure]:.2g} %" if figure in largest else ""


def warnings(made: Distilled, wanted: Wanted) -> list[str]:
    warned = []
    if wanted.error_percent is None and made.plan.ops > 1.1 * made.wanted_ops:
        warned.append(
            f"{made.wanted_ops:,} ops can't be kept: the objects live at the highs and the fewest windows need "
            f"{made.plan.ops:,}"
        )
    if made.growth:
        worst = max(made.growth, key=lambda label: made.growth[label])
        warned.append(
            f"the heap ages: at the same live bytes RSS grows by up to {made.growth[worst]:.0f} % ({worst}). The calls "
            "that cause this are left out, so RSS is estimated only from other allocators' growth"
        )
    if wanted.error_percent is not None and made.worst > wanted.error_percent:
        warned.append(
            f"an error of {wanted.error_percent:g} % can't be kept: {made.plan.ops:,} ops have {made.worst:.2g} %"
        )
    return warned


def as_json(made: Distilled) -> str:
    """The part of the manifest that was found here, with `ops`, `whole_ops` and `wanted_ops`."""
    about = {"schema": 1, "ops": made.plan.ops, "whole_ops": made.whole_ops, "wanted_ops": made.wanted_ops}
    return json.dumps(about | {"distilled": made.manifest}, indent=1) + "\n"
