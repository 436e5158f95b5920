# SPDX-License-Identifier: MIT
"""Instructions per call under libheaptape-place.so, by callgrind: docs/measurements/place.md.

    python -m heaptape.features.place.test.place_calls

Prints a Markdown table: per form of call, those of a placed one in all, and those of one that is not placed before the
program's allocator.
"""

import os
import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from heaptape.common.home import default_home
from heaptape.features.place import plan
from heaptape.run import replay
from heaptape.tape.trace import open_trace

from tests.support import RECORD, succeed

CALLS = 50_000  # of each site in calls.cc
FORMS = {
    "malloc": "m", "calloc, and its zeros": "c", "realloc of no object": "r",
    "aligned_alloc": "aligned", "operator new": "new", "operator new[]": "new_array",
    "operator new, aligned": "new_aligned", "malloc, decided by 2 frames": "frames_2",
    "malloc, decided by 3 frames": "frames_3",
}  # fmt: skip


@dataclass(frozen=True)
class Function:
    file: str = ""
    name: str = ""

    @property
    def ours(self) -> bool:
        return self.file.endswith(plan.LIBRARY)


def costs(profile: Path) -> dict[tuple[Function, Function], float]:
    """(caller, called) -> instructions per call, of callgrind's profile. A sibling call is a call, too."""
    names: dict[str, str] = {}
    here = there = Function()
    calls, spent, count = Counter[tuple[Function, Function]](), Counter[tuple[Function, Function]](), 0
    for line in profile.read_text().splitlines():
        key, _, rest = line.partition("=")
        if key in ("ob", "fn", "cob", "cfn"):
            number, _, text = rest.partition(" ")
            change = {"file" if key.endswith("ob") else "name": names.setdefault(key[-2:] + number, text)}
            there = replace(there if key[0] == "c" else here, **change)
            here = here if key[0] == "c" else there
        elif key == "calls":
            count = int(rest.split()[0])
        elif count and re.match(r"[+*\d-]", line):
            calls[here, there] += count
            spent[here, there] += int(line.split()[1])
            count, there = 0, here
    return {pair: spent[pair] / calls[pair] for pair in calls if calls[pair] >= CALLS}


def measure(program: Path, site: str, out: Path, environment: dict[str, str]) -> tuple[float, float]:
    """Instructions of a call at the site, and of its release: less those of the program's allocator."""
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", str(program), site]
    subprocess.run(command, env=os.environ | environment, check=True, capture_output=True)
    found = costs(out)
    passed = {caller.name: cost for (caller, called), cost in found.items() if caller.ours and not called.ours}
    acquired, released = 0.0, 0.0
    for (caller, called), cost in found.items():
        if called.ours and caller.file == str(program):
            inner = passed.get(called.name, 0.0) or passed.get("malloc_above", 0.0)
            acquired, released = (acquired, cost - inner) if caller.name == "release" else (cost - inner, released)
    return acquired, released


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="heaptape.") as name:
        folder, home = Path(name), default_home()
        program, tape, path = folder / "calls", folder / "calls.tape", folder / "plan.toml"
        source = Path(__file__).parent / "programs" / "calls.cc"
        succeed("g++", "-std=c++17", "-O2", "-g", "-fno-ipa-icf", "-Wl,--build-id", source, "-o", program)
        succeed(RECORD, "--stacks", "-o", tape, "--", program)
        workload = replay.prepare(str(tape), home, folder, origins=True)
        with open_trace(tape) as trace:
            sites = plan.sites_of(trace, workload.with_suffix(".origins"))
        chosen = [number for number, site in sites.items() if "placed_" in site.name]
        path.write_text(plan.write(plan.Plan(plan.placed(sites, [chosen])[0])))
        environment = {"LD_PRELOAD": str(plan.library(home)), plan.VARIABLE: str(path)}
        print("| call | placed, in all | not placed, in addition to the program's allocator |\n|---|---:|---:|")
        for shown, form in FORMS.items():
            kinds = [measure(program, f"{kind}_{form}", folder / "out", environment) for kind in ("placed", "plain")]
            print(f"| {shown} | {kinds[0][0]:.0f} | {kinds[1][0]:.0f} |", flush=True)
        print(f"| free | {kinds[0][1]:.0f} | {kinds[1][1]:.0f} |")


if __name__ == "__main__":
    main()
