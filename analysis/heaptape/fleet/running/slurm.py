# SPDX-License-Identifier: MIT
"""The script of a job array: each of its tasks runs a share of the store's plans."""

import shlex
from collections.abc import Sequence

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


def script(command: Sequence[str], store: str, shares: int, options: Sequence[str]) -> str:
    """The script's text. `options`: of `heaptape fleet work`."""
    words = "".join(f" {shlex.quote(word)}" for word in options)
    return SCRIPT.format(
        command=shlex.join(command), store=shlex.quote(store), last=shares - 1, shares=shares, options=words
    )
