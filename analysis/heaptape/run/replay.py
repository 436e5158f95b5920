# SPDX-License-Identifier: MIT
"""Replay: makes the runs that rounds.py plans, with the C program heaptape-replay, and collects their results."""

import contextlib
import json
import math
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from heaptape.allocators.elf_files import build_id
from heaptape.allocators.registry import Choice, sha256_of
from heaptape.common import console, phrases
from heaptape.common.console import Counted
from heaptape.common.engine import BY_NAME, OF_ACCESSES, TOUCHED_MIN_BYTES, TOUCHED_PARTS_MIN_BYTES
from heaptape.common.errors import FormatError, HeaptapeError, UsageError
from heaptape.common.home import PACKAGE, Home
from heaptape.common.process import last_message, processors, scratch_folder
from heaptape.common.version import __version__
from heaptape.results import disturbance, structs
from heaptape.results.structs import SCHEMA, WALL_TIME
from heaptape.run import engine_process, machine
from heaptape.run.across_passes import agreement, attach_syscalls
from heaptape.run.engine_process import Command, Processes, failure, run_to_end, side_by_side
from heaptape.run.environment import RECORDERS
from heaptape.run.rounds import Rounds, Run, Settings, baseline_of, widest_interval
from heaptape.run.samples import idle_of, mean_by_other_clocks
from heaptape.tape.info import Recorded
from heaptape.tape.workload_format import is_workload, read_workload

ROOM_BYTES = 256 << 20  # of an engine in addition to its objects: the tool's tables, the allocator's own memory
# One run of each allocator before the first round, not kept: it brings its library and the workload into the page
# cache, and wakes the processors.
WARM_UP_OPS = 1 << 20
MATTERS = 0.02  # of peak live bytes
MEANS_DIFFER = 0.05


class Baseline(NamedTuple):
    """`rss_anon_bytes`: of the engine before the first op. `checked`: which state of the workload's file was proved
    legal: later runs prove it again only if it is another.
    """

    rss_anon_bytes: int = 0
    checked: str = ""


@dataclass(frozen=True)
class Engine:
    """What all runs of a workload have in common. `ops`: the workload's, by which the pass instructions chooses its
    order. `processes`: the running ones.
    """

    program: Path
    workload: Path
    settings: Settings
    ops: int = 0
    baseline: Baseline = Baseline()
    processes: Processes = field(default_factory=Processes)


def prepare(
    source: str,
    home: Home,
    directory: Path,
    origins: bool = False,
    options: Sequence[str] = (),
    name: str = "",
    within_s: float = math.inf,
) -> Path:
    """The workload to replay: `source` itself if it is one, else compiled into `directory`. Its data accesses, if it
    has any, are put beside it (`accesses_of`), and with `origins` who acquired its objects (`origins_of`). `-` is
    standard input. `name`: what a warning calls a file that the user does not know. Raises HeaptapeError where
    compiling takes longer than `within_s`.
    """
    path = Path(source)
    if source == "-":
        path = directory / "input"
        with path.open("wb") as file:
            while chunk := sys.stdin.buffer.read(1 << 20):
                file.write(chunk)
    elif not path.is_file():
        what = "is a directory" if path.is_dir() else "not a regular file" if path.exists() else "no such file"
        raise HeaptapeError(f"{source}: {what}")
    if is_workload(path):
        return path
    compiled = directory / f"{path.stem}.work"
    options = [*options, *(["--accesses", str(_accesses_path(compiled))] if _has_accesses(path) else [])]
    compile_trace(path, compiled, options, home, origins, name or ("standard input" if source == "-" else ""), within_s)
    return compiled


