# SPDX-License-Identifier: MIT
"""The reference allocator against glibc's, on the corpus and on recordings of real programs, by heaptape itself.

Cycles of all calls: the lowest of the repeats, as other load only adds. Memory: the median.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from statistics import geometric_mean, median

from tests.bench.harness import figure
from tests.bench.reading import ANDROID
from tests.bench.recording import subjects
from tests.support import HEAPTAPE, REPOSITORY, record, succeed

PERL = 'for my $r (1..3) { my %h; $h{$_} = "x" x ($_ % 200) for 1..100000 }'
PROGRAMS = {"perl": ("perl", "-e", PERL), "git": ("git", "-C", str(REPOSITORY), "log", "--stat")}
ALSO_RECORDED = ("python3", "sqlite3", "cc1 -O2")


def workloads(folder: Path) -> Iterator[tuple[str, Path]]:
    """Names and traces: the corpus, programs recorded now."""
    yield "android system UI", ANDROID
    known = {name: command for name, command in subjects(folder).items() if name in ALSO_RECORDED}
    for name, command in (known | PROGRAMS).items():
        if shutil.which(command[0]):
            tape = folder / f"{name}.tape"
            record(tape, *command, options=("--no-follow",), env={"PYTHONMALLOC": "malloc"})
            yield name, tape


def replay(tape: Path, folder: Path, *labels: str, repeats: int = 5) -> dict:
    """label -> its runs."""
    results = folder / "reference.json"
    chosen = [word for label in labels for word in ("-a", label)]
    succeed(
        HEAPTAPE, "replay", tape, *chosen, "-n", str(repeats), "--passes", "time,memory", "-o", results, timeout_s=900
    )
    runs = [run for run in json.loads(results.read_text())["runs"] if "error" not in run]
    return {
        label: [run for run in runs if label.endswith((run["allocator"], f":{run['variant']}"))] for label in labels
    }


def shares(runs: dict, new: str, old: str) -> tuple[float, float, float]:
    """Of the one to the other in percent: malloc's mean cycles, all calls' cycles, peak RSS."""

    def figures(label: str) -> tuple[float, float, float]:
        timed = [run for run in runs[label] if run["pass"] == "time"]
        peak = median(run["rss_anon_peak_bytes"] for run in runs[label] if run["pass"] == "memory")
        return min(run["calls"]["malloc"]["mean"] for run in timed), min(run["cycles_total"] for run in timed), peak

    malloc, cycles, peak = (100 * after / before for after, before in zip(figures(new), figures(old)))
    return malloc, cycles, peak


def print_rows(folder: Path) -> None:
    """Against glibc, and its own corners."""
    all_cycles = []
    for name, tape in workloads(folder):
        _, cycles, peak = shares(replay(tape, folder, "glibc", "reference"), "reference", "glibc")
        all_cycles.append(cycles)
        figure(f"reference against glibc, {name}: cycles of all calls", cycles, "%", most=100)
        figure(f"reference against glibc, {name}: peak RSS", peak, "%", most=102)
        corners = ("reference:both", "reference:fastbins")
        malloc, cycles, peak = shares(replay(tape, folder, *corners, repeats=3), *corners)
        what = f"reference, {name}: tcache over fast bins alone (all calls {cycles:.1f}, peak RSS {peak:.1f} %): malloc"
        figure(what, malloc, "%", most=75)
    figure("reference against glibc, geometric mean of cycles", geometric_mean(all_cycles), "%", most=90)
