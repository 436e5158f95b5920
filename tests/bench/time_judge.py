"""`python -m tests.bench.time_judge`: is the model of time right about live programs?

Each program is recorded once, with its data accesses; the pass misses of each allocator predicts the change of its CPU
time against glibc's; then it runs live under each allocator in turns, in random order, for its CPU time. Costs are
those of `heaptape machine`, which knows nothing of these programs.
"""

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
from pathlib import Path

import numpy as np
from heaptape.common.home import default_home
from heaptape.measure import registry
from heaptape.measure.penalties import of_this_machine
from heaptape.model.penalties import geometry_of
from heaptape.model.time_model import ALL, prediction
from heaptape.model.words import time_sentences
from heaptape.results.schema import Results
from scipy.stats import t as student

from tests.support import CONVERT, OUT, RECORD, REPLAY

PERL = """
my %h; my $s = 0;
for my $i (1..40000) { push @{$h{$i * 7919 % 5003}}, "v$i" x (1 + $i % 5); }
for my $round (1..6) { for my $k (sort keys %h) { $s += length for @{$h{$k}}; } }
my @o = sort { $a cmp $b } map { @$_ } values %h;
"""
PYTHON = """
d = {str(i): [str(i * 7), i * 2.5, {"k": "v%d" % i}] for i in range(20000)}
for r in range(4):
    s = sum(len(v[0]) + len(v[2]["k"]) for v in d.values())
e = sorted(d.items(), key=lambda kv: kv[1][0])
"""
# A list whose nodes lie between cold objects, or apart, as the allocator has it.
PLANTED = [str(OUT / "test-programs" / "planted_locality"), "interleaved", "48", "200", "30000", "60"]
PROGRAMS = {"planted": PLANTED, "perl": ["perl", "-e", PERL], "python3": ["/usr/bin/python3", "-S", "-c", PYTHON]}
SETTINGS = {"PERL_HASH_SEED": "0", "PERL_PERTURB_KEYS": "0", "PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}
ALLOCATORS = ("glibc", "jemalloc", "tcmalloc", "mimalloc", "tbbmalloc", "reference")


def count(name: str, folder: Path, preloads: dict[str, str], measured: dict) -> Results:
    """Records (unless that was done), replays with the pass misses, and makes results of it."""
    tape, work, accesses = (folder / f"{name}.{suffix}" for suffix in ("tape", "work", "accesses"))
    settings = os.environ | SETTINGS
    if not tape.exists():
        record = [str(RECORD), "--accesses", "--no-follow", "-o", str(tape), "--", *PROGRAMS[name]]
        subprocess.run(record, check=True, env=settings)
    if not accesses.exists():
        compile_ = [str(CONVERT), "compile", str(tape), "-o", str(work), "--accesses", str(accesses)]
        subprocess.run(compile_, check=True, stdout=subprocess.DEVNULL)
    geometry = geometry_of(measured)
    runs = []
    for label, preload in preloads.items():
        output = folder / f"{name}.{label}.json"
        if not output.exists():
            command = [str(REPLAY), "--pass", "misses", "--accesses", str(accesses), "-o", str(output)]
            command += geometry.options if geometry else []
            command += ["--preload", preload] if preload else []
            subprocess.run([*command, str(work)], check=True)
        runs.append({"allocator": label, "repeat": 0} | json.loads(output.read_text()))
    return Results(f"{name}.json", {"schema": 1, "workload": {"name": name}, "runs": runs, "penalties": measured})


def user_ns(command: list[str], preload: str) -> float:
    """CPU time of one run, the kernel's with it."""
    settings = os.environ | SETTINGS | ({"LD_PRELOAD": preload} if preload else {})
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=settings, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e9 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def live(command: list[str], preloads: dict[str, str], seconds: float) -> dict[str, tuple[float, float, float]]:
    """label -> change against the first in percent, with its 95 % interval over the rounds; mean of log ratios, with
    the tenth at each end left out.
    """
    logs: dict[str, list[float]] = {label: [] for label in preloads}
    start = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = 0.0
    while spent < seconds or len(logs["glibc"]) < 5:
        order = random.sample(list(preloads), len(preloads))
        found = {label: user_ns(command, preloads[label]) for label in order}
        for label, value in found.items():
            logs[label].append(np.log(value / found["glibc"]))
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = now.ru_utime + now.ru_stime - start.ru_utime - start.ru_stime
    out = {}
    for label, values in logs.items():
        kept = sorted(values)[len(values) // 10 : len(values) - len(values) // 10]
        half = float(student.ppf(0.975, len(kept) - 1)) * statistics.stdev(kept) / np.sqrt(len(kept))
        middle = statistics.fmean(kept)
        out[label] = tuple(100 * np.expm1([middle, middle - half, middle + half]))
    return out


def main() -> None:
    """Two steps, as the second wants an idle machine: --only-count, then without it."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.time_judge", description=__doc__)
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("--folder", type=Path, required=True, help="recordings and counts: made if not there")
    parser.add_argument("--seconds", type=float, default=60, help="CPU time of the live runs (default 60)")
    parser.add_argument("--only-count", action="store_true")
    arguments = parser.parse_args()
    home = default_home()
    measured = of_this_machine(home)
    known = registry.load(home)
    preloads = {label: "" if label == "glibc" else str(known[label].path) for label in ALLOCATORS if known[label].found}
    file = count(arguments.program, arguments.folder, preloads, measured)
    frame = prediction([file], "glibc")
    whole = frame[frame["part"] == ALL].set_index("allocator")
    print("\n".join(time_sentences([file], "glibc")))
    if arguments.only_count:
        return
    found = live(PROGRAMS[arguments.program], preloads, arguments.seconds)
    print(f"\n| {arguments.program} | predicted, % | live, % |\n|---|---|---|")
    for label in whole.index:
        row, (middle, low, high) = whole.loc[label], found[label]
        print(
            f"| {label} | {row['percent']:+.1f} ({row['low']:+.1f} to {row['high']:+.1f}) "
            f"| {middle:+.1f} ({low:+.1f} to {high:+.1f}) |"
        )


if __name__ == "__main__":
    main()
