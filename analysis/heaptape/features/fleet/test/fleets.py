# SPDX-License-Identifier: MIT
"""Helpers for the tests of fleets: small workloads, stores of them, and a store's exact figures."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from heaptape.features.fleet.store import Store, open_store
from heaptape.features.gate.test.pieces import make_workload
from heaptape.results.comparing.intervals import log_ratio

from tests.support import HEAPTAPE, Result, call_heaptape

ALLOCATORS = ("glibc", "reference")
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


def plan(store: Path, *inputs: object, passes: str = "memory", allocators: tuple[str, ...] = ALLOCATORS) -> Result:
    """Puts a plan into the store, with all its files; nothing is run."""
    chosen = [word for name in allocators for word in ("-a", name)]
    arguments = [*map(str, inputs), *chosen, "--passes", passes, "--store", str(store), "--slurm-script", "-"]
    return call_heaptape("fleet", "replay", *arguments)


def figures(store: Path | Store) -> pd.DataFrame:
    """The exact figures, in a fixed order: bit for bit the same, whoever ran the cells."""
    opened = store if isinstance(store, Store) else open_store(str(store))
    frame = opened.results()
    frame = frame[~frame["figure"].isin(NOT_EXACT)].drop(columns=["machine", "block"])
    return frame.sort_values(["workload", "label", "pass_", "repetition", "figure"]).reset_index(drop=True)


def same_figures(store: Path | Store, other: Path | Store) -> None:
    """Asserts that the exact figures are the same."""
    pd.testing.assert_frame_equal(figures(store), figures(other), check_exact=True)


def cell_files(store: Path) -> list[Path]:
    """The files of all cells in the store."""
    return sorted(store.glob("cells/*/*.json"))


def fill(disk: Path) -> Path:
    """Fills a disk, up to less than a page; returns the file that fills it."""
    path = disk / "in the way"
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    return path


@contextlib.contextmanager
def started(*arguments: object, **options: object) -> Iterator[subprocess.Popen]:
    """`heaptape fleet ...` in a separate process, which is ended with the context."""
    command = [str(HEAPTAPE), "fleet", *map(str, arguments)]
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, text=True, env={**os.environ}, **(streams | options))
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def pooled(results: pd.DataFrame, label: str, baseline: str) -> tuple[float, float]:
    """The 95 % interval of a label's values relative to the baseline's, as if all were from one machine, which a fleet
    does not assume.
    """
    own, others = (results.loc[results["label"] == name, "value"].reset_index(drop=True) for name in (baseline, label))
    return log_ratio(own, others.set_axis(range(len(own), len(own) + len(others)))).interval()
