# SPDX-License-Identifier: MIT
"""What the commands that replay share: checks of options, progress, and reports of failed runs."""

import contextlib
import functools
import glob
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from heaptape.common import console
from heaptape.common.console import WorkProgress
from heaptape.common.errors import HeaptapeError, UsageError, did_you_mean
from heaptape.common.home import Home
from heaptape.common.output import STANDARD_OUTPUT, check_writable, write_json
from heaptape.common.process import scratch_folder

if TYPE_CHECKING:
    from heaptape.allocators.registry import Allocator, Choice
    from heaptape.results.schema import Results
    from heaptape.run.rounds import Run


RECORDINGS = (b"HEAPTAPE", b"HEAPWORK")  # what traces and workloads begin with


@dataclass
class Work:
    """Replays in progress. `scratch`: a folder removed when they are done. `failed`: the runs that failed, and why."""

    scratch: Path
    progress: WorkProgress
    failed: list[tuple["Run", str]] = field(default_factory=list)

    def on_progress(self, run: "Run | None", share: float, experiment: str = "") -> None:
        """Called by `run.replay.replay`. `experiment`: its name in `heaptape whatif`."""
        what = f"{run.choice.label}, {run.pass_} pass" if run else "" if experiment else "done"
        self.progress.update(": ".join(filter(None, [experiment, what])), share)

    def on_failure(self, run: "Run", error: str) -> None:
        """Keeps the failure; prints it unless a run of this allocator has failed in the same way."""
        known = any((one.choice.label, text) == (run.choice.label, error) for one, text in self.failed)
        self.keep_failure(run, error)
        if known:
            return
        self.progress.error(f"{run.choice.label}, {run.pass_} pass, repetition {run.repeat + 1}: {error}")

    def keep_failure(self, run: "Run", error: str) -> None:
        self.failed.append((run, error))


@functools.cache
def say_left_out() -> None:
    """Says, once, what of this environment neither replays nor live runs on an allocator have."""
    from heaptape.common.engine import ALLOCATOR_LINKS
    from heaptape.run.environment import left_out

    if names := left_out(os.environ):
        console.warning(f"{', '.join(names)} of this environment: not used; -a NAME:SETTINGS sets an allocator up")
    for link in filter(Path.is_symlink, ALLOCATOR_LINKS):
        console.warning(f"{link} sets jemalloc up ({link.readlink()}): live runs have that, not replays")


@contextmanager
def work() -> Iterator[Work]:
    """Shows progress and keeps the scratch folder as long as the context lasts."""

    say_left_out()
    with scratch_folder() as scratch, WorkProgress() as progress:
        yield Work(scratch, progress)


def free_name(name: str, what: str = "results") -> str:
    """NAME.results.json in this folder; where that is taken, NAME.2.results.json and so on."""
    stem = name.replace(" ", "-")
    names = itertools.chain([f"{stem}.{what}.json"], (f"{stem}.{count}.{what}.json" for count in itertools.count(2)))
    return next(one for one in names if not Path(one).exists())


def about(workload: Path, name: str, source: str) -> dict:
    """What R.json says of the workload. Raises HeaptapeError for a recording without calls."""
    from heaptape.run import replay
    from heaptape.tape.trace import recorded_cpu_ns

    found = replay.describe_workload(workload, name)
    if not found["ops"]:
        raise HeaptapeError(f"{source}: holds no calls of malloc, so there is nothing to replay")
    if source != STANDARD_OUTPUT and (cpu_ns := recorded_cpu_ns(source)):
        found["cpu_ns"] = cpu_ns
    return found


def calibrate(passes: Sequence[str], home: Home, work: Work) -> None:
    """Measures what an instruction, a miss and a page fault cost here, where no one has: CPU time is predicted from it.
    A machine that can't be measured gets no prediction.
    """
    from heaptape.common.engine import PRICED
    from heaptape.run import machine

    if not set(passes) & set(PRICED) or machine.known_costs():
        return
    work.progress.note("measuring the costs of this machine, once; this takes a few seconds")
    with contextlib.suppress(HeaptapeError):
        machine.of_this_machine(home)


