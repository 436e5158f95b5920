# SPDX-License-Identifier: MIT
"""The shape of a results file (R.json), as types. `schema.py` checks files against them, and
A JSON Schema is generated from them (docs/formats/SCHEMAS.md).

Every key except "runs" and a run's "allocator" may be missing or null, and unknown keys are allowed: a table published
elsewhere can be written as results. A known key must have its type.
"""

import bisect
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from heaptape.tape.info import (
    Count,
    Counts,
    Finite,
    Flag,
    Number,
    Pair,
    Quadruple,
    Recorded,
    Text,
    Whole,
)

if TYPE_CHECKING:
    import pandas as pd


SCHEMA = 1
WALL_TIME = "wall time"  # what a run's mean is over; else calls
SLEEPS_TO_TIMES, UNDER_QUOTA = "sleeps_to_times", "under_quota"  # `other_means` of a run
SYSTEM_CALLS = ("mmap", "munmap", "mremap", "madvise", "brk")
# Keys of a run that are large; "sizes" is of its calls.
LARGE = ("timeline", "fragmentation", "blame", "slowest", "sizes")
SIMULATED_OF_ALL = "misses/all/"  # metrics of both sides of a simulation


class Heaptape(msgspec.Struct):
    """What made the file."""

    version: Text = None
    commit: Text = None


class Machine(msgspec.Struct):
    """Where the runs were made."""

    cpu: Text = None
    arch: Text = None
    cores: Count = None
    kernel: Text = None
    memory_bytes: Count = None
    os: Text = None
    libc: Text = None
    os_page_bytes: Count = None
    transparent_huge_pages: Text = None
    governor: Text = None
    virtual: Flag = None
    load_before: list[float] | None = None
    cycles_hz: Number = None


class Workload(Recorded, kw_only=True):
    """What was replayed, and what is known of its recording. `cpu_ns`: user and system time of the recorded program, by
    then. `idle_percent`: of its wall time (run/samples.py). `recorded_on`: label of the runs on its allocator with its
    settings. `achievable_bytes`: tape/placement.py. `disproof`: a sentence where the recording disproves its replay
    (run/judging.py), of commands that judge it though they need no figures of the recorded allocator; `judged_on`:
    label of that replay, also where it is borne out.
    """

    name: Text = None
    sha256: Text = None
    ops: Count = None
    threads: Count = None
    ideal_rss_bytes: Count = None
    achievable_bytes: Count = None
    peak_live_os_page_bytes: Count = None
    peak_live_objects: Count = None
    live_objects_end: Count = None
    recorded_on: Text = None
    cpu_ns: Number = None
    idle_percent: Number = None
    disproof: Text = None
    judged_on: Text = None


class Column(msgspec.Struct):
    """An allocator with its settings: one column of a comparison."""

    name: Text = None
    variant: Text = None
    path: Text = None
    version: Text = None
    sha256: Text = None
    build_id: Text = None
    environment: dict[str, str] | None = None

    @property
    def label(self) -> str:
        plain = self.variant in (None, "", "default")
        return str(self.name) if plain else f"{self.name}:{self.variant}"


class MachineNoise(msgspec.Struct):
    """Noise of the whole machine during a run of 0.2 s or more."""

    steal_percent: Number = None
    other_load_percent: Number = None
    cpu_mhz: Number = None


class AllNoise(msgspec.Struct):
    """The noise of all runs that have any."""

    runs: Count = None
    disturbed_runs: Count = None
    steal_percent_max: Number = None
    other_load_percent_max: Number = None
    cpu_mhz_min: Number = None
    cpu_mhz_max: Number = None


class Cycles(msgspec.Struct):
    """Calls of one kind (time pass) in cycles, or (instructions pass) in instructions. `histogram`: rows of lower bound
    and count.
    """

    count: Number = None
    cycles_total: Number = None
    mean: Number = None
    p50: Number = None
    p99: Number = None
    p999: Number = None
    max: Number = None
    histogram: list[Pair] | None = None
    instructions_total: Number = None
    instructions_mean: Number = None
    string_instructions: Number = None
    string_bytes: Number = None


class OfSize(Cycles):
    """Calls of one size class, which request up to `up_to_bytes`, and more than the class before; null: the largest."""

    up_to_bytes: Count = None


