# SPDX-License-Identifier: MIT
"""How far `heaptape whatif` is from live runs: programs with a switch that makes the change
(whatif_programs.c), against predictions from one recording of each without the change.

The change of peak RSS is compared, per program, change and allocator.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home, default_home
from heaptape.common.process import scratch_folder
from heaptape.features.whatif import experiments as whatif
from heaptape.run import registry
from heaptape.run.live import c_library
from heaptape.run.registry import Choice
from heaptape.run.rounds import Settings

PROGRAMS = ("waves", "documents", "lines", "strings", "pages", "connections")
# what the switch does -> the experiment that predicts it
CHANGES = {
    "remove": "frame=group_new*=remove",
    "arena": "frame=group_new*=segregate",
    "pool": "frame=group_new*=pool=65536",
}
# Smaller live changes, in percent of the peak, have no meaningful relative error.
LEAST_CHANGE_PERCENT = 5
PEAK = "rss_anon_peak_bytes"


@dataclass(frozen=True)
class Plan:
    """Programs by name, allocators, live runs of each (their median counts), and where files may be written."""

    programs: Sequence[str]
    choices: Sequence[Choice]
    repeats: int
    home: Home
    scratch: Path

    @property
    def executable(self) -> Path:
        """The programs. Raises HeaptapeError where they are not built."""
        path = self.home.directory / "test-programs" / "whatif_programs"
        if not path.is_file():
            raise HeaptapeError(f"{path}: not built: make programs")
        return path


def compare(plan: Plan, tell: Callable[[str], None] = lambda text: None) -> pd.DataFrame:
    """One row per program, change and allocator: live_plain, live, predicted_plain, predicted (peak RSS in bytes, less
    the process's RSS at its start). Raises HeaptapeError where a program or a replay fails.
    """
    rows = []
    for program in plan.programs:
        tell(f"{program}: recording and replaying")
        predicted = _predicted(plan, program)
        for choice in plan.choices:
            tell(f"{program}: live on {choice.label}")
            live = {mode: _live(plan, program, mode, choice) for mode in ("plain", *CHANGES)}
            rows += [
                {
                    "program": program,
                    "change": change,
                    "allocator": choice.label,
                    "live_plain": live["plain"],
                    "live": live[change],
                    "predicted_plain": predicted["plain", choice.label],
                    "predicted": predicted[change, choice.label],
                }
                for change in CHANGES
            ]
    return pd.DataFrame(rows)


def errors(table: pd.DataFrame) -> pd.DataFrame:
    """Adds to `compare`: live_percent, predicted_percent (change of peak RSS in percent of the live peak without the
    change), error_points (their difference), error_percent (of the saving in bytes against the live saving; NaN where
    the live change is below LEAST_CHANGE_PERCENT).
    """
    live, predicted = table["live_plain"] - table["live"], table["predicted_plain"] - table["predicted"]
    live_percent = -100 * live / table["live_plain"]
    predicted_percent = -100 * predicted / table["live_plain"]
    return table.assign(
        live_percent=live_percent,
        predicted_percent=predicted_percent,
        error_points=predicted_percent - live_percent,
        error_percent=(100 * (predicted / live - 1)).where(live_percent.abs() >= LEAST_CHANGE_PERCENT),
    )


def _live(plan: Plan, program: str, mode: str, choice: Choice) -> float:
    environment = os.environ | choice.environment | {"LD_PRELOAD": choice.preload or c_library()}
    command = [str(plan.executable), program, mode]
    peaks = []
    for _ in range(plan.repeats):
        result = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if result.returncode != 0:
            raise HeaptapeError(f"{program} {mode} on {choice.label}: exit status {result.returncode}")
        peaks.append(json.loads(result.stdout)[PEAK])
    return statistics.median(peaks)


def _predicted(plan: Plan, program: str) -> dict[tuple[str, str], float]:
    """(change or "plain", label of the allocator) -> peak RSS in bytes."""
    tape = plan.scratch / f"{program}.tape"
    command = [str(plan.home.program("record")), "--stacks", "-o", str(tape), "--", str(plan.executable), program]
    result = subprocess.run([*command, "plain"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if result.returncode != 0:
        raise HeaptapeError(f"{program}: can't be recorded: {result.stderr.strip().rpartition(chr(10))[2]}")
    tried = whatif.experiments(list(CHANGES.values()), together=False)
    names = {experiment.name: change for experiment, change in zip(tried, CHANGES, strict=True)}
    failures: list[str] = []
    job = whatif.Job(tape, tried, plan.choices, Settings(repeats=1, passes=("memory",)))
    data = whatif.run(job, plan.home, plan.scratch, on_failure=lambda run, why: failures.append(why))
    if failures:
        raise HeaptapeError(f"{program}: a replay failed: {failures[0]}")
    whose = {(run["allocator"], run["variant"]): run[PEAK] for run in data["runs"]}
    peaks = {}
    for choice in plan.choices:
        peaks["plain", choice.label] = whose[choice.allocator, choice.variant]
        for experiment in tried:
            variant = whatif.variant_of(choice.variant, experiment)
            peaks[names[experiment.name], choice.label] = whose[choice.allocator, variant]
    return peaks


def document(table: pd.DataFrame) -> str:
    """Markdown: a summary of the errors, then every row."""
    found = errors(table)
    lines = [
        "| change | comparisons | error of the change of peak RSS, points: median, worst "
        "| changes of 5 % or more | error of the saving, %: median, worst |",
        "|---|---:|---:|---:|---:|",
    ]
    for change in (*CHANGES, "all"):
        here = found if change == "all" else found[found["change"] == change]
        relative = here["error_percent"].dropna().abs()
        points = here["error_points"].abs()
        saving = f"{relative.median():.1f}, {relative.max():.1f}" if len(relative) else "–"
        worst = f"{points.median():.2f}, {points.max():.1f}"
        lines.append(f"| {change} | {len(here)} | {worst} | {len(relative)} | {saving} |")
    lines += [
        "",
        "| program | change | allocator | live peak as it is, MiB | error of replay as it is, % | live change, % "
        "| predicted, % | error of saving, % |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for row in found.itertuples():
        error = "–" if pd.isna(row.error_percent) else f"{row.error_percent:+.1f}"
        plain = 100 * (row.predicted_plain / row.live_plain - 1)
        lines.append(
            f"| {row.program} | {row.change} | {row.allocator} | {row.live_plain / (1 << 20):.1f} | {plain:+.1f} | "
            f"{row.live_percent:+.1f} | {row.predicted_percent:+.1f} | {error} |"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m heaptape.features.whatif.test.whatif_live")
    parser.add_argument("-n", type=int, default=3, dest="repeats", help="live runs of each (default 3)")
    parser.add_argument("-a", "--allocator", action="append", default=[], metavar="NAME")
    parser.add_argument("names", nargs="*", choices=[*PROGRAMS, []], metavar="NAME", help="programs (default: all)")
    arguments = parser.parse_args()
    home = default_home()
    choices = registry.choose_all(arguments.allocator, registry.load(home))
    with scratch_folder() as scratch:
        plan = Plan(arguments.names or PROGRAMS, choices, arguments.repeats, home, scratch)
        print(document(compare(plan, lambda text: print(text, file=sys.stderr))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
