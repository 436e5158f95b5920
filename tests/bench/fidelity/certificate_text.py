# SPDX-License-Identifier: MIT
"""The tables of errors as text for a terminal."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from tests.bench.fidelity.certificate import BASELINE, FIGURES, errors, pairs, summary, too_noisy_to_show

MIB = 1 << 20


def text(results: Sequence[dict]) -> str:
    """Errors of each app and allocator, their summary, and how often the better of two allocators was named."""
    table = errors(results)
    parts = [_pairs_table(table), _summary_lines(table), _ranking_lines(results)]
    return "\n\n".join(part for part in parts if part) + "\n"


def one_line(data: dict) -> str:
    """An app's worst peak error, to be shown while others run."""
    table = errors([data])
    peak = table[(table["figure"] == "peak") & (table["allocator"] != BASELINE)]
    if peak.empty:
        return f"{data['app']['name']}: no prediction"
    worst = peak.loc[peak["error"].abs().idxmax()]
    return f"{data['app']['name']}: peak RssAnon off by at most {worst['error']:+.1f} % ({worst['allocator']})"


def _pairs_table(table: pd.DataFrame) -> str:
    """One row per app and allocator: live peak, errors, live and predicted change of CPU time."""
    rows = []
    for (app, allocator), part in table.groupby(["app", "allocator"], sort=False):
        by_figure = part.set_index("figure")
        row = {"app": app, "allocator": allocator}
        if "peak" in by_figure.index:
            row["live peak, MiB"] = f"{by_figure.loc['peak', 'live'] / MIB:.2f}"
        for figure in ("peak", "peak_part", "mean", "mean_part", "aligned_mean", "vm_size"):
            if figure in by_figure.index:
                row[f"{figure}, %"] = _signed(by_figure.loc[figure, "error"])
        if "peak" in by_figure.index:
            row["noise, %"] = f"{by_figure.loc['peak', 'noise']:.2f}"
        if "cpu_change" in by_figure.index:
            change = by_figure.loc["cpu_change"]
            row["CPU live, %"] = "too noisy" if too_noisy_to_show(change) else _signed(change["live"])
            row["CPU predicted, %"] = _signed(change["predicted"])
            row["CPU noise, %"] = f"{change['noise']:.1f}"
        rows.append(row)
    return pd.DataFrame(rows).fillna("").to_string(index=False) if rows else "no figures"


def _summary_lines(table: pd.DataFrame) -> str:
    lines = []
    for half in (None, "tuned", "held-out"):
        part = table if half is None else table[table["set"] == half]
        found = summary(part)
        if found.empty or (half and len(found) and part["app"].nunique() == table["app"].nunique()):
            continue
        lines.append(f"Errors in percent, {half or 'all'} ({part['app'].nunique()} apps):")
        for _, row in found.iterrows():
            lines.append(
                f"  {FIGURES[row['figure']]:<39} {row['figure']:<17} median {row['median']:6.2f}  90th percentile "
                f"{row['p90']:6.2f}  worst {row['worst']:7.2f} ({row['worst_at']}), {row['count']} pairs"
            )
    return "\n".join(lines)


def _ranking_lines(results: Sequence[dict]) -> str:
    lines = [
        "Pairs of allocators in the same order live and replayed, of those whose live difference exceeds its noise:"
    ]
    names = {key: FIGURES[key] for key in ("peak", "mean", "aligned_mean")} | {"cpu": "CPU time, by calls alone"}
    for figure, name in names.items():
        found = pairs(results, figure)
        clear = found[found["beyond_noise"]]
        if clear.empty:
            continue
        size = (clear["predicted"] / clear["live"] - 1).abs().median() * 100
        lines.append(
            f"  {name:<39} {100 * clear['right'].mean():5.1f} % of {len(clear)} pairs (of {len(found)}); "
            f"magnitude off by {size:.0f} % at the median"
        )
    return "\n".join(lines)


def _signed(value: float) -> str:
    return "" if np.isnan(value) else f"{value:+.2f}"
