# SPDX-License-Identifier: MIT
"""A command run live with two settings alternately (A B A B): do the replays' predictions for the second hold?"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from heaptape.allocators.registry import Choice
from heaptape.common.home import Home
from heaptape.common.process import scratch_folder
from heaptape.results.comparing.intervals import log_ratio
from heaptape.run import live
from heaptape.run.environment import without_allocator
from heaptape.run.recipes import Finished

CPU, WALL_MEAN = "cpu_ns", "rss_anon_wall_mean_bytes"
# figure of a replay -> the live program's figure that it stands for
COUNTERPARTS = {
    "rss-peak": "rss_anon_peak_bytes",
    "rss-mean": WALL_MEAN,
    "vmsize-peak": "vm_size_peak_bytes",
    "faults": "page_faults",
    "syscalls": "syscalls",
    "instructions": CPU,
    "misses": CPU,
    "cpu": CPU,
}
LIVE = tuple(dict.fromkeys(COUNTERPARTS.values()))


@dataclass(frozen=True)
class Turns:
    """`runs` runs of each choice, for each kind of figure. Memory and CPU time need separate runs: sampling memory
    costs CPU time.
    """

    command: Sequence[str]
    before: Choice
    after: Choice
    runs: int
    home: Home


def take(turns: Turns, tell: Callable[[str, float], None] = lambda what, share: None) -> pd.DataFrame:
    """One row for each run: side ("before", "after"), round, and the figures of LIVE that it has. Raises
    HeaptapeError where the command fails.
    """
    rows, plan = [], list(_order(turns))
    with scratch_folder() as scratch:
        for done, (round_, memory, side, choice) in enumerate(plan):
            tell(f"live: {choice.label}", done / len(plan))
            figures = _observe(turns, choice, memory, live.Place(scratch, scratch, turns.home))
            rows.append({"side": side, "round": round_} | figures)
    return pd.DataFrame(rows)


def ratios(rows: pd.DataFrame) -> dict[str, dict[str, float]]:
    """figure -> "ratio" of after to before, and its 95 % interval, "low" and "high"."""
    found = {}
    for figure in LIVE:
        if figure not in rows:
            continue
        sides = rows.dropna(subset=[figure]).set_index("round").groupby("side")[figure]
        given = dict(iter(sides))
        ratio = log_ratio(given["before"], given["after"])
        if ratio is not None:
            low, high = ratio.interval()
            found[figure] = {"ratio": ratio.ratio, "low": float(low), "high": float(high)}
    return found


def judge(rows: pd.DataFrame, objectives: Sequence[str], limits: Mapping[str, float]) -> list[dict]:
    """For each objective (must be less than before) and each limit (figure -> largest allowed ratio, after to before):
    "figure", "live" (the live figure it is compared with), "most", "ratio", "low", "high", "verdict": "held", "did not
    hold", or "undecided" where the interval contains both. CPU time is added without a verdict if it is not among them.
    """
    known = ratios(rows)
    wanted = [(name, 1.0, True) for name in objectives] + [(name, most, False) for name, most in limits.items()]
    found = []
    for name, most, less in wanted:
        if (here := known.get(COUNTERPARTS[name])) is not None:
            about = {"figure": name, "live": COUNTERPARTS[name], "most": most}
            found.append({**about, **here, "verdict": _verdict(here, most, less)})
    if CPU in known and all(one["live"] != CPU for one in found):
        found.append({"figure": "cpu", "live": CPU, "most": None, **known[CPU], "verdict": None})
    return found


def _verdict(found: Mapping[str, float], most: float, less: bool) -> str:
    if found["high"] < most or (not less and found["high"] == most):
        return "held"
    beyond = found["low"] >= most if less else found["low"] > most
    return "did not hold" if beyond else "undecided"


def _order(turns: Turns) -> Iterator[tuple[int, bool, str, Choice]]:
    for memory in (True, False):
        for round_ in range(turns.runs):
            yield round_, memory, "before", turns.before
            yield round_, memory, "after", turns.after


def _observe(turns: Turns, choice: Choice, memory: bool, place: live.Place) -> dict[str, float]:
    other = {**turns.before.environment, **turns.after.environment}
    inherited = {name: value for name, value in without_allocator(os.environ).items() if name not in other}

    def run(wrapper: Sequence[str], environment: Mapping[str, str], printed: Path) -> Finished:
        command = [*wrapper, *turns.command]
        with printed.open("wb") as log:
            done = subprocess.run(
                command, env=inherited | dict(environment), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        return Finished(done.returncode, 0.0, 0.0)

    path = turns.command[0]
    found = live.observe(
        live.Subject(Path(path).name, lambda programs: _meant(programs, path)), place, choice, memory, run
    )
    if not memory:
        return {CPU: found[CPU]}
    kept = {key: found[key] for key in LIVE if key in found and key not in (CPU, "syscalls")}
    return {**kept, "syscalls": sum(found["syscalls"].values())}


def _meant(programs: Sequence[Mapping], command: str) -> dict:
    """The command itself, where it is among those seen, or the program it executed (env, nice); else the program with
    most memory or processor time.
    """
    path = shutil.which(command)
    seen = [dict(one) for one in programs if one]
    last = {one["pid"]: one for one in seen}  # a process that calls exec has one entry per program
    named = [last[one["pid"]] for one in seen if path and Path(one["file"]).resolve() == Path(path).resolve()] or seen
    if not named:
        raise KeyError("no program")
    return live.largest(named)
