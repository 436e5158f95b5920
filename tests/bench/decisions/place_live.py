# SPDX-License-Identifier: MIT
"""Placements that `heaptape place` finds, predicted and live: docs/measurements/place.md.

    python -m tests.bench.decisions.place_live [-n LIVE_RUNS] [NAME]...

Each program is recorded with call stacks, a plan is searched, and the program run live on the C library, without and
with the plan, alternately. Prints a Markdown table.
"""

import argparse
import dataclasses
import statistics
import tempfile
from pathlib import Path

import msgspec
from heaptape.common.home import Home, default_home
from heaptape.place import plan, search
from heaptape.run import capture, recipes, registry
from heaptape.run.live import c_library
from heaptape.run.recipes import Recipe
from heaptape.run.registry import Choice

from tests.bench.fidelity.live_rounds import observe, place_for
from tests.support import OUT, REPOSITORY

MIB = 1 << 20
BENCH = REPOSITORY / "tests" / "bench"
PLANTED = ("pins", "pipeline", "churn", "even")
OTHERS = {"redis-deletion": BENCH / "whatif", "python-lines": BENCH / "whatif", "lua-parse": BENCH / "place"}


def recipe_of(name: str) -> Recipe:
    if name in OTHERS:
        return recipes.read(OTHERS[name] / f"{name}.toml")
    planted = recipes.read(BENCH / "place" / "planted.toml")
    return msgspec.structs.replace(planted, command=(str((OUT / "test-programs" / "planted").resolve()), name))


def with_plan(choice: Choice, path: Path) -> Choice:
    library = (OUT / "lib" / "libheaptape-place.so").resolve()
    preload = f"{library}:{choice.preload or c_library()}"
    return dataclasses.replace(choice, preload=preload, environment=choice.environment | {"HEAPTAPE_PLACE": str(path)})


def measure(name: str, choice: Choice, repeats: int, home: Home, folder: Path) -> list[str]:
    """Rows of the table."""
    recipe, tape, path = recipe_of(name), folder / f"{name}.tape", folder / f"{name}.plan.toml"
    capture.capture(recipe, tape, home, ["--stacks"], cache=folder)
    asked = search.Search(
        tape, None, choice, "peak", 100.0, home, lambda run, share, name: None, lambda run, error: None
    )
    scratch = folder / f"{name}.search"
    scratch.mkdir()
    found = search.search(asked, scratch)
    if not found.plan or not found.best:
        return [f"| {name} | nothing to win | | | | |"]
    path.write_text(plan.write(found.plan))
    seen: dict[bool, list[dict]] = {False: [], True: []}
    with place_for(recipe, home, folder) as place:
        for _ in range(repeats):
            for placed, runs in seen.items():
                runs.append(observe(recipe, place, with_plan(choice, path) if placed else choice, memory=True))
    rows = []
    for figure, metric in (("peak", "peak_rss"), ("mean", "mean_rss")):
        plain, live = (statistics.median(run[f"rss_anon_{figure}_bytes"] for run in seen[placed]) for placed in seen)
        predicted = found.base[metric] - found.best.figures[metric]
        off = 100 * (predicted / (plain - live) - 1) if abs(plain - live) > 0.02 * plain else float("nan")
        about = f"{name} | {found.best.candidate.name} ({len(found.plan.sites)} sites) | {figure}, {plain / MIB:.1f}"
        saved = f"{predicted / MIB:.2f} | {(plain - live) / MIB:.2f} ({100 * (plain - live) / plain:.1f} %)"
        rows.append(f"| {about} | {saved} | {off:+.1f} |")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.decisions.place_live")
    parser.add_argument("names", nargs="*", choices=[*PLANTED, *OTHERS, []])
    parser.add_argument("-n", type=int, default=3, help="live runs of each, of which the median counts")
    arguments = parser.parse_args()
    home = default_home()
    (choice,) = registry.choose_all(["glibc"], registry.load(home))
    print("| program | placed | live as it is, MiB | predicted saving | live saving | error of the saving, % |")
    print("|---|---|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory(prefix="heaptape.") as folder:
        for name in arguments.names or [*PLANTED, *OTHERS]:
            print("\n".join(measure(name, choice, arguments.n, home, Path(folder))), flush=True)


if __name__ == "__main__":
    main()
