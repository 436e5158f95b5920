# SPDX-License-Identifier: MIT
"""Other programs' test suites with their call sites placed (`python -m tests.suites --place`)."""

import shutil

from heaptape.common.home import Home
from heaptape.features.place import plan
from heaptape.run import replay
from heaptape.tape.trace import open_trace

from tests import suites
from tests.support import OUT, RECORD


def is_same(name: str, bare: suites.Outcome, run: suites.Runner) -> bool:
    """Runs a suite with the call sites of its largest process, as many as a plan has room for, in 14 regions. True: the
    verdict is that of the bare run.
    """
    folder = suites.FOLDER / f"{name}-placed"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run([RECORD, "--all-processes", "--stacks", "-o", folder / f"{name}.tape", "--"])
    tape = max(folder.glob("*.tape"), key=lambda path: path.stat().st_size)
    workload = replay.prepare(str(tape), Home(OUT), folder, origins=True)
    with open_trace(tape) as trace:
        sites = plan.sites_of(trace, workload.with_suffix(".origins"))
        program = str(trace.info.get("program", ""))
    regions = [sorted(sites)[first :: plan.MOST_REGIONS] for first in range(plan.MOST_REGIONS)]
    found, _ = plan.placed(sites, regions)
    path = folder / "plan.toml"
    path.write_text(plan.write(plan.Plan(found, program)))
    preload = ["env", f"LD_PRELOAD={plan.library(Home(OUT))}", f"{plan.VARIABLE}={path}"]
    return suites.is_same(name, f"with {len(found)} sites of {program} placed", bare, run(preload))
