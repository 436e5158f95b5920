# SPDX-License-Identifier: MIT
"""Whether `heaptape advise` names the allocator that is fastest in life: docs/measurements/advice.md and its table.

    python -m tests.bench.decisions.advice RESULTS.csv [--rounds 15] [--folder DIR] [PROGRAM...]
    python -m tests.bench.decisions.advice RESULTS.csv --table

For each program (advice_programs.py): the advice with its race, by defaults and of the allocators of a machine on which
none was installed by heaptape; that of its recording alone; then rounds that run all allocators live, in random order.
CPU time is that of the program with its children, of a server for its whole load. Each step is appended to RESULTS.csv
as soon as it is done, and is not done again, so a measurement may be ended and continued. Some three minutes a program,
on a machine without other work. Needs the packages of advice_programs.py.
"""

import argparse
import contextlib
import csv
import json
import os
import random
import shlex
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd
from heaptape.advise.load import Load
from heaptape.common.process import adopt_orphans
from scipy.stats import binom

from tests.bench.decisions.advice_programs import PROGRAMS, Program, prepare
from tests.bench.harness import heading, on_allocator, row
from tests.support import HEAPTAPE, OUT

NAMES = ("glibc", "jemalloc", "tcmalloc", "mimalloc", "tbbmalloc")
COLUMNS = ("program", "step", "name", "value", "low", "high")
RACE, TAPE, ROUND = "race", "tape", "round "
WORTH_POINTS = 2.0

Row = tuple[str, object, object, object]  # name, value, low, high
Step = dict[str, tuple[str, str, str]]  # name -> value, low, high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--folder", type=Path, default=OUT / "advice", help="of the inputs, which are made if missing")
    parser.add_argument("--table", action="store_true", help="print the results")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="default: the twelve")
    arguments = parser.parse_intermixed_args()
    if arguments.table:
        table(read(arguments.results))
        return
    results = arguments.results.resolve()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    os.chdir(arguments.folder)
    for name in arguments.programs or list(PROGRAMS):
        prepare(PROGRAMS[name])
        judge(name, PROGRAMS[name], results, arguments.rounds)


def judge(name: str, program: Program, results: Path, rounds: int) -> None:
    """Takes the steps of a program that RESULTS.csv lacks; in this folder."""
    done = read(results).get(name, {})
    tape = Path(f"{name}.tape")
    load = ("--load", program.load) if program.load else ()
    raced = ("--keep", str(tape), *load, "--", *shlex.split(program.command))
    for step, words in ((RACE, raced), (TAPE, (str(tape),))):
        if step not in done:
            if step == RACE:
                tape.unlink(missing_ok=True)
            append(results, name, step, advised(words))
    done = read(results)[name]
    labels = dict.fromkeys((*NAMES, *(done[step]["pick"][0] for step in (RACE, TAPE))))
    for number in range(1, rounds + 1):
        step = f"{ROUND}{number}"
        if step in done:
            continue
        order = list(labels)
        random.Random(f"{name} {number}").shuffle(order)
        times = {label: cpu_s(program, label) for label in order}
        append(results, name, step, [(label, f"{times[label]:.4f}", "", "") for label in labels])


def advised(words: Sequence[str]) -> list[Row]:
    """What is advised for CPU time, when, and what was predicted and raced, in percent."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(Path("cache").resolve())}
    began = time.monotonic()
    done = subprocess.run([str(HEAPTAPE), "advise", "--json", *words], env=environment,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)  # fmt: skip
    answer_s = time.monotonic() - began
    if not done.stdout:
        raise SystemExit(f"advise {' '.join(words)}: failed with status {done.returncode}")
    made = json.loads(done.stdout)
    unknown = {"use": made["today"], "ties": (), "rivals": (), "why": "not judged"}
    pick = next((one for one in made["picks"] if one["aim"] == "cpu"), unknown)
    group = ", ".join([*pick["ties"], *pick["rivals"]])
    about = {"answer_s": f"{answer_s:.1f}", "calls": made["workload"]["ops"], "today": made["today"]}
    about |= {"pick": pick["use"], "group": group, "why": pick["why"] or ""}
    rows: list[Row] = [(name, value, "", "") for name, value in about.items()]
    for one in made["candidates"]:
        if "cpu_percent" in one:
            rows.append(_span(one["label"], *(one[f"cpu_{end}percent"] for end in ("", "low_", "high_"))))
    for one in made["live"]:
        if one["aim"] == "cpu" and one["live"]:
            rows.append(_span(f"raced {one['label']}", *(one["live"][end] for end in ("percent", "low", "high"))))
    return rows


def _span(name: str, percent: float, low: float, high: float) -> Row:
    return name, f"{percent:.2f}", f"{low:.2f}", f"{high:.2f}"


def cpu_s(program: Program, label: str) -> float:
    """CPU time of one run, with that of all its descendants: orphans (spamd ends before its children) become ours."""
    environment = on_allocator(label)
    adopt_orphans(True)
    process = subprocess.Popen(shlex.split(program.command), env=environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    load = Load(program.load) if program.load else None
    if load:
        load.begin(process.pid)
    assert process.stdout
    while process.stdout.read(1 << 16):
        pass
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    all_s = used.ru_utime + used.ru_stime
    with contextlib.suppress(ChildProcessError):
        while True:
            used = os.wait4(-1, 0)[2]
            all_s += used.ru_utime + used.ru_stime
    adopt_orphans(False)
    if load:
        load.end()
    elif process.returncode:
        raise SystemExit(f"{program.command} on {label}: status {process.returncode}")
    return all_s


def append(results: Path, program: str, step: str, rows: Iterable[Row]) -> None:
    is_new = not results.exists()
    with results.open("a", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        if is_new:
            out.writerow(COLUMNS)
        out.writerows((program, step, *one) for one in rows)


def read(results: Path) -> dict[str, dict[str, Step]]:
    """program -> step -> its rows."""
    found: dict[str, dict[str, Step]] = {}
    if results.exists():
        for program, step, name, *figures in pd.read_csv(results, dtype=str, keep_default_na=False).to_numpy():
            found.setdefault(program, {}).setdefault(step, {})[name] = tuple(figures)
    return found


def percents_of(steps: Mapping[str, Step], today: str) -> pd.DataFrame:
    """Change of CPU time against today's in percent: a row for each round, a column for each allocator."""
    rounds = [step for name, step in steps.items() if name.startswith(ROUND)]
    times = pd.DataFrame([{label: float(one[0]) for label, one in step.items()} for step in rounds])
    return 100 * (times.div(times[today], axis=0) - 1)


