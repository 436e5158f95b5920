# SPDX-License-Identifier: MIT
"""python -m tests.fuzz N [KIND...]: N changed inputs, of all kinds or of those. Prints what is wrong; such inputs stay
in out/mutants/. Status 1: there are some. MUTANTS_SEED=TEXT: other changes.
"""

import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.fuzz.hosts import hostile
from tests.fuzz.inputs import (
    CONTROL_SHARE,
    HOSTS_RECORDERS,
    HOSTS_SHARE,
    KINDS,
    Recorder,
    Seeds,
    chances,
    control_request,
    trace_of_a_host,
    try_one,
)
from tests.support import OUT


def wanted(count: int, kinds: list[str]) -> list[tuple[str, int]]:
    """The inputs to try, by kind and number."""
    whole = sum(KINDS[kind].share for kind in kinds)
    return [(kind, number) for kind in kinds for number in range(round(count * KINDS[kind].share / whole))]


def tried(count: int, kinds: list[str], folder: Path) -> Iterator[tuple[str, str]]:
    """Kind, and what is wrong ("": nothing), of each input. Results are read in this process, which prints: one at a
    time.
    """
    seeds_folder = folder / "seeds"
    seeds_folder.mkdir(parents=True)
    seeds = Seeds.make(seeds_folder)
    every = wanted(count, [kind for kind in kinds if kind in KINDS])
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(
            lambda one: (one[0], try_one(*one, seeds, folder)), [one for one in every if one[0] != "results"]
        )
    yield from ((one[0], try_one(*one, seeds, folder)) for one in every if one[0] == "results")
    if "control" in kinds:
        recorder = Recorder(recorder_folder(folder, "control"), "--stacks")
        for number in range(max(20, round(count * CONTROL_SHARE))):
            yield "control", recorder.ask(control_request(chances(f"control-{number}"), seeds))
        yield "control", recorder.end()
    for kind in HOSTS_RECORDERS:
        if kind in kinds:
            yield from ((kind, problem) for problem in hosts(kind, round(count * HOSTS_SHARE / 2), folder))


def recorder_folder(folder: Path, kind: str) -> Path:
    """A folder for a recorder."""
    made = folder / f"recorder-{kind.replace(' ', '-')}"
    made.mkdir()
    return made


def hosts(kind: str, count: int, folder: Path) -> Iterator[str]:
    """Plays so many scripts to a recorder, several at a time, and reads what it has written."""
    recorder = Recorder(recorder_folder(folder, kind), *HOSTS_RECORDERS[kind])
    with ThreadPoolExecutor(2 * (os.cpu_count() or 1)) as pool:
        numbers = range(count)
        played = pool.map(lambda number: recorder.play(hostile(chances(f"{kind}-{number}"))), numbers)
        for number, problem in zip(numbers, played, strict=True):
            yield problem and f"script {number}: {problem}"
        yield recorder.end()
        traces = [(path, chances(path.name)) for path in recorder.traces()]
        yield from pool.map(lambda trace: trace_of_a_host(trace[1], trace[0]), traces)


def main() -> int:
    """Prints each that is wrong, and the counts."""
    count, kinds = int(sys.argv[1]), sys.argv[2:] or [*KINDS, "control", *HOSTS_RECORDERS]
    folder = OUT / "mutants"
    shutil.rmtree(folder, ignore_errors=True)
    tries, wrong = Counter[str](), Counter[str]()
    for kind, problem in tried(count, kinds, folder):
        tries[kind] += 1
        if problem:
            wrong[kind] += 1
            print(f"{kind}: {problem}", flush=True)
    print(
        f"{tries.total():,} inputs, {wrong.total():,} wrong:",
        *(f"{kind} {wrong[kind]}/{tries[kind]}" for kind in tries),
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
