# SPDX-License-Identifier: MIT
"""The experiments of `heaptape whatif` as a screen: each beside the original, allocator by allocator."""

import pandas as pd

from heaptape.common.console import printable
from heaptape.common.phrases import calls_of, count, mean_head, percent, size
from heaptape.common.tables import Cell, Table
from heaptape.decide.worth import LEAST_SAVING, NO_REASON, is_reason
from heaptape.results.comparing.compare import absolute
from heaptape.results.fits import notes_on_means, range_note, upper_ends
from heaptape.results.judged import disproof_of
from heaptape.results.schema import Results, figures
from heaptape.show.screen import CLEAR_PERCENT, Screen

FIGURES = {"peak_rss": "peak\nmemory", "mean_rss": "mean\nmemory", "total_instructions": "malloc\ninstr."}
ORIGINAL = "as recorded"
UPPER = "upper_peak_rss"


def screen(file: Results, again: str) -> Screen:
    """A row for the original and for each experiment, the least peak memory first; no advice where the recording
    disproves its replay. `again`: the command that prints its tables.
    """
    disproof = disproof_of(file)
    values = absolute(figures([file])).xs(file.name)
    metrics = [name for name in FIGURES if name in values.columns]
    originals = dict.fromkeys(label for about in file.parsed.whatif or [] for label in about.labels)
    if "peak_rss" in values.columns:
        values[UPPER] = values["peak_rss"].combine(pd.Series(upper_ends(file), dtype=float), max).reindex(values.index)
    lines, said = [], []
    for original in originals:
        if original not in values.index:
            continue
        base = values.loc[original]
        mine = [
            (about.name, values.loc[label])
            for about in file.parsed.whatif or []
            for of, label in about.labels.items()
            if of == original and label in values.index
        ]
        mine.sort(key=lambda pair: pair[1].get("peak_rss", 0.0))
        shown = [(ORIGINAL if len(originals) == 1 else f"{original}, {ORIGINAL}", base), *mine]
        lines += [[Cell(printable(name)), *_cells(row, base, metrics)] for name, row in shown]
        if not disproof:
            said.append(_sentence(original, base, mine))
    columns = ["experiment"]
    for metric in metrics:
        name = FIGURES[metric]
        columns += [mean_head(file.mean_over_calls) if metric == "mean_rss" else name, "change"]
    about = (
        f"{file.name}: {calls_of(file.workload.ops or 0, file.workload.witness)}, replayed on {', '.join(originals)}."
    )
    about = " ".join(filter(None, [disproof, about]))
    notes = [range_note(_peaks(values), rule="a saving holds at both ends")] if UPPER in values else []
    notes = [*(note for note in notes if note), *notes_on_means(file)]
    return Screen(about, Table("", columns, lines), said, notes, [("More", again)])


def _peaks(values: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """label -> both ends of its peak."""
    return {printable(str(row.Index)): (row.peak_rss, row.upper_peak_rss) for row in values.itertuples()}


def _cells(row: pd.Series, base: pd.Series, metrics: list[str]) -> list[Cell]:
    cells = []
    for metric in metrics:
        value, before = float(row[metric]), float(base[metric])
        text = count(value) if metric == "total_instructions" else size(value)
        change = 100 * (value / before - 1) if before else 0.0
        good = None if abs(change) < CLEAR_PERCENT else change < 0
        same = row is base
        cells += [Cell(text, value), Cell("" if same else percent(change), None if same else change, good=good)]
    return cells


def _sentence(original: str, base: pd.Series, experiments: list[tuple[str, pd.Series]]) -> str:
    if not experiments or "peak_rss" not in base:
        return f"On {original} no experiment was measured."
    name, row = max(experiments, key=lambda one: _saved(base, one[1]))
    saved = _saved(base, row)
    share = 100 * saved / base["peak_rss"]
    if not is_reason(share, 0.0, saved):
        return f"On {original} {NO_REASON}: none saves {LEAST_SAVING} of peak memory."
    return f"On {original} {printable(name)} saves {size(saved)} of peak memory ({percent(-share)})."


def _saved(base: pd.Series, row: pd.Series) -> float:
    """Bytes of peak memory that an experiment saves at both ends of a range."""
    return float(min(base[end] - row[end] for end in ("peak_rss", UPPER)))
