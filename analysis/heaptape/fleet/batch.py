# SPDX-License-Identifier: MIT
"""Runs tasks in this process, without a scheduler, as in a job array of a batch system; and the script of one."""

import shlex
from collections.abc import Callable, Sequence

from heaptape.fleet.plan import Task
from heaptape.fleet.worker import Ended, Worker
from heaptape.run.engine_process import side_by_side
from heaptape.run.replay import runs_at_a_time

# --exclusive: timed passes need a machine alone, and exact passes use all of its processors.
SCRIPT = """\
#!/bin/sh
# Made by 'heaptape fleet replay --slurm-script'. Submit it by sbatch
# Each task runs its share of the plans in the store. To continue after tasks were killed, submit it again: results that
# are in the store are not run again. 'heaptape fleet status' shows the progress.
#SBATCH --job-name=heaptape-fleet
#SBATCH --array=0-{last}
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --exclusive
#SBATCH --requeue
#SBATCH --output=heaptape-fleet-%A_%a.log
exec {command} fleet work {store} --share "$SLURM_ARRAY_TASK_ID/{shares}"{options}
"""


def run(
    tasks: Sequence[Task],
    worker: Worker,
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
            for task, outcome in side_by_side(worker.run, some, at_a_time, worker.processes):
                ended.count(outcome, tell)
                if not outcome.retry:
                    on_done(task, ended)
                elif attempt < retries:
                    tell(f"{task.name}: {outcome.retry}: tried again")
                    again.append(task)
                else:
                    tell(f"{task.name}: {outcome.retry}: given up")
                    ended.give_up(task, outcome.retry, attempt + 1)
                    on_done(task, ended)
        left = again
    return ended


def script(command: Sequence[str], store: str, shares: int, options: Sequence[str]) -> str:
    """The script's text. `options`: of `heaptape fleet work`."""
    words = "".join(f" {shlex.quote(word)}" for word in options)
    return SCRIPT.format(
        command=shlex.join(command), store=shlex.quote(store), last=shares - 1, shares=shares, options=words
    )
