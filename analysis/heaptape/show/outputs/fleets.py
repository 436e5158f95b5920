# SPDX-License-Identifier: MIT
"""JSON output of `heaptape fleet`."""

from heaptape.show.outputs.output import Count, Output, Part


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
