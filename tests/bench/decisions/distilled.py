# SPDX-License-Identifier: MIT
"""The table of docs/use/DISTILLATION.md: distillates of large workloads against the whole, each allocator estimated by
a fit on the other allocators (its variants are left out with it), which also has the expected error; and the parts of
each error.

    python -m tests.bench.decisions.distilled F... [--ratio R ...] [--misses] [--results FOLDER] [--keep-in FOLDER]
    python -m tests.bench.decisions.distilled --misses [--ratio R ...] [--results FOLDER]
    python -m tests.bench.decisions.distilled --results FOLDER

Without F: the folder's results; without both: the synthetic patterns of PATTERNS, written at millions of ops; without F
and with --misses: PROGRAMS, recorded with their accesses. Results that a folder has are not measured again. Workloads
named in HELD_OUT are summed up separately: no choice was based on them. Exact passes only, so that other load on the
machine changes nothing.
"""

import argparse
import functools
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
from heaptape.common.home import Home, default_home
from heaptape.distil import fit, measured, plan
from heaptape.distil.measured import Whole
from heaptape.distil.plan import Planner, column
from heaptape.results import distilled, margins
from heaptape.results.structs import Correction, Distilled, Run
from heaptape.run import registry, replay
from heaptape.run.registry import Choice
from heaptape.tape.workload_format import read_workload

PATTERNS = {
    "cfrac": ["--steps=1000000"],
    "larson": ["--generations=8", "--rounds=150000"],
    "lru_cache": ["--requests=3000000"],
    "phases": ["--phases=12", "--objects=200000", "--base=16"],
    "pipeline": ["--batches=12000"],
    "random_mix_live": ["--rounds=5000000", "--slots=20000"],
    "string_building": ["--lines=300000"],
}
# Single commands without an input, so that a recording with accesses takes seconds.
PROGRAMS = {
    "sqlite3": [
        "sqlite3", ":memory:",
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT);"
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 24000)"
        "INSERT INTO t SELECT i, 'row ' || (i * 7919 % 10007) FROM n;"
        "CREATE INDEX u ON t(b); SELECT count(*) FROM t AS x JOIN t AS y ON x.b = y.b;"
        "UPDATE t SET b = upper(b) WHERE a % 3 = 0",
    ],
    "jq": [
        "jq", "-nc",
        '[range(3000) | {id: ., name: "n\\(. * 7919 % 1009)", tags: [range(. % 4)]}]'
        "| group_by(.id % 97) | map({n: length, names: (map(.name) | sort)})",
    ],
    "awk": [
        "gawk",
        'BEGIN { for (i = 0; i < 60000; i++) { k = "w" (i * 7919 % 6007); text[k] = text[k] " " i; n[k]++ }'
        "print asorti(n, order) }",
    ],
    "perl": [
        "perl", "-e",
        'for $turn (1 .. 30) { my %t; for (1 .. 2000) { $t{"w" . $_ * 7919 % 607} .= " $_"; push @{$l{$turn % 3}}, $_ }'
        "delete $l{$turn % 3}; @o = sort { $t{$a} cmp $t{$b} } keys %t }",
    ],
}  # fmt: skip
ALLOCATORS = (
    "glibc", "glibc:no-tcache", "jemalloc", "jemalloc:no-tcache", "mimalloc", "tcmalloc", "tbbmalloc", "reference",
    "bucket", "magazine",
)  # fmt: skip
# random.Random(20).sample of the sorted names of all available (27: arenas, cc1, cfrac, clang, gawk, git-large,
# groups, growing_reallocs, heirs, jq-large, larson, lru_cache, lua, many_threads, perl-large, phases, pipeline,
# postgres, python3, random_mix_live, redis, remote_storm, ruby, sqlite3-large, string_building, thread_per_request,
# xmalloc) except the six on which the method had been tried before.
HELD_OUT = ("arenas", "gawk", "git-large", "groups", "growing_reallocs", "jq-large", "lua", "postgres")
FIGURES = distilled.FIGURES_OF_KIND["both"]
DECIDABLE_PERCENT = 3  # two allocators whose figures of the whole are closer are not a decidable pair