def results_of(paths: Sequence[str], command: Sequence[str], home: Home, more: Sequence[str] = ()) -> "list[Results]":
    """The results in these files, in their order. A recording among them is replayed with default settings and the
    passes `more`, and its results are kept in a file, unless one here has them (`_kept`); so is the command, which is
    recorded first.
    """
    from heaptape.results.schema import all_results

    found = []
    for path in paths:
        found += [_replayed(path, path, home, more)] if is_recording(path) else all_results(path)
    if command:
        from heaptape.advise.programs import record

        with scratch_folder() as folder:
            console.note(f"recording {command[0]}")
            program = record(command, folder, home)
            found.append(_replayed(str(program.trace.path), program.trace.program or command[0], home, more))
    return found


def is_recording(path: str) -> bool:
    """Is it a trace or workload, by its first bytes?"""
    if path == STANDARD_OUTPUT or not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        return file.read(8) in RECORDINGS


def _replayed(path: str, shown: str, home: Home, more: Sequence[str]) -> "Results":
    from heaptape.common.engine import DEFAULT_PASSES, OF_ACCESSES, need_origins
    from heaptape.results.schema import Results
    from heaptape.run import judging, replay
    from heaptape.run.rounds import Settings

    name = name_of(shown)
    passes, choices = (*DEFAULT_PASSES, *more), choices_of([], home)
    with work() as working:
        workload = replay.prepare(path, home, working.scratch, need_origins(passes))
        described = about(workload, name, path)
        if replay.has_accesses(workload):
            passes = (*passes, *OF_ACCESSES)
        choices = with_recorded_settings([], choices, workload, home)
        if kept := _kept(name, described["sha256"], passes, choices):
            console.note(f"{shown} is a recording: its results by this build are in {kept.path}")
            return kept
        output = free_name(name)
        check_writable(output)
        console.note(f"{shown} is a recording: replaying it; the results will be in {output}")
        calibrate(passes, home, working)
        settings = Settings(passes=passes, seed=random_seed(), optional=("instructions",))
        data = replay.replay(workload, described, choices, settings, home, working.on_progress, working.on_failure)
        judging.judge(data["workload"], Path(path), workload, home)
    write_json(output, data)
    return Results(output, data)


def _kept(name: str, sha256: str, passes: Sequence[str], choices: "Sequence[Choice]") -> "Results | None":
    """What a replay with default settings would give, from the latest results file of that name in this folder: of the
    same workload, the same build, libraries and machine, with these passes and all runs. None: there is none.
    """
    from heaptape.common.checked import checked
    from heaptape.common.version import __version__
    from heaptape.results.schema import results
    from heaptape.results.structs import MadeWith
    from heaptape.run import machine, replay

    build = {"version": __version__, "commit": replay.commit()}
    wanted, here = [replay.about_choice(one) for one in choices], machine.describe()
    del here["load_before"]
    for path in sorted(Path().glob(f"{glob.escape(name)}*.results.json"), key=lambda one: -one.stat().st_mtime):
        with contextlib.suppress(HeaptapeError, OSError):
            found = results(path)
            made, settings = found.data, checked(path, found.parsed.settings or {}, MadeWith)
            of_this = (made.get("heaptape"), found.workload.sha256, made.get("allocators")) == (build, sha256, wanted)
            of_this &= here.items() <= (made.get("machine") or {}).items()
            has_passes = set(passes) <= {*settings.passes, *settings.left_out}
            usual = settings.options == {} and not settings.interrupted
            if of_this and has_passes and usual and not found.failures:
                return found
    return None


