# SPDX-License-Identifier: MIT
"""The effects of an allocator's tunables, as a table for people."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from heaptape.show.tables.usual import MISSING, Cell, Table, signed


class Effect(Protocol):
    """The effect of one value of a tunable. `changes`: figure -> (change in percent, workload where it is largest)."""

    @property
    def tunable(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def changes(self) -> Mapping[str, tuple[float, str]]: ...
    @property
    def error(self) -> str: ...


def effects_table(
    allocator: str, found: Sequence[Effect], figures: Sequence[str], workloads: Sequence[str], silent: Sequence[str]
) -> Table:
    """One row for each value; `silent`: tunables that changed nothing, which the notes name."""
    rows = [
        [Cell(one.tunable), Cell(one.value), *[_cell(one, figure) for figure in figures], Cell(_where(one.changes))]
        for one in found
    ]
    notes = [f"The largest change in percent among {', '.join(workloads)}; –: no change."]
    notes += [f"{one.tunable}={one.value} failed: {one.error}" for one in found if one.error]
    if silent:
        notes.append(f"Change nothing in any of these workloads: {', '.join(silent)}.")
    return Table(f"Tunables — {allocator}", ["tunable", "value", *figures, "largest in"], rows, notes, 2)


def _cell(one: Effect, figure: str) -> Cell:
    if one.error:
        return Cell("failed")
    change = one.changes.get(figure)
    return Cell(signed(change[0]), change[0]) if change else Cell(MISSING)


def _where(changes: Mapping[str, tuple[float, str]]) -> str:
    if not changes:
        return MISSING
    return max(changes.values(), key=lambda change: abs(change[0]))[1]
