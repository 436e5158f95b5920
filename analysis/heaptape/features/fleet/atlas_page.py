# SPDX-License-Identifier: MIT
"""The atlas as one self-contained HTML page: a heat map of programs × allocators that `atlas.js` draws from the atlas
itself, averages, and how well a program's profile alone chooses its allocator.
"""

import math

import msgspec
import numpy as np
import pandas as pd

from heaptape.common.tables import MISSING, Cell, Table
from heaptape.features.fleet import atlas
from heaptape.features.fleet.atlas import BASELINE, FIGURES, Atlas, Column
from heaptape.show.pages import template
from heaptape.tape.embedded import in_script

UNITS = {
    "peak_rss": "bytes",
    "mean_rss": "bytes",
    "held_rss": "bytes",
    "total_instructions": "instructions",
    "syscalls": "calls",
    "page_faults": "faults",
    "misses": "misses",
    "cpu": "% of the time on glibc",
}


def make(found: Atlas) -> str:
    """The page, as text."""
    figures = [figure for figure in FIGURES if any(figure in of for of in found.cells.values())]
    picks = {figure: atlas.picks(found, figure) for figure in figures}
    picks = {figure: rows for figure, rows in picks.items() if len(rows)}
    shown = ["program", "pick", "best", "nearest"]
    data = {
        "atlas": msgspec.to_builtins(found),
        "figures": {figure: {"name": FIGURES[figure], "unit": UNITS[figure]} for figure in figures},
        "baseline": BASELINE,
        "picks": {figure: rows[shown].to_dict("records") for figure, rows in picks.items()},
    }
    return template("atlas.html.j2", __package__).render(
        found=found,
        facts=_facts(found),
        averages=_averages(found, figures),
        choices=_choices(picks),
        columns=_columns(found),
        figures={figure: FIGURES[figure] for figure in figures},
        neighbours=atlas.NEIGHBOURS,
        data=in_script(data),
    )


def _facts(found: Atlas) -> list[str]:
    families = {program.family for program in found.programs}
    return [
        f"{len(found.programs)} recordings of {len(families)} programs",
        f"{len(found.columns)} allocators and settings",
        found.day,
        f"{found.machine.get('os', '')}, Linux {found.machine.get('kernel', '')}, {found.machine.get('libc', '')}",
        f"heaptape {found.heaptape}",
    ]


def title(column: Column) -> str:
    return f"{column.name} ({column.version})" if column.version else column.name


def _averages(found: Atlas, figures: list[str]) -> Table:
    """Each column against the baseline: geometric mean of the ratios, on the programs that both have."""
    names = [column.name for column in found.columns]
    if BASELINE not in names:
        return Table("", [], [])
    base, rows = names.index(BASELINE), []
    for at, column in enumerate(found.columns):
        row = [Cell(title(column))]
        for figure in figures:
            pairs = [(of[figure][at], of[figure][base]) for of in found.cells.values() if figure in of]
            logs = [math.log(mine / own) for mine, own in pairs if mine and own]
            ratio = math.exp(float(np.mean(logs))) if logs else math.nan
            row.append(Cell(MISSING) if math.isnan(ratio) else Cell(_change(ratio), ratio))
        rows.append(row)
    notes = ["Geometric means over the recordings on which both are known and not 0; less is better."]
    return Table(f"Against {BASELINE}", ["allocator", *(FIGURES[figure] for figure in figures)], rows, notes)


def _change(ratio: float) -> str:
    return f"× {ratio:.1f}" if ratio >= 2 else f"{100 * (ratio - 1):+.0f} %".replace("-", "−")


def _choices(picks: dict[str, pd.DataFrame]) -> Table:
    """How good the choice by profile was, beside one choice for all and the baseline."""
    rows = []
    for figure, found in picks.items():
        of = atlas.summary(found)
        row = [Cell(FIGURES[figure]), Cell(f"{len(found)}", len(found))]
        for who in ("pick", "always", "baseline"):
            near, above = of[f"{who}_near"], of[f"{who}_above_percent"]
            row += [Cell(f"{100 * near:.0f} %", near), Cell(f"{above:+.0f} %", above)]
        rows.append([*row, Cell(f"{100 * of['pick_best']:.0f} %", of["pick_best"])])
    columns = [
        "figure", "recordings", "by profile: within 2 % of the best", "mean above the best", "one for all: within 2 %",
        "above", f"{BASELINE}: within 2 %", "above", "by profile: the best",
    ]  # fmt: skip
    return Table("How often the choice was good", columns, rows)


def _columns(found: Atlas) -> Table:
    rows = []
    for column in found.columns:
        missing = [
            f"{one.pass_}: {one.reason}" for one in found.failures if one.column == column.name and not one.program
        ]
        settings = " ".join(f"{key}={value}" for key, value in column.settings.items())
        words = [column.name, column.version, column.source, column.library, settings, "; ".join(missing)]
        rows.append([Cell(word or MISSING) for word in words])
    rows += [[Cell(name), *[Cell(MISSING)] * 4, Cell(reason)] for name, reason in found.absent.items()]
    columns = ["allocator", "version", "from", "sha256 of the library", "settings", "not measured, and why"]
    return Table("Allocators", columns, rows, text_columns=6)
