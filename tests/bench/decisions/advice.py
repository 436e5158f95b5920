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
import math
import os
import random
import shlex
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median

from heaptape.advise.load import Load
from heaptape.allocators import registry
from heaptape.common.home import Home
from heaptape.common.process import adopt_orphans
from heaptape.run.environment import without_allocator
from heaptape.run.live import settings_of

from tests.bench.decisions.advice_programs import PROGRAMS, TWELVE, Program, prepare
from tests.bench.harness import heading, row
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
    for name in arguments.programs or list(TWELVE):
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
    known = registry.load(Home(OUT))
    labels = dict.fromkeys((*NAMES, *(done[step]["pick"][0] for step in (RACE, TAPE))))
    for number in range(1, rounds + 1):
        step = f"{ROUND}{number}"
        if step in done:
            continue
        order = list(labels)
        random.Random(f"{name} {number}").shuffle(order)
        times = {label: cpu_s(program, registry.choose(label, known)) for label in order}
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


def cpu_s(program: Program, choice: registry.Choice) -> float:
    """CPU time of one run, with that of all its descendants: orphans (spamd ends before its children) become ours."""
    others = without_allocator(os.environ)
    environment = others | settings_of(choice, others)
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
        raise SystemExit(f"{program.command} on {choice.label}: status {process.returncode}")
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
        with results.open(newline="") as file:
            for one in csv.DictReader(file):
                step = found.setdefault(one["program"], {}).setdefault(one["step"], {})
                step[one["name"]] = one["value"], one["low"], one["high"]
    return found


def rounds_of(steps: Mapping[str, Step]) -> list[dict[str, float]]:
    """CPU time of each allocator, by label, in each round."""
    rounds = (step for name, step in steps.items() if name.startswith(ROUND))
    return [{label: float(one[0]) for label, one in step.items()} for step in rounds]


def percents(label: str, today: str, rounds: Sequence[Mapping[str, float]]) -> list[float]:
    """Change of CPU time against today's in percent, in each round."""
    return [100 * (one[label] / one[today] - 1) for one in rounds]


def changes(steps: Mapping[str, Step], today: str) -> dict[str, tuple[float, float]]:
    """label -> change of CPU time against today's in percent: median of the rounds' ratios, and half the width of its
    interval of 95 %, by ranks.
    """
    rounds = rounds_of(steps)
    found = {}
    for label in rounds[0]:
        ratios = sorted(percents(label, today, rounds))
        below = (sum(math.comb(len(ratios), i) for i in range(k + 1)) / 2 ** len(ratios) for k in range(len(ratios)))
        cut = max(sum(chance <= 0.025 for chance in below) - 1, 0)
        found[label] = median(ratios), (ratios[-1 - cut] - ratios[cut]) / 2
    return found


def regrets_of(steps: Mapping[str, Step], pick: str, today: str) -> tuple[float, float, float]:
    """CPU time of the pick over that of the best in life, in points of today's: against the best of all rounds, which
    chance makes too large; against the best of one half of the rounds in the other half, mean of 400 divisions, which
    chance doesn't; the first of allocators that are equal: each round's times, without their medians, dealt anew.
    """
    rounds, chance = rounds_of(steps), random.Random(1)
    labels = list(rounds[0])

    def percent(label: str, of: Sequence[Mapping[str, float]]) -> float:
        return median(percents(label, today, of))

    def best(of: Sequence[Mapping[str, float]]) -> str:
        return min(labels, key=lambda label: percent(label, of))

    factor = {label: 1 + percent(label, rounds) / 100 for label in labels}
    halves, equal = [], []
    for _ in range(400):
        chance.shuffle(rounds)
        half = len(rounds) // 2
        for chosen, judged in ((rounds[:half], rounds[half:]), (rounds[half:], rounds[:half])):
            halves.append(percent(pick, judged) - percent(best(chosen), judged))
        dealt = []
        for one in rounds:
            times = [one[label] / factor[label] for label in labels]
            chance.shuffle(times)
            dealt.append(dict(zip(labels, times)))
        equal.append(percent(pick, dealt) - percent(best(dealt), dealt))
    return percent(pick, rounds) - percent(best(rounds), rounds), fmean(halves), median(equal)


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
        live = changes(steps, steps[RACE]["today"][0])
        best = min(live, key=lambda label: live[label][0])
        cells = {}
        for step in (TAPE, RACE):
            pick = steps[step]["pick"][0]
            regrets[step].append(regrets_of(steps, pick, steps[RACE]["today"][0]))
            losses[step] += [program] if live[pick][0] > WORTH_POINTS else []
            holds = [_holds(steps[step][label], live[label][0]) for label in NAMES[1:] if label in steps[step]]
            held[step] += holds
            after = f"{float(steps[step]['answer_s'][0]):.0f} s"
            cells[step] = (
                _pick(steps[step]),
                f"{regrets[step][-1][0]:.1f} ({regrets[step][-1][1]:.1f})",
                f"{sum(holds)} of {len(holds)}",
                after,
            )
        picks, *others = zip(cells[TAPE], cells[RACE])
        shown = ", ".join(f"{live[label][0]:+.0f}±{live[label][1]:.0f}" for label in NAMES[1:])
        row(program, f"{int(steps[RACE]['calls'][0]):,}", *picks, shown, best, *map(", ".join, others))
    for step, points in regrets.items():
        all_rounds, halves, equal = (f"{median(one):.1f}" for one in zip(*points))
        within = [sum(one <= WORTH_POINTS for one in kind) for kind in zip(*points)]
        print(
            f"{step}: median regret {all_rounds}, by halves {halves}, of equal allocators {equal}; at most "
            f"{WORTH_POINTS:g} in {within[0]}, by halves {within[1]}, of {len(points)}; slower than today's: "
            f"{', '.join(losses[step]) or 'none'}; ranges that held: {sum(held[step])} of {len(held[step])}"
        )


def _holds(predicted: tuple[str, str, str], percent: float) -> bool:
    return float(predicted[1]) <= percent <= float(predicted[2])


def _pick(step: Step) -> str:
    pick, group = step["pick"][0], step["group"][0]
    ends = [f"{float(end):+.0f}" for end in step.get(pick, ())] if pick != step["today"][0] else []
    return pick + (f" {ends[0]} ({ends[1]} to {ends[2]})" if ends else "") + (f"; or {group}" if group else "")


if __name__ == "__main__":
    main()
