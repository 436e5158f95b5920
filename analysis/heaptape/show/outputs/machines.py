# SPDX-License-Identifier: MIT
"""`heaptape machine` and `observe`: figures of a processor, and of a running program."""

from typing import Any, Literal

import msgspec

from heaptape.show.outputs.output import MISSING, Count, Missing, Output, Part


class Machine(Output, kw_only=True):
    """`heaptape machine --json`: costs here, ns, with quantiles over the rounds (docs/methods/TIME_MODEL.md)."""

    rounds: Count
    independent_chains: Count
    line_bytes: Count
    tlbs: list[dict[str, Any]]
    working_sets: list[dict[str, Any]]
    os_page_sets: list[dict[str, Any]]
    code: dict[str, Any]
    kernel: dict[str, Any]
    cpu: str
    kernel_release: str
    cores: Count
    load_before: list[float]
    created_unix_s: Count
    geometry: dict[str, Any]


class Observed(Part):
    """A program that ran. Rows of `timeline`: time, CPU time (ns), RssAnon, VmSize (bytes). `peaks`: how they are
    known; memory is missing with --no-memory.
    """

    name: str
    file: str
    pid: Count
    exited: bool
    time_ns: Count
    cpu_ns: Count
    page_faults: Count
    peaks: Literal["exact", "sampled"] | Missing = MISSING
    rss_anon_peak_bytes: Count | Missing = MISSING
    vm_size_peak_bytes: Count | Missing = MISSING
    vm_hwm_bytes: Count | Missing = MISSING
    syscalls: dict[str, Count] | Missing = MISSING
    timeline: list[list[int]] | Missing = MISSING


class Simulation(msgspec.Struct):
    """`heaptape observe --simulate --format json`: counts of the allocator's calls and of the program.
    Further keys are those of the pass misses (docs/formats/RESULTS.md); `children`: other processes.
    """

    schema: Literal[1]
    instructions: Count
    allocator: dict[str, Any]
    program: dict[str, Any]
    caches: list[dict[str, Any]]
    children: list[dict[str, Any]] | Missing = MISSING


class Observation(Output):
    """`heaptape observe --format json`. `status`: the command's exit status."""

    status: int
    notified: bool
    programs_lost: Count
    programs: list[Observed]