class Call(Cycles):
    """Calls of one kind, also by size class."""

    sizes: list[OfSize] | None = None


class SlowCall(msgspec.Struct):
    """One of the slowest calls of a run."""

    call: Text = None
    cycles: Number = None
    size_bytes: Count = None
    thread: Count = None
    op: Count = None
    position: Count = None
    syscalls: Counts = None


class Held(msgspec.Struct):
    """Memory after the last op, with everything released: before and after the allocator's call that purges."""

    rss_anon_bytes: Number = None
    vm_size_bytes: Number = None
    purge_call: Text = None
    purged_rss_anon_bytes: Number = None
    purged_vm_size_bytes: Number = None
    syscalls: Counts = None


class MemoryMap(msgspec.Struct):
    """Live and resident bytes of each region of the address space, over progress (docs/formats/RESULTS.md)."""

    region_bytes: Count = None
    positions: list[Whole] | None = None
    encoding: Text = None
    columns: list[str] | None = None
    residency: Text = None
    cells: Text = None
    bytes_lost: Count = None
    resident_bytes_lost: Count = None


class Fragmentation(msgspec.Struct):
    """The parts of resident memory, over progress (docs/formats/RESULTS.md)."""

    os_page_bytes: Count = None
    positions: list[Whole] | None = None
    columns: list[str] | None = None
    encoding: Text = None
    values: Text = None
    usable_size: Flag = None
    walk_states: list[str] | None = None


class BlameFrame(msgspec.Struct):
    """A function of a call stack, as far as files on the recording's machine have it."""

    function: Text = None
    file: Text = None
    line: Count = None
    module: Text = None
    offset: Text = None


class BlameSite(msgspec.Struct):
    """A call stack that acquired objects; `stack`: the trace's node; `frames`: indices into the list of all
    frames, innermost first; `births`: objects that it acquired.
    """

    stack: Count = None
    function: Count = None
    name: Text = None
    births: Count = None
    frames: list[Whole] | None = None


class BlameMark(msgspec.Struct):
    """A mark of the program."""

    position: Count = None
    name: Text = None
    thread: Count = None


class BlameThread(msgspec.Struct):
    """A thread that has a name."""

    thread: Count = None
    name: Text = None


class Blame(msgspec.Struct):
    """Who holds resident memory, over progress (docs/use/BLAME.md). `positions`: what it consists of at each
    position at which it was attributed: why, and columns in bytes, also for each state of a heap walk.
    """

    os_page_bytes: Count = None
    origins: Flag = None
    lacks: list[str] | None = None
    positions: list[dict[str, Whole | list[str] | None]] | None = None
    groupings: list[str] | None = None
    columns: list[str] | None = None
    encoding: Text = None
    rows: Count = None
    values: Text = None
    rows_lost: Count = None
    frames: list[BlameFrame] | None = None
    sites: dict[str, BlameSite] | None = None
    functions: dict[str, str] | None = None
    marks: list[BlameMark] | None = None
    threads: list[BlameThread] | None = None


class Level(msgspec.Struct):
    """A count that changes over progress."""

    end: Number = None
    peak: Number = None
    peak_position: Number = None
    mean: Number = None


class LineSharing(msgspec.Struct):
    """Cache lines with objects of several threads (core/sharing/line_sharing.h)."""

    line_bytes: Count = None
    sampled: Count = None
    ops: Count = None
    objects: Count = None
    shared_objects: Count = None
    pairs: Count = None
    used_pairs: Count = None
    objects_left_out: Count = None
    shared_lines: Level | None = None
    object_pairs: Level | None = None
    live_lines: Level | None = None
    sizes: list[list[Number]] | None = None
    threads: list[list[Number]] | None = None
    threads_left_out: Count = None
    progress: list[list[Finite]] | None = None


class SimulatedLevel(msgspec.Struct):
    """A cache of `bytes` or a TLB of `entries`, and its misses. `sequential_misses`, of caches: the part of `misses`
    that continues a stream of lines in order of address. `first_misses`, of a recording in bursts: the part of `misses`
    whose line or OS page a burst accessed for the first time.
    """

    bytes: Count = None
    entries: Count = None
    ways: Count = None
    misses: Count = None
    sequential_misses: Count = None
    first_misses: Count = None


