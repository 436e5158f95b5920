# SPDX-License-Identifier: MIT
"""`python -m tests.bench.time.branches [PROGRAM...]`: mispredicted branches and instruction misses of live programs.

Counts that the model of time does not have, by cachegrind, of a program of workloads/counted on each allocator, less
those on glibc, as CSV: program, allocator, mispredicted, instruction_misses (of a first level of 32 KiB and 8 ways).
"""

import argparse
import csv
import sys
import tempfile
from pathlib import Path

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import default_home
from heaptape.run import live, recipes, registry
from heaptape.run.recipes import Recipe
from heaptape.run.registry import Choice

from tests.bench.fidelity import counted
from tests.bench.fidelity.certificate import BASELINE
from tests.bench.time.judge import ALLOCATORS

CACHEGRIND = ("valgrind", "-q", "--tool=cachegrind", "--cache-sim=yes", "--branch-sim=yes", "--I1=32768,8,64")
PROGRAMS = ("gawk", "lua", "perl", "php", "python3", "sort", "xmllint")  # of one thread, with pairs that were decided
FIGURES = {"mispredicted": ("Bcm", "Bim"), "instruction_misses": ("I1mr",)}


def counts(recipe: Recipe, place: live.Place, choice: Choice) -> dict[str, int]:
    """FIGURES of the whole process. Raises HeaptapeError where it fails."""
    with tempfile.NamedTemporaryFile(prefix="heaptape-bench-") as output:
        wrapper = [*CACHEGRIND, f"--cachegrind-out-file={output.name}"]
        environment = dict(choice.environment) | {"LD_PRELOAD": choice.preload or live.c_library()}
        finished = recipes.run(recipe, place.prepared, place.scratch / "run", wrapper, environment)
        if not recipe.ended_well(finished.status):
            raise HeaptapeError(f"{recipe.name} on {choice.label} failed under cachegrind")
        lines = Path(output.name).read_text().splitlines()
    names, totals = (
        next(line for line in lines if line.startswith(key)).split()[1:] for key in ("events:", "summary:")
    )
    found = dict(zip(names, map(int, totals)))
    return {figure: sum(found[name] for name in parts) for figure, parts in FIGURES.items()}


def main() -> None:
    there = {recipe.name: recipe for recipe in recipes.find(counted.DIRECTORIES)}
    parser = argparse.ArgumentParser(prog="python -m tests.bench.time.branches", description=__doc__)
    parser.add_argument("programs", nargs="*", choices=[[], *there], metavar="PROGRAM", default=PROGRAMS)
    home = default_home()
    known = registry.load(home)
    choices = [registry.choose(name, known) for name in ALLOCATORS if known[name].found]
    table = csv.writer(sys.stdout)
    table.writerow(["program", "allocator", *FIGURES])
    for name in parser.parse_args().programs:
        with live.place_for(there[name], home, recipes.cache_directory() / "timed") as place:
            found = {choice.label: counts(there[name], place, choice) for choice in choices}
        for label, of_one in found.items():
            if label != BASELINE:
                table.writerow([name, label, *(of_one[figure] - found[BASELINE][figure] for figure in FIGURES)])
        sys.stdout.flush()


if __name__ == "__main__":
    main()