def compile_trace(
    path: Path,
    compiled: Path,
    options: Sequence[str],
    home: Home,
    origins: bool = False,
    name: str = "",
    within_s: float = math.inf,
) -> None:
    """Runs the compiler; `origins`, `name`: as for `prepare`. Raises HeaptapeError (UsageError for wrong options) with
    the compiler's error, empty if the compiler has printed it, for a trace without calls, and as `prepare`.
    """
    # --json: the witness goes to standard output, and not as a line to stderr. At a terminal the compiler shows its
    # own progress, and prints its own error.
    terminal = sys.stderr.isatty()
    command = [str(home.program("convert")), "compile", *console.words(), str(path), "-o", str(compiled), "--json"]
    command += options
    command += ["--origins", str(_origins_path(compiled))] if origins else []
    try:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if terminal else subprocess.PIPE,
            errors="replace",
            timeout=None if within_s == math.inf else max(within_s, 0.0),
        )
    except subprocess.TimeoutExpired:
        raise HeaptapeError(f"{name or path.name}: the budget has no time to compile it; a larger one has") from None
    if result.returncode != 0:
        kind = UsageError if result.returncode == 2 else HeaptapeError
        raise kind("" if terminal else last_message(result.stderr, "convert") or f"{path}: can't be compiled")
    sys.stderr.write(result.stderr or "")
    witness = json.loads(result.stdout)["witness"]
    if not witness["ok"]:
        console.warning(phrases.illegal_history(name or str(path), kept=not name))
    if not witness["ops"]:
        raise HeaptapeError(f"{name or path}: holds no calls of malloc, so there is nothing to replay")
    try:
        read_workload(compiled)
    except FormatError as error:  # in what it has from the trace's info
        raise FormatError(name or str(path), None, error.what) from error


def accesses_of(workload: Path) -> Path | None:
    """The file of the workload's data accesses, for OF_ACCESSES: W.accesses beside W.work. None: it has none."""
    path = _accesses_path(workload)
    return path if path.is_file() else None


def has_accesses(workload: Path) -> bool:
    """Can OF_ACCESSES be made? Not if the program was recorded in bursts and none began."""
    about = read_workload(workload).info.get("accesses")
    return accesses_of(workload) is not None and not (isinstance(about, dict) and about.get("bursts") == 0)


def require_accesses(workload: Path, name: str, passes: Sequence[str]) -> None:
    """Raises HeaptapeError if the recording lacks data accesses that one of the passes needs."""
    for pass_ in (name for name in OF_ACCESSES if name in passes):
        if not accesses_of(workload):
            raise HeaptapeError(f"{name}: no data accesses; the {pass_} pass needs all of them: record with --accesses")
        if not has_accesses(workload):
            raise HeaptapeError(
                f"{name}: no data accesses, which the {pass_} pass needs: recorded in bursts, and none began"
            )


def _accesses_path(workload: Path) -> Path:
    return workload.with_suffix(".accesses")


def origins_of(workload: Path) -> Path | None:
    """The file that names who acquired each object, for OF_ORIGINS: W.origins beside W.work. None: there is
    none.
    """
    path = _origins_path(workload)
    return path if path.is_file() else None


def _origins_path(workload: Path) -> Path:
    return workload.with_suffix(".origins")


def _has_accesses(path: Path) -> bool:
    """False also for a file that is not one of our traces: the compiler reports what is wrong with it."""
    from heaptape.tape.trace import open_trace

    try:
        with contextlib.closing(open_trace(path)) as trace:
            return trace.access_rows > 0
    except (HeaptapeError, OSError):
        return False


def describe_workload(path: Path, name: str) -> dict:
    """The results' "workload": name, hash, header figures, and facts on the recording from its info. Sizes in bytes."""
    workload = read_workload(path)
    about = {
        "name": console.printable(name or workload.info.get("name") or path.stem),
        "sha256": sha256_of(path),
        "ops": workload.ops,
        "threads": workload.threads,
        "ideal_rss_bytes": workload.peak_live_bytes,
        "peak_live_os_page_bytes": workload.peak_live_os_page_bytes,
        "peak_live_objects": workload.peak_live_objects,
        "live_objects_end": workload.live_at_end,
    }
    idle = idle_of(path)
    about |= {"idle_percent": round(100 * idle, 1)} if not math.isnan(idle) else {}
    return about | {key: workload.info[key] for key in Recorded.__struct_fields__ if key in workload.info}


