# SPDX-License-Identifier: MIT
"""Helpers for the tests of fleets: small workloads, stores of them, and a store's exact figures."""

from pathlib import Path

import pandas as pd
from heaptape.features.fleet.store import open_store
from heaptape.features.gate.test.pieces import make_workload

from tests.support import Result, call_heaptape

ALLOCATORS = ("glibc", "reference")
CHOSEN = [word for name in ALLOCATORS for word in ("-a", name)]
# Figures of the machine's state, not of the allocator.
NOT_EXACT = ("bare_wall", "bare_cpu")


def make_workloads(folder: Path, number: int) -> list[Path]:
    """Makes small, different workloads."""
    found = []
    for seed in range(number):
        place = folder / f"made{seed}"
        place.mkdir()
        found.append(make_workload(place, 200, 2, seed).rename(folder / f"w{seed}.work"))
    return found


def words(store: object, *inputs: object, passes: str = "memory") -> list[str]:
    """`fleet run` of the inputs on ALLOCATORS."""
    return ["fleet", "run", *map(str, inputs), *CHOSEN, "--passes", passes, "--store", str(store)]


def fleet_run(store: object, *inputs: object, passes: str = "memory") -> Result:
    return call_heaptape(*words(store, *inputs, passes=passes))


def figures(store: object) -> pd.DataFrame:
    """The exact figures, in a fixed order: bit for bit the same, whoever ran the cells."""
    frame = open_store(str(store)).results()
    frame = frame[~frame["figure"].isin(NOT_EXACT)].drop(columns=["machine", "block"])
    return frame.sort_values(["workload", "label", "pass_", "repetition", "figure"]).reset_index(drop=True)


def same_figures(store: object, other: object) -> None:
    """Asserts that the exact figures are the same."""
    pd.testing.assert_frame_equal(figures(store), figures(other), check_exact=True)


def cell_files(store: Path) -> list[Path]:
    """The files of all cells in the store."""
    return sorted(store.glob("cells/*/*.json"))
