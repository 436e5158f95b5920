# SPDX-License-Identifier: MIT
"""The reference allocator against glibc's, on the corpus and on recordings of real programs, by heaptape itself."""

import json
import math
import shutil
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support import HEAPTAPE, REPOSITORY, record, run, succeed

REPEATS = 5
CORNER_REPEATS = 3
CORNERS = ("neither", "fastbins", "tcache", "both")
ANDROID = REPOSITORY / "workloads" / "corpus" / "android-systemui.zip"
CC1_SOURCE = REPOSITORY / "convert" / "history" / "history.c"
PYTHON = "import json; d = {str(i): [i, i * 2.5, 'v%d' % i] for i in range(60000)}; json.loads(json.dumps(d))"
PERL = 'for my $r (1..3) { my %h; $h{$_} = "x" x ($_ % 200) for 1..100000 }'
SQL = """
create table t(a, b);
with recursive c(x) as (select 1 union all select x + 1 from c where x < 100000)
insert into t select x, hex(randomblob(20)) from c;
create index i on t(b);
select count(*) from t where b > '8';
"""
PROGRAMS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "python3": (("/usr/bin/python3", "-c", PYTHON), {"PYTHONMALLOC": "malloc"}),
    "perl": (("perl", "-e", PERL), {}),
    "sqlite3": (("sqlite3", ":memory:", SQL), {}),
    "git": (("git", "-C", str(REPOSITORY), "log", "--stat"), {}),
}


@dataclass(frozen=True)
class Against:
    """Shares of one workload: cycles of all calls and peak RSS relative to glibc's, from the lowest of the repeats for
    cycles (other load only adds) and the median for memory."""

    workload: str
    cycles_share: float
    peak_rss_share: float


def workloads(folder: Path) -> Iterator[tuple[str, Path]]:
    """Names and traces: the corpus, programs recorded now, the compiler proper on one of our source files."""
    if ANDROID.exists():
        yield "android system UI", ANDROID
    for name, (command, settings) in PROGRAMS.items():
        if shutil.which(command[0]):
            tape = folder / f"{name}.tape"
            record(tape, *command, options=("--no-follow",), env=settings)
            yield name, tape
    compiler = run("gcc", "-print-prog-name=cc1").stdout.strip()
    if compiler:
        source = folder / "input.i"
        done = run("gcc", "-E", "-std=gnu11", "-D_GNU_SOURCE", f"-I{REPOSITORY}", "-o", source, CC1_SOURCE)
        if done.status != 0:
            raise RuntimeError(done.stderr)
        record(folder / "cc1.tape", compiler, "-quiet", "-O2", "-fpreprocessed", source, "-o", "/dev/null")
        yield "gcc's cc1", folder / "cc1.tape"


def replay(
    tape: Path, folder: Path, *allocators: str, passes: str = "time,memory", repeats: int = REPEATS
) -> list[dict]:
    results = folder / "reference.json"
    chosen = [word for name in allocators for word in ("-a", name)]
    succeed(HEAPTAPE, "replay", tape, *chosen, "-n", str(repeats), "--passes", passes, "-o", results, timeout_s=900)
    return [run for run in json.loads(results.read_text())["runs"] if "error" not in run]


def figure(runs: list[dict], allocator: str, key: str, variant: str = "default") -> list[float]:
    """Values of a key, one per run that has it."""
    return [run[key] for run in runs if run["allocator"] == allocator and run["variant"] == variant and key in run]


def against_glibc(name: str, tape: Path, folder: Path) -> Against:
    runs = replay(tape, folder, "glibc", "reference")
    cycles = {
        a: min(figure([r for r in runs if r["pass"] == "time"], a, "cycles_total")) for a in ("glibc", "reference")
    }
    peaks = {a: statistics.median(figure(runs, a, "rss_anon_peak_bytes")) for a in ("glibc", "reference")}
    return Against(name, cycles["reference"] / cycles["glibc"], peaks["reference"] / peaks["glibc"])


def geometric_mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(math.log(value) for value in values))


def corners(tape: Path, folder: Path) -> dict[str, tuple[float, float, float]]:
    """Per corner: malloc's mean cycles and all calls' cycles (lowest of the repeats), peak RSS in bytes (median)."""
    runs = replay(tape, folder, *(f"reference:{corner}" for corner in CORNERS), repeats=CORNER_REPEATS)
    table = {}
    for corner in CORNERS:
        timed = [run for run in runs if run["variant"] == corner and run["pass"] == "time"]
        peak = statistics.median(figure(runs, "reference", "rss_anon_peak_bytes", corner))
        table[corner] = (
            min(run["calls"]["malloc"]["mean"] for run in timed),
            min(run["cycles_total"] for run in timed),
            peak,
        )
    return table


def atomics_saved_per_fast_free(tape: Path, folder: Path) -> float:
    """Additional atomic read-modify-writes of a free into a fast bin under fastchunks=atomic, compared with relaxed."""
    variants = ("fastchunks-relaxed-stats", "fastchunks-atomic-stats")
    runs = replay(tape, folder, *(f"reference:{v}" for v in variants), passes="bare", repeats=1)
    stats = {run["variant"]: run["reference_stats"] for run in runs}
    relaxed, atomic = (stats[variant] for variant in variants)
    return (atomic["atomics"] - relaxed["atomics"]) / atomic["fast_frees"]
