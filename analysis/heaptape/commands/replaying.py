# SPDX-License-Identifier: MIT
"""What the commands that replay share: checks of options, progress, and reports of failed runs."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from heaptape.common import console
from heaptape.common.console import WorkProgress
from heaptape.common.errors import UsageError
from heaptape.common.process import scratch_folder

if TYPE_CHECKING:
    from heaptape.run.rounds import Run


@dataclass
class Work:
    """Replays in progress. `scratch`: a folder removed when they are done. `failed`: the runs that failed, and why."""

    scratch: Path
    progress: WorkProgress
    failed: list[tuple["Run", str]] = field(default_factory=list)

    def on_progress(self, run: "Run | None", share: float, experiment: str = "") -> None:
        """Called by `measure.replay.replay`. `experiment`: its name in `heaptape whatif`."""
        what = f"{run.choice.label}, {run.pass_} pass" if run else "done"
        self.progress.update(f"{experiment}: {what}" if experiment else what, share)

    def on_failure(self, run: "Run", error: str) -> None:
        self.keep_failure(run, error)
        self.progress.error(f"{run.choice.label}, {run.pass_} pass, repetition {run.repeat + 1}: {error}")

    def keep_failure(self, run: "Run", error: str) -> None:
        self.failed.append((run, error))


@contextmanager
def work() -> Iterator[Work]:
    """Shows progress and keeps the scratch folder as long as the context lasts."""

    with scratch_folder() as scratch, WorkProgress() as progress:
        yield Work(scratch, progress)


def name_of(source: str) -> str:
    """The name of the results of a trace or workload."""
    return "standard input" if source == "-" else Path(source).name.split(".")[0]


def random_seed() -> int:
    return int.from_bytes(os.urandom(4), "little")


def passes_of(text: str, command: str, without: Sequence[str] = ()) -> tuple[str, ...]:
    """The passes of a list, each once. Raises UsageError for an unknown pass or one in `without`."""
    from heaptape.run.passes import PASSES

    known = [name for name in PASSES if name not in without]
    passes = tuple(dict.fromkeys(name for name in text.split(",") if name))
    unknown = [name for name in passes if name not in known]
    if unknown or not passes:
        named = f"unknown pass '{unknown[0]}'" if unknown else "no pass"
        raise UsageError(f"{command} --passes: {named}: there are {', '.join(known)}")
    return passes


def check_repeats(repeats: int, command: str) -> None:
    """Raises UsageError."""
    if repeats < 1:
        raise UsageError(f"{command} -n: at least one repetition")


def check_touch(text: str, command: str) -> None:
    """Raises UsageError if `text` is not a touch policy."""
    from heaptape.run.passes import TOUCH_POLICIES

    policy, equals, bound = text.partition("=")
    if policy not in TOUCH_POLICIES or (equals and (policy not in ("recorded", "lines") or not bound.isdigit())):
        names = ", ".join(TOUCH_POLICIES)
        raise UsageError(f"{command} --touch: '{text}' is none of {names}, recorded=N, lines=N")


def places_of(at: Sequence[str]) -> tuple[str, ...]:
    """The values of --at that have to be passed to the pass blame, in its words. Its results always have the others."""
    passed = [where for where in at if where not in ("widest", "peak", "end")]
    return tuple(where if where.isdecimal() or where == "live-peak" else f"mark={where}" for where in passed)


def tell_left_out(data: Mapping) -> None:
    for pass_, why in data["settings"].get("left_out", {}).items():
        console.warning(f"{pass_} are left out: {why}")
