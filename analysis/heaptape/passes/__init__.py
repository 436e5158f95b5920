# SPDX-License-Identifier: MIT
"""A module per pass or figure of one: its figures as DataFrames, its tables, its sentences. A feature has its own in
its folder, `pass_table.py`, and what it is in TABLE of the folder. A module is imported when one of its tables is made,
as it needs pandas.
"""

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from heaptape.features import having

if TYPE_CHECKING:
    import pandas as pd

    from heaptape.common.tables import Table
    from heaptape.results.schema import Results

# Module of this folder -> what `heaptape compare --table MODULE` prints.
OWN = {
    "fragmentation": "what RSS consists of at its peak: live, rounding, caches and bins, empty OS pages, metadata",
    "latency": "percentiles by call type and size class",
}
PASS_TABLE = "pass_table"
# The same, with those of features: those of a lower TABLE_TURN first.
_FEATURES = {name: import_module(f"heaptape.features.{name}") for name in having(PASS_TABLE)}
TABLES: dict[str, str] = OWN | {
    name: module.TABLE for name, module in sorted(_FEATURES.items(), key=lambda one: vars(one[1]).get("TABLE_TURN", 1))
}


class PassTable(NamedTuple):
    """A module's TABLE. `frame`: of the files and the baseline, the figures. `view`: of that and the baseline, the
    tables for people. `usual`: likewise of the files, those that stand in each comparison; None: none does.
    `counted`: they come before those of all passes, with what is predicted from counts. `report`: of one file, those in
    its part of the report. `words`: of the files, its conclusions. `in_all`: it is one of --table all.
    """

    frame: "Callable[[Sequence[Results], str], pd.DataFrame]"
    view: "Callable[[pd.DataFrame, str], list[Table]]"
    usual: "Callable[[Sequence[Results], str], list[Table]] | None" = None
    counted: bool = False
    report: "Callable[[Results], list[Table]] | None" = None
    words: "Callable[[Sequence[Results]], list[Table]] | None" = None
    in_all: bool = True


def table(name: str) -> PassTable:
    place = f"heaptape.passes.{name}" if name in OWN else f"heaptape.features.{name}.{PASS_TABLE}"
    found: PassTable = import_module(place).TABLE
    return found


def usual(files: "Sequence[Results]", baseline: str, counted: bool) -> "Iterator[Table]":
    """The tables of passes that stand in each comparison, in the order of TABLES."""
    for one in map(table, TABLES):
        if one.usual and one.counted == counted:
            yield from one.usual(files, baseline)


def report(file: "Results") -> "Iterator[Table]":
    """The tables of passes in a file's part of the report."""
    for one in map(table, TABLES):
        if one.report:
            yield from one.report(file)


def words(files: "Sequence[Results]") -> "Iterator[Table]":
    """What passes conclude, as tables of sentences."""
    for one in map(table, TABLES):
        if one.words:
            yield from one.words(files)