class SimulatedSide(msgspec.Struct):
    """Simulated figures of the program, or of its allocator. `syscalls_by_kind`: of the allocator only."""

    instructions: Count = None
    string_instructions: Count = None
    string_bytes: Count = None
    data_accesses: Count = None
    page_faults: Count = None
    unsure_page_faults: Count = None
    syscalls: Count = None
    syscalls_by_kind: Counts = None
    caches: list[SimulatedLevel] | None = None
    tlbs: list[SimulatedLevel] | None = None

    def side(self) -> Iterator[tuple[str, str, float]]:
        return _simulated(self, self.instructions, self.unsure_page_faults)


class Bursts(msgspec.Struct):
    """The bursts of a recording, which the other figures are limited to: how many, lines and OS pages that a burst
    accessed for the first time (the caches may have held them or not), page faults of OS pages that
    may have been touched before, and instructions outside of all bursts: the program's, null if the recording
    doesn't have them, and the allocator's.
    """

    count: Count = None
    first_lines: Count = None
    first_pages: Count = None
    unsure_page_faults: Count = None
    outside_program_instructions: Count = None
    outside_allocator_instructions: Count = None


class Misses(msgspec.Struct):
    """The pass `misses`: the program's recorded data accesses and the allocator's own, simulated; in all and by side.
    `program_instructions` and other counts of the program made while it was recorded are null if the recording
    doesn't have them.
    """

    program_instructions: Count = None
    allocator_instructions: Count = None
    string_instructions: Count = None
    string_bytes: Count = None
    data_accesses: Count = None
    page_faults: Count = None
    syscalls: Count = None
    caches: list[SimulatedLevel] | None = None
    tlbs: list[SimulatedLevel] | None = None
    allocator: SimulatedSide | None = None
    program: SimulatedSide | None = None
    bursts: Bursts | None = None
    startup_instructions: Count = None
    startup_accesses: Count = None
    simulated_accesses: Count = None
    lost_accesses: Count = None
    filter_bytes: Count = None

    def figures(self) -> Iterator[tuple[str, str, float | None]]:
        """Metrics are "misses/SIDE/COUNT": SIDE is all, program or allocator; COUNT is cache_BYTES, tlb_ENTRIES,
        page_faults or instructions. For a recording in bursts, a burst's first accesses are left out: it is not known
        whether they missed, or were page faults.
        """
        program, allocator = self.program_instructions, self.allocator_instructions
        both = program + allocator if program is not None and allocator is not None else None
        sides = {"all": _simulated(self, both, self.bursts.unsure_page_faults if self.bursts else None)}
        sides |= {name: one.side() for name in ("program", "allocator") if (one := getattr(self, name))}
        for side, counts in sides.items():
            for name, unit, value in counts:
                yield f"misses/{side}/{name}", unit, value


def _simulated(
    counts: Misses | SimulatedSide, instructions: int | None, unsure: int | None
) -> Iterator[tuple[str, str, float]]:
    found = [(f"cache_{level.bytes}", "misses", level.misses, level.first_misses) for level in counts.caches or []]
    found += [(f"tlb_{level.entries}", "misses", level.misses, level.first_misses) for level in counts.tlbs or []]
    found += [("page_faults", "faults", counts.page_faults, unsure)]
    found += [("instructions", "instructions", instructions, None)]
    for name, unit, count, left_out in found:
        if count is not None:
            yield name, unit, float(count - (left_out or 0))


class Waits(msgspec.Struct):
    """Waits of threads inside calls."""

    count: Count = None
    at_once: Count = None
    time_ns: Number = None
    max_ns: Number = None


class SizeWaits(Waits):
    """Waits in calls of one size class; `up_to_bytes` is null for the last class."""

    up_to_bytes: Count = None


class CallWaits(Waits):
    """Waits in one kind of call, and the context switches in it."""

    voluntary_switches: Count = None
    involuntary_switches: Count = None
    sizes: list[SizeWaits] | None = None


class LockWaits(Waits):
    """Waits for one lock, or from one place. `address` is null for the locks that found no row."""

    wait: Text = None
    address: Text = None
    object: Text = None
    offset: Count = None
    symbol: Text = None
    symbol_offset: Count = None
    calls: dict[str, Count] | None = None