def main() -> None:
    """Prints a row per workload, ratio and figure, and the sums over all, held out and not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("inputs", nargs="*", metavar="F")
    parser.add_argument("--ratio", type=float, action="append", default=[])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--misses", action="store_true", help="of traces recorded with --accesses: those, too")
    parser.add_argument("-a", "--allocator", action="append", default=[], metavar="NAME")
    parser.add_argument("--results", metavar="FOLDER", help="a file for each workload and ratio")
    parser.add_argument("--keep-in", metavar="FOLDER", help="keeps measurements of the whole for the next run")
    arguments = parser.parse_args()
    measured_now = arguments.inputs or arguments.misses or not arguments.results
    kept = (pd.read_csv(path) for path in sorted(Path(arguments.results or "").glob("*.csv")))
    tables = list(_measured(arguments) if measured_now else kept)
    every = pd.concat(tables)
    print(_summary(every).to_string(index=False))
    for name, part in every.groupby(every["workload"].isin(HELD_OUT)):
        print("\nheld out" if name else "\nnot held out")
        print(_overall(part).to_string(index=False))


def _measured(arguments: argparse.Namespace) -> Iterator[pd.DataFrame]:
    home = default_home()
    choices = registry.choose_all(arguments.allocator or ALLOCATORS, registry.load(home))
    with tempfile.TemporaryDirectory(prefix="heaptape.") as scratch:
        for workload in _workloads(arguments, home, Path(scratch)):
            for ratio in arguments.ratio or [0.01]:
                yield _of_ratio(workload, ratio, choices, arguments, home)


def _of_ratio(
    workload: Path, ratio: float, choices: Sequence[Choice], arguments: argparse.Namespace, home: Home
) -> pd.DataFrame:
    kept = Path(arguments.results) / f"{workload.stem}-{ratio:g}.csv" if arguments.results else None
    if kept and kept.is_file():
        return pd.read_csv(kept)
    table = _table(workload, ratio, choices, arguments, home)
    print(_summary(table).to_string(index=False), file=sys.stderr, flush=True)
    if kept:
        kept.parent.mkdir(parents=True, exist_ok=True)
        table.to_csv(kept, index=False)
    return table


def _workloads(arguments: argparse.Namespace, home: Home, scratch: Path) -> Iterator[Path]:
    for name in arguments.inputs or (_recorded(home, scratch) if arguments.misses else ()):
        yield replay.prepare(name, home, scratch)
    for name, options in PATTERNS.items() if not (arguments.inputs or arguments.misses) else ():
        written = scratch / f"{name}.work"
        command = [str(home.directory / "workloads" / name), *options, "--quiet=1", f"--work={written}"]
        subprocess.run(command, check=True)
        yield written
        written.unlink()


def _recorded(home: Home, scratch: Path) -> Iterator[str]:
    for name, command in PROGRAMS.items():
        tape = str(scratch / f"{name}.tape")
        record = [str(home.program("record")), "--accesses", "-o", tape, "--", *command]
        environment = os.environ | {"PERL_HASH_SEED": "0", "PERL_PERTURB_KEYS": "0"}
        subprocess.run(record, check=True, stdout=subprocess.DEVNULL, env=environment)
        yield tape


def _table(
    workload: Path, ratio: float, choices: Sequence[Choice], arguments: argparse.Namespace, home: Home
) -> pd.DataFrame:
    """One row per choice and figure: value, percent (half of its 95 % interval), whole, error and its parts."""
    whole = _whole(workload, choices, arguments, home)
    accesses = measured.MISSES in _figures(arguments)
    count = functools.partial(measured.count, workload, home=home, accesses=accesses)
    plan = Planner(whole.cells, count, "both", arguments.seed).plan(round(ratio * read_workload(workload).ops))
    left_out = plan.left_out(whole.cells, {choice.label: choice.allocator for choice in choices})
    assert left_out is not None
    with tempfile.TemporaryDirectory(prefix="heaptape.") as scratch:
        tape = Path(scratch) / f"{workload.stem}.tape"
        measured.write(workload, plan, {}, tape, home, accesses)
        small = replay.prepare(str(tape), home, Path(scratch))
        manifest = measured.manifest_of(small)
        figures = list(whole.figures)
        runs = measured.run(small, distilled.edges(manifest), choices, figures, home, lambda share: None)
    made = _Made(whole, choices, manifest, runs, left_out)
    parts = [_left_out(one, made) for one in dict.fromkeys(choice.allocator for choice in choices)]
    return pd.concat(parts).assign(
        workload=workload.stem,
        asked_percent=100 * ratio,
        kept_percent=100 * (manifest.ratio or 0),
        floor_percent=100 * plan.floor / read_workload(workload).ops,
        windows=len(plan.windows),
        segments=plan.segments,
        heap=plan.heap,
    )


@dataclass(frozen=True, eq=False)
class _Made:
    """A distillate that was replayed."""

    whole: Whole
    choices: Sequence[Choice]
    manifest: Distilled
    runs: measured.Runs
    left_out: pd.DataFrame


def _left_out(allocator: str, made: _Made) -> pd.DataFrame:
    """Estimates for this allocator by the fit on the other allocators: one row per variant and figure."""
    others = [choice for choice in made.choices if choice.allocator != allocator]
    known = replace(made.whole, figures=made.whole.figures.loc[[choice.label for choice in others]])
    fitted = fit.fit(made.runs, known, made.manifest, [choice.allocator for choice in others], made.left_out)
    corrections = msgspec.convert(fitted.corrections, dict[str, Correction])
    manifest = msgspec.structs.replace(made.manifest, corrections=corrections, expected=fitted.expected)
    return pd.concat(
        _with_errors(choice.label, _estimates(made.runs[choice.label], manifest), made)
        for choice in made.choices
        if choice.allocator == allocator
    )


def _estimates(runs: Mapping[str, Run], manifest: Distilled) -> pd.DataFrame:
    """Each figure of the manifest: figure, value, percent."""
    found = (
        (figure, distilled.estimate(figure, runs[distilled.pass_of(figure)], manifest), percent)
        for figure, percent in (manifest.expected or {}).items()
    )
    return pd.DataFrame(found, columns=["figure", "value", "percent"])


def _with_errors(label: str, estimates: pd.DataFrame, made: _Made) -> pd.DataFrame:
    """With the whole's figure, the error and its parts, in percent of it."""
    estimates["allocator"] = label
    estimates["whole"] = made.whole.figures.loc[label, estimates["figure"]].to_numpy()
    of_fit = 100 * (estimates["value"] / estimates["whole"] - 1)
    parts = [_parts(label, figure, made) for figure in estimates["figure"]]
    estimates["sampling"], estimates["unseen"], estimates["state"], estimates["interval"] = zip(*parts, strict=True)
    estimates["correction"] = of_fit - estimates["sampling"] - estimates["state"]
    estimates["error"] = of_fit + estimates["unseen"]
    # So that estimates have the windows' error on an allocator that nothing was chosen by.
    estimates["value"] = estimates["whole"] * (1 + estimates["error"] / 100)
    return estimates


