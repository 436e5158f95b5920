# SPDX-License-Identifier: MIT
"""Whether the settings that `heaptape tune` finds hold live: twelve programs on which no search was developed (none is
in tests/bench/decisions/tuning.py) are recorded, tuned, and run alternately with the default and the winner.

    .venv/bin/python -m tests.bench.decisions.tuning_live FOLDER [--allocator NAME] [--limit EXPR] [PROGRAM]...

FOLDER keeps recordings and measurements; a second start continues where the first ended. Memory, page faults and
system calls are exact enough on a busy machine; a limit of instructions is compared with CPU time live, which needs a
quiet one.
"""

import argparse
import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec
from heaptape.common.home import default_home
from heaptape.results.cells import signed
from heaptape.run import capture, recipes
from heaptape.run.recipes import Recipe
from heaptape.show.tables.decision_tables import environment_line

from tests.support import HEAPTAPE, REPOSITORY, info

RECIPES = {
    "counted": ("cc1", "gawk", "jq", "lua", "php", "pythreads", "ruby", "sort", "tclsh", "xmllint"),
    "apps": ("go-cgo", "xz"),
}
# Tunables for how much memory is kept, and for how long; thread caches, which cost instructions, stay unchanged.
TUNABLES = {
    "glibc": "arena_max,mmap_threshold,mmap_max,trim_threshold,top_pad,mxfast",
    "jemalloc": "narenas,dirty_decay_ms,muzzy_decay_ms,lg_extent_max_active_fit,oversize_threshold,retain,dss",
    "tcmalloc": "aggressive_decommit,max_total_thread_cache_bytes,transfer_num_obj,skip_sbrk",
    "mimalloc": "allow_decommit,decommit_delay,page_reset,eager_commit,eager_commit_delay,abandoned_page_decommit",
}
HOME = default_home()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM")
    parser.add_argument("--allocator", default="glibc", choices=TUNABLES)
    parser.add_argument("--objective", default="rss-peak")
    parser.add_argument("--limit", default="faults<=1.05*default,syscalls<=2*default")
    parser.add_argument("--budget", default="24")
    parser.add_argument("--runs", default="5", help="live, of each setting")
    arguments = parser.parse_intermixed_args()
    print("| program | calls | set | in replays, % | live, % | limit, live | |")
    print("|---|---:|---|---:|---:|---|---|", flush=True)
    verdicts = []
    for recipe in _recipes():
        if recipe.name in (arguments.programs or [recipe.name]):
            row = _row(recipe, _tuned(recipe, arguments))
            verdicts.append(row[-1])
            print(f"| {' | '.join(row)} |", flush=True)
    print(", ".join(f"{one}: {verdicts.count(one)} of {len(verdicts)}" for one in dict.fromkeys(verdicts)))


def _recipes() -> list[Recipe]:
    there = {folder: recipes.find([REPOSITORY / "workloads" / folder]) for folder in RECIPES}
    found = [_repeatable(one) for folder, names in RECIPES.items() for one in there[folder] if one.name in names]
    return sorted(found, key=lambda one: one.name)


def _repeatable(recipe: Recipe) -> Recipe:
    """Its command, repeatable in one folder, and the program to record itself, not gcc's driver."""
    if recipe.name == "xz":
        return msgspec.structs.replace(recipe, command=("xz", "-f", *recipe.command[1:]))
    if recipe.command[0] != "gcc":
        return recipe
    path = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True, check=True).stdout.strip()
    return msgspec.structs.replace(
        recipe, command=(path, "-quiet", *(one for one in recipe.command[1:] if one != "-S"))
    )


def _tuned(recipe: Recipe, arguments: argparse.Namespace) -> dict:
    """The output of `heaptape tune --live`, in a folder with the program's input."""
    folder = arguments.folder.resolve()
    tape, results = folder / f"{recipe.name}.tape", folder / f"{recipe.name}.{arguments.allocator}.json"
    folder.mkdir(parents=True, exist_ok=True)
    if not tape.exists():
        capture.capture(recipe, tape, HOME)
    if not results.exists():
        made = results.with_suffix(".part")
        command = [HEAPTAPE, "tune", tape, "-a", arguments.allocator, "--objective", arguments.objective]
        command += ["--limit", arguments.limit, "--budget", arguments.budget, "--jobs", "2"]
        command += ["--tunables", TUNABLES[arguments.allocator]]
        command += ["--storage", results.with_suffix(".sqlite"), "-o", made, "--live", "--live-runs", arguments.runs]
        prepared = folder / f"{recipe.name}.input"
        shutil.copytree(recipes.prepare(recipe, recipes.cache_directory()), prepared, dirs_exist_ok=True)
        own = [f"{name}={value}" for name, value in recipe.environment.items()]
        program = [word.replace("$WORK", str(prepared)) for word in recipe.command]
        command += ["--", *(["env", *own] if own else []), *program]
        subprocess.run(
            [str(word) for word in command],
            cwd=prepared,
            stdin=subprocess.DEVNULL,
            stdout=(folder / f"{recipe.name}.log").open("w"),
            check=True,
        )
        made.rename(results)
    return json.loads(results.read_text()) | {"calls": sum(info(tape)["calls"].values())}


def _row(recipe: Recipe, data: Mapping) -> list[str]:
    about, best = [recipe.name, f"{data['calls']:,}"], data["winner"]
    if best is None or not best["settings"]:
        return [*about, "", "", "", "", "nothing to be won"]
    objective, limits = data["search"]["objectives"][0], data["search"]["limits"]
    lived = {one["figure"]: one for one in data["live"]["figures"]}
    found = lived[objective]
    kept = [_limit(lived, limit) for limit in limits]
    verdict = {"held": "better", "undecided": "undecided", "did not hold": "not better"}[found["verdict"]]
    again = best["ratios_again"].get(objective, {"ratio": best["ratios"][objective]})["ratio"]
    return [*about, environment_line(best["environment"]), _percent(again), _interval(found), "; ".join(kept), verdict]


def _limit(lived: Mapping, text: str) -> str:
    found = lived[text.partition("<=")[0].strip()]
    kept = {"held": "kept", "undecided": "undecided", "did not hold": "broken"}[found["verdict"]]
    return f"{kept}: {found['live']} {_interval(found)}"


def _interval(found: Mapping) -> str:
    return f"{_percent(found['ratio'])} ({_percent(found['low'])} to {_percent(found['high'])})"


def _percent(ratio: float) -> str:
    return signed(100 * (ratio - 1))


if __name__ == "__main__":
    main()
