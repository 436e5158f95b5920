# SPDX-License-Identifier: MIT
"""A worker of a fleet: the complete table of tasks that it may run, and the process that runs them."""

from functools import partial

from heaptape.fleet.cluster import tasks
from heaptape.fleet.cluster.dispatch import answered
from heaptape.fleet.plans.plan import Task
from heaptape.fleet.running.execute import Here
from heaptape.fleet.running.outcome import Outcome


def runs(here: Here) -> None:
    """From now on this process runs only the table's tasks, for `here`."""
    tasks.runs({Task.kind: partial(_cells, here), "ingest": partial(_ingest, here)})


def _cells(here: Here, text: str) -> str:
    return answered(text, here, Task, here.run)


def _ingest(here: Here, text: str) -> str:
    from heaptape.fleet.dataset import ingest  # loads Arrow, which cells do without

    def ingested(batch: ingest.Batch) -> Outcome:
        return ingest.of_worker(batch, here.store, here.home, here.name)

    return answered(text, here, ingest.Batch, ingested)
