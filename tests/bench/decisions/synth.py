# SPDX-License-Identifier: MIT
"""How far a workload drawn from a profile (`heaptape synth`) is from its trace: docs/measurements/synth.md.

    python -m tests.bench.decisions.synth [--half tuned|held-out] [--seed S] [--write] [WORKLOAD]...

Exact figures on each allocator, of the corpus's tapes and of workloads drawn from their profiles. Nothing of `heaptape
synth` is tuned on the second half (reference_counts.HALVES). Prints a Markdown table; --write: writes the expected
errors, from the held-out half, into analysis/heaptape/synth/errors.json.
"""

import argparse
import json
import math
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd
from heaptape.common.home import Home, default_home
from heaptape.run import registry, replay
from heaptape.run.exact import Bench
from heaptape.synth.synth import ERRORS

from tests.bench.allocators.reference_counts import CORPUS, HALVES, NAMES
from tests.support import OUT

ALLOCATORS = ("glibc", "jemalloc", "tcmalloc", "mimalloc")
FIGURES = ("instructions", "rss-peak", "rss-mean")
FEWEST_OPS = 10_000  # a shorter recording consists mostly of start-up
LEVEL = 0.95


def drawn(tape: Path, seed: int, folder: Path) -> Path:
    """The trace that is drawn from the tape's profile."""
    heaptape, profile, made = OUT / "bin" / "heaptape", folder / "profile.json", folder / "synthetic.tape"
    subprocess.run([heaptape, "profile", tape, "--format", "json", "-o", profile], check=True)
    command = [heaptape, "synth", profile, "-o", made, "--seed", str(seed)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return made


def figures(source: Path, home: Home, folder: Path) -> pd.DataFrame:
    folder.mkdir()
    known = registry.load(home)
    choices = [registry.choose(name, known) for name in ALLOCATORS]
    bench = Bench(replay.prepare(str(source), home, folder), home, choices)
    jobs = bench.side_by_side(lambda choice: bench.figures(choice, FIGURES), choices)
    return pd.DataFrame({choice.label: found for choice, found in jobs}).T


def errors(name: str, seed: int, home: Home) -> pd.DataFrame:
    """One row per allocator and figure: workload, half, allocator, figure, whole, synthetic, error_percent."""
    half = next(half for half, names in HALVES.items() if name in names)
    with tempfile.TemporaryDirectory(prefix="heaptape.") as scratch:
        folder = Path(scratch)
        whole = figures(CORPUS / f"{name}.tape", home, folder / "whole")
        synthetic = figures(drawn(CORPUS / f"{name}.tape", seed, folder), home, folder / "synthetic")
    rows = [
        {
            "workload": name,
            "half": half,
            "allocator": allocator,
            "figure": figure,
            "whole": whole.at[allocator, figure],
            "synthetic": synthetic.at[allocator, figure],
        }
        for allocator in whole.index
        for figure in FIGURES
    ]
    table = pd.DataFrame(rows)
    return table.assign(error_percent=100 * (table["synthetic"] / table["whole"] - 1))


def margin(found: Sequence[float]) -> float:
    """Percent that bounds the next such error in 95 of 100 cases: by the rank that holds for any distribution of the
    errors, or the largest error where there are too few.
    """
    ranked = sorted(abs(error) for error in found)
    return ranked[min(math.ceil((len(ranked) + 1) * LEVEL), len(ranked)) - 1]


def lines(table: pd.DataFrame) -> Iterator[str]:
    """Markdown: a row for each workload, columns of errors by figure and allocator."""
    columns = [f"{figure}, {allocator}" for figure in FIGURES for allocator in ALLOCATORS]
    yield f"| workload | half | {' | '.join(columns)} |"
    yield "|---|---|" + "---:|" * len(columns)
    for name, rows in table.groupby("workload", sort=False):
        here = rows.set_index(["figure", "allocator"])["error_percent"]
        cells = [f"{here[figure, allocator]:+.1f}" for figure in FIGURES for allocator in ALLOCATORS]
        yield f"| {name} | {rows['half'].iloc[0]} | {' | '.join(cells)} |"
    yield ""
    for (half, figure), rows in table.groupby(["half", "figure"], sort=False):
        size = rows["error_percent"].abs()
        yield f"- {half}, {figure}: median {size.median():.1f} %, 90th percentile {size.quantile(0.9):.1f} %"
    yield f"- better of two allocators kept: {kept_pairs(table)}"


def kept_pairs(table: pd.DataFrame) -> str:
    """Of pairs of allocators that differ by more than 1 %, the number in which the better one stays better."""
    kept = decidable = 0
    for _, rows in table.groupby(["workload", "figure"]):
        here = rows.set_index("allocator")
        for number, a in enumerate(here.index):
            for b in here.index[number + 1 :]:
                whole = here.at[a, "whole"] / here.at[b, "whole"]
                if abs(math.log(whole)) > 0.01:
                    decidable += 1
                    kept += (whole > 1) == (here.at[a, "synthetic"] > here.at[b, "synthetic"])
    return f"{kept} of {decidable} pairs that differ by more than 1 %"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=HALVES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD")
    arguments = parser.parse_args()
    names = arguments.workloads or HALVES.get(arguments.half, NAMES)
    home, tables = default_home(), []
    for name in names:
        tables.append(errors(name, arguments.seed, home))
        print(tables[-1].to_csv(index=False, header=len(tables) == 1), end="", flush=True)
    table = pd.concat(tables, ignore_index=True)
    print("\n".join(lines(table)))
    if arguments.write:
        judged = table[(table["half"] == "held-out") & ~table["workload"].isin(short(names))]
        expected = {figure: round(margin(rows["error_percent"]), 1) for figure, rows in judged.groupby("figure")}
        ERRORS.write_text(json.dumps({"expected": {figure: expected[figure] for figure in FIGURES}}) + "\n")
    return 0


def short(names: Sequence[str]) -> list[str]:
    """Recordings that are mostly start-up."""
    outputs = [
        subprocess.run([OUT / "bin/heaptape", "info", "--json", CORPUS / f"{name}.tape"], capture_output=True)
        for name in names
    ]
    return [name for name, one in zip(names, outputs) if json.loads(one.stdout)["events"] < FEWEST_OPS]


if __name__ == "__main__":
    raise SystemExit(main())