def choices_of(names: Sequence[str], home: Home) -> "list[Choice]":
    """The allocators named, else all usual ones. Notes how to get others where only the C library's is here."""
    from heaptape.allocators import registry

    known = registry.load(home)
    if not names:
        note_others(known)
    return registry.choose_all(names, known)


def with_recorded_settings(
    names: Sequence[str], choices: "Sequence[Choice]", workload: Path, home: Home
) -> "list[Choice]":
    """The choices of these names, of which the recorded allocator has the recorded settings."""
    from heaptape.allocators import registry
    from heaptape.run.recorded import as_recorded, recorded_on
    from heaptape.tape.workload_format import read_workload

    return as_recorded(names, choices, recorded_on(read_workload(workload).info, registry.load(home)))


def own_choice(path: str, home: Home) -> "Choice":
    """The allocator that the recording names as its own, with its settings; else the C library's."""
    from heaptape.advise.tried import today
    from heaptape.allocators import registry
    from heaptape.tape.trace import open_trace
    from heaptape.tape.workload_format import is_workload, read_workload

    info: Mapping = {}
    with contextlib.suppress(HeaptapeError, OSError):  # another format, which names no allocator
        if is_workload(Path(path)):
            info = read_workload(Path(path)).info
        else:
            with open_trace(path) as trace:
                info = trace.info
    choice, doubt = today(None, info, registry.load(home))
    if doubt and "allocator" in info:
        console.warning(f"{path}: {doubt}")
    return choice


def note_others(known: "dict[str, Allocator]") -> None:
    from heaptape.allocators.registry import how_to_get_others

    for line in how_to_get_others(known).splitlines():
        console.note(line)


def name_of(source: str) -> str:
    """The name of the results of a trace or workload."""
    return "standard input" if source == "-" else Path(source).name.split(".")[0]


def random_seed() -> int:
    return int.from_bytes(os.urandom(4), "little")


def passes_of(text: str, command: str, without: Sequence[str] = ()) -> tuple[str, ...]:
    """The passes of a list, each once. Raises UsageError for an unknown pass or one in `without`."""
    from heaptape.common.engine import PASSES

    known = [name for name in PASSES if name not in without]
    passes = tuple(dict.fromkeys(name for name in text.split(",") if name))
    unknown = [name for name in passes if name not in known]
    if unknown or not passes:
        named = f"unknown pass '{unknown[0]}'" if unknown else "no pass"
        near = did_you_mean(unknown[0], known) if unknown else ""
        raise UsageError(f"{command} --passes: {named}{near or ': there are ' + ', '.join(known)}")
    return passes


def check_repeats(repeats: int, command: str) -> None:
    """Raises UsageError."""
    if repeats < 1:
        raise UsageError(f"{command} -n: at least one repetition")


def check_touch(text: str, command: str) -> None:
    """Raises UsageError if `text` is not a touch policy."""
    from heaptape.common.engine import TOUCH_POLICIES

    policy, equals, bound = text.partition("=")
    if policy not in TOUCH_POLICIES or (equals and (policy not in ("recorded", "lines") or not bound.isdigit())):
        names = ", ".join(TOUCH_POLICIES)
        raise UsageError(f"{command} --touch: '{text}' is none of {names}, recorded=N, lines=N")


def places_of(at: Sequence[str]) -> tuple[str, ...]:
    """The values of --at that the engine has to be given, in its words. Results always have the others."""
    passed = [where for where in at if where not in ("widest", "peak", "end")]
    return tuple(where if where.isdecimal() or where == "live-peak" else f"mark={where}" for where in passed)


def tell_left_out(data: Mapping) -> None:
    for pass_, why in data["settings"].get("left_out", {}).items():
        console.warning(f"{pass_} are left out: {why}")
    if not data["settings"].get("aslr") and any(run.get("aslr") for run in data["runs"]):
        console.warning(
            "addresses were randomised, as personality(2) is forbidden here (a container's filter?): page faults and "
            "memory may differ from run to run"
        )
