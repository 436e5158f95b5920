# SPDX-License-Identifier: MIT
"""`python -m tests.bench.time.layouts`: are the penalties of `heaptape machine` those of real programs?

A preloaded layer (tests/preload/shuffle_places.c) makes layouts of one program, from the allocator's own order to
objects at random. Each is simulated once, and run live, alternately, for its user CPU time. The times are regressed on
the model's predictions from the simulated counts. A slope of 1 on the middles of the penalties means that they are
right; a slope of at least 1 on the low ends and of at most 1 on the high ends, that the truth is in between.
"""

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from heaptape.common.home import default_home
from heaptape.results.model.penalties import geometry_of, penalties
from heaptape.run.machine import of_this_machine

from tests.bench.time.judge import SETTINGS
from tests.bench.time.layout_fit import predicted_ns, slope
from tests.support import OUT

PERL = """
my %h; my $s = 0;
for my $i (1..40000) { push @{$h{$i * 7919 % 10007}}, "v$i" x (1 + $i % 5); }
for my $round (1..6) { for my $k (keys %h) { $s += length for @{$h{$k}}; } }
my @o = sort { $a cmp $b } map { @$_ } values %h;
"""
PYTHON = """
d = {str(i): [str(i * 7), i * 2.5, {"k": "v%d" % i}] for i in range(20000)}
for r in range(8):
    s = sum(len(v[0]) + len(v[2]["k"]) for v in d.values())
e = sorted(d.items(), key=lambda kv: kv[1][0])
"""
JQ = (
    '[range(10000)|{id:., name:"n\\(.*7919%4001)", v:[.,.+1]}] | group_by(.name)'
    " | map({n:.[0].name, s:(map(.v[1])|add)}) | sort_by(.s) | length"
)
LIST = [str(OUT / "test-programs" / "planted_locality"), "interleaved", "128", "96", "30000", "25"]
PROGRAMS = {
    "list": LIST,
    "python3": ["/usr/bin/python3", "-S", "-c", PYTHON],
    "perl": ["perl", "-e", PERL],
    "jq": ["jq", "-n", JQ],
}
DEPTHS = tuple(4**power for power in range(8))
NEAR = ("near_dependent_ns", "near_independent_ns")


def environment(depth: int) -> dict[str, str]:
    """The environment, of equal length for each layout."""
    shuffled = {"LD_PRELOAD": str(OUT / "test-lib" / "libshuffle_places.so"), "SHUFFLE_DEPTH": f"{depth:05d}"}
    return SETTINGS | shuffled | {"SHUFFLE_SEED": str(3 + DEPTHS.index(depth))}


def simulate(program: str, depth: int, options: list[str], folder: Path) -> dict:
    """The counts of one layout, simulated if they are not in the folder."""
    output = folder / f"{program}.{depth}.json"
    if not output.exists():
        settings = [f"{name}={value}" for name, value in environment(depth).items()]
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made = Path(scratch) / "counts.json"
            observe = [str(OUT / "libexec" / "heaptape-observe"), "--simulate", "--data-only", *options]
            command = [*observe, "-o", str(made), "--", "env", *settings, *PROGRAMS[program]]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            made.rename(output)
    return json.loads(output.read_text())


def user_ns(program: str, depth: int) -> float:
    """User CPU time of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    settings = os.environ | environment(depth)
    subprocess.run(["setarch", "-R", *PROGRAMS[program]], env=settings, check=True, stdout=subprocess.DEVNULL)
    return 1e9 * (resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before)


def live(programs: list[str], seconds: float) -> pd.DataFrame:
    """One row per run: program, depth, user_ns. Each round runs all layouts once, in random order."""
    rows: list[tuple[str, int, float]] = []
    jobs = [(program, depth) for program in programs for depth in DEPTHS]
    while sum(row[2] for row in rows) < 1e9 * seconds:
        random.shuffle(jobs)
        rows += [(program, depth, user_ns(program, depth)) for program, depth in jobs]
    return pd.DataFrame(rows, columns=["program", "depth", "user_ns"])


def without_near(measured: dict[str, Any]) -> dict[str, Any]:
    """The measurement as if OS pages just used had not been measured separately."""
    sets = [{key: row[key] for key in row if key not in NEAR} for row in measured["working_sets"]]
    return measured | {"working_sets": sets}


def judge(program: str, counts: list[dict], medians: list[float], measured: dict[str, Any]) -> list[str]:
    """Rows of a table: the slopes of one program, also with near misses treated like all others."""
    lines = []
    for name, known in (("near misses apart", measured), ("alike", without_near(measured))):
        predicted = predicted_ns(counts, penalties(known))
        spread, mean = (float(value) / 1e6 for value in (np.ptp(predicted["middle"]), predicted["middle"].mean()))
        cells = [program, name, f"{spread:.0f} of {mean:.0f}", f"{(max(medians) - min(medians)) / 1e6:.0f}"]
        found = {end: slope(predicted[end], medians) for end in ("low", "middle", "high")}
        cells += [f"{one.value:.2f} ({one.low:.2f} to {one.high:.2f})" for one in found.values()]
        lines.append(f"| {' | '.join(cells)} | {found['middle'].correlation:.2f} |")
    return lines


def main() -> None:
    """Two steps, because the second needs an idle machine: --seconds 0, which only simulates, then without it."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.time.layouts", description=__doc__)
    parser.add_argument("programs", nargs="*", default=list(PROGRAMS), help=f"default: {', '.join(PROGRAMS)}")
    parser.add_argument("--folder", type=Path, required=True, help="counts and live times: made if missing")
    parser.add_argument("--seconds", type=float, default=120, help="CPU time of all live runs (default 120)")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if unknown := [name for name in arguments.programs if name not in PROGRAMS]:
        parser.error(f"{', '.join(unknown)}: not among {', '.join(PROGRAMS)}")
    measured = of_this_machine(default_home())
    geometry = geometry_of(measured)
    options = geometry.options if geometry else []
    counts = {
        program: [simulate(program, depth, options, arguments.folder) for depth in DEPTHS]
        for program in arguments.programs
    }
    if not arguments.seconds:
        return
    runs = live(arguments.programs, arguments.seconds)
    runs.to_csv(arguments.folder / "live.csv", index=False)
    print("| program | misses | predicted spread, ms | live | slope of low ends | of middles | of high ends | r |")
    print("|---|---|---|---|---|---|---|---|")
    for program in arguments.programs:
        mine = runs[runs["program"] == program].groupby("depth")["user_ns"]
        medians = [statistics.median(mine.get_group(depth)) for depth in DEPTHS]
        print("\n".join(judge(program, counts[program], medians, measured)))
    print(f"\n{len(DEPTHS)} layouts each, medians of {len(runs) // len(DEPTHS) // len(arguments.programs)} rounds.")


if __name__ == "__main__":
    main()