def _parts(label: str, figure: str, made: _Made) -> tuple[float, float, float, float]:
    """Parts of an error, in percent of the whole's figure. Sampling: the whole's own counts in the chosen windows,
    weighted; unseen: the addition to that where windows are chosen without this allocator (plan.left_out); state: the
    distillate's figure less the previous one; interval: the stated interval of sampling, of windows that were chosen
    without it. The fit's correction is the rest of the error.
    """
    uncorrected = distilled.uncorrected(figure, made.runs[label][distilled.pass_of(figure)], made.manifest)
    error = 100 * (uncorrected / made.whole.figures.loc[label, figure] - 1)
    if not distilled.is_by_windows(figure):
        return 0.0, 0.0, error, 0.0
    name, cells = column(figure, label), made.whole.cells
    counts = cells.counts[name] if name in cells.counts else cells.beside[name]
    begin, end, weight = np.array(made.manifest.segments, np.float64)[:, 3:].T
    sampling = plan.sampling_error(counts, cells.edges, plan.Windows(begin, end, weight))
    unseen, interval = made.left_out.loc[name, ["unseen", "sampling"]]
    return sampling, float(unseen), error - sampling, float(interval)


def _figures(arguments: argparse.Namespace) -> list[str]:
    return [*FIGURES, *([measured.MISSES] if arguments.misses else [])]


