# SPDX-License-Identifier: MIT
"""Results of the experiments of `heaptape whatif`: each against the original, allocator by allocator."""

from collections.abc import Iterator

import pandas as pd

from heaptape.common.phrases import mean_name
from heaptape.common.tables import MIB, MISSING, Cell, Table, rounded
from heaptape.results.cells import in_unit
from heaptape.results.comparing.compare import absolute, relative
from heaptape.results.schema import Results, figures
from heaptape.show.tables.usual import legend, percent_cell

# metric -> its column, bytes or instructions of one unit
METRICS = {
    "peak_rss": ("peak memory, MiB", MIB),
    "mean_rss": ("mean memory, MiB", MIB),
    "total_instructions": ("instructions, M", 1e6),
}
ORIGINAL = "as recorded"


def changes(file: Results) -> pd.DataFrame:
    """One row per allocator, experiment and metric of METRICS: columns experiment, original (label), and those of
    `compare.relative`, whose percent is of the same allocator's original; also value (bytes, instructions).

    Empty if the results have no experiments.
    """
    table = figures([file])
    values = absolute(table)
    parts = [pd.DataFrame(columns=["experiment", "original", "allocator", "metric", "percent", "value"])]
    for name, original, label in _pairs(file):
        pair = relative(table[table["allocator"].isin([original, label])], original)
        here = pair[(pair["allocator"] == label) & pair["metric"].isin(METRICS) & (pair["workload"] == file.name)]
        given = [float(values.at[(file.name, label), metric]) for metric in here["metric"]]
        parts.append(here.assign(experiment=name, original=original, value=given))
    return pd.concat([part for part in parts if len(part)] or parts, ignore_index=True)


def whatif_tables(file: Results) -> list[Table]:
    """One table: allocator and experiment, each figure and its percentage of the original. The notes list the
    groups.
    """
    found = changes(file)
    table = figures([file])
    values = absolute(table)
    metrics = [m for m in METRICS if m in values.columns]
    columns = ["allocator", "experiment"]
    mean = f"{mean_name(over_calls=True)}, MiB" if file.mean_over_calls else METRICS["mean_rss"][0]
    names = {metric: name for metric, (name, _) in METRICS.items()} | {"mean_rss": mean}
    columns += [text for metric in metrics for text in (names[metric], "% of original")]
    rows = []
    for original in dict.fromkeys(label for _, label, _ in _pairs(file)):
        cells = [_value(values.at[(file.name, original), m], m) for m in metrics]
        rows.append([Cell(original), Cell(ORIGINAL), *[c for cell in cells for c in (cell, Cell(MISSING))]])
        for name, of, _ in _pairs(file):
            if of == original:
                rows.append([Cell(original), Cell(name), *_cells(found, original, name, metrics)])
    shown = Table(f"What if — {file.name}", columns, rows, text_columns=2)
    return [Table(shown.title, columns, rows, [*legend([shown]), *_notes(file)], 2)]


def _pairs(file: Results) -> Iterator[tuple[str, str, str]]:
    """(experiment, label of the original, label of the experiment's runs)."""
    known = set(file.figures()["allocator"])
    for about in file.parsed.whatif or []:
        for original, label in about.labels.items():
            if {original, label} <= known:
                yield about.name, original, label


def _value(value: float, metric: str) -> Cell:
    return in_unit(value, METRICS[metric][1])


def _cells(found: pd.DataFrame, original: str, name: str, metrics: list[str]) -> list[Cell]:
    here = found[(found["original"] == original) & (found["experiment"] == name)]
    cells = []
    for metric in metrics:
        row = next(here[here["metric"] == metric].itertuples(), None)
        if row is None:
            cells += [Cell(MISSING)] * 2
        else:
            cells += [_value(row.value, metric), percent_cell(row)]
    return cells


def _notes(file: Results) -> list[str]:
    notes = []
    for about in file.parsed.whatif or []:
        for group in about.groups:
            whole, live = (rounded((size or 0) / MIB) for size in (group.bytes, group.peak_live_bytes))
            text = f"{group.group}: {group.objects or 0:,} objects of {whole} MiB in all, at most {live} MiB live"
            if group.chunks is not None:
                text += f"; {group.chunks:,} chunks, {group.left_alone or 0:,} objects not for a pool"
            notes.append(f"{text}.")
    return notes
