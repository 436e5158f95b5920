# SPDX-License-Identifier: MIT
"""The smallest memory limit under which programs run, predicted by `heaptape advise` and found by runs under real
limits: a table for docs/measurements/limits.md.

    python -m tests.bench.decisions.limits [PROGRAM...]

Needs root and a memory cgroup (v1, or v2 with the controller of memory); says so and ends with status 77 elsewhere. The
files of each program are read before, so that they are counted elsewhere, as those of a container's image are that
another container uses. Exact on a busy machine. About two minutes for each program.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bench.harness import heading, row
from tests.support import HEAPTAPE

ALLOCATORS = ("glibc", "jemalloc", "tcmalloc", "mimalloc")
MIB = 1 << 20
PRECISION_BYTES = 32 << 10
ABSENT = 77
# Each thread keeps what it made: else the peak depends on how the threads overlap, which a limit changes.
PYTHON_THREADS = """
import threading
kept = []
def work(n): kept.append({str(i) * 3: [i] * 4 for i in range(n)})
threads = [threading.Thread(target=work, args=(40000,)) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
"""
# Only the server is limited.
SERVER = """
sh -c 'echo $$ >"${LIMITED:-/dev/null}"; exec redis-server --port 0 --unixsocket r.sock --save "" \
  --enable-debug-command yes' & server=$!
until redis-cli -s r.sock ping >/dev/null 2>&1; do kill -0 $server || exit 1; sleep 0.05; done
redis-cli -s r.sock debug populate 60000 key 200 || exit 1
redis-cli -s r.sock shutdown nosave; wait $server
"""
PROLOG = (
    ":- numlist(1, 300000, L), findall(f(X, Y), (member(X, L), Y is X * X), R), length(R, N), print(N), nl, halt.\n"
)
SQL = (
    "create table t(a, b); with recursive n(i) as (select 1 union all select i + 1 from n where i < 150000) insert into"
    " t select i, 'row' || (i * 7919 % 100003) from n; create index x on t(b); select count(*) from t;"
)
TCL = "for {set i 0} {$i < 200000} {incr i} {dict set d $i [list a $i b]}\nputs [dict size $d]\n"
PROGRAMS: Mapping[str, Sequence[str]] = {
    "jq": ("jq", "-n", "[range(300000)] | map(tostring) | length"),
    "lua": ("lua5.4", "-e", "t = {} for i = 1, 300000 do t[i] = tostring(i) .. i end print(#t)"),
    "gawk": ("gawk", 'BEGIN {for (i = 0; i < 400000; i++) a[i] = "v" i; for (k in a) n += length(a[k]); print n}'),
    "tclsh": ("tclsh", "dict.tcl"),
    "sqlite3": ("sqlite3", ":memory:", ".read rows.sql"),
    "xmllint": ("xmllint", "--noout", "--xpath", "count(//row)", "rows.xml"),
    "swipl": ("swipl", "-q", "list.pl"),
    "python3, 4 threads": ("env", "PYTHONMALLOC=malloc", "/usr/bin/python3", "-c", PYTHON_THREADS),
    "redis": ("sh", "-c", SERVER),
}


class Group:
    """A memory cgroup of our own, in which a command runs under a limit."""

    def __init__(self) -> None:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        by_controller = {line.split(":")[1]: line.split(":")[2] for line in lines}
        self.first_version = "memory" in by_controller
        root = Path("/sys/fs/cgroup")
        place = root / "memory" / by_controller["memory"].lstrip("/") if self.first_version else root
        self.path = place / f"heaptape-limits-{os.getpid()}"
        self.path.mkdir()
        if not (self.path / self._limit).exists():
            self.path.rmdir()
            raise OSError("no controller of memory")

    @property
    def _limit(self) -> str:
        return "memory.limit_in_bytes" if self.first_version else "memory.max"

    def survives(self, command: Sequence[str], folder: Path, environment: Mapping[str, str], limit_bytes: int) -> bool:
        (self.path / self._limit).write_text(str(limit_bytes))

        processes, before = self.path / "cgroup.procs", self._kills()

        def enter() -> None:
            processes.write_text(str(os.getpid()))

        limits_itself = any("LIMITED" in word for word in command)
        status = _run(command, folder, {**environment, "LIMITED": str(processes)}, None if limits_itself else enter)
        return status == 0 and self._kills() == before

    def _kills(self) -> int:
        file = self.path / ("memory.oom_control" if self.first_version else "memory.events")
        return next((int(line.split()[1]) for line in file.open() if line.startswith("oom_kill ")), 0)

    def remove(self) -> None:
        for _ in range(100):
            try:
                self.path.rmdir()
                return
            except OSError:
                time.sleep(0.05)


def _run(command: Sequence[str], folder: Path, environment: Mapping[str, str], enter: object = None) -> int:
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.run(command, cwd=folder, env=os.environ | environment, preexec_fn=enter, **quiet).returncode  # type: ignore[call-overload]


def smallest(group: Group, command: Sequence[str], folder: Path, environment: Mapping[str, str], guess: int) -> int:
    """By bisection, in bytes."""
    low, high = guess // 2, guess + guess // 4 + 4 * MIB
    while high - low > PRECISION_BYTES:
        middle = (low + high) // 2 // 4096 * 4096
        if group.survives(command, folder, environment, middle):
            high = middle
        else:
            low = middle
    return high


def predicted(command: Sequence[str], folder: Path) -> tuple[str, dict[str, dict]]:
    """The recorded program's name, and allocator -> the candidate of `advise --json`."""
    names = [word for name in ALLOCATORS for word in ("-a", name)]
    run = [str(HEAPTAPE), "advise", "--quiet", "--json", "--objective", "memory", *names, "--", *command]
    made = json.loads(subprocess.run(run, cwd=folder, capture_output=True, check=True).stdout)
    return made["today"], {one["allocator"]: one for one in made["candidates"]}


def _write_inputs(folder: Path) -> None:
    chance = random.Random(2)
    rows = "".join(f'<row id="{i}"><n>item {i * 7919 % 100003}</n>{chance.random()}</row>' for i in range(60000))
    texts = {"rows.xml": f"<r>{rows}</r>", "rows.sql": SQL, "dict.tcl": TCL, "list.pl": PROLOG}
    for name, text in texts.items():
        (folder / name).write_text(text)


def _preloaded(candidate: Mapping, today: str) -> dict[str, str]:
    return {} if candidate["label"] == today else {"LD_PRELOAD": candidate["path"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", default=list(PROGRAMS))
    arguments = parser.parse_args()
    try:
        group = Group()
    except OSError as error:
        print(f"no memory cgroup can be made here: {error}", file=sys.stderr)
        return ABSENT
    errors = []
    heading("program", "allocator", "predicted, MiB", "found, MiB", "error, %")
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            _write_inputs(folder)
            for program in arguments.programs:
                command = PROGRAMS[program]
                today, candidates = predicted(command, folder)
                for allocator, one in candidates.items():
                    limit = one["smallest_limit_bytes"]
                    _run(command, folder, _preloaded(one, today))
                    found = smallest(group, command, folder, _preloaded(one, today), limit)
                    errors.append(100 * (limit / found - 1))
                    row(program, allocator, f"{limit / MIB:.2f}", f"{found / MIB:.2f}", f"{errors[-1]:+.2f}")
    finally:
        group.remove()
    sizes = sorted(map(abs, errors))
    print(f"\nmedian error {statistics.median(sizes):.2f} %, largest {sizes[-1]:.2f} %", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
