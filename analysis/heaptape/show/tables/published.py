# SPDX-License-Identifier: MIT
"""The tables in which tcache was proposed to glibc (libc-alpha, January 2017): per workload total cycles, mean cycles
of each call and RSS; the same as percentages of the baseline, with their mean; RSS overhead against ideal RSS.
"""

from collections.abc import Mapping, Sequence

import pandas as pd

from heaptape.common.tables import MIB, MISSING, Cell, Table, rounded
from heaptape.results.comparing.compare import GEOMETRIC, absolute, allocator_order, relative
from heaptape.results.comparing.intervals import Method
from heaptape.results.comparing.rare_calls import by_call
from heaptape.results.schema import Results

DIVISORS: Mapping[str, float] = {"Total": 1e6, "RSS": MIB}  # of what is shown


def frame(files: Sequence[Results], baseline: str, method: Method = "t") -> pd.DataFrame:
    """A row per workload and allocator, and one of the geometric mean per allocator but the baseline. Columns:
    workload, allocator, then Total, each call of `by_call` and RSS (cycles, bytes; NaN for means), and for each of
    these "NAME %", of the baseline's.
    """
    table, calls = by_call(files)
    names = {"Total": "total_cycles"} | {call: f"calls/{call}" for call in calls} | {"RSS": "peak_rss"}
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


def tables(found: pd.DataFrame, baseline: str) -> list[Table]:
    """`frame` as two tables; of one workload without its mean, which is itself."""
    alone = found["workload"].nunique() == 2
    known = found.columns[found.notna().any()]
    names = [str(name) for name in known[2:] if not str(name).endswith(" %")]
    heads = [name.replace(" ", "\n", 1) for name in names]
    last = frozenset([1 + len(names)]) if "RSS" in names else frozenset()  # not what a narrow screen leaves out
    made = []
    for title, end in (("Total in million cycles, cycles per call, RSS in MiB", ""), (f"% of {baseline}", " %")):
        rows = [
            [Cell(str(row["workload"])), Cell(str(row["allocator"])), *(_cell(row, name, end) for name in names)]
            for row in found.to_dict("records")
            if not (row["workload"] == GEOMETRIC and (alone or not end)) and not (end and row["allocator"] == baseline)
        ]
        made.append(Table(title, ["workload", "allocator", *heads], rows, text_columns=2, kept=last))
    return [table for table in made if table.rows]


def _cell(row: Mapping, name: str, end: str) -> Cell:
    value = row[name + end]
    if pd.isna(value):
        return Cell(MISSING)
    return Cell(f"{value:.0f} %", value) if end else Cell(rounded(value / DIVISORS.get(name, 1)), value)
