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
from heaptape.common.phrases import counted
from heaptape.common.tables import Cell, Table, significant
from heaptape.distil import fit, measured
from heaptape.distil.fit import Fitted
from heaptape.distil.plan import Kind, Plan, Planner, rules_of_highs
from heaptape.passes.misses import heading
from heaptape.results import distilled
from heaptape.results.structs import SIMULATED_OF_ALL
from heaptape.run import replay
from heaptape.run.passes import OF_ACCESSES
from heaptape.run.registry import Choice, sha256_of
from heaptape.tape.workload_format import read_workload

RATIO = 0.01
USEFUL = 0.5  # of a larger share of the ops there is no use, if no size was asked for
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
            replay.require_accesses(workload, name, OF_ACCESSES)
            if "bursts" in about.info.get("accesses", {}):
                raise HeaptapeError(f"{name}: recorded in bursts, but misses are distilled only from whole recordings")
        self._ops = about.ops
        self.tell: Callable[[str, float], None] = lambda what, share: None
        self._workload, self._name, self._choices, self._wanted = workload, name, list(choices), wanted
        self._home, self._scratch = home, scratch

    def make(self, tape: Path) -> Distilled:
        """Writes the distillate to `tape`. Raises HeaptapeError, before anything is replayed where the size can't be
        reached.
        """
        count = functools.partial(measured.count, self._workload, home=self._home, accesses=self._wanted.misses)
        self._require_size(count(rules_of_highs(1)))
        figures = [*distilled.FIGURES_OF_KIND[self._wanted.kind], *([measured.MISSES] if self._wanted.misses else [])]
        whole = measured.whole(self._workload, self._choices, figures, self._home, self._part("the whole"))
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

    def _require_size(self, floor: int) -> None:
        """Raises HeaptapeError where the objects that make up the peak need more ops than are wanted."""
        wanted = self._wanted
        if wanted.kind == "time" or wanted.error_percent is not None:
            return
        is_given = wanted.ops is not None or wanted.ratio is not None
        most = wanted.ops_to_try(self._ops)[0] if is_given else USEFUL * self._ops
        if floor > 1.1 * most:
            share = 100 * floor / self._ops
            raise HeaptapeError(
                f"{self._name}: can't be distilled to {most:,.0f} of its {self._ops:,} ops: the objects at the peak "
                f"need {floor:,} ({significant(share)} %): --ops {floor} or more, or --kind time"
            )

    def _write(self, plan: Plan, manifest: dict, tape: Path) -> None:
        measured.write(self._workload, plan, manifest, tape, self._home, self._wanted.misses)

    def _try(self, plan: Plan, ops: int, whole: measured.Whole, tape: Path) -> Distilled:
        first = self._scratch / f"{tape.name}.try.tape"
        self._write(plan, {}, first)
        workload = replay.prepare(str(first), self._home, self._scratch)
        found = measured.manifest_of(workload)
        edges = distilled.edges(found)
        runs = measured.run(
            workload, edges, self._choices, list(whole.figures), self._home, self._part(f"{plan.ops:,} ops")
        )
        families = {choice.label: choice.allocator for choice in self._choices}
        left_out = plan.left_out(whole.cells, families)
        fitted = fit.fit(runs, whole, found, list(families.values()), left_out)
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


def about(made: Distilled, output: str) -> str:
    plan = made.plan
    share = f"{significant(100 * plan.ops / made.whole_ops)} %"
    return f"{output}: {plan.ops:,} of {counted(made.whole_ops, 'op')} ({share}) stand for the whole."


def error_table(made: Distilled) -> Table:
    """The expected error of each figure, and the largest on an allocator that was left out, in percent."""
    rows = []
    for figure, found in made.fitted.errors.items():
        if "/" not in figure:
            of_figure = made.errors[made.errors["figure"] == figure]
            worst = of_figure.loc[of_figure["left_out_percent"].abs().idxmax()]
            largest = float(worst["left_out_percent"])
            expected = Cell(f"{significant(found.expected)} %", found.expected)
            cells = [expected, Cell(f"{significant(largest, sign='+')} %", largest), Cell(str(worst["allocator"]))]
            rows.append([Cell(figure), *cells])
    return Table("", ["figure", "expected error", "largest, left out", ""], rows, kept=frozenset([3]))


def sentences(made: Distilled, wanted: Wanted) -> list[str]:
    """What was kept; one line for all kinds of calls, one for all misses."""
    plan = made.plan
    of_kinds = {figure.removeprefix(distilled.OF_KIND): figure for figure in _of(made, distilled.OF_KIND)}
    of_levels = {heading(figure.removeprefix(SIMULATED_OF_ALL)): figure for figure in _of(made, SIMULATED_OF_ALL)}
    lines = _together("Instructions per call", of_kinds, made) + _together("Misses", of_levels, made)
    lines.append("Expected: half the 95 % interval on an allocator that was not measured here.")
    if plan.segments:
        often = "once" if plan.segments == 1 else f"in each of {plan.segments} parts of the history"
        lines.append(f"Kept for memory: large objects, and those live at the peak of their size class, {often}.")
    if wanted.kind != "memory":
        measured_ops = int((plan.windows["end"] - plan.windows["counted"]).sum())
        warm = int((plan.windows["counted"] - plan.windows["begin"]).sum())
        windows = counted(len(plan.windows), "window")
        lines.append(f"Kept for time: {windows} of {measured_ops:,} ops in all, after {warm:,} to warm up.")
    least = 100 * plan.floor / made.whole_ops
    return [*lines, f"The peak needs at least {counted(plan.floor, 'op')} ({significant(least)} %)."]


def _of(made: Distilled, prefix: str) -> list[str]:
    return [figure for figure in made.fitted.errors if figure.startswith(prefix)]


def _together(what: str, figures: dict[str, str], made: Distilled) -> list[str]:
    """One line for several figures; none without figures. `figures`: name in the line -> figure."""
    each = [f"{name} {significant(made.fitted.expected[figure])} %" for name, figure in figures.items()]
    return [f"{what}, expected error: {', '.join(each)}."] if each else []


def warnings(made: Distilled, wanted: Wanted) -> list[str]:
    warned = []
    if wanted.error_percent is None and made.plan.ops > 1.1 * made.wanted_ops:
        warned.append(
            f"{made.wanted_ops:,} ops can't be kept: the objects at the memory peaks and the fewest windows need "
            f"{made.plan.ops:,}"
        )
    if made.growth:
        worst = max(made.growth, key=lambda label: made.growth[label])
        warned.append(
            f"at the same live bytes RSS grows with time, by up to {made.growth[worst]:.0f} % ({worst}). The calls "
            "that cause this are left out, so RSS is estimated only from other allocators' growth"
        )
    if wanted.error_percent is not None and made.worst > wanted.error_percent:
        warned.append(
            f"an error of {wanted.error_percent:g} % can't be kept: {made.plan.ops:,} ops have "
            f"{significant(made.worst)} %"
        )
    return warned


def as_json(made: Distilled) -> str:
    """The part of the manifest that was found here, with `ops`, `whole_ops` and `wanted_ops`."""
    about = {"schema": 1, "ops": made.plan.ops, "whole_ops": made.whole_ops, "wanted_ops": made.wanted_ops}
    return json.dumps(about | {"distilled": made.manifest}, indent=1) + "\n"