class Contention(Waits):
    """The pass `contention`: waits of threads inside calls. `outside`: waits seen elsewhere; `trap_ns`: cost of seeing
    one wait.
    """

    thread_ns: Number = None
    voluntary_switches: Count = None
    involuntary_switches: Count = None
    switches_missing_because: Text = None
    outside: Count = None
    trap_ns: Number = None
    calls: dict[str, CallWaits] | None = None
    locks: list[LockWaits] | None = None

    def figures(self) -> Iterator[tuple[str, str, float | None]]:
        yield "contention/waits", "waits", self.count
        yield "contention/wait_ns", "ns", self.time_ns


class Library(msgspec.Struct):
    """The library whose malloc was called."""

    path: Text = None
    build_id: Text = None


OF_ALLOCATOR, INTERRUPTED = "allocator_at_fault", "interrupted"  # kinds of failures


class Fault(msgspec.Struct):
    """What the engine writes if the allocator is at fault, and in words what it did."""

    kind: Literal["allocator_at_fault"]
    fault: str


class Run(msgspec.Struct, rename={"pass_": "pass"}):
    """One run of one pass; with `error` if it failed, of a `kind` if the allocator is at fault (and what it did) or
    somebody interrupted it. `timeline`: rows of ops done, RssAnon, VmSize, live bytes.
    `syscall_rows`: rows of ops done, kind, bytes. Cycles are of the calibrated counter.
    """

    allocator: str
    variant: Text = None
    repeat: Count = None
    pass_: Text = None
    order: Text = None
    touch: Text = None
    ops: Count = None
    threads: Count = None
    aslr: Flag = None
    error: Text = None
    kind: Text = None
    fault: Text = None
    stderr: Text = None
    clock: Text = None
    noise: MachineNoise | None = None
    wall_ns: Number = None
    cpu_ns: Number = None
    cycles_hz: Number = None
    failed_calls: Count = None
    skipped_ops: Count = None
    waits: dict[str, Any] | None = None
    folded_calls: dict[str, Any] | None = None
    calls: dict[str, Call] | None = None
    cycles_total: Number = None
    engine_cycles_per_op: Number = None
    engine_wall_ns_per_op: Number = None
    counter_overhead_cycles: Number = None
    counter_overhead: dict[str, Any] | None = None
    below_overhead: Count = None
    touch_cycles: Number = None
    malloc: Library | None = None
    preempted: Counts = None
    preempted_missing_because: Text = None
    slowest: list[SlowCall] | None = None
    stream_cycles_predicted: Number = None
    counters: Counts = None
    counters_share: Number = None
    counters_missing_because: Text = None
    engine_counters_per_op: Counts = None
    timeline: list[Quadruple] | None = None
    rss_anon_peak_bytes: Number = None
    rss_anon_peak_position: Number = None
    rss_anon_mean_bytes: Number = None
    rss_anon_wall_mean_bytes: Number = None
    mean_over: Text = None
    other_means: dict[str, float] | None = None
    rss_anon_start_bytes: Number = None
    rss_anon_end_bytes: Number = None
    rss_anon_baseline_bytes: Number = None
    vm_size_peak_bytes: Number = None
    vm_size_end_bytes: Number = None
    vm_size_baseline_bytes: Number = None
    vm_hwm_bytes: Number = None
    live_bytes_peak: Number = None
    live_bytes_end: Number = None
    peaks: Text = None
    page_faults: Number = None
    page_faults_major: Number = None
    huge_pages: Number = None
    spread_peak_bytes: Number = None
    least_peak_bytes: Number = None
    startup_page_faults: Number = None
    startup_huge_pages: Number = None
    syscalls: Counts = None
    syscall_bytes: Counts = None
    syscall_rows: list[tuple[Whole, str, Whole]] | None = None
    syscall_rows_lost: Count = None
    syscalls_missing_because: Text = None
    held: Held | None = None
    memory_map: MemoryMap | None = None
    fragmentation: Fragmentation | None = None
    blame: Blame | None = None
    left_out: list[str] | None = None
    instructions_total: Number = None
    string_instructions: Number = None
    string_bytes: Number = None
    startup_instructions: Number = None
    startup_process_instructions: Number = None
    startup_process_string_instructions: Number = None
    startup_process_string_bytes: Number = None
    startup_syscalls: Counts = None
    op_limit: Count = None
    line_sharing: LineSharing | None = None
    misses: Misses | None = None
    contention: Contention | None = None
    reference_stats: Counts = None
    verified: Counts = None

    @property
    def label(self) -> str:
        """The name of its allocator, with its variant."""
        return label(self.allocator, self.variant)

    def figures(self) -> Iterator[tuple[str, str, float | None]]:
        """Metric, unit and value of each figure that the run's pass defines."""
        for part in (self.misses, self.contention):
            if part is not None:
                yield from part.figures()


