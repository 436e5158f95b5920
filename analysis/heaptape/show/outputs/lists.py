# SPDX-License-Identifier: MIT
"""JSON of lists, of machines and live programs, and of tests."""

from typing import Any, Literal

import msgspec

from heaptape.show.outputs.output import MISSING, Count, Missing, Output, Part


class Allocator(Part):
    """An allocator of the registry. `path`, `version`: null if it is not found; `how_to_get`: how to install it."""

    name: str
    found: bool
    path: str | None
    version: str | None
    summary: str
    variants: list[str]
    how_to_get: str


Installed = dict[str, Any]  # the record of a build (allocators/README.md), with `path` and `verdict`


class Allocators(Output):
    """`heaptape allocators --json`."""

    allocators: list[Allocator]
    installed: list[Installed]


class Candidate(Part):
    """An allocator that can be installed."""

    name: str
    versions: list[str]
    source: str
    licence: str
    missing: str | None


class Candidates(Output):
    """`heaptape allocators list --json`."""

    installed: list[Installed]
    candidates: list[Candidate]


class Variant(Part):
    """Settings of an allocator under a name."""

    name: str
    environment: dict[str, str]
    summary: str
    advise: str
    needs: str


class InUse(Output):
    """`heaptape allocators --of PID --json`, and of `-- CMD`. `allocator`: null if the registry does not have it;
    `path`: the file that defines malloc; `how`: "library", "linked" (into the executable) or "static" (no LD_PRELOAD);
    `settings`: variables of its environment that the allocator reads.
    """

    program: str
    allocator: str | None
    version: str | None
    path: str | None
    how: Literal["library", "linked", "static"]
    settings: dict[str, str]


class Variants(Output):
    """`heaptape allocators --variants NAME --json`. `tunables`: names."""

    allocator: str
    variants: list[Variant]
    tunables: list[str]
    other_variants: list[str]


class Tunable(Part):
    """A setting: its values or the range of its numbers; `default` "": depends on machine or program."""

    name: str
    type: str
    meaning: str
    range: list[int | float] | None
    search: list[int | float] | None
    scale: str
    values: list[str]
    default: str
    tuned: bool


class Tunables(Output):
    """`heaptape allocators --tunables NAME --json`."""

    allocator: str
    tunables: list[Tunable]


class Workload(Part):
    """A synthetic pattern, a recipe of a program ("app"), or a suite. `missing`: why it can't run here."""

    name: str
    kind: str
    summary: str
    path: str
    can_run: bool | Missing = MISSING
    missing: str | None | Missing = MISSING
    stands_for: str | None | Missing = MISSING
    packages: list[str] | Missing = MISSING
    known: str | None | Missing = MISSING
    source: str | Missing = MISSING
    workloads: list[str] | Missing = MISSING
    allocators: list[str] | Missing = MISSING


class Workloads(Output):
    """`heaptape workloads --json`."""

    workloads: list[Workload]


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
    Further keys are those of a run's simulation (docs/formats/RESULTS.md); `children`: other processes.
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


Limit = Literal["peak_bytes", "growth_bytes", "allocations"]


class Test(Part):
    """A test that was run; skipped tests are left out. Bytes are requested ones. `growth`: what it left;
    `exceeded`: the `limits` that it is above; `worker`: of xdist, else null.
    """

    name: str
    peak_bytes: Count
    growth_bytes: Count
    growth_objects: Count
    allocations: Count
    allocated_bytes: Count
    outcome: Literal["passed", "failed"]
    limits: dict[Limit, Count]
    exceeded: list[Limit]
    worker: str | None


class Unmeasured(Part):
    """A test without figures, and why."""

    name: str
    reason: str


class Tests(Output):
    """`--heaptape-json`, in the order in which tests ended."""

    tests: list[Test]
    unmeasured: list[Unmeasured]
