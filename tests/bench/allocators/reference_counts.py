# SPDX-License-Identifier: MIT
"""The reference allocator beside glibc's on the corpus, by counts: instructions per op and peak RSS.

The corpus is divided in two, so that a policy isn't fitted to the recordings that judge it: policies are tuned on the
first half (TUNED), and the second (HELD_OUT) is measured when they are final. Counts repeat on a busy machine.

    python -m tests.bench.allocators.reference_counts [--half tuned|held-out] [-a REFERENCE_CHOICE]... [WORKLOAD]...
"""

import argparse
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.bench.allocators.reference_allocator import geometric_mean, replay
from tests.bench.harness import heading, row
from tests.support import REPOSITORY

CORPUS = REPOSITORY / "workloads" / "corpus"
NAMES = sorted(tape.stem for tape in CORPUS.glob("*.tape"))
HALVES = {"tuned": NAMES[::2], "held-out": NAMES[1::2]}
BASE = "glibc"


@dataclass(frozen=True)
class Counts:
    """Counts of one workload under one allocator: instructions of all calls per op, and the peak RssAnon in bytes."""

    instructions_per_op: float
    peak_rss_bytes: int


def counts(runs: list[dict]) -> Counts:
    counted = next(run for run in runs if run["pass"] == "instructions")
    memory = next(run for run in runs if run["pass"] == "memory")
    ops = sum(call["count"] for call in counted["calls"].values())
    return Counts(counted["instructions_total"] / ops, memory["rss_anon_peak_bytes"])


def is_of(run: dict, choice: str) -> bool:
    """Whether this is a run of that choice: an allocator, or one with a variant behind a colon."""
    allocator, _, variant = choice.partition(":")
    return run["allocator"] == allocator and run["variant"] == (variant or "default")


def measure(name: str, choices: Iterable[str], folder: Path) -> list[Counts]:
    """glibc's counts, then those of each choice, in order."""
    runs = replay(CORPUS / f"{name}.tape", folder, BASE, *choices, passes="instructions,memory", repeats=1)
    return [counts([run for run in runs if is_of(run, choice)]) for choice in (BASE, *choices)]


def print_half(names: list[str], choices: list[str], folder: Path) -> None:
    """Prints a row for each workload and one of geometric means; a group of columns for each choice."""
    of_choices = (part for c in choices for part in (f"{c}, instructions/op", "%", "peak RSS, %"))
    heading("workload", "glibc, instructions/op", *of_choices)
    shares: list[list[tuple[float, float]]] = []
    for name in names:
        base, *others = measure(name, choices, folder)
        of_base = [
            (of.instructions_per_op / base.instructions_per_op, of.peak_rss_bytes / base.peak_rss_bytes)
            for of in others
        ]
        shares.append(of_base)
        cells = (
            f"{of.instructions_per_op:.2f} | {100 * instructions:.1f} | {100 * rss:.1f}"
            for of, (instructions, rss) in zip(others, of_base, strict=True)
        )
        row(name, f"{base.instructions_per_op:.2f}", *cells)
    means = []
    for of_choice in zip(*shares, strict=True):
        instructions, rss = (100 * geometric_mean(list(values)) for values in zip(*of_choice, strict=True))
        means.append(f" | {instructions:.1f} | {rss:.1f}")
    row("geometric mean", "", *means)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=HALVES, action="append", help="of the corpus (default: both)")
    parser.add_argument("-a", dest="choices", action="append", help="beside glibc (default: reference)")
    parser.add_argument("names", nargs="*", metavar="WORKLOAD", help="only these of the chosen halves")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for half in arguments.half or HALVES:
            names = [name for name in HALVES[half] if not arguments.names or name in arguments.names]
            if names:
                print(f"\n{half}\n")
                print_half(names, arguments.choices or ["reference"], Path(folder))


if __name__ == "__main__":
    main()
