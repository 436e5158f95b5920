# SPDX-License-Identifier: MIT
"""python -m tests.fuzz N [KIND...]: N changed inputs, of all kinds or of those. Prints what is wrong; such inputs stay
in out/mutants/. Status 1: there are some.
"""

import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.fuzz.inputs import CONTROL_SHARE, KINDS, Recorder, Seeds, control_request, try_one
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
        recorder = Recorder(seeds_folder)
        for number in range(max(20, round(count * CONTROL_SHARE))):
            yield "control", recorder.ask(control_request(random.Random(f"control-{number}"), seeds))
        yield "control", recorder.end()


def main() -> int:
    """Prints each that is wrong, and the counts."""
    count, kinds = int(sys.argv[1]), sys.argv[2:] or [*KINDS, "control"]
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
