# SPDX-License-Identifier: MIT
"""JSON of comparisons, decisions and fleets."""

from typing import Any, Literal

from heaptape.show.outputs.output import MISSING, Count, Missing, Output, Part

Figures = dict[str, float | None]


class Compared(Output, kw_only=True):
    """`heaptape compare --format json`. `rows`: the whole comparison, a row for each workload, allocator and metric;
    `tables`, with --table: rows of each table by its name. `level`: of the intervals; `stand_ins`: margins of
    distillates.
    """

    level: float
    baseline: str | Missing = MISSING
    interval: str | Missing = MISSING
    corners: list[str] | Missing = MISSING
    rows: list[dict[str, Any]] | Missing = MISSING
    tables: dict[str, list[dict[str, Any]]] | Missing = MISSING
    stand_ins: dict[str, Any] | Missing = MISSING


class Pick(Part):
    """The advice for an aim. `stay`: keep today's allocator; `ties`: equally good ones; `environment`: what to set."""

    aim: str
    use: str
    stay: bool
    why: str
    ties: list[str]
    environment: dict[str, str]


class Tried(Part):
    """A candidate, replayed. Bytes are the whole program's; `figures`: the allocator's alone. CPU time is against
    today's, in ns and, if the program's own time is known, in percent of it. `smallest_limit_bytes`: memory limit under
    which the program runs.
    """

    label: str
    allocator: str
    variant: str
    path: str
    error: str | Missing = MISSING
    peak_bytes: Count | Missing = MISSING
    mean_bytes: Count | Missing = MISSING
    smallest_limit_bytes: Count | Missing = MISSING
    figures: Figures | Missing = MISSING
    cpu_ns: float | Missing = MISSING
    cpu_low_ns: float | Missing = MISSING
    cpu_high_ns: float | Missing = MISSING
    cpu_percent: float | Missing = MISSING
    cpu_low_percent: float | Missing = MISSING
    cpu_high_percent: float | Missing = MISSING
    cpu_from: Literal["calls", "accesses", "live"] | Missing = MISSING
    cpu_steps: list[dict[str, Any]] | Missing = MISSING


class Advice(Output):
    """`heaptape advise --json`. `refused`: allocator -> the broken rule; `live`: what --live found."""

    workload: dict[str, Any]
    today: str
    pick: str
    environment: dict[str, str]
    picks: list[Pick]
    refused: dict[str, str]
    candidates: list[Tried]
    live: list[dict[str, Any]]


class Tuned(Output, kw_only=True):
    """`heaptape tune -o` (docs/use/TUNING.md)."""

    heaptape: dict[str, Any]
    created_unix_s: Count
    machine: dict[str, Any]
    search: dict[str, Any]
    variants_left_out: list[str]
    points: list[dict[str, Any]]
    winner: dict[str, Any] | None
    tunables: list[dict[str, Any]]
    error_percent: Figures
    stand_ins: dict[str, Any] | Missing = MISSING
    live: dict[str, Any] | None | Missing = MISSING


class Choice(Part):
    """An allocator that was compared."""

    name: str
    version: str
    sha256: str


class Held(Part):
    """A figure of each run on both allocators, and whether the new allocator is beyond the tolerance."""

    unit: str
    old: list[float]
    new: list[float]
    change_percent: float | None
    span_percent: float
    beyond: str | None
    verdict: Literal["within", "noise", "worse", "shown"]


class Judged(Part):
    """A workload of the corpus. `broken`: which promise of malloc, or ""."""

    name: str
    source: str
    workload: dict[str, Any]
    failed: bool
    errors: list[str]
    broken: dict[Literal["old", "new"], str]
    figures: dict[str, Held]


class Extent(Part):
    """A figure on both allocators, for a history with this many events and threads."""

    new: float
    old: float | None
    events: Count
    threads: Count


class MinimisedTape(Part, kw_only=True):
    """A minimised tape and its figures (docs/use/GATE.md)."""

    workload: str | Missing = MISSING
    source: str
    condition: str
    figure: str
    unit: str
    old: str
    new: str
    minimised: Extent
    whole: Extent
    start_up: Extent
    beyond_start_up: bool
    candidates: Count
    ended: str
    replay: str
    folder: str | Missing = MISSING


