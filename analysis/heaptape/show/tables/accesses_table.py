# SPDX-License-Identifier: MIT
"""The table `accesses`: CPU time of calls and recorded accesses, performed, also against the baseline."""

import math
from collections.abc import Sequence

import pandas as pd

from heaptape.results import accesses
from heaptape.results.comparing.compare import allocator_order, relative
from heaptape.results.comparing.intervals import LEVEL, Method, log_ratio, too_noisy
from heaptape.results.schema import Results, figures
from heaptape.show.tables.usual import MISSING, NOISY, Cell, Table, by_workload, legend, rounded, signed

NOTE = (
    "ms of CPU time of one run: the recorded calls, and the program's recorded data accesses at the addresses that "
    "each allocator returns, page faults included, less the engine's own share. Independent: the processor overlaps "
    "accesses as it can; dependent: each waits for the one before. A program is between the two. Not included: the "
    "program's instructions, and accesses that the recording's filter left out, most of which hit the first-level "
    "cache."
)

NO_DIFFERENCE = dict.fromkeys(("difference_ms", "difference_low", "difference_high"), math.nan) | {
    "difference_reason": ""
}
INTERVAL = "(a to b): the 95 % interval over the repetitions."


def frame(files: Sequence[Results], baseline: str, method: Method = "t") -> pd.DataFrame:
    """Columns workload, allocator (label), kind (independent, dependent, own), ms (mean over the repetitions; for `own`
    the engine's own share), low, high (95 %; NaN: not known), repetitions, difference_ms, difference_low,
    difference_high (against the baseline's mean), reason and difference_reason (why the figures should not be shown:
    their interval, or that of the ratio to the baseline's, spans a factor of two or more; else empty).
    """
    table = figures(files)
    table = table[table["metric"].str.startswith("accesses/")]
    ratios = relative(table, baseline, method).set_index(["workload", "allocator", "metric"])
    rank = {label: number for number, label in enumerate(allocator_order(files))}
    rows = []
    for (workload, label, metric), values in table.groupby(["workload", "allocator", "metric"], sort=False):
        found = values.set_index("round")["value"] / 1e6
        about = {"workload": workload, "allocator": label, "kind": metric.removeprefix("accesses/")}
        rows.append(about | _absolute(found, method) | NO_DIFFERENCE)
        same = (table["workload"] == workload) & (table["allocator"] == baseline) & (table["metric"] == metric)
        before = table[same]["value"].mean() / 1e6
        if (workload, label, metric) in ratios.index and metric != accesses.OWN:
            rows[-1] |= _difference(ratios.loc[(workload, label, metric)], before)
    columns = ["workload", "allocator", "kind", "ms", "low", "high", "repetitions"]
    columns += ["difference_ms", "difference_low", "difference_high", "reason", "difference_reason"]
    rows.sort(key=lambda row: rank[row["allocator"]])
    return pd.DataFrame(rows, columns=columns)


def _absolute(found: pd.Series, method: Method) -> dict:
    """Mean and interval. The interval is that of the ratio to 1 ms, of logarithms like all intervals of times."""
    one = log_ratio(pd.Series(1.0, index=found.index), found)
    low, high = one.interval(LEVEL, method) if one else (math.nan, math.nan)
    about = {"ms": float(found.mean()), "low": low, "high": high, "repetitions": len(found)}
    reason = too_noisy(low, high, len(found)) if one else "not above the engine's own share in some repetition"
    return about | {"reason": reason}


def _difference(ratio: pd.Series, before_ms: float) -> dict:
    ends = {"ms": ratio["percent"], "low": ratio["low"], "high": ratio["high"]}
    made = {f"difference_{name}": before_ms * (percent - 100) / 100 for name, percent in ends.items()}
    return made | {"difference_reason": ratio["reason"]}


def tables(found: pd.DataFrame, baseline: str) -> list[Table]:
    """From `frame`, a table per workload with a row for each allocator. Empty if no run had the pass."""
    out = []
    for _, here, suffix in by_workload(found):
        labels = list(dict.fromkeys(here["allocator"]))
        compared = len(labels) > 1 and baseline in labels
        columns = ["allocator", *(f"{kind}, ms" for kind in accesses.KINDS)]
        columns += [f"{kind}, ms against {baseline}" for kind in accesses.KINDS] if compared else []
        rows = [_row(here[here["allocator"] == label].set_index("kind"), label, compared) for label in labels]
        title = f"CPU time of calls and recorded accesses{suffix}"
        notes = [f"{NOTE} {_own(here)}", INTERVAL, *legend([Table(title, columns, rows)])]
        out.append(Table(title, columns, rows, notes))
    return out


def usual(files: Sequence[Results], baseline: str, method: Method = "t") -> list[Table]:
    return tables(frame(files, baseline, method), baseline)


def _own(here: pd.DataFrame) -> str:
    own = here[here["kind"] == "own"]["ms"]
    whole = own.mean() + here[here["kind"] == "independent"]["ms"].mean()
    share = f", {100 * own.mean() / whole:.0f} % of an independent run" if whole > 0 else ""
    return f"The engine's own share: {rounded(own.min())} to {rounded(own.max())} ms{share}."


def _row(mine: pd.DataFrame, label: str, compared: bool) -> list[Cell]:
    cells = [_cell(mine, kind, "", ("ms", "low", "high")) for kind in accesses.KINDS]
    keys = ("difference_ms", "difference_low", "difference_high")
    cells += [_cell(mine, kind, "difference_", keys) for kind in accesses.KINDS if compared]
    return [Cell(label), *cells]


def _cell(mine: pd.DataFrame, kind: str, prefix: str, keys: tuple[str, str, str]) -> Cell:
    if kind not in mine.index or pd.isna(mine.at[kind, keys[0]]):
        return Cell(MISSING)
    value, low, high = (float(mine.at[kind, key]) for key in keys)
    if reason := mine.at[kind, f"{prefix}reason"]:
        return Cell(NOISY, None, True, reason=str(reason))
    shown = signed if prefix else rounded
    if math.isnan(low):
        return Cell(f"{shown(value)} ?", value, True)
    unsure = bool(prefix) and low <= 0 <= high
    return Cell(f"{'~' if unsure else ''}{shown(value)} ({shown(low)} to {shown(high)})", value, unsure)
