# SPDX-License-Identifier: MIT
"""What replays on the planted clock say is what they said: `make golden` writes it anew; read the difference."""

import json
import shlex
import zlib
from pathlib import Path

from tests.support import same_as_before

from .engine import PLANTED, engine, make
from .test_engine import ON_PLANTED_CLOCK

KEPT = Path(__file__).with_name("kept_results.txt")
PLANTS = {"SPIN_CYCLES": 100, "SLOW_EVERY": 50, "SLOW_CYCLES": 900, "PREEMPT_EVERY": 70, "SLEEP_EVERY": 90}
LINES = [
    "--order recorded --touch all",
    "--order causal --touch first",
    "--order window=16 --touch none",
    "--as-malloc",
]
LINES += ["--order random=3 --touch pages", "--op-limit 1500 --touch lines=3", "--null", "--touch recorded=50"]


def test_results_on_the_planted_clock_are_what_they_were(tmp_path: Path) -> None:
    work = tmp_path / "single.work"
    make(work, ops=3000, threads=1, live_objects=300)
    said = []
    for line in [f"--pass {name} {options}" for name in ("time", "bare") for options in LINES] + [
        "--baseline",
        "--describe",
    ]:
        allocator = [] if "--null" in line or "--pass" not in line else ["--preload", PLANTED]
        plants = PLANTS | ({"REFUSE_FROM": 3000} if "recorded" in line else {})
        files = [] if line == "--describe" else [work]
        done = engine(*shlex.split(line), *allocator, *files, program=ON_PLANTED_CLOCK, **(plants if allocator else {}))
        said.append(f"$ {line}: {done.returncode} {done.stderr}\n")
        for key, value in (json.loads(done.stdout) if done.returncode == 0 and files else {}).items():
            text = json.dumps(value)
            if key not in ("aslr", "malloc", "clock", "counters", "engine_counters_per_op") and line != "--baseline":
                said.append(
                    f"{key}: {text if len(text) < 150 else f'{text[:150]} ... {zlib.crc32(text.encode()):08x}'}\n"
                )
        said += [done.stdout] if not files else []
    same_as_before(KEPT, "".join(said))
