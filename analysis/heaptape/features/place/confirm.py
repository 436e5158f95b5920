# SPDX-License-Identifier: MIT
"""Live runs without and with a plan, beside what replays predict of them."""

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from heaptape.allocators.registry import Choice
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.common.process import last_message
from heaptape.features.place import plan as plans
from heaptape.features.place.search import Found
from heaptape.results.judged import mean_over_time
from heaptape.run import replay
from heaptape.run.live import c_library
from heaptape.run.live_command import WALL_MEAN, Turns, ratios, take
from heaptape.run.samples import Samples, read_samples, rss_at

LIBRARY_BYTES = 72 << 10  # what the library itself holds


@dataclass(frozen=True)
class Confirmed:
    """Bytes by metric (peak_rss, mean_rss): medians of live runs without and with the plan, and the predicted saving.
    `cpu`: ratio of processor time with the plan to that without, and its interval, "low" and "high"; None: not known.
    """

    before: dict[str, float]
    after: dict[str, float]
    predicted: dict[str, float]
    cpu: dict[str, float] | None


def with_plan(choice: Choice, path: Path, home: Home) -> Choice:
    """The allocator, with the plan's call sites served from regions."""
    preload = f"{plans.library(home)}:{choice.preload or c_library()}"
    return replace(choice, preload=preload, environment=choice.environment | {plans.VARIABLE: str(path.resolve())})


def confirm(found: Found, plan: Path, turns: Turns, tell: Callable[[str, float], None]) -> Confirmed:
    """Records the command of `turns` for `savings`, and makes its live runs: those after with the plan. Raises
    HeaptapeError where a run fails.
    """
    clock = clock_of(turns.command, plan.parent, turns.home)
    rows = take(replace(turns, after=with_plan(turns.before, plan, turns.home)), tell)
    live = {"peak_rss": "rss_anon_peak_bytes", "mean_rss": WALL_MEAN}
    sides = rows.groupby("side")[list(live.values())].median()
    before, after = (
        {metric: float(sides.loc[side, key]) for metric, key in live.items()} for side in ("before", "after")
    )
    return Confirmed(before, after, savings(found, clock), ratios(rows).get("cpu_ns"))


def clock_of(command: Sequence[str], folder: Path, home: Home) -> Samples:
    """When a recording of the command without call stacks was sampled. The folder is for its files."""
    tape = folder / "clock.tape"
    words = [str(home.program("record")), "-o", str(tape), "--", *command]
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, errors="replace"
    )
    if not tape.exists():
        raise HeaptapeError(last_message(done.stderr, "record") or f"{command[0]}: can't be recorded")
    return read_samples(tape, replay.prepare(str(tape), home, folder))[0]


def savings(found: Found, clock: Samples) -> dict[str, float]:
    """What the best placement saves. `clock`: of a recording without call stacks, whose cost is small beside a call:
    that of stacks would make the parts of the program that call malloc most seem longer than they are.
    """
    assert found.best
    saved = {
        metric: found.base[metric] - found.best.figures[metric] - LIBRARY_BYTES for metric in ("peak_rss", "mean_rss")
    }
    if len(clock.time_ns) < 2:
        return saved
    position = clock.share * (found.samples.ops + 2) - 1
    before, after = (mean_over_time(clock.time_ns, rss_at(run, position)) for run in (found.base_run, found.best.run))
    return saved | {"mean_rss": before - after - LIBRARY_BYTES}
