# SPDX-License-Identifier: MIT
"""What `heaptape fleet` prints as JSON."""

from heaptape.outputs.output import Count, Output, Part


class Ingested(Output):
    """`heaptape fleet ingest --json`. Traces: `ingested` now, `there` before; `failed`: trace -> why."""

    ingested: Count
    there: Count
    failed: dict[str, str]


class ChosenTrace(Part):
    """`recordings`: that it stands for; `weight`: by which its figures count."""

    trace: str
    name: str
    source: str
    program: str
    ops: Count
    recordings: Count
    weight: float


class ChoiceError(Part):
    """Weighted sum over the chosen (`estimate`) against the sum over all (`whole`). `change_percent`: the whole's
    against the baseline's; `change_error_percent`: how far the estimate of that is off, in percent of the baseline.
    Null where the baseline has no such figure.
    """

    figure: str
    label: str
    whole: float
    estimate: float
    error_percent: float | None
    change_percent: float | None
    change_error_percent: float | None


class Chosen(Output):
    """`heaptape fleet choose --json`. `explained`: share (0 to 1) of the fleet's variety that the chosen have.
    `errors`: empty where not all recordings have exact cells.
    """

    chosen: list[ChosenTrace]
    explained: float
    errors: list[ChoiceError]


class Failed(Part, rename={"pass_": "pass"}):
    """A cell that is not there and was tried. `final`: its allocator is at fault, so it is not tried again."""

    cell: str
    workload: str
    label: str
    pass_: str
    reason: str
    machine: str
    attempts: Count
    final: bool


class Running(Part):
    """What a worker says of itself. `unix_s`: when it last did. `cells`: under way, in words."""

    worker: str
    machine: str
    since_unix_s: float
    unix_s: float
    done: Count
    failed: Count
    busy_s: float
    cells: list[str]


class FleetStatus(Output):
    """`heaptape fleet status --json`. `left`: neither done nor failed for good. `silent`: workers that said nothing for
    long. `left_s`: of one worker, null where no cell of a pass is done yet; `ready_in_s`: with those that run now, null
    without them. `damaged`: files that were set aside.
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