def _whole(workload: Path, choices: Sequence[Choice], arguments: argparse.Namespace, home: Home) -> Whole:
    folder, figures = arguments.keep_in, _figures(arguments)
    kept = Path(folder) / f"{workload.stem}.whole" if folder else None
    if kept and kept.is_file():
        found: Whole = pickle.loads(kept.read_bytes())
        return found
    print(f"{workload.stem}: the whole on {len(choices)} allocators", file=sys.stderr)
    whole = measured.whole(workload, choices, figures, home, lambda share: None)
    if kept:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(pickle.dumps(whole))
    return whole


def _summary(table: pd.DataFrame) -> pd.DataFrame:
    """One row per workload, ratio and figure; errors in percent."""
    rows = []
    for (name, asked, figure), part in table.groupby(["workload", "asked_percent", "figure"], sort=False):
        right, pairs = _pairs(part)
        about = {"workload": name, "asked %": asked, "kept %": round(part["kept_percent"].iloc[0], 2), "figure": figure}
        expected = {"expected": round(part["percent"].median(), 2)}
        parts = {of: round(part[of].abs().median(), 2) for of in ("sampling", "unseen", "state", "interval")}
        parts |= {
            "within interval": f"{((part['sampling'] + part['unseen']).abs() <= part['interval']).sum()}/{len(part)}"
        }
        ranking = {"covered": _covered(part), "pairs": f"{right}/{pairs}", "ranked": _ranked(part)}
        rows.append(about | _errors(part) | expected | parts | ranking)
    return pd.DataFrame(rows)


def _overall(table: pd.DataFrame) -> pd.DataFrame:
    """One row per ratio and figure, over all workloads."""
    rows = []
    for (asked, figure), part in table.groupby(["asked_percent", "figure"], sort=False):
        right, pairs = np.array([_pairs(of_one) for _, of_one in part.groupby("workload")]).sum(axis=0)
        about = {"asked %": asked, "figure": figure}
        ranking = {"covered": _covered(part), "pairs": f"{right}/{pairs}", "ranked": _ranked(part)}
        rows.append(about | {"workloads": part["workload"].nunique()} | _errors(part) | ranking)
    return pd.DataFrame(rows)


def _errors(part: pd.DataFrame) -> dict[str, float]:
    sizes = part["error"].abs()
    return {"median": round(sizes.median(), 2), "p90": round(sizes.quantile(0.9), 2), "worst": round(sizes.max(), 2)}


def _covered(part: pd.DataFrame) -> str:
    return f"{(part['error'].abs() <= part['percent']).sum()}/{len(part)}"


def _pairs(part: pd.DataFrame) -> tuple[int, int]:
    """For one workload and figure: pairs of allocators that can be decided on the whole, and how many of them the
    estimates decide in the same way.
    """
    one, other = _of_pairs(part)
    decidable = (one["whole"] / other["whole"] - 1).abs() * 100 > DECIDABLE_PERCENT
    return int((_alike(one, other) & decidable).sum()), int(decidable.sum())


def _ranked(part: pd.DataFrame) -> str:
    """Pairs of a workload that `compare` ranks, because their bounds don't overlap; and how many of them are ranked so
    on the whole.
    """
    right = pairs = 0
    for _, of_one in part.groupby("workload"):
        low, high = zip(*map(margins.bounds, of_one["value"], of_one["percent"]), strict=True)
        one, other = _of_pairs(of_one.assign(low=low, high=high))
        beyond = (one["low"] > other["high"]) | (other["low"] > one["high"])
        right, pairs = right + int((_alike(one, other) & beyond).sum()), pairs + int(beyond.sum())
    return f"{right}/{pairs}"


def _of_pairs(part: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The first and the second of each pair of rows."""
    first, second = np.triu_indices(len(part), 1)
    return part.iloc[first].reset_index(drop=True), part.iloc[second].reset_index(drop=True)


def _alike(one: pd.DataFrame, other: pd.DataFrame) -> pd.Series:
    return (one["whole"] > other["whole"]) == (one["value"] > other["value"])


if __name__ == "__main__":
    main()
