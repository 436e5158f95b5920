# SPDX-License-Identifier: MIT
"""The table of docs/DISTILLATION.md: distillates of large workloads against the whole, each allocator estimated by a
fit on the others (its variants are left out with it), which also says what error to expect of it.

    python -m tests.bench.decisions.distilled [F ...] [--ratio R ...] [--keep-in FOLDER]

Without F: the synthetic patterns of PATTERNS, written at millions of ops. Exact passes only, so that what else the
machine does changes nothing.
"""

import argparse
import functools
import itertools
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from heaptape.common.home import Home, default_home
from heaptape.distil import fit, measured
from heaptape.distil.measured import Whole
from heaptape.distil.plan import Planner
from heaptape.formats.workload_format import read_workload
from heaptape.measure import registry, replay
from heaptape.measure.registry import Choice
from heaptape.results import distilled

PATTERNS = {
    "cfrac": ["--steps=1000000"],
    "larson": ["--generations=8", "--rounds=150000"],
    "lru_cache": ["--requests=3000000"],
    "phases": ["--phases=12", "--objects=200000", "--base=16"],
    "pipeline": ["--batches=12000"],
    "random_mix_live": ["--rounds=5000000", "--slots=20000"],
    "string_building": ["--lines=300000"],
}
ALLOCATORS = (
    "glibc", "glibc:no-tcache", "jemalloc", "jemalloc:no-tcache", "mimalloc", "tcmalloc", "tbbmalloc", "reference",
    "bucket", "magazine",
)  # fmt: skip
FIGURES = distilled.FIGURES_OF_KIND["both"]
DECIDABLE_PERCENT = 3  # two allocators whose figures of the whole are nearer are no pair to decide


