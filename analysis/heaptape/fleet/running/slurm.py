# SPDX-License-Identifier: MIT
"""The script of a job array: each of its tasks runs a share of what the store's plans ask for."""

import shlex
from collections.abc import Sequence

# --exclusive: timed passes want a machine for themselves, and exact ones use all of its processors.
SCRIPT = """\
#!/bin/sh
# Made by 'heaptape fleet replay --slurm-script'. Submit it by sbatch
# Each task runs its share of the plans in the store. To go on after tasks that were killed, submit it again: what is in
# the store is not run again. 'heaptape fleet status' says how far it is.
#SBATCH --job-name=heaptape-fleet
#SBATCH --array=0-{last}
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --exclusive
#SBATCH --requeue
#SBATCH --output=heaptape-fleet-%A_%a.log
exec {command} fleet work {store} --share "$SLURM_ARRAY_TASK_ID/{shares}"{options}
"""


def script(command: Sequence[str], store: str, shares: int, options: Sequence[str]) -> str:
    """Its text. `options`: of `heaptape fleet work`."""
    words = "".join(f" {shlex.quote(word)}" for word in options)
    return SCRIPT.format(
        command=shlex.join(command), store=shlex.quote(store), last=shares - 1, shares=shares, options=words
    )
