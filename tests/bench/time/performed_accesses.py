# SPDX-License-Identifier: MIT
"""`python -m tests.bench.time.performed_accesses`: is the pass accesses right about live programs?

Programs are those of judge.py. In each round every allocator, in random order, has a live run and a run of the pass. It
compares the differences from glibc's, in ms of CPU time: the program's own instructions are the same on all.
"""

import argparse
import json
import random
import statistics
import subprocess
from pathlib import Path

import pandas as pd
from heaptape.common.home import default_home
from heaptape.fidelity.live import observe, place_for
from heaptape.results.schema import Results
from heaptape.run import capture, recipes, registry
from heaptape.run.recipes import Recipe
from heaptape.show.tables import accesses_table
from heaptape.show.tables.usual import signed
from scipy.stats import t as student

from tests.bench.time.judge import ALLOCATORS, known
from tests.support import CONVERT, REPLAY

BASELINE = "glibc"
DEFAULT = ("planted", "perl-hashes", "python3-dicts")
SECONDS_LIMIT = 3600


def recorded(recipe: Recipe, folder: Path) -> tuple[Path, Path]:
    """The workload and its accesses, recorded unless that was done."""
    tape, work, accesses = (folder / f"{recipe.name}.{suffix}" for suffix in ("tape", "work", "accesses"))
    if not tape.exists():
        capture.capture(recipe, tape, default_home(), ("--accesses",), cache=recipes.cache_directory())
    if not accesses.exists():
        compile_ = [str(CONVERT), "compile", str(tape), "-o", str(work), "--accesses", str(accesses)]
        subprocess.run(compile_, check=True, stdout=subprocess.DEVNULL)
    return work, accesses


def performed(work: Path, accesses: Path, preload: str) -> dict:
    command = [str(REPLAY), "--pass", "accesses", "--accesses", str(accesses)]
    command += ["--preload", preload] if preload else []
    done = subprocess.run([*command, str(work)], check=True, stdout=subprocess.PIPE, timeout=SECONDS_LIMIT)
    return json.loads(done.stdout)


def measure(recipe: Recipe, folder: Path, rounds: int) -> tuple[Results, dict[str, list[float]]]:
    """The pass's results, and by label each round's live CPU time in ms."""
    work, accesses = recorded(recipe, folder)
    home = default_home()
    allocators = registry.load(home)
    choices = [registry.choose(name, allocators) for name in ALLOCATORS if allocators[name].found]
    runs: list[dict] = []
    live: dict[str, list[float]] = {choice.label: [] for choice in choices}
    with place_for(recipe, home, recipes.cache_directory()) as place:
        for number in range(rounds):
            for choice in random.sample(choices, len(choices)):
                live[choice.label].append(observe(recipe, place, choice, memory=False)["cpu_ns"] / 1e6)
                found = performed(work, accesses, choice.preload)
                runs.append({"allocator": choice.label, "repeat": number} | found)
    return Results(f"{recipe.name}.json", {"schema": 1, "workload": {"name": recipe.name}, "runs": runs}), live


def live_difference(before: list[float], after: list[float]) -> tuple[float, float, float]:
    """Mean of the rounds' differences, without the tenth at each end, and its 95 % interval; in ms."""
    pairs = sorted(b - a for a, b in zip(before, after))
    kept = pairs[len(pairs) // 10 : len(pairs) - len(pairs) // 10]
    half = float(student.ppf(0.975, len(kept) - 1)) * statistics.stdev(kept) / len(kept) ** 0.5
    middle = statistics.fmean(kept)
    return middle, middle - half, middle + half


def rows(results: Results, live: dict[str, list[float]]) -> list[str]:
    frame = accesses_table.frame([results], BASELINE).set_index(["allocator", "kind"])
    out = []
    for label in live:
        if label == BASELINE:
            continue
        ends = live_difference(live[BASELINE], live[label])
        cells = [interval(*ends)]
        for kind in ("independent", "dependent"):
            row = frame.loc[(label, kind)]
            cells.append(predicted(row))
        out.append(f"| {results.name} | {label} | {' | '.join(cells)} |")
    return out


def predicted(row: pd.Series) -> str:
    if row["difference_reason"]:
        return "too noisy"
    return interval(*(float(row[f"difference_{end}"]) for end in ("ms", "low", "high")))


def interval(value: float, low: float, high: float) -> str:
    return f"{signed(value)} ({signed(low)} to {signed(high)})"


def main() -> None:
    """Two steps, because the second needs a quiet machine: --rounds 0, which only records, then without it."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.time.performed_accesses", description=__doc__)
    parser.add_argument("programs", nargs="*", help=f"of judge.py's (default: {', '.join(DEFAULT)})")
    parser.add_argument("--folder", type=Path, required=True, help="recordings: made if missing")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    there = known()
    chosen = [there[name] for name in arguments.programs or DEFAULT]
    if arguments.rounds < 3:
        for recipe in chosen:
            recorded(recipe, arguments.folder)
        return
    print("| program | allocator | live, ms against glibc | independent | dependent |\n|---|---|---|---|---|")
    notes = []
    for recipe in chosen:
        results, live = measure(recipe, arguments.folder, arguments.rounds)
        print("\n".join(rows(results, live)), flush=True)
        (table,) = accesses_table.usual([results], BASELINE)
        notes.append(f"{recipe.name}: glibc live {statistics.median(live[BASELINE]):.1f} ms. {table.notes[0]}")
    print("\n" + "\n".join(notes))


if __name__ == "__main__":
    main()
