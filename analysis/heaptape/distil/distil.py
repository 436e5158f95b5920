# SPDX-License-Identifier: MIT
"""Makes a distillate: measures the whole once, plans, measures the plan's result, fits, writes it with its errors."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.distil import ageing, fit, measured
from heaptape.distil.fit import Fitted
from heaptape.distil.plan import Kind, Plan, Planner
from heaptape.results import distilled
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
        """For a heap that ages: label -> percent by which RSS grew (ageing.py); else empty."""
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
        if ageing.ages(whole.growth, families):
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