class WhatifGroup(msgspec.Struct):
    """A group of objects, and how much of it an experiment treated otherwise (core/workload/WORKLOAD.md)."""

    group: Text = None
    objects: Count = None
    bytes: Count = None
    peak_live_bytes: Count = None
    chunks: Count = None
    left_alone: Count = None


class Whatif(msgspec.Struct):
    """An experiment of `heaptape whatif`. `labels`: of an allocator -> of its runs in the experiment; `positions`: rows
    of a position in the trace and the same in the experiment's workload.
    """

    name: str = ""
    groups: list[WhatifGroup] = []
    workload: Workload | None = None
    labels: dict[str, str] = {}
    positions: list[tuple[Whole, Whole]] = []


class MadeWith(msgspec.Struct):
    """Of a results file's settings, what tells whether another replay would be made alike. `options`: those that change
    figures and were not as usual; None: not known.
    """

    passes: list[str] = []
    left_out: dict[str, Any] = {}
    options: dict[str, Any] | None = None
    interrupted: bool = False


class ResultsFile(msgspec.Struct):
    """The costs of one workload under allocators: an R.json of heaptape."""

    runs: list[Run]
    schema: Annotated[int, msgspec.Meta(extra_json_schema={"const": SCHEMA})] = SCHEMA
    heaptape: Heaptape | None = None
    created_unix_s: Number = None
    elapsed_s: Number = None
    machine: Machine | None = None
    penalties: dict[str, Any] | None = None
    workload: Workload | None = None
    settings: dict[str, Any] | None = None
    noise: AllNoise | None = None
    allocators: list[Column] | None = None
    agreement: list[dict[str, Any]] | None = None
    whatif: list[Whatif] | None = None

    def __post_init__(self) -> None:
        if self.schema != SCHEMA:
            raise ValueError(f"results of schema {self.schema}; this heaptape knows {SCHEMA}")


def workload_of(about: Mapping) -> Workload:
    """What describe_workload, or a workload's INFO, says of it."""
    return msgspec.convert(about, Workload)


def json_schema() -> dict:
    """JSON Schema of a results file, of draft 2020-12."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | msgspec.json.schema(ResultsFile)


def label(allocator: object, variant: object) -> str:
    """The name of an allocator with its variant in tables: `name` or `name:variant`."""
    return str(allocator) if variant in (None, "", "default") else f"{allocator}:{variant}"


def number(value: object) -> float | None:
    """The value if it is a finite number, else None."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return None


def timeline_of(run: Run) -> list[Quadruple]:
    """A run's timeline, with its exact peak where no sample met that: a row that repeats what else the one before it
    has.
    """
    rows, at, peak = list(run.timeline or ()), run.rss_anon_peak_position, run.rss_anon_peak_bytes or 0.0
    if rows and at is not None and at >= 0 and peak > max(row[1] for row in rows):
        place = bisect.bisect_right([row[0] for row in rows], at)
        rows.insert(place, [at, peak, *rows[max(place - 1, 0)][2:]])
    return rows


def timeline_frame(rows: Sequence[Sequence[float]] | None) -> "pd.DataFrame":
    """A run's timeline as columns position (ops), rss_anon_bytes, vm_size_bytes, live_bytes; empty if it is missing.

    >>> timeline_frame([[0, 4096, 8192, 100], [50, 12288, 16384, 9000]])["rss_anon_bytes"].max()
    np.float64(12288.0)
    """
    import pandas as pd

    columns = ["position", "rss_anon_bytes", "vm_size_bytes", "live_bytes"]
    return pd.DataFrame([row[:4] for row in rows or ()], columns=columns, dtype=float)
