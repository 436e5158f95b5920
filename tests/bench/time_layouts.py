"""`python -m tests.bench.time_layouts`: are the penalties of `heaptape machine` those of real programs?

Our reference allocator with `placement_seed` makes layouts of one program. Each is simulated once, and run live, in
turns, for its user CPU time. The times are regressed on what the model predicts from the simulated counts: a slope of
at least 1 on the low ends of the penalties and of at most 1 on the high ends says that the truth lies between.
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

import numpy as np
from heaptape.common.home import default_home
from heaptape.measure.penalties import of_this_machine
from heaptape.model.layouts import predicted_ns, slope
from heaptape.model.penalties import geometry_of, penalties

from tests.bench.time_judge import SETTINGS
from tests.support import OUT

PERL = """
my %h; my $s = 0;
for my $i (1..120000) { push @{$h{$i * 7919 % 10007}}, "v$i" x (1 + $i % 5); }
for my $round (1..4) { for my $k (keys %h) { $s += length for @{$h{$k}}; } }
my @o = sort { $a cmp $b } map { @$_ } values %h;
"""
PYTHON = """
d = {str(i): [str(i * 7), i * 2.5, {"k": "v%d" % i}] for i in range(60000)}
for r in range(5):
    s = sum(len(v[0]) + len(v[2]["k"]) for v in d.values())
e = sorted(d.items(), key=lambda kv: kv[1][0])
"""
PROGRAMS = {"perl": ["perl", "-e", PERL], "python3": ["/usr/bin/python3", "-c", PYTHON]}
SLACKS = (64, 1024, 8192, 65536)


def environment(layout: int) -> dict[str, str]:
    """Of equal length for each layout."""
    tunables = f"placement_seed={100 + layout}:placement_slack={SLACKS[layout % len(SLACKS)]:05d}"
    return SETTINGS | {"LD_PRELOAD": str(OUT / "lib" / "libreference.so"), "REFERENCE_TUNABLES": tunables}


def simulate(command: list[str], layout: int, options: list[str], folder: Path) -> dict:
    """The counts of one layout."""
    output = folder / f"{layout}.json"
    settings = [f"{name}={value}" for name, value in environment(layout).items()]
    observe = [str(OUT / "libexec" / "heaptape-observe"), "--simulate", "--data-only", *options, "-o", str(output)]
    subprocess.run([*observe, "--", "env", *settings, *command], check=True, stdout=subprocess.DEVNULL)
    return json.loads(output.read_text())


def user_ns(command: list[str], layout: int) -> float:
    """User CPU time of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    settings = os.environ | environment(layout)
    subprocess.run(["setarch", "-R", *command], env=settings, check=True, stdout=subprocess.DEVNULL)
    return 1e9 * (resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before)


def rounds(command: list[str], layouts: int, repeats: int) -> list[list[float]]:
    """Times of each layout; each round runs all layouts once, in random order, and counts against its own median."""
    times: list[list[float]] = [[] for _ in range(layouts)]
    for _ in range(repeats):
        order = list(range(layouts))
        random.shuffle(order)
        found = {layout: user_ns(command, layout) for layout in order}
        middle = statistics.median(found.values())
        for layout, value in found.items():
            times[layout].append(value - middle)
    return times


def main() -> None:
    """Two steps, as the second wants an idle machine: --only-simulate, then without it."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.time_layouts", description=__doc__)
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("--layouts", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--simulated", metavar="FILE", type=Path, required=True, help="counts: written if not there")
    parser.add_argument("--only-simulate", action="store_true")
    arguments = parser.parse_args()
    command = PROGRAMS[arguments.program]
    measured = of_this_machine(default_home())
    geometry = geometry_of(measured)
    if not arguments.simulated.exists():
        options = geometry.options if geometry else []
        with tempfile.TemporaryDirectory() as folder:
            counts = [simulate(command, layout, options, Path(folder)) for layout in range(arguments.layouts)]
        arguments.simulated.write_text(json.dumps(counts))
    if arguments.only_simulate:
        return
    counts = json.loads(arguments.simulated.read_text())
    times = rounds(command, len(counts), arguments.repeats)
    medians = [statistics.median(values) for values in times]
    predicted = predicted_ns(counts, penalties(measured))
    spread, mean = (float(value) / 1e6 for value in (np.ptp(predicted["middle"]), predicted["middle"].mean()))
    seen = (max(medians) - min(medians)) / 1e6
    print(f"{arguments.program}: {len(counts)} layouts x {arguments.repeats} runs.")
    print(f"Layouts differ by up to {spread:.1f} ms of {mean:.0f} as predicted, by {seen:.1f} ms as measured.")
    for end in ("low", "middle", "high"):
        found = slope(predicted[end], medians)
        print(f"| {end} | {found.value:.2f} ({found.low:.2f} to {found.high:.2f}) | r = {found.correlation:.2f} |")


if __name__ == "__main__":
    main()