@lru_cache(maxsize=8)
def _parts_matter(workload: Path) -> bool:
    """Does the peak depend on which parts of large objects were touched, and does the workload not say it? It does
    where the kernel gives huge pages, and where what was touched is estimated.
    """
    compiled = read_workload(workload)
    info = compiled.info
    if info.get("touched_estimated_bytes", 0) > MATTERS * compiled.peak_live_bytes:
        return True
    large = any(row[0] >= TOUCHED_PARTS_MIN_BYTES for row in info.get("request_sizes") or ())
    return large and not info.get("touched_parts") and machine.transparent_huge_pages() != "never"


@lru_cache(maxsize=8)
def _small_touches_matter(workload: Path) -> bool:
    """Were objects of one to two OS pages, of which a recording does not have what was touched, a part of the memory
    that may show?
    """
    info = read_workload(workload)
    between = sum(row[2] for row in info.info.get("request_sizes") or () if 4096 <= row[0] < TOUCHED_MIN_BYTES)
    return bool(info.info.get("touched_parts")) and between >= MATTERS * info.peak_live_bytes


def _mean_over_wall_time(measured: dict, workload: Path) -> dict:
    """The mean of a memory run of a workload with times: one over calls is that of its busiest parts. Others,
    where they differ, as the program's clock is not known for sure.
    """
    mean, parts = measured.get("rss_anon_wall_mean_bytes"), measured.pop("wall_parts", None)
    if mean is None or parts is None:
        return {}
    compiled = read_workload(workload)
    clock, others = compiled.program_clock, {}
    if clock is not None and len(clock) > 1 and clock.shape[1] > 2:
        others = mean_by_other_clocks(parts, clock, "throttled_ns" in compiled.info)
    differ = {name: round(other) for name, other in others.items() if abs(other - mean) > MEANS_DIFFER * mean}
    return {"rss_anon_mean_bytes": mean, "mean_over": WALL_TIME} | ({"other_means": differ} if differ else {})


def replay(
    workload_path: Path,
    workload: dict,
    choices: list[Choice],
    settings: Settings,
    home: Home,
    on_progress: Callable[[Run | None, float], None] = lambda run, share: None,
    on_failure: Callable[[Run, str], None] = lambda run, error: None,
) -> dict:
    """Makes every run of the plan and returns the results (schema 1).

    `on_progress(run, share)`: this share of the whole (0 to 1) is done; run is None at the end. A run that fails is
    kept with its "error" and passed to `on_failure`; the next runs are made. A Ctrl-C ends it: the results are of the
    runs made until then, and `settings.interrupted` is true. Raises HeaptapeError if the engine can't run this workload
    at all; KeyboardInterrupt where no run was made.
    """
    require_accesses(workload_path, workload["name"], settings.passes)
    about_machine = machine.describe()
    started, options = time.time(), settings.unusual
    settings = replace(settings, also_loaded=tuple(engine_process.also_loaded(read_workload(workload_path).info)))
    settings, sizes = with_sizes(settings)
    program = home.program("replay")
    engine = Engine(program, workload_path, settings, workload["ops"], baseline(program, workload_path))
    settings, left_out = _without_impossible(engine)
    engine = replace(engine, settings=settings)
    warmed = warm_up(engine, choices)
    rounds = Rounds(choices, settings)
    progress = _Progress(on_progress, rounds.least())
    finished: list[dict] = []
    measured: list[structs.Run] = []  # the same
    interrupted = False
    while not interrupted and (runs := rounds.next(measured)):
        made: dict[int, dict] = {}
        try:
            make_runs(engine, runs, progress.of_each(runs), on_failure, made)
        except KeyboardInterrupt:
            interrupted = True
            made = {number: run for number, run in made.items() if "error" not in run}
            if not finished and not made:
                raise
        new = [made[number] for number in sorted(made)]
        finished += new
        measured += msgspec.convert(new, list[structs.Run])
    attach_syscalls(finished, measured)
    on_progress(None, 1.0)
    own = next((one.label for one in choices if one.as_recorded), None)
    hz = next((run.cycles_hz for run in measured if run.cycles_hz is not None), None)
    return {
        "schema": SCHEMA,
        "heaptape": {"version": __version__, "commit": commit()},
        "created_unix_s": round(started),
        "elapsed_s": round(time.time() - started, 3),
        "machine": about_machine | {"cycles_hz": hz},
        "workload": workload | ({"recorded_on": own} if own else {}),
        "settings": _settings_of(engine, finished)
        | {"options": options}
        | {"warm_up": warmed}
        | ({"left_out": left_out} if left_out else {})
        | ({"interrupted": True} if interrupted else {})
        | ({"simulated_sizes": sizes} if sizes else {})
        | ({"also_loaded": [Path(path).name for path in settings.also_loaded]} if settings.also_loaded else {})
        | ({"until_ci": _stop_rule(measured, choices, settings)} if settings.until_ci_percent else {}),
        "penalties": machine.for_passes(settings.passes, home),
        "noise": disturbance.summarise(finished),
        "allocators": [about_choice(choice) for choice in choices],
        "agreement": agreement(measured),
        "runs": finished,
    }


