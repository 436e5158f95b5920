"""`python -m tests.bench.time_judge`: is the model of time right about live programs?

Each program is recorded once, with its data accesses; the pass misses of each allocator predicts the change of its CPU
time against glibc's; then it runs live under each allocator in turns, in random order, for its CPU time. Costs are
those of `heaptape machine`, which knows nothing of these programs. Programs: three of this file, and those of
workloads/counted but the server, whose client's time would be counted too.
"""

import argparse
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from heaptape.common.home import default_home
from heaptape.fidelity.counted import DIRECTORIES
from heaptape.measure import capture, recipes, registry
from heaptape.measure.penalties import of_this_machine
from heaptape.measure.recipes import Recipe
from heaptape.model.penalties import geometry_of
from heaptape.model.time_model import ALL, prediction
from heaptape.results.schema import Results
from scipy.stats import t as student

from tests.support import CONVERT, OUT, RECORD, REPLAY

BASELINE = "glibc"
DECIDED_PERCENT = 2.0

PERL = """
my %h; my $s = 0;
for my $i (1..40000) { push @{$h{$i * 7919 % 5003}}, "v$i" x (1 + $i % 5); }
for my $round (1..6) { for my $k (sort keys %h) { $s += length for @{$h{$k}}; } }
my @o = sort { $a cmp $b } map { @$_ } values %h;
"""
PYTHON = """
d = {str(i): [str(i * 7), i * 2.5, {"k": "v%d" % i}] for i in range(20000)}
for r in range(4):
    s = sum(len(v[0]) + len(v[2]["k"]) for v in d.values())
e = sorted(d.items(), key=lambda kv: kv[1][0])
"""
# A list whose nodes lie between cold objects, or apart, as the allocator has it.
PLANTED = [str(OUT / "test-programs" / "planted_locality"), "interleaved", "48", "200", "30000", "60"]
SETTINGS = {"PERL_HASH_SEED": "0", "PERL_PERTURB_KEYS": "0", "PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}
ALLOCATORS = (BASELINE, "jemalloc", "tcmalloc", "mimalloc", "tbbmalloc", "reference")


@dataclass(frozen=True)
class Program:
    """What runs: in `folder` if there is one. `recipe`: by which it is recorded, where its command starts others."""

    name: str
    command: list[str]
    settings: Mapping[str, str] = field(default_factory=lambda: SETTINGS)
    folder: Path | None = None
    recipe: Recipe | None = None


OWN = {
    "planted": Program("planted", PLANTED),
    "perl-hashes": Program("perl-hashes", ["perl", "-e", PERL]),
    "python3-dicts": Program("python3-dicts", ["/usr/bin/python3", "-S", "-c", PYTHON]),
}


def programs(folder: Path) -> dict[str, Program]:
    """All that can run here, by name; what recipes prepare is copied into the folder."""
    found = dict(OWN)
    for recipe in recipes.find(DIRECTORIES):
        if recipe.load or recipe.missing():
            continue
        place = folder / f"{recipe.name}.run"
        if not place.exists():
            shutil.copytree(recipes.prepare(recipe, recipes.cache_directory()), place, symlinks=True)
        found[recipe.name] = Program(recipe.name, recipe.command, recipe.environment, place, recipe)
    return found


def record(program: Program, tape: Path) -> None:
    if program.recipe:
        cache = recipes.cache_directory()
        capture.capture(program.recipe, tape, default_home(), ("--accesses",), cache=cache)
        return
    words = [str(RECORD), "--accesses", "--no-follow", "-o", str(tape), "--", *program.command]
    subprocess.run(words, check=True, env=os.environ | program.settings)


def recorded(program: Program, folder: Path) -> tuple[Path, Path]:
    """The workload and its accesses, recorded unless that was done."""
    tape, work, accesses = (folder / f"{program.name}.{suffix}" for suffix in ("tape", "work", "accesses"))
    if not tape.exists():
        record(program, tape)
    if not accesses.exists():
        compile_ = [str(CONVERT), "compile", str(tape), "-o", str(work), "--accesses", str(accesses)]
        subprocess.run(compile_, check=True, stdout=subprocess.DEVNULL)
    return work, accesses


def found_allocators() -> dict[str, str]:
    """Label -> what is preloaded; empty: nothing."""
    known = registry.load(default_home())
    return {label: "" if label == BASELINE else str(known[label].path) for label in ALLOCATORS if known[label].found}


def count(program: Program, folder: Path, preloads: dict[str, str], measured: dict) -> Results:
    """Records (unless that was done), replays with the pass misses, and makes results of it."""
    work, accesses = recorded(program, folder)
    geometry = geometry_of(measured)
    runs = []
    for label, preload in preloads.items():
        output = folder / f"{program.name}.{label}.json"
        if not output.exists():
            command = [str(REPLAY), "--pass", "misses", "--accesses", str(accesses), "-o", str(output)]
            command += geometry.options if geometry else []
            command += ["--preload", preload] if preload else []
            subprocess.run([*command, str(work)], check=True)
        runs.append({"allocator": label, "repeat": 0} | json.loads(output.read_text()))
    content = {"schema": 1, "workload": {"name": program.name}, "runs": runs, "penalties": measured}
    return Results(f"{program.name}.json", content)


def cpu_ns(program: Program, preload: str) -> float:
    """CPU time of one run, the kernel's with it; in a fresh copy of the folder."""
    settings = os.environ | program.settings | ({"LD_PRELOAD": preload} if preload else {})
    with tempfile.TemporaryDirectory() as scratch:
        if program.folder:
            shutil.copytree(program.folder, scratch, symlinks=True, dirs_exist_ok=True)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(program.command, env=settings, cwd=scratch, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e9 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def live(program: Program, preloads: dict[str, str], seconds: float) -> pd.DataFrame:
    """One row per label: live, live_low, live_high, the change against the baseline in percent with its 95 % interval
    over the rounds; mean of log ratios, with the tenth at each end left out.
    """
    logs: dict[str, list[float]] = {label: [] for label in preloads}
    spent = 0.0
    while spent < seconds or len(logs[BASELINE]) < 5:
        order = random.sample(list(preloads), len(preloads))
        found = {label: cpu_ns(program, preloads[label]) for label in order}
        for label, value in found.items():
            logs[label].append(np.log(value / found[BASELINE]))
        spent += sum(found.values()) / 1e9
    return pd.DataFrame.from_dict({label: change(values) for label, values in logs.items()}, orient="index")


def change(logs: list[float]) -> dict[str, float]:
    kept = sorted(logs)[len(logs) // 10 : len(logs) - len(logs) // 10]
    half = float(student.ppf(0.975, len(kept) - 1)) * statistics.stdev(kept) / np.sqrt(len(kept))
    middle = statistics.fmean(kept)
    low, high = np.expm1([middle - half, middle + half])
    return {"live": 100 * np.expm1(middle), "live_low": 100 * low, "live_high": 100 * high, "rounds": len(logs)}


def judge(program: Program, folder: Path, seconds: float) -> pd.DataFrame:
    """One row per allocator: program, allocator, percent, low, high of the prediction; the columns of live(), where
    seconds is not 0, which are kept in the folder.
    """
    measured = of_this_machine(default_home())
    preloads = found_allocators()
    frame = prediction([count(program, folder, preloads, measured)], BASELINE)
    whole = frame[frame["part"] == ALL].set_index("allocator")[["percent", "low", "high"]]
    whole.insert(0, "program", program.name)
    kept = folder / f"{program.name}.live.csv"
    if seconds:
        live(program, preloads, seconds).to_csv(kept)
    if kept.exists():
        whole = whole.join(pd.read_csv(kept, index_col=0))
    return whole.reset_index()


def markdown(rows: pd.DataFrame) -> str:
    lines = ["| program | allocator | predicted, % | live, % | |", "|---|---|---|---|---|"]
    for row in rows.itertuples():
        predicted = f"{row.percent:+.1f} ({row.low:+.1f} to {row.high:+.1f})"
        lived = f"{row.live:+.1f} ({row.live_low:+.1f} to {row.live_high:+.1f})"
        lines.append(f"| {row.program} | {row.allocator} | {predicted} | {lived} | {row.verdict} |")
    return "\n".join(lines)


def with_verdicts(rows: pd.DataFrame) -> pd.DataFrame:
    """Adds decided (live interval beyond 0, middle at 2 % or more), outright (predicted interval beyond 0), verdict."""
    decided = (rows["live_low"] * rows["live_high"] > 0) & (rows["live"].abs() >= DECIDED_PERCENT)
    outright = rows["low"] * rows["high"] > 0
    right = np.sign(rows["percent"]) == np.sign(rows["live"])
    verdict = np.where(~decided, "undecided", np.where(right, "right", np.where(outright, "**wrong**", "wrong side")))
    return rows.assign(decided=decided, outright=outright, right=right, verdict=verdict)


def summary(rows: pd.DataFrame) -> str:
    """How many of the decided pairs are right, and how far off."""
    decided = rows[rows["decided"]]
    off = ((decided["percent"] - decided["live"]) / decided["live"]).abs()
    holds = (decided["low"] <= decided["live"]) & (decided["live"] <= decided["high"])
    sure = decided[decided["outright"]]
    return (
        f"{len(rows)} pairs, {len(decided)} decided live: sign right in {decided['right'].sum()}; of the {len(sure)} "
        f"predicted outright in {sure['right'].sum()}. Size off by {100 * off.median():.0f} % at the median; "
        f"{holds.sum()} intervals hold the live middle."
    )


def main() -> None:
    """Two steps, as the second wants an idle machine: --seconds 0, which only counts, then without it."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.time_judge", description=__doc__)
    parser.add_argument("programs", nargs="*", help="default: all")
    parser.add_argument("--folder", type=Path, required=True, help="recordings, counts, live times: made if not there")
    parser.add_argument("--seconds", type=float, default=60, help="CPU time of a program's live runs (default 60)")
    parser.add_argument("--csv", type=Path, help="also write the rows there")
    parser.add_argument("--read", action="store_true", help="run nothing live, show what is in the folder")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    there = programs(arguments.folder)
    unknown = [name for name in arguments.programs if name not in there]
    if unknown:
        parser.error(f"{', '.join(unknown)}: not among {', '.join(there)}")
    seconds = 0 if arguments.read else arguments.seconds
    rows = [judge(there[name], arguments.folder, seconds) for name in arguments.programs or there]
    found = pd.concat([frame for frame in rows if "live" in frame] or rows)
    if "live" not in found:
        print(found.to_string())
        return
    found = with_verdicts(found)
    if arguments.csv:
        found.round(2).to_csv(arguments.csv, index=False)
    print(markdown(found))
    print()
    print(summary(found))


if __name__ == "__main__":
    main()
