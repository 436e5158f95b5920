# SPDX-License-Identifier: MIT
"""Placements that `heaptape place` finds, predicted and live: docs/measurements/place.md.

    python -m heaptape.features.place.test.place_live [-n LIVE_RUNS] [NAME]...

Each program is recorded with call stacks, a plan is searched, and the program run live on the C library, without and
with the plan, alternately. Prints a Markdown table.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

import msgspec
from heaptape.allocators import registry
from heaptape.allocators.registry import Choice
from heaptape.common.home import Home, default_home
from heaptape.features.place import plan, search
from heaptape.features.place.confirm import LIVE, savings, with_plan
from heaptape.features.workloads import capture
from heaptape.run import recipes, replay
from heaptape.run.recipes import Recipe
from heaptape.run.samples import read_samples

from tests.bench.fidelity.live_rounds import observe, place_for
from tests.support import OUT

MIB = 1 << 20
RECIPES = Path(__file__).parent / "programs"
PLANTED = ("pins", "pipeline", "churn", "even")
OTHERS = ("redis-cache", "python-parse", "lua-parse", "sqlite3-mixed", "cc1")


def recipe_of(name: str) -> Recipe:
    if name in OTHERS:
        return recipes.read(RECIPES / f"{name}.toml")
    planted = recipes.read(RECIPES / "planted.toml")
    return msgspec.structs.replace(planted, command=(str((OUT / "test-programs" / "planted").resolve()), name))


def measure(name: str, choice: Choice, repeats: int, home: Home, folder: Path) -> list[str]:
    """Rows of the table."""
    recipe, tape, path = recipe_of(name), folder / f"{name}.tape", folder / f"{name}.plan.toml"
    clock, scratch = folder / f"{name}.clock.tape", folder / f"{name}.search"
    scratch.mkdir()
    capture.capture(recipe, tape, home, ["--stacks"], cache=folder)
    capture.capture(recipe, clock, home, [], cache=folder)
    asked = search.Search(
        tape, None, choice, "mean", 100.0, home, lambda run, share, name: None, lambda run, error: None
    )
    found = search.search(asked, scratch)
    if not found.plan or not found.best:
        return [f"| {name} | nothing to win | | | | |"]
    path.write_text(plan.write(found.plan))
    seen: dict[bool, list[dict]] = {False: [], True: []}
    with place_for(recipe, home, folder) as place:
        for _ in range(repeats):
            for placed, runs in seen.items():
                on = with_plan(choice, path, home) if placed else choice
                runs.append(observe(recipe, place, on, memory=True))
    before, after = (
        {metric: statistics.median(run[key] for run in seen[placed]) for metric, key in LIVE.items()}
        for placed in (False, True)
    )
    samples, _ = read_samples(clock, replay.prepare(str(clock), home, scratch))
    predicted, rows = savings(found, samples), []
    for metric, figure in (("peak_rss", "peak"), ("mean_rss", "mean")):
        plain, live = before[metric], before[metric] - after[metric]
        off = 100 * (predicted[metric] / live - 1) if abs(live) > 0.02 * plain else float("nan")
        about = f"{name} | {found.best.candidate.name} ({len(found.plan.sites)} sites) | {figure}, {plain / MIB:.1f}"
        saved = f"{predicted[metric] / MIB:.2f} | {live / MIB:.2f} ({100 * live / plain:.1f} %)"
        rows.append(f"| {about} | {saved} | {off:+.1f} |")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m heaptape.features.place.test.place_live")
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