class _Progress:
    """The share done of all runs: of their number; once each pass has a finished run, of their time, as far as what a
    pass took until then tells. `least`: runs of each pass, at least. Any thread may report to it.
    """

    def __init__(self, on_progress: Callable[[Run | None, float], None], least: Mapping[str, int]) -> None:
        self._on_progress, self._planned, self._share = on_progress, Counter(least), 0.0
        self._runs: list[tuple[str, float, float]] = []  # pass, seconds, share done

    def of_each(self, runs: Sequence[Run]) -> Callable[[int], Callable[[float], None]]:
        """Another round: what returns the function to report the share done of its run of a number."""
        first = len(self._runs)
        self._runs += [(run.pass_, 0.0, 0.0) for run in runs]
        self._planned |= Counter(pass_ for pass_, _, _ in self._runs)

        def of(number: int) -> Callable[[float], None]:
            run, begin = runs[number], time.monotonic()

            def tell(share: float) -> None:
                self._runs[first + number] = run.pass_, time.monotonic() - begin, share
                self._on_progress(run, self._done())

            tell(0.0)
            return tell

        return of

    def _done(self) -> float:
        spent, done = defaultdict[str, float](float), defaultdict[str, float](float)
        for pass_, seconds, share in self._runs:
            spent[pass_] += seconds
            done[pass_] += share
        if any(done[pass_] < 1 for pass_ in self._planned):
            return Counted(sum(done.values()) / self._planned.total())
        whole = sum(spent[pass_] * count / done[pass_] for pass_, count in self._planned.items())
        self._share = max(self._share, sum(spent.values()) / whole)
        return self._share


def make_runs(
    engine: Engine,
    runs: Sequence[Run],
    progress: Callable[[int], Callable[[float], None]] = lambda number: lambda share: None,
    on_failure: Callable[[Run, str], None] = lambda run, error: None,
    made: dict[int, dict] | None = None,
) -> list[dict]:
    """Makes a round's runs: those that only count, several at a time; then those that read the clock, one by one.
    The results are in the order of `runs`, each as in results. `progress(number)`: returns the function that receives
    that run's share done. `made`: where finished runs are put by their number, for a caller that is interrupted.
    """
    made = {} if made is None else made
    own_cycles: float | None = None  # per op, of the engine alone: the same for all runs of the pass time

    def count(number: int) -> dict:
        return measure(engine, runs[number], progress(number), own_cycles if runs[number].pass_ == "time" else None)

    counting = [number for number, run in enumerate(runs) if _only_counts(run, engine.settings)]
    for number, measured in side_by_side(count, counting, jobs_for(engine), engine.processes):
        made[number] = _kept(runs[number], measured, None, on_failure)
    for number, run in enumerate(runs):
        if number not in made:
            before = machine.read_noise()
            measured = count(number)
            if run.pass_ == "time":
                own_cycles = measured.get("engine_cycles_per_op", own_cycles)
            made[number] = _kept(run, measured, machine.noise_between(before, machine.read_noise()), on_failure)
    return [made[number] for number in range(len(runs))]


def _only_counts(run: Run, settings: Settings) -> bool:
    """Is the run independent of other work on the machine?"""
    by_clock = settings.real_clock or settings.order.startswith("paced")
    return BY_NAME[run.pass_].exact and not by_clock