def main() -> None:
    """Prints a row a workload, ratio and figure, and the sums over all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("inputs", nargs="*", metavar="F")
    parser.add_argument("--ratio", type=float, action="append", default=[])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep-in", metavar="FOLDER", help="keeps what was measured of the whole, for the next time")
    arguments = parser.parse_args()
    home = default_home()
    choices = registry.choose_all(ALLOCATORS, registry.load(home))
    tables: list[pd.DataFrame] = []
    with tempfile.TemporaryDirectory(prefix="heaptape.") as scratch:
        for workload in _workloads(arguments.inputs, home, Path(scratch)):
            for table in _tables(workload, choices, arguments, home, Path(scratch)):
                print(_summary(table).to_string(index=False, header=not tables), flush=True)
                tables.append(table)
    print(_overall(pd.concat(tables)).to_string(index=False))


def _workloads(inputs: Sequence[str], home: Home, scratch: Path) -> Iterator[Path]:
    for name in inputs:
        yield replay.prepare(name, home, scratch)
    for name, options in PATTERNS.items() if not inputs else ():
        written = scratch / f"{name}.work"
        command = [str(home.directory / "workloads" / name), *options, "--quiet=1", f"--work={written}"]
        subprocess.run(command, check=True)
        yield written
        written.unlink()


def _tables(
    workload: Path, choices: Sequence[Choice], arguments: argparse.Namespace, home: Home, scratch: Path
) -> Iterator[pd.DataFrame]:
    whole = _whole(workload, choices, arguments.keep_in, home)
    count = functools.partial(measured.count, workload, home=home)
    planner = Planner(whole.cells, count, "both", arguments.seed)
    ops = read_workload(workload).ops
    for ratio in arguments.ratio or [0.01]:
        plan = planner.plan(round(ratio * ops))
        tape = scratch / f"{workload.stem}-{ratio:g}.tape"
        measured.write(workload, plan, {}, tape, home)
        small = replay.prepare(str(tape), home, scratch)
        manifest = measured.manifest_of(small)
        runs = measured.run(small, distilled.edges(manifest), choices, FIGURES, home, lambda share: None)
        parts = [_left_out(one, choices, runs, whole, manifest) for one in dict.fromkeys(c.allocator for c in choices)]
        table = pd.concat(parts).assign(workload=workload.stem, asked_percent=100 * ratio)
        table["kept_percent"] = 100 * manifest["ratio"]
        yield table
        tape.unlink()
        small.unlink()


def _left_out(
    allocator: str, choices: Sequence[Choice], runs: measured.Runs, whole: Whole, manifest: dict
) -> pd.DataFrame:
    """What the fit on the other allocators says of this one: one row a variant and figure."""
    others = [choice for choice in choices if choice.allocator != allocator]
    known = replace(whole, figures=whole.figures.loc[[choice.label for choice in others]])
    fitted = fit.fit(runs, known, manifest, [choice.allocator for choice in others])
    assert fitted.weights is not None
    segments = [
        [*segment[:5], weight] for segment, weight in zip(manifest["segments"], fitted.weights.tolist(), strict=True)
    ]
    told = manifest | {"segments": segments, "corrections": fitted.corrections, "expected": fitted.expected}
    parts = []
    for label in [choice.label for choice in choices if choice.allocator == allocator]:
        estimates = distilled.estimates(runs[label], told)
        estimates["whole"] = whole.figures.loc[label, estimates["figure"]].to_numpy()
        estimates["error"] = 100 * (estimates["value"] / estimates["whole"] - 1)
        parts.append(estimates.assign(allocator=label))
    return pd.concat(parts)


def _whole(workload: Path, choices: Sequence[Choice], folder: str | None, home: Home) -> Whole:
    kept = Path(folder) / f"{workload.stem}.whole" if folder else None
    if kept and kept.is_file():
        found: Whole = pickle.loads(kept.read_bytes())
        return found
    print(f"{workload.stem}: the whole on {len(choices)} allocators", file=sys.stderr)
    whole = measured.whole(workload, choices, FIGURES, home, lambda share: None)
    if kept:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(pickle.dumps(whole))
    return whole


def _summary(table: pd.DataFrame) -> pd.DataFrame:
    """One row a workload, ratio and figure; errors in percent."""
    rows = []
    for (name, asked, figure), part in table.groupby(["workload", "asked_percent", "figure"], sort=False):
        right, pairs = _pairs(part)
        about = {"workload": name, "asked %": asked, "kept %": round(part["kept_percent"].iloc[0], 2), "figure": figure}
        expected = {"expected": round(part["percent"].median(), 2)}
        rows.append(about | _errors(part) | expected | {"covered": _covered(part), "pairs": f"{right}/{pairs}"})
    return pd.DataFrame(rows)


def _overall(table: pd.DataFrame) -> pd.DataFrame:
    """One row a ratio and figure, over all workloads."""
    rows = []
    for (asked, figure), part in table.groupby(["asked_percent", "figure"], sort=False):
        right, pairs = np.array([_pairs(of_one) for _, of_one in part.groupby("workload")]).sum(axis=0)
        about = {"asked %": asked, "figure": figure}
        rows.append(about | _errors(part) | {"covered": _covered(part), "pairs": f"{right}/{pairs}"})
    return pd.DataFrame(rows)


def _errors(part: pd.DataFrame) -> dict[str, float]:
    sizes = part["error"].abs()
    return {"median": round(sizes.median(), 2), "p90": round(sizes.quantile(0.9), 2), "worst": round(sizes.max(), 2)}


def _covered(part: pd.DataFrame) -> str:
    return f"{(part['error'].abs() <= part['percent']).sum()}/{len(part)}"


def _pairs(part: pd.DataFrame) -> tuple[int, int]:
    """Of one workload and figure: pairs of allocators that can be decided on the whole, and how many of them are
    decided alike by the estimates.
    """
    right = pairs = 0
    for one, other in itertools.combinations(part.itertuples(index=False), 2):
        if abs(one.whole / other.whole - 1) * 100 > DECIDABLE_PERCENT:
            pairs += 1
            right += (one.whole > other.whole) == (one.value > other.value)
    return right, pairs


if __name__ == "__main__":
    main()
