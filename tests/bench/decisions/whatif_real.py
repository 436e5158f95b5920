# SPDX-License-Identifier: MIT
"""Real programs with a change that `heaptape whatif` predicts and the live program makes: docs/measurements/blame.md.

    python -m tests.bench.decisions.whatif_real [-n LIVE_RUNS] [-a ALLOCATOR]... [NAME]...

Each recipe of tests/bench/whatif/ is recorded once unchanged, with call stacks, its experiment replayed, and the
program run live, unchanged and with the change. Prints a Markdown table.
"""

import argparse
import dataclasses
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from heaptape.common.home import Home, default_home
from heaptape.passes import blame_data
from heaptape.results.schema import Results
from heaptape.run import capture, recipes, registry, replay, rounds, whatif
from heaptape.run.registry import Choice

from tests.bench.fidelity.live_rounds import observe, place_for
from tests.bench.fidelity.whatif_live import LEAST_CHANGE_PERCENT
from tests.support import OUT, REPOSITORY

MIB = 1 << 20
FIGURES = {"peak": "rss_anon_peak_bytes", "mean": "rss_anon_mean_bytes"}


@dataclass(frozen=True)
class Change:
    """`experiment`: as for `heaptape whatif`; {first}: the site that holds most at the peak, by `heaptape blame` on the
    first allocator. `environment`: makes the recipe's program change.
    """

    recipe: str
    experiment: str
    environment: Mapping[str, str]

    def made_on(self, choice: Choice) -> Choice:
        return dataclasses.replace(choice, environment=choice.environment | dict(self.environment))


CHANGES = (
    Change("redis-deletion", "frame=hsetCommand=segregate", {"APART": str(OUT / "test-lib" / "libisolated.so")}),
    Change("python-lines", "site={first}=remove", {"INTERN": "1"}),
    Change("sqlite3-journal", "size=1032=remove", {"JOURNAL": "DELETE"}),
    Change("mariadb-drop", "frame=init_key_cache=remove", {"KEY_BUFFER": "8"}),
)


def measure(change: Change, choices: Sequence[Choice], repeats: int, home: Home, folder: Path) -> list[dict]:
    """One row per allocator and figure, in bytes: live_plain, live, predicted_plain, predicted."""
    recipe = recipes.read(REPOSITORY / "tests" / "bench" / "whatif" / f"{change.recipe}.toml")
    tape = folder / f"{change.recipe}.tape"
    capture.capture(recipe, tape, home, ["--stacks"], cache=folder)
    group = change.experiment
    if "{first}" in group:
        group = group.format(first=_first_site(tape, choices[0], home, folder))
    (tried,) = whatif.experiments([group], together=False)
    job = whatif.Job(tape, [tried], choices, rounds.Settings(repeats=1, passes=("memory",)))
    runs = {(run["allocator"], run["variant"]): run for run in whatif.run(job, home, folder)["runs"]}
    rows = []
    with place_for(recipe, home, folder) as place:
        for choice in choices:
            print(f"{change.recipe}: live on {choice.label}", file=sys.stderr, flush=True)
            seen = {
                made: [observe(recipe, place, on, memory=True) for _ in range(repeats)]
                for made, on in (("live_plain", choice), ("live", change.made_on(choice)))
            }
            replayed = {
                "predicted_plain": runs[choice.allocator, choice.variant],
                "predicted": runs[choice.allocator, whatif.variant_of(choice.variant, tried)],
            }
            for figure, key in FIGURES.items():
                row = {made: statistics.median(run[key] for run in all_runs) for made, all_runs in seen.items()}
                row |= {made: run[key] for made, run in replayed.items()}
                rows.append(
                    {"program": change.recipe, "allocator": choice.label, "group": tried.name, "figure": figure} | row
                )
    return rows


def _first_site(tape: Path, choice: Choice, home: Home, folder: Path) -> int:
    """The call site that holds most bytes at the peak."""
    workload = replay.prepare(str(tape), home, folder, origins=True)
    settings = rounds.Settings(1, passes=("blame",))
    data = replay.replay(workload, replay.describe_workload(workload, tape.stem), [choice], settings, home)
    table = blame_data.holding(Results(str(tape), data), "site")
    table["held"] = table["live_bytes"] + table["rounding_bytes"] + table["empty_bytes"]
    peak = table.groupby("position")["held"].sum().idxmax()
    sites = table[(table["position"] == peak) & (table["kind"] == "group")]
    return int(sites.loc[sites["held"].idxmax(), "number"])


def document(table: pd.DataFrame) -> str:
    """Markdown, a table for each figure: savings in MiB, and in percent of the unchanged live program's figure."""
    return "\n\n".join(_table(name, rows) for name, rows in table.groupby("figure", sort=False))


def _table(figure: str, rows: pd.DataFrame) -> str:
    lines = [
        f"| program | group and action | allocator | live {figure} as it is, MiB | predicted saving | live saving "
        "| error of the saving, % |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    for row in rows.to_dict("records"):
        plain = row["live_plain"]
        predicted, live_saving = row["predicted_plain"] - row["predicted"], plain - row["live"]
        savings = [f"{saved / MIB:.2f} ({100 * saved / plain:.1f} %)" for saved in (predicted, live_saving)]
        decisive = abs(live_saving) >= LEAST_CHANGE_PERCENT / 100 * plain
        error = f"{100 * (predicted / live_saving - 1):+.1f}" if decisive else "–"
        cells = [row["program"], f"`{row['group']}`", row["allocator"], f"{plain / MIB:.1f}", *savings, error]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.decisions.whatif_real")
    parser.add_argument("names", nargs="*", choices=[*(change.recipe for change in CHANGES), []])
    parser.add_argument("-n", type=int, default=3, help="live runs, of which the median counts")
    parser.add_argument("-a", action="append", help="allocator (default glibc, jemalloc, tcmalloc, mimalloc)")
    arguments = parser.parse_args()
    home = default_home()
    choices = registry.choose_all(arguments.a or ["glibc", "jemalloc", "tcmalloc", "mimalloc"], registry.load(home))
    rows = []
    with tempfile.TemporaryDirectory(prefix="heaptape.") as folder:
        for change in CHANGES:
            if change.recipe in (arguments.names or [c.recipe for c in CHANGES]):
                rows += measure(change, choices, arguments.n, home, Path(folder))
    print(document(pd.DataFrame(rows)))


if __name__ == "__main__":
    main()
