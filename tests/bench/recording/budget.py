# SPDX-License-Identifier: MIT
"""Cost of programs within a budget: python -m tests.bench.recording.budget [PERCENT [PAIRS]] (2, 3). On an idle
machine; takes about ten minutes.

Bare runs, runs within the budget and runs in which nothing is ever recorded (a budget near 0) alternate. CPU time
of the program is read inside it when it exits; the recorder's is the rest, less that of the bare run. The second table
is the cost of a call that is only counted, for SKIPPED_NS of capture/recorder/upkeep.c: the program's CPU
time over bare, divided by its calls.
"""

import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.bench.recording import host_cpu
from tests.bench.recording.host_instructions import print_table
from tests.support import RECORD, info, workload

NEVER = "0.0000001"
REDIS = ("redis-server", "--port", "17379", "--save", "", "--dir", tempfile.gettempdir())
REDIS_LOADS = 12
PYTHON = host_cpu.PYTHON.replace("range(12)", "range(120)")
PROGRAMS: dict[str, tuple[tuple[str, ...], int | None]] = {
    "redis-server": (REDIS, 17379),
    "python3": ((sys.executable, "-c", PYTHON), None),
    "larson": ((str(workload("larson")), "--rounds=4000000", "--quiet=1"), None),
    "cfrac": ((str(workload("cfrac")), "--steps=20000000", "--quiet=1"), None),
}


@dataclass
class Figures:
    """One recorded run beside a bare one: CPU time over bare of program and recorder, in percent of the bare
    program's; the recorder's own report; and the program's CPU time over bare per call, in ns.
    """

    program_percent: float
    recorder_percent: float
    reported_percent: float
    bursts: int
    recorded_share: float
    call_ns: float

    @property
    def percent(self) -> float:
        return self.program_percent + self.recorder_percent


def several_loads(port: int) -> int:
    """As host_cpu.put_load_on_redis, but long enough for a budget to settle."""
    began = host_cpu.put_load_on_redis(port)
    for _ in range(REDIS_LOADS - 1):
        load = ["redis-benchmark", "-p", str(port), *host_cpu.REDIS_LOAD]
        subprocess.run(load, stdout=subprocess.DEVNULL, check=True)
    return began


def bare(name: str, folder: Path) -> host_cpu.Spent:
    command, port = PROGRAMS[name]
    preload = {"LD_PRELOAD": str(host_cpu.CPU_AT_EXIT)}
    return host_cpu.run_once(command, folder, port, preload, several_loads)


def within(name: str, percent: str, beside: host_cpu.Spent, folder: Path) -> Figures:
    command, port = PROGRAMS[name]
    trace = folder / "t.tape"
    recorder = (str(RECORD), "-o", str(trace), "--preload", str(host_cpu.CPU_AT_EXIT), "--budget", percent, "--")
    spent = host_cpu.run_once(recorder + command, folder, port, {}, several_loads)
    about = info(trace)
    budget = about["footer"]["budget"]
    over_ns = spent.host_ns - beside.host_ns
    return Figures(
        100 * over_ns / beside.host_ns,
        100 * (spent.rest_ns - beside.rest_ns) / beside.host_ns,
        budget["used_percent"],
        budget["bursts"],
        100 * budget["recorded_ns"] / budget["ns"],
        over_ns / (about["events"] + about["dropped"]),
    )


def middle(runs: list[Figures]) -> Figures:
    """The run of median cost."""
    return sorted(runs, key=lambda run: run.percent)[len(runs) // 2]


def main() -> None:
    percent = sys.argv[1] if len(sys.argv) > 1 else "2"
    pairs = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    rows, calls = [], []
    for name in PROGRAMS:
        budgeted, never, seconds = [], [], []
        for _ in range(pairs):
            with tempfile.TemporaryDirectory() as folder:
                beside = bare(name, Path(folder))
                seconds.append(beside.host_ns / 1e9)
                budgeted.append(within(name, percent, beside, Path(folder)))
                never.append(within(name, NEVER, beside, Path(folder)))
            time.sleep(1)
        run = middle(budgeted)
        spread = f"{min(r.percent for r in budgeted):.2f} to {max(r.percent for r in budgeted):.2f}"
        rows.append(
            [name, f"{median(seconds):.1f}", f"{run.program_percent:.2f}", f"{run.recorder_percent:.2f}"]
            + [f"{run.percent:.2f} ({spread})", f"{run.reported_percent:.2f}"]
            + [str(run.bursts), f"{run.recorded_share:.1f}"]
        )
        calls.append([name, f"{median(r.call_ns for r in never):.2f}", f"{median(r.percent for r in never):.2f}"])
    head = ["", "bare, s of CPU", "program, %", "recorder, %", "both, %"]
    head += ["as the recorder reports, %", "bursts", "of the time, %"]
    print_table(head, rows)
    print()
    print_table(["never recorded", "ns per counted call", "program and recorder, %"], calls)


if __name__ == "__main__":
    main()
