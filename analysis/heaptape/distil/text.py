# SPDX-License-Identifier: MIT
"""The report on a distillate that was made."""

import json

from heaptape.distil.distil import Distilled, Wanted
from heaptape.results import distilled, misses


def lines(made: Distilled, wanted: Wanted, output: str) -> list[str]:
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
