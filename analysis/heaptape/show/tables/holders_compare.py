# SPDX-License-Identifier: MIT
"""Who holds the memory where RSS is largest, two runs side by side: for compare, whatif and the report."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from heaptape.results import holders
from heaptape.results.blame import Blame, position_at
from heaptape.results.schema import Results
from heaptape.show.tables import holders_table
from heaptape.show.tables.usual import Table

NAMES = ("workload", "one", "other", "grouping")


@dataclass(frozen=True)
class Side:
    """A run's blame, its label here, and the position to show."""

    label: str
    found: Blame
    where: str

    def rows(self, grouping: str) -> pd.DataFrame:
        """`holders.at_position`."""
        return holders.at_position(self.found, self.label, position_at(self.found, self.where), grouping)


def experiments(file: Results, where: str = "peak") -> pd.DataFrame:
    """Like `frame`: each experiment of `heaptape whatif` beside its original, each at its own position `where`. A
    position by number is the trace's, mapped to the experiment's.
    """
    there, parts = file.holders(), []
    for about in file.data.get("whatif") or []:
        mapped = {str(place): str(other) for place, other in about.get("positions") or []}
        for original, label in about.get("labels", {}).items():
            if original in there and label in there:
                one = Side(original, there[original], where)
                other = Side(label, there[label], mapped.get(where, where))
                parts.append(_difference(file.name, one, other))
    return _joined(parts)


def frame(files: Sequence[Results], baseline: str) -> pd.DataFrame:
    """Columns NAMES and those of `holders.difference`: for each file's experiments beside their originals, its other
    allocators beside the baseline; and if there are two files, for each allocator that is in both. In bytes, where RSS
    is largest. Empty if no run had the pass blame.
    """
    return _joined([*map(experiments, files), *(_difference(*pair) for pair in _pairs(files, baseline))])


def _pairs(files: Sequence[Results], baseline: str) -> Iterator[tuple[str, Side, Side]]:
    for file in files:
        there = file.holders()
        others = [label for label in there if label not in {baseline, *file.experiment_labels}]
        for label in others if baseline in there else []:
            yield file.name, Side(baseline, there[baseline], "peak"), Side(label, there[label], "peak")
    if len(files) == 2:
        one, other = (file.holders() for file in files)
        for label in [label for label in one if label in other]:
            sides = [Side(f"{file.path}, {label}", held[label], "peak") for file, held in zip(files, (one, other))]
            yield files[0].name, sides[0], sides[1]


def _difference(workload: str, one: Side, other: Side) -> pd.DataFrame:
    grouping = holders.best_grouping(one.found, other.found)
    found = holders.difference(one.rows(grouping), other.rows(grouping))
    return found.assign(workload=workload, one=one.label, other=other.label, grouping=grouping)


def _joined(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    if not parts:
        return pd.DataFrame(columns=[*NAMES, *holders.DIFFERENCE_COLUMNS])
    return pd.concat(parts, ignore_index=True)[[*NAMES, *holders.DIFFERENCE_COLUMNS]]


def tables(found: pd.DataFrame, where: str = "peak") -> list[Table]:
    place = holders_table.WHERE.get(where, f"at op {where}" if where.isdecimal() else f"at mark {where}")
    out = []
    for (_, one, other, grouping), rows in found.groupby(list(NAMES), sort=False):
        title = f"Who holds the memory {place}: from {one} to {other}"
        out.append(holders_table.side_by_side(rows, "before", "after", grouping, title))
    return out