def _kept(run: Run, measured: dict, around: dict | None, on_failure: Callable[[Run, str], None]) -> dict:
    if "error" in measured:
        on_failure(run, measured["error"])
    about = {"allocator": run.choice.allocator, "variant": run.choice.variant, "repeat": run.repeat}
    return about | measured | ({"noise": around} if around else {})


def jobs_for(engine: Engine) -> int:
    """How many runs that only count are made at a time: one for each processor that this process may use, if there is
    memory for twice their objects.
    """
    if engine.settings.jobs:
        return engine.settings.jobs
    return runs_at_a_time(need_bytes(engine))


def runs_at_a_time(most_bytes: int) -> int:
    """How many runs at a time: one for each processor, if there is memory for `most_bytes` of each."""
    return max(1, min(processors(), machine.available_bytes() // most_bytes))


def need_bytes(engine: Engine) -> int:
    """Memory to reserve for a run, whatever the allocator."""
    return 2 * (read_workload(engine.workload).peak_live_os_page_bytes + engine.baseline.rss_anon_bytes) + ROOM_BYTES


def with_sizes(settings: Settings) -> tuple[Settings, str | None]:
    """The settings with the caches and TLBs that OF_ACCESSES simulate, and their origin: "given", "machine"
    (this machine's own, if it was measured: `heaptape machine`), or "default" (the tool's). None without such a pass.
    """
    if not set(OF_ACCESSES) & set(settings.passes):
        return settings, None
    if settings.caches or settings.tlbs:
        return settings, "given"
    geometry = machine.measured_geometry()
    if geometry is None:
        return settings, "default"
    caches, tlbs = geometry.texts
    return replace(settings, caches=caches, tlbs=tlbs), "machine"


def _settings_of(engine: Engine, finished: list[dict]) -> dict:
    settings = engine.settings
    return {
        "repeats": {p: 1 + max(run["repeat"] for run in finished if run["pass"] == p) for p in settings.passes},
        "order": {p: order_of(p, settings, engine.ops) for p in settings.passes},
        "touch": settings.touch,
        "passes": list(settings.passes),
        "seed": settings.seed,
        "engine_rss_anon_baseline_bytes": engine.baseline.rss_anon_bytes,
        "aslr": settings.aslr,
    }


def order_of(pass_: str, settings: Settings, ops: int) -> str:
    """The order of the pass's runs, as the engine takes it. Instructions are not paced, as pauses between calls don't
    change them.
    """
    facts = BY_NAME[pass_]
    if facts.recorded_only:
        return facts.order
    if pass_ != "instructions":
        return settings.order or facts.order
    if settings.order and not settings.order.startswith("paced"):
        return settings.order
    return facts.order if ops <= settings.instruction_ops else "window"


def _without_impossible(engine: Engine) -> tuple[Settings, dict[str, str]]:
    """The settings without the optional passes that can't be made here, and why: pass -> reason."""
    settings = engine.settings
    if "instructions" not in settings.passes or "instructions" not in settings.optional:
        return settings, {}
    # Nothing preloaded: an allocator that Valgrind can't run fails later, in its own run.
    bare = replace(engine, settings=replace(settings, also_loaded=()))
    run = Run(Choice("", "default", Path(), "", {}), "instructions", -1)
    spec = {"order": "window", "op-limit": 1}
    why = _measure_with(bare, run, spec, lambda share: None).get("error")
    if why is None:
        return settings, {}
    kept = tuple(pass_ for pass_ in settings.passes if pass_ != "instructions")
    about = (f"{engine.workload.name}: ", "instructions can't be counted here: ")
    return replace(settings, passes=kept), {"instructions": str(why).removeprefix(about[0]).removeprefix(about[1])}


def warm_up(engine: Engine, choices: Sequence[Choice]) -> str | None:
    """Makes one short bare run of each allocator, without keeping it. Returns a note on that, None if there was none. A
    failure is reported by the run that counts.
    """
    if not {"time", "bare"} & set(engine.settings.passes):
        return None
    for choice in choices:
        spec = {"op-limit": WARM_UP_OPS, "engine-cycles-per-op": 0, "order": "window"}
        _measure_with(engine, Run(choice, "bare", -1), spec, lambda share: None)
    return f"one bare run of each allocator, of the first {WARM_UP_OPS:,} ops, thrown away"


def _stop_rule(finished: list[structs.Run], choices: list[Choice], settings: Settings) -> dict:
    widest = widest_interval(finished, baseline_of(choices, settings))
    return {
        "percent": settings.until_ci_percent,
        "baseline": baseline_of(choices, settings),
        "reached": widest <= settings.until_ci_percent,
        "widest_percent": round(widest, 3) if widest < 1e6 else None,
        "repeats_limit": settings.repeats_limit,
    }


def about_choice(choice: Choice) -> dict:
    """A row of the results' "allocators"."""
    return {
        "name": choice.allocator,
        "variant": choice.variant,
        "path": str(choice.path),
        "version": choice.version,
        "sha256": sha256_of(choice.path),
        "build_id": build_id(choice.path) or None,
        "environment": choice.environment,
    }


def baseline(program: Path, workload: Path) -> Baseline:
    """Proves the workload legal, and measures the engine's memory with no allocator preloaded. Raises HeaptapeError."""
    command = [str(program), "--baseline", str(workload)]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, errors="replace")
    if result.returncode != 0:
        raise HeaptapeError(failure(result.returncode, result.stderr).replace(str(workload), workload.name))
    try:
        made = json.loads(result.stdout)
        return Baseline(int(made["rss_anon_bytes"]), str(made["checked"]))
    except (ValueError, KeyError, TypeError) as error:
        raise HeaptapeError(f"the replay engine gave no baseline: {result.stdout.strip()[:80]!r}") from error


def measure(
    engine: Engine, run: Run, tell: Callable[[float], None] = lambda share: None, own_cycles: float | None = None
) -> dict:
    """One run of the engine: its JSON object, or {"pass", "order", "touch", "error"}. `tell` receives the share that
    is done. `own_cycles`: per op, of the engine alone; None: the run measures them.
    """
    order = order_of(run.pass_, engine.settings, engine.ops)
    facts, settings = BY_NAME[run.pass_], engine.settings
    spec: dict[str, object] = {"order": order}
    if not run.choice.c_library:  # else the engine measures it on that C library
        spec["baseline-rss-anon-bytes"] = engine.baseline.rss_anon_bytes
    if own_cycles is not None:
        spec["engine-cycles-per-op"] = own_cycles
    if facts.accesses:
        files = {"accesses": str(_accesses_path(engine.workload)), "caches": settings.caches, "tlbs": settings.tlbs}
        spec |= {name: value for name, value in files.items() if value}
    if run.pass_ == "memory" and not settings.memory_map:
        spec["no-map"] = True
    if facts.origins:
        origins = origins_of(engine.workload)
        spec |= {"at": list(settings.at)} | ({"origins": str(origins)} if origins else {})
    if (
        run.pass_ == "instructions"
        and engine.ops > settings.instruction_ops
        and not order.startswith(("recorded", "random"))
    ):
        spec["op-limit"] = settings.instruction_ops
    began = time.monotonic()
    measured = _measure_with(engine, run, spec, tell)
    left_s = settings.timeout_s and max(settings.timeout_s - (time.monotonic() - began), 1e-3)
    if run.pass_ == "memory" and settings.touch == "recorded" and run.repeat == 0:
        for touch, key, matter in (
            ("spread", "spread_peak_bytes", _parts_matter),
            ("least", "least_peak_bytes", _small_touches_matter),
        ):
            if not matter(engine.workload):
                continue
            other = replace(engine, settings=replace(settings, touch=touch, timeout_s=left_s))
            peak = _measure_with(other, run, spec | {"no-map": True}, lambda share: None).get("rss_anon_peak_bytes")
            usual = measured.get("rss_anon_peak_bytes")
            if peak and usual and (peak > usual if touch == "spread" else peak < usual):
                measured[key] = peak
    return {"order": order} | measured


def _measure_with(engine: Engine, run: Run, spec: Mapping[str, object], tell: Callable[[float], None]) -> dict:
    settings, workload = engine.settings, engine.workload
    about = {"pass": run.pass_, "touch": settings.touch}
    with scratch_folder() as scratch, tempfile.TemporaryFile("w+") as stderr:
        output = scratch / "run.json"
        whole = dict(spec) | {"pass": run.pass_, "touch": settings.touch} | _spec_of(settings, run)
        whole |= {"output": str(output), "workload": str(workload), "checked": engine.baseline.checked}
        why, status = run_to_end(
            engine.processes, Command([str(engine.program)], whole), stderr, settings.timeout_s, tell
        )
        stderr.seek(0)
        text = stderr.read(1 << 17)
        if why:
            return about | {"error": why}
        if status != 0:
            error = failure(status, text).replace(str(workload), workload.name)
            return about | _kind_of_failure(status, output) | {"error": error}
        try:
            measured = json.loads(output.read_bytes())
        except (OSError, ValueError) as error:
            return about | {"error": f"the engine's result can't be read: {error}"}
    if not isinstance(measured, dict):
        return about | {"error": "the engine's result is not an object"}
    if other := _other_library(measured, run.choice):
        return about | {"error": other}
    # An allocator's output on stderr (for example about an unknown setting) belongs to the result.
    measured |= _mean_over_wall_time(measured, workload)
    return about | measured | ({"stderr": _cut(text.strip(), 2000)} if text.strip() else {})


def _kind_of_failure(status: int, output: Path) -> dict:
    """The kind of a failed run (docs/formats/RESULTS.md): what the engine says of it, if anything."""
    if status == -signal.SIGINT:
        return {"kind": structs.INTERRUPTED}
    try:
        told = msgspec.json.decode(output.read_bytes(), type=structs.Fault)
    except (OSError, msgspec.MsgspecError):
        return {}
    return msgspec.to_builtins(told)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} [{len(text) - most:,} characters more]"