class Minimised(MinimisedTape, kw_only=True):
    """`minimised.json` of `heaptape gate` and `minimise` (docs/use/GATE.md)."""

    schema: Literal[1]


class Gate(Output):
    """`heaptape gate -o` (docs/use/GATE.md)."""

    heaptape: dict[str, Any]
    old: Choice
    new: Choice
    tolerated: dict[str, str]
    most_runs: Count
    passed: bool
    workloads: list[Judged]
    minimised: list[MinimisedTape]
    not_minimised: list[dict[str, Any]]


class Revision(Part):
    """A revision that was tried. `value`: of the figure; null if it could not be measured, for the reason `why`."""

    revision: str
    verdict: str
    value: float | None
    library: str
    why: str


class Bisected(Output):
    """`heaptape bisect -o`. `first_bad`: one revision, or all revisions that may be the first bad one."""

    first_bad: list[str]
    good: Revision
    bad: Revision
    before: Revision
    tried: list[Revision]
    revisions: Count
    subjects: dict[str, str]
    found: bool


class Holder(Part):
    """Who holds the memory of a recording on an allocator, at a position. Rows: docs/use/BLAME.md; bytes."""

    source: str
    allocator: str
    position: Count
    kind: str
    sentence: str
    lacks: list[str]
    groups: list[dict[str, Any]]
    states: list[dict[str, Any]]
    over_time: list[dict[str, Any]]
    proposals: list[dict[str, Any]]


class Blame(Output):
    """`heaptape blame --json`. `tried`: the experiments of --try."""

    holders: list[Holder]
    tried: list[dict[str, Any]] | Missing = MISSING


class Distilled(Output):
    """`heaptape distil --json`. `distilled`: the manifest (core/trace/FORMAT.md, section 5a)."""

    ops: Count
    whole_ops: Count
    wanted_ops: Count
    distilled: dict[str, Any]


class Ingested(Output):
    """`heaptape fleet ingest --json`. Numbers of traces: `ingested` now, `there` before; `failed`: trace -> why."""

    ingested: Count
    there: Count
    failed: dict[str, str]


class ChosenTrace(Part):
    """A chosen trace. `recordings`: how many it stands for; `weight`: factor of its figures."""

    trace: str
    name: str
    source: str
    program: str
    ops: Count
    recordings: Count
    weight: float


class ChoiceError(Part):
    """Weighted sum over the chosen (`estimate`) against the sum over all (`whole`). `change_percent`: the whole
    against the baseline; `change_error_percent`: how far its estimate is off, in percent of the baseline. Null if the
    baseline has no such figure.
    """

    figure: str
    label: str
    whole: float
    estimate: float
    error_percent: float | None
    change_percent: float | None
    change_error_percent: float | None


class Chosen(Output):
    """`heaptape fleet choose --json`. `explained`: share (0 to 1) of the fleet's variety that the chosen traces have.
    `errors`: empty if not all recordings have exact cells.
    """

    chosen: list[ChosenTrace]
    explained: float
    errors: list[ChoiceError]


class Failed(Part, rename={"pass_": "pass"}):
    """A cell that was tried and has no result. `final`: its allocator is at fault, so it is not tried again."""

    cell: str
    workload: str
    label: str
    pass_: str
    reason: str
    machine: str
    attempts: Count
    final: bool


class Running(Part):
    """A worker's last report. `unix_s`: its time. `cells`: those in progress, in words."""

    worker: str
    machine: str
    since_unix_s: float
    unix_s: float
    done: Count
    failed: Count
    busy_s: float
    cells: list[str]


class FleetStatus(Output):
    """`heaptape fleet status --json`. `left`: neither done nor finally failed. `silent`: workers without a recent
    report. `left_s`: remaining time of one worker, null if no cell of a pass is done yet; `ready_in_s`: with the
    workers that run now, null without any. `damaged`: files that were set aside.
    """

    store: str
    plans: Count
    cells: Count
    done: Count
    left: Count
    failed: list[Failed]
    running: list[Running]
    silent: list[Running]
    left_s: float | None
    ready_in_s: float | None
    damaged: Count
