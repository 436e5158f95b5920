# SPDX-License-Identifier: MIT
"""Experiments that promise to save memory, and the results of those that were run, as tables for people."""

import shlex
from collections.abc import Sequence

import pandas as pd

from heaptape.results.comparing.proposals import LEAST_SAVING
from heaptape.show.tables.holders_table import Unit, unit_of
from heaptape.show.tables.usual import MISSING, Cell, Table

MOST_ROWS = 5
NOTE = (
    "expected: from figures of the blame pass (docs/use/BLAME.md). left empty: additional bytes in OS pages that "
    "objects left and the allocator keeps; together with the saving they were expected to be freed."
)


def command(experiment: str, source: str, allocators: Sequence[str]) -> str:
    """The command that runs an experiment, for a shell."""
    chosen = [word for name in allocators for word in ("-a", name)]
    return shlex.join(["heaptape", "whatif", source, *chosen, "-g", experiment])


def lines(promising: pd.DataFrame, label: str, source: str) -> list[str]:
    """The first few of one allocator's `proposals.promising`, each with its command; or that there are none."""
    if promising.empty:
        return [f"{label}: no experiment with a group of objects promises to save {100 * LEAST_SAVING:.0f} % of RSS."]
    out = [f"{label}: experiments that promise most (expected: of RSS there; of its peak; of its mean):"]
    unit = unit_of(promising["rss_bytes"].iloc[0])
    for _, row in promising.head(MOST_ROWS).iterrows():
        figures = "; ".join(unit.text(row[key]) for key in ("saving_bytes", "peak_saving_bytes", "mean_saving_bytes"))
        out.append(f"  {figures} {unit.name}  {command(row['experiment'], source, [row['allocator']])}")
    if (promising["action"].head(MOST_ROWS) == "remove").any():
        out.append(
            "  remove: live bytes of that group grow through the whole run. If they are needed, it saves nothing."
        )
    return out


def ranking(tried: pd.DataFrame) -> Table:
    """A table of `proposals.tried`: what was expected and found, the best first."""
    unit = unit_of(tried["rss_bytes"].max())
    columns = ["allocator", "experiment", f"saved, {unit.name}: expected", "found", "left empty"]
    for what in ("of peak:", "of mean:"):
        columns += [f"{what} expected", "found"]
    return Table(
        "What the experiments saved, the best first",
        [*columns, "instr., %"],
        [_row(unit, row) for _, row in tried.iterrows()],
        [_places(tried), NOTE],
        2,
    )


def _row(unit: Unit, row: pd.Series) -> list[Cell]:
    figures = [
        unit.cell(row[key])
        for key in (
            "saving_bytes", "found_saving_bytes", "found_left_bytes", "peak_saving_bytes", "found_peak_saving_bytes",
            "mean_saving_bytes", "found_mean_saving_bytes",
        )
    ]  # fmt: skip
    percent = row["instructions_percent"]
    instructions = Cell(MISSING) if pd.isna(percent) else Cell(f"{percent:+.2f}", float(percent))
    return [Cell(row["allocator"]), Cell(row["experiment"]), *figures, instructions]


def _places(tried: pd.DataFrame) -> str:
    places = tried.drop_duplicates("allocator").sort_values("allocator")
    return f"saved: of RSS at op {', '.join(f'{row.position:,} ({row.allocator})' for row in places.itertuples())}."