def half_widths(percents: pd.DataFrame) -> np.ndarray:
    """Of the medians' intervals of 95 %, by ranks."""
    cut = max(int(binom.ppf(0.025, len(percents), 0.5)) - 1, 0)
    ranked = np.sort(percents.to_numpy(), axis=0)
    return (ranked[-1 - cut] - ranked[cut]) / 2


def regrets_of(percents: pd.DataFrame, pick: str, today: str) -> tuple[float, float, float]:
    """CPU time of the pick over that of the best in life, in points of today's: against the best of all rounds, which
    chance makes too large; against the best of one half of the rounds in the other half, mean of 400 divisions, which
    chance doesn't; the first of allocators that are equal: each round's times, without their medians, dealt anew.
    """
    values, chance = percents.to_numpy(), np.random.default_rng(1)
    picked, base = percents.columns.get_loc(pick), percents.columns.get_loc(today)

    def regret(chosen: np.ndarray, judged: np.ndarray) -> float:
        medians = np.median(judged, axis=0)
        return float(medians[picked] - medians[np.median(chosen, axis=0).argmin()])

    times = (100 + values) / (100 + np.median(values, axis=0))
    halves, equal = [], []
    for _ in range(400):
        one, other = np.array_split(chance.permutation(values), 2)
        halves += [regret(one, other), regret(other, one)]
        dealt = chance.permuted(times, axis=1)
        dealt = 100 * (dealt / dealt[:, [base]] - 1)
        equal.append(regret(dealt, dealt))
    return regret(values, values), float(np.mean(halves)), median(equal)


def table(found: Mapping[str, Mapping[str, Step]]) -> None:
    """A row for each program that ran live, then how often the aim was met."""
    heading("", "calls", "pick by tape", "pick by race", f"live: {', '.join(NAMES[1:])}", "best",
            "regret, points (by halves): tape, race", "ranges held: tape, race",
            "answer after: tape, race")  # fmt: skip
    regrets: dict[str, list[tuple[float, float, float]]] = {TAPE: [], RACE: []}
    losses: dict[str, list[str]] = {TAPE: [], RACE: []}
    held: dict[str, list[bool]] = {TAPE: [], RACE: []}
    for program, steps in found.items():
        if f"{ROUND}1" not in steps:
            continue
        today = steps[RACE]["today"][0]
        percents = percents_of(steps, today)
        live, widths = percents.median(), dict(zip(percents, half_widths(percents)))
        cells = []
        for step in (TAPE, RACE):
            said, pick = steps[step], steps[step]["pick"][0]
            regrets[step].append(regrets_of(percents, pick, today))
            losses[step] += [program] if live[pick] > WORTH_POINTS else []
            holds = [float(said[one][1]) <= live[one] <= float(said[one][2]) for one in NAMES[1:] if one in said]
            held[step] += holds
            over, by_halves, _ = regrets[step][-1]
            shown = (f"{over:.1f} ({by_halves:.1f})", f"{sum(holds)} of {len(holds)}")
            cells.append((_pick(said), *shown, f"{float(said['answer_s'][0]):.0f} s"))
        picks, *others = zip(*cells)
        lived = ", ".join(f"{live[label]:+.0f}±{widths[label]:.0f}" for label in NAMES[1:])
        row(program, f"{int(steps[RACE]['calls'][0]):,}", *picks, lived, live.idxmin(), *map(", ".join, others))
    for step, points in regrets.items():
        all_rounds, halves, equal = (f"{median(one):.1f}" for one in zip(*points))
        within = [sum(one <= WORTH_POINTS for one in kind) for kind in zip(*points)]
        print(
            f"{step}: median regret {all_rounds}, by halves {halves}, of equal allocators {equal}; at most "
            f"{WORTH_POINTS:g} in {within[0]}, by halves {within[1]}, of {len(points)}; slower than today's: "
            f"{', '.join(losses[step]) or 'none'}; ranges that held: {sum(held[step])} of {len(held[step])}"
        )


def _pick(step: Step) -> str:
    pick, group = step["pick"][0], step["group"][0]
    ends = [f"{float(end):+.0f}" for end in step.get(pick, ())] if pick != step["today"][0] else []
    return pick + (f" {ends[0]} ({ends[1]} to {ends[2]})" if ends else "") + (f"; or {group}" if group else "")


if __name__ == "__main__":
    main()
