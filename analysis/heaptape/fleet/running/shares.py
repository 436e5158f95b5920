# SPDX-License-Identifier: MIT
"""Runs tasks in this process, without a scheduler, as in a job array of a batch system."""

from collections.abc import Callable, Sequence

from heaptape.fleet.plans.plan import Task
from heaptape.fleet.running.execute import Here
from heaptape.fleet.running.outcome import Ended, Outcome
from heaptape.run.engine_process import side_by_side
from heaptape.run.replay import runs_at_a_time


def run(
    tasks: Sequence[Task],
    here: Here,
    jobs: int = 0,
    retries: int = 0,
    tell: Callable[[str], None] = lambda line: None,
    on_done: Callable[[Task, Ended], None] = lambda task, ended: None,
) -> Ended:
    """Runs exact cells side by side, as many as processors and memory allow (or `jobs`); then blocks, one by one. A
    task that fails is tried again at the end, at most `retries` times.
    """
    ended = Ended()
    left = list(tasks)
    for attempt in range(retries + 1):
        again: list[Task] = []
        exact, blocks = [one for one in left if not one.is_block], [one for one in left if one.is_block]
        most = max((one.need_bytes for one in exact), default=1)
        for some, at_a_time in ((exact, jobs or runs_at_a_time(most)), (blocks, 1)):
            for task, outcome in side_by_side(here.run, some, at_a_time, here.processes):
                _count(ended, outcome, tell)
                if not outcome.retry:
                    on_done(task, ended)
                elif attempt < retries:
                    tell(f"{task.name}: {outcome.retry}: tried again")
                    again.append(task)
                else:
                    tell(f"{task.name}: {outcome.retry}: given up")
                    ended.failed |= dict.fromkeys(task.keys, f"{task.name}: {outcome.retry} ({attempt + 1} attempts)")
                    on_done(task, ended)
        left = again
    return ended


def _count(ended: Ended, outcome: Outcome, tell: Callable[[str], None]) -> None:
    ended.failed |= outcome.failed
    ended.seconds += outcome.seconds
    if not outcome.retry:
        ended.done += len(outcome.done)
    for reason in outcome.failed.values():
        tell(reason)