def _other_library(measured: Mapping, choice: Choice) -> str:
    """What is wrong where another library's malloc was called than the choice's; empty: nothing."""
    called = measured.get("malloc", {}).get("path")
    wanted = Path(choice.preload) if choice.preload else choice.path
    if not called or not wanted.name or Path(called).name in RECORDERS or wanted.samefile(called):
        return ""
    return f"the malloc of {called} was called, not that of {wanted}"


def _spec_of(settings: Settings, run: Run) -> dict[str, object]:
    """The part of the engine's spec that is the same whatever is measured, as far as the pass takes it."""
    facts = BY_NAME[run.pass_]
    switches = {
        "aslr": settings.aslr,
        "as-malloc": settings.as_malloc and facts.as_malloc,
        "threads-to-cores": settings.threads_to_cores,
    }
    spec: dict[str, object] = {name: True for name, on in switches.items() if on}
    if settings.disturb_lines and facts.disturb:
        spec["disturb"] = settings.disturb_lines
    if settings.warm_rounds:
        spec["warm"] = settings.warm_rounds
    if settings.real_clock:
        spec["clock"] = "real"
    also = settings.also_loaded if facts.counts_startup or facts.samples_memory else ()
    if on := run.choice.c_library:
        spec |= {"loader": str(on.loader), "libraries": [str(folder) for folder in on.folders]}
    spec["preload"] = list(engine_process.preloads(run.choice, also))
    spec["env"] = [f"{name}={value}" for name, value in environment_of(run).items()]
    return spec


def environment_of(run: Run) -> dict[str, str]:
    """The allocator's settings; in some passes it counts its own operations as well, if it can."""
    counting = run.choice.counting if BY_NAME[run.pass_].own_counters else None
    return run.choice.environment if counting is None else counting


def commit() -> str | None:
    """The checkout's commit, with a + if files differ from it; None if this is not a checkout."""
    if not (PACKAGE.parent.parent / ".git").exists():
        return None
    try:
        command = ["git", "-C", str(PACKAGE), "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"]
        result = subprocess.run(command, capture_output=True, errors="replace")
    except OSError:
        return None
    return result.stdout.strip() or None
