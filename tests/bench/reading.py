# SPDX-License-Identifier: MIT
"""Rates of the steps after recording: the commands that read recordings, importers, the engine with the null allocator,
the report. Rates are of wall time; where a command has one thread, of CPU time.
"""

import json
from pathlib import Path
from statistics import median

from tests.bench.harness import before_others, figure, row, spend
from tests.support import CONVERT, HEAPTAPE, OUT, REPLAY, REPOSITORY, info, record, succeed, workload

ANDROID = REPOSITORY / "workloads/corpus/android-systemui.zip"
IMPORTED = ("android", "mtrace", "rep", "text", "wl")
UNCALIBRATED = (str(REPLAY), "--engine-cycles-per-op", "0")
REPORTED, REPEATS = 9, 10


def larson(tape: Path, rounds: int, *options: str) -> Path:
    """A trace of two threads with random sizes and victims, of 40 events a round."""
    record(tape, workload("larson"), "--threads=2", f"--rounds={rounds}", "--generations=10", "--quiet=1",
           options=options)  # fmt: skip
    return tape


def commands(folder: Path) -> Path:
    """Rates and peak memory of compile, check, info and profile; returns the compiled workload."""
    tape, work = larson(folder / "larson.tape", 250_000), folder / "larson.work"
    millions, least = info(tape)["events"] / 1e6, 10.0
    for command in ("compile", "check", "info"):
        spent = spend(CONVERT, command, tape, *(("-o", work) if command == "compile" else ()))
        what = f"{command}, {millions:.1f} M events of larson, peak RSS {spent.peak_rss_mib:.0f} MiB"
        figure(what, millions / spent.seconds, "M events/s", least=least)
        least = millions / spent.seconds if command == "compile" else least
    for one, stacks in ((tape, "no"), (larson(folder / "stacks.tape", 250_000, "--stacks"), "with")):
        spent = spend(CONVERT, "profile", one)
        what = f"profile, {millions:.1f} M events of larson, {stacks} call stacks"
        figure(f"{what}: peak RSS", spent.peak_rss_mib, "MiB", most=2048)
        figure(what, millions / spent.cpu_seconds, "M events/s of CPU", least=5)
    return work


def importers(folder: Path) -> None:
    """Of formats that heaptape also writes: best of three runs; the files are of up to 256 MB."""
    tape = larson(folder / "short.tape", 50_000)
    events = info(tape)["events"]
    for name in IMPORTED:
        written, imported = folder / f"written.{name}", folder / "imported.tape"
        succeed(CONVERT, "convert", tape, written, "--to", name)
        seconds = min(spend(CONVERT, "convert", written, imported, "--from", name).cpu_seconds for _ in range(3))
        what = f"import {name}, {events / 1e6:.0f} M events of {written.stat().st_size / events:.0f} bytes"
        figure(what, events / seconds / 1e6, "M events/s of CPU", least=15 if name == "wl" else 5)
        written.unlink()


def patterns(folder: Path) -> None:
    """Synthetic patterns of a million events by default or more, written as workload files, without a run."""
    rates, path = [], folder / "written.work"
    for name in sorted(path.name for path in (OUT / "workloads").iterdir()):
        seconds = median(spend(workload(name), f"--work={path}", "--quiet=1").cpu_seconds for _ in range(3))
        events = info(path)["ops"]
        if events >= 1e6:
            rates.append(events / seconds / 1e6)
            figure(f"write {name}, {events / 1e6:.1f} M events", rates[-1], "M events/s of CPU")
    what = f"median of {len(rates)} synthetic patterns: written as workload files"
    figure(what, median(rates), "M events/s of CPU", least=20)


def replayed(work: Path, order: str, figure_of: str, *, options: str = "--pass bare --null", on: str = "") -> float:
    """A time of the replay per op in ns, least of 3 runs, on those processors (as taskset takes them; empty: all)."""
    command = (*before_others(10, on), *UNCALIBRATED, *options.split(), "--order", order, str(work))
    runs = [json.loads(succeed(*command).stdout) for _ in range(3)]
    return min(run[figure_of] / run["ops"] for run in runs)


