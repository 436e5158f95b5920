# SPDX-License-Identifier: MIT
"""Public accounts of a change of allocator, predicted and made again: tables for docs/measurements/accounts.md.

    python -m tests.bench.evidence.accounts [--accesses] [--rounds N] [NAME...]

accounts.toml has the accounts, their published figures and commands, and which programs must be on the PATH. Each
program is recorded once, on the allocator that it uses; from that `heaptape advise --budget 0` predicts its peak and
CPU time on each allocator of the account (with --accesses from its data accesses, too). Then the program is run on each
in turns, N rounds (default 5; 0: only predicted).

- *peak*: of RSS. Predicted: the difference of the predicted peaks, as a share of the live program's RSS;
- *cpu*, *wall*: published as CPU time, as elapsed time. Predicted and live: the change of CPU time, for both.

--results FILE keeps the figures (those of accounts that are named are replaced), and the tables are of all in it;
--live only runs the programs. Peaks are exact on a busy machine, times are not.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import IO

import pandas as pd

from tests.bench.harness import agreement, heading, in_turns, on_allocator, row, spend
from tests.support import HEAPTAPE

ACCOUNTS = Path(__file__).with_suffix(".toml")
LEAST_PERCENT = 2.0  # a smaller change has no sign: it is within what runs differ by


def predicted(account: Mapping, folder: Path, accesses: bool) -> dict[str, dict]:
    """allocator -> what `heaptape advise` says of it: `peak` in bytes, `cpu` as a change in percent against the
    allocator that the program uses; `by`: what that is computed from.
    """
    chosen = [word for name in _allocators(account) for word in ("-a", name)]
    with_accesses = ["--accesses"] if accesses else []
    command = [str(HEAPTAPE), "advise", "--quiet", "--json", "--budget", "0", *with_accesses, *chosen]
    command += ["--", *_command(account)]
    with _input(account) as given:
        made = subprocess.run(command, cwd=folder, stdin=given, stdout=subprocess.PIPE, check=True).stdout
    keys = {"peak": "peak_bytes", "cpu": "cpu_percent", "by": "cpu_from"}
    found = {one["label"]: {"cpu_percent": 0.0} | one for one in json.loads(made)["candidates"]}
    return {label: {name: one[key] for name, key in keys.items()} for label, one in found.items()}


def _allocators(account: Mapping) -> list[str]:
    return sorted({name for figure in account["figures"] for name in figure[1:3]})


def _command(account: Mapping) -> list[str]:
    return account["run"] if isinstance(account["run"], list) else ["sh", "-c", account["run"]]


def _input(account: Mapping) -> IO:
    return Path(os.path.expandvars(account.get("stdin", os.devnull))).open()


def live_run(account: Mapping, folder: Path, label: str) -> dict[str, float]:
    """Peak in bytes, and user and system time in seconds, of one run on the allocator."""
    with _input(account) as given:
        environment = on_allocator(label)
        spent = spend(*_command(account), cwd=folder, env=environment, stdin=given, stderr=subprocess.DEVNULL)
    return {"peak": spent.peak_rss_mib * 2**20, "cpu": spent.cpu_seconds}


def live(account: Mapping, folder: Path, rounds: int) -> dict[str, dict[str, float]]:
    """allocator -> medians of its runs."""
    runs = in_turns({label: partial(live_run, account, folder, label) for label in _allocators(account)}, rounds)
    return {label: pd.DataFrame(made).median().to_dict() for label, made in runs.items()}


def measure(account: Mapping, found: dict, arguments: argparse.Namespace) -> Iterator[None]:
    """Puts the account's figures into `found`: `predicted` and `live`, each by allocator. Yields after each."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        if "setup" in account:
            subprocess.run(["sh", "-e", "-c", account["setup"]], cwd=folder, check=True)
        if not arguments.live:
            found["predicted"] = predicted(account, folder, arguments.accesses)
            yield
        if arguments.rounds:
            found["live"] = live(account, folder, arguments.rounds)
            yield


def changes(figure: list, found: Mapping) -> tuple[float, float, float]:
    """In percent: published, predicted, live."""
    what, old, new, before, after = figure
    said, runs = found["predicted"], found.get("live")
    part = "peak" if what == "peak" else "cpu"
    if part == "peak":
        expected = 100 * (said[new]["peak"] - said[old]["peak"]) / (runs or said)[old]["peak"]
    else:
        expected = 100 * ((100 + said[new]["cpu"]) / (100 + said[old]["cpu"]) - 1)
    seen = 100 * (runs[new][part] / runs[old][part] - 1) if runs else math.nan
    return 100 * (after / before - 1), expected, seen


def print_tables(accounts: list[dict], results: Mapping[str, dict]) -> None:
    heading("account", "figure", "from", "to", "published, %", "predicted, %", "live here, %", "by", "what differs")
    compared = []
    for account in accounts:
        if not (found := results.get(account["name"])):
            continue
        for figure in account["figures"]:
            numbers = changes(figure, found)
            by = "" if figure[0] == "peak" else found["predicted"][figure[2]]["by"]
            shown = ["–" if math.isnan(x) else f"{x:+.1f}" for x in numbers]
            row(account["name"], *figure[:3], *shown, by, account["differs"])
            compared.append((figure[0] == "peak", account.get("like", False), numbers))
    print()
    heading("of", "figures", "compared", "signs that agree", "rank correlation", "median error, points")
    sides = (("predicted and published", 0, 1), ("live and published", 0, 2), ("predicted and live", 2, 1))
    for peak, like, (compares, x, y) in product((True, False), (False, True), sides):
        title = ("peaks" if peak else "times") + (", like with like" if like else "")
        chosen = [numbers for of_peak, alike, numbers in compared if of_peak == peak and (alike or not like)]
        *agreed, known = agreement([(one[x], one[y]) for one in chosen], LEAST_PERCENT)
        error = statistics.median([abs(ours - theirs) for theirs, ours in known] or [math.nan])
        row(title, len(chosen), compares, *agreed, f"{error:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    accounts = tomllib.loads(ACCOUNTS.read_text())["account"]
    can = [one["name"] for one in accounts if "run" in one]
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(can))
    parser.add_argument("--accesses", action="store_true")
    parser.add_argument("--live", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--results", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(can):
        parser.error(f"no such account with a command: {', '.join(sorted(unknown))}")
    kept = arguments.results
    results = json.loads(kept.read_text()) if kept and kept.exists() else {}
    for account in accounts:
        if account["name"] in (arguments.names or ([] if results else can)):
            for _ in measure(account, results.setdefault(account["name"], {}), arguments):
                if kept:
                    kept.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    print_tables(accounts, results)


if __name__ == "__main__":
    main()
