# SPDX-License-Identifier: MIT
"""The tables in which tcache was proposed to glibc (libc-alpha, January 2017): per workload total cycles, mean cycles
of each call and RSS; the same as percentages of the baseline, with their mean; RSS overhead against ideal RSS. Where no
cycles were measured, with instructions in their place.
"""

from collections.abc import Mapping, Sequence

import pandas as pd

from heaptape.common.tables import MIB, MISSING, Cell, Table, rounded
from heaptape.results.comparing.compare import GEOMETRIC, MAIN_CALLS, absolute, allocator_order, relative
from heaptape.results.comparing.intervals import Method
from heaptape.results.comparing.rare_calls import by_call
from heaptape.results.schema import Results

KINDS = {"cycles": "calls", "instructions": "instructions"}  # unit -> metrics of calls
MOST_OTHERS = 4  # calls in a table
DIVISORS: Mapping[str, float] = {"Total": 1e6, "RSS": MIB}  # of what is shown


def unit_of(files: Sequence[Results]) -> str:
    """Of KINDS: what the costs of calls are in."""
    timed = any(run.cycles_total is not None for file in files for run in file.measured)
    return "cycles" if timed else "instructions"


def frame(files: Sequence[Results], baseline: str, method: Method = "t") -> pd.DataFrame:
    """A row per workload and allocator, and one of the geometric mean per allocator but the baseline. Columns:
    workload, allocator, then Total, each call of `by_call` and RSS (`unit_of`, bytes; NaN for means), and for each of
    these "NAME %", of the baseline's.
    """
    unit = unit_of(files)
    table, calls = by_call(files, KINDS[unit])
    names = {"Total": f"total_{unit}"} | {call: f"{KINDS[unit]}/{call}" for call in calls} | {"RSS": "peak_rss"}
    metrics = list(names.values())
    values = absolute(table).reindex(columns=metrics)
    percents = relative(table, baseline, method).pivot_table(
        index=["workload", "allocator"], columns="metric", values="percent", sort=False
    )
    workloads = [*dict.fromkeys(values.index.get_level_values("workload")), GEOMETRIC]
    rows = pd.MultiIndex.from_product([workloads, allocator_order(files)], names=["workload", "allocator"])
    values, percents = values.reindex(rows), percents.reindex(index=rows, columns=metrics)
    found = {name: values[metric] for name, metric in names.items()}
    found |= {f"{name} %": percents[metric] for name, metric in names.items()}
    return pd.DataFrame(found).dropna(how="all").reset_index()


def tables(found: pd.DataFrame, baseline: str, unit: str = "cycles") -> list[Table]:
    """`frame` in the published form, and below it the other calls (C++ operators, aligned calls), four at a time; then
    the same in percent. Of one workload without its mean, which is itself.
    """
    alone = found["workload"].nunique() == 2
    known = found.columns[found.notna().any()]
    names = [str(name) for name in known[2:] if not str(name).endswith(" %")]
    others = [name for name in names if name not in ("Total", *MAIN_CALLS, "RSS")]
    parts = [[name for name in names if name not in others]]
    parts += [others[begin : begin + MOST_OTHERS] for begin in range(0, len(others), MOST_OTHERS)]
    made = []
    for title, end in (
        (f"Total in million {unit}, {unit} per call, RSS (peak memory) in MiB", ""),
        (f"% of {baseline}", " %"),
    ):
        wanted = [
            row
            for row in found.to_dict("records")
            if not (row["workload"] == GEOMETRIC and (alone or not end)) and not (end and row["allocator"] == baseline)
        ]
        for part in parts:
            rows = [
                [Cell(str(row["workload"])), Cell(str(row["allocator"])), *(_cell(row, name, end) for name in part)]
                for row in wanted
                if part is parts[0] or any(pd.notna(row[name + end]) for name in part)
            ]
            heads = ["workload", "allocator", *(name.replace(" ", "\n", 1) for name in part)]
            last = frozenset([1 + len(part)]) if "RSS" in part else frozenset()  # not what a narrow screen leaves out
            name = title if part is parts[0] else f"{title.partition(', RSS')[0]}, other calls"
            made.append(Table(name, heads, rows, text_columns=2, kept=last))
    return [table for table in made if table.rows]


def _cell(row: Mapping, name: str, end: str) -> Cell:
    value = row[name + end]
    if pd.isna(value):
        return Cell(MISSING)
    return Cell(f"{value:.0f} %", value) if end else Cell(rounded(value / DIVISORS.get(name, 1)), value)