def generated(folder: Path, name: str, **shape: int) -> Path:
    path = folder / f"{name}.work"
    succeed(OUT / "test-programs" / "make_workload", path, *(f"{key}={value}" for key, value in shape.items()))
    return path


def engine(of_larson: Path, folder: Path) -> None:
    """The engine's own cost: one thread, several, remote frees, many threads, memory; and on a real recording."""
    tape, single, android = folder / "cfrac.tape", folder / "cfrac.work", folder / "android.work"
    record(tape, workload("cfrac"), "--steps=1700000", "--quiet=1")
    for source, compiled in ((tape, single), (ANDROID, android)):
        succeed(CONVERT, "compile", source, "-o", compiled)
    alone = replayed(single, "causal", "cpu_ns", options="--pass bare --null --touch none")
    figure("engine, null allocator, bare, cfrac: CPU per op", alone, "ns", most=3)
    scale = replayed(of_larson, "causal", "wall_ns", on="0") / replayed(of_larson, "causal", "wall_ns")
    figure("engine, larson of 2 threads, causal: 2 processors to 1", scale, "times", least=1.8)
    shape = {"ops": 4_000_000, "threads": 2, "only_malloc_free": 1, "live_objects": 100_000, "run_ops": 1000}
    remote, local = (
        replayed(generated(folder, f"remote{share}", remote_percent=share, **shape), "causal", "cpu_ns")
        for share in (95, 0)
    )
    # Every second op is a free.
    figure("engine, a remote free of a ready object, over a local one", 2 * (remote - local), "ns", most=50)
    for threads in (1, 8, 64, 1000):
        shape = {"ops": 400_000, "threads": threads, "live_objects": 4000, "remote_percent": 5, "run_ops": 200}
        many = generated(folder, f"threads{threads}", **shape)
        values = (f"{order} {replayed(many, order, 'wall_ns'):.0f}" for order in ("causal", "window", "recorded"))
        row(f"engine, {threads} threads, wall ns per op", ", ".join(values), "", "")
    peak = spend(*UNCALIBRATED, "--pass", "bare", "--null", "--order", "window", of_larson).peak_rss_mib
    figure("engine's peak RSS, larson", peak, "MiB", most=64)
    bare = replayed(android, "window", "cpu_ns", options="--pass bare")
    figure("Android recording, 393 threads, bare with glibc: CPU per op", bare, "ns", most=21)
    timed = replayed(android, "window", "wall_ns", options="--pass time")
    figure("Android recording, time pass: wall time per op", timed, "ns", most=71)


def report(work: Path, folder: Path) -> None:
    """Of one replay on every allocator; and of one with repetitions, read as those of several workloads."""
    small, large, page = folder / "r.json", folder / "large.json", folder / "r.html"
    spent = spend(HEAPTAPE, "replay", "-n", "1", "--passes", "time,memory", "-o", small, work)
    figure("replay of larson on all allocators, time and memory, once", spent.seconds, "s")
    figure("report of it", spend(HEAPTAPE, "report", small, "-o", page).seconds, "s", most=30)
    tape, short = larson(folder / "short.tape", 50_000), folder / "short.work"
    succeed(CONVERT, "compile", tape, "-o", short)
    spend(HEAPTAPE, "replay", "-n", str(REPEATS), "--passes", "time,memory", "-o", large, short)
    data, copies = json.loads(large.read_text()), []
    for number in range(REPORTED):
        data["workload"] |= {"name": f"larson {number}", "sha256": f"{number:064x}"}
        copies.append(folder / f"large{number}.json")
        copies[-1].write_text(json.dumps(data))
    what = f"report of {REPORTED} workloads × {len(data['allocators'])} allocators × {REPEATS} repetitions"
    figure(what, spend(HEAPTAPE, "report", *copies, "-o", page).seconds, "s", most=20)
    figure(f"{what}: page", page.stat().st_size / 1e6, "MB", most=8)


def print_rows(folder: Path) -> None:
    work = commands(folder)
    importers(folder)
    patterns(folder)
    engine(work, folder)
    report(work, folder)
