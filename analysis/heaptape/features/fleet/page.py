# SPDX-License-Identifier: MIT
"""A fleet's results from a store's cells: one self-contained HTML page in the report's style."""

import base64

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from heaptape.common.escape import csv_frame
from heaptape.common.phrases import size
from heaptape.common.tables import MISSING, Cell, Table
from heaptape.common.version import __version__
from heaptape.decide.worth import NO_REASON, is_reason, why_not
from heaptape.features.fleet.matrix import FIGURES, Matrix
from heaptape.features.fleet.plots import heat_map
from heaptape.show.pages import template
from heaptape.show.pages.pictures import STYLE, WIDTH_IN, Picture, inline_svg
from heaptape.show.pages.profile_page import Part

ROW_IN, HEAD_IN, LONGEST_IN = 0.24, 0.9, 14.0
ROWS = 200  # of a table: the Parquet files have all


def make(found: Matrix, url: str) -> str:
    """The page, as text. `url`: the store's."""
    with matplotlib.rc_context(STYLE):
        parts = [_figure_part(found, figure) for figure in FIGURES if figure in set(found.ratios["figure"])]
    raw = csv_frame(found.ratios).encode()
    return template("page.html.j2", __package__).render(
        version=__version__, url=url, facts=_facts(found), summary=sentences(found), baseline=found.baseline,
        parts=[*parts, _best_part(found), _outlier_part(found)], worst=f"{found.worst_percent:g}",
        raw=base64.b64encode(raw).decode(),
    )  # fmt: skip


def sentences(found: Matrix) -> list[str]:
    """For each figure, the one choice for all and its saving."""
    lines = []
    for row in found.single.itertuples():
        what = FIGURES[row.figure]
        if row.label == found.baseline:
            bound = f"{found.worst_percent:g} % more on any workload"
            sentence = f"{what}: no candidate needs less than {found.baseline} in all, and at most {bound}."
        else:
            gain = 100 * (1 - row.ratio)
            saves = f"{row.label} for all saves {quantity(row.saved, row.unit)}, {gain:.1f} % of {found.baseline}'s"
            sentence = (
                f"{what}: {saves}; at worst {_signed(row.worst_ratio)} ({row.worst_workload})."
                if is_reason(gain)
                else f"{what}: {NO_REASON}: {saves}, {why_not(gain)}."
            )
        lines.append(sentence[0].upper() + sentence[1:] + (f" Left out: {row.left_out}." if row.left_out else ""))
    return lines


def quantity(value: float, unit: str) -> str:
    """Bytes in binary units, else the number and its unit."""
    return size(value) if unit == "bytes" else f"{value:,.0f} {unit}".rstrip()


def _facts(found: Matrix) -> list[str]:
    workloads = found.ratios.drop_duplicates("workload")
    facts = [
        f"{len(workloads):,} workloads",
        f"{found.ratios['label'].nunique():,} candidates against {found.baseline}",
    ]
    if not (workloads["weight"] == 1).all():
        facts.append(f"which represent {workloads['weight'].sum():,.0f}")
    machines = int(found.ratios["machines"].max())
    return [*facts, f"times of {machines} machine{'s' * (machines != 1)}"] if machines else facts


def _figure_part(found: Matrix, figure: str) -> Part:
    here = found.ratios[found.ratios["figure"] == figure]
    totals = found.totals[found.totals["figure"] == figure]
    labels = list(totals["label"])
    order = here.groupby("workload")["ratio"].min().sort_values(kind="stable").index
    height = min(HEAD_IN + ROW_IN * len(order), LONGEST_IN)
    figure_ = Figure(figsize=(WIDTH_IN, height), layout="constrained")  # names are of any length
    heat_map(figure_.subplots(), here, list(order), labels)
    words = "; ".join(f"{row.label} {_signed(row.ratio)} over the fleet" for row in totals.itertuples())
    caption = (
        f"Change against {found.baseline} in percent; blue: less, orange: more. ±: half of the 95 % interval; in "
        "brackets: no more than chance; without: exact."
    )
    picture = Picture(FIGURES[figure], inline_svg(figure_, f"fleet-{figure}"), caption, words)
    title = FIGURES[figure][0].upper() + FIGURES[figure][1:]
    return Part(figure, title, "Workloads on which most can be saved come first.", [picture], [_totals(totals)])


def _totals(totals: pd.DataFrame) -> Table:
    rows = [
        [
            Cell(str(row.label)), Cell(quantity(row.saved, row.unit), row.saved), _percent(row.ratio),
            _percent(row.worst_ratio), Cell(str(row.worst_workload)), Cell(f"{row.workloads:,}", row.workloads),
        ]
        for row in totals.itertuples()
    ]  # fmt: skip
    columns = ["candidate", "saves over the fleet", "change", "at worst", "on", "workloads"]
    return Table("Over the fleet, each workload by its weight", columns, rows)


def _best_part(found: Matrix) -> Part:
    rows = [
        [
            Cell(str(row.name)), Cell(FIGURES[row.figure]), Cell(row.label), _percent(row.ratio),
            Cell("yes" if row.supported else "no" if row.label != found.baseline else MISSING),
        ]
        for row in found.best.head(ROWS).itertuples(index=False)
    ]  # fmt: skip
    columns = ["workload", "figure", "best", "change", "beyond chance"]
    table = Table("The least of each figure", columns, rows, _more(len(found.best)), text_columns=3)
    return Part("best", "Best per workload", "", [], [table])


def _outlier_part(found: Matrix) -> Part:
    rows = [
        [
            Cell(str(row.name)), Cell(FIGURES[row.figure]), Cell(row.label), _percent(row.ratio),
            _percent(row.median_ratio), Cell(f"{row.deviations:+.1f}", row.deviations),
        ]
        for row in found.outliers.head(ROWS).itertuples(index=False)
    ]  # fmt: skip
    columns = ["workload", "figure", "candidate", "change", "median of all workloads", "deviations"]
    notes = _more(len(found.outliers)) if rows else ["None: each candidate behaves on every workload about as on most."]
    about = "Workloads on which a candidate differs from its result on most: look at these one by one."
    return Part("outliers", "Outliers", about, [], [Table("Far from the median", columns, rows, notes, text_columns=3)])


def _more(count: int) -> list[str]:
    return [f"The first {ROWS:,} of {count:,}."] if count > ROWS else []


def _percent(ratio: float) -> Cell:
    return Cell(_signed(ratio), 100 * (ratio - 1))


def _signed(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"
