# SPDX-License-Identifier: MIT
"""`make bench`: measures the project's targets and prints a Markdown table. About 20 minutes on two cores."""

import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.allocators import reference_allocator
from tests.bench.reading import big_report, importers, rates
from tests.bench.recording import host_cpu
from tests.support import CONVERT, OUT, REPOSITORY, info, succeed

MIB = 1 << 20


def row(what: str, value: str, target: str, met: bool | None, resolved: bool = True) -> None:
    """Prints one line of the table; met None: no target; not resolved: the runs differ too much to decide."""
    verdict = "" if met is None else "met" if met else "**missed**"
    if not resolved:
        verdict = "not resolved: pairs differ too much"
    print(f"| {what} | {value} | {target} | {verdict} |", flush=True)


def heading() -> None:
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.processor(),
    )
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    print(f"Machine: {model}, {os.cpu_count()} CPUs, Linux {platform.release()}. Commit {commit.stdout.strip()}.\n")
    print("| measure | value | target | |\n|---|---|---|---|", flush=True)


def recording(folder: Path) -> None:
    """CPU per event of host and collector, bytes per event, wall time."""
    costs: dict[str, host_cpu.Cost] = {}
    for subject in host_cpu.subjects(folder):
        cost = costs[subject.name] = host_cpu.measure(subject, folder)
        target_ns = subject.target_ns or cost.rival_median_ns
        resolved = min(cost.pairs_ns) >= 0 and max(cost.pairs_ns) - min(cost.pairs_ns) <= 2 * target_ns
        rival = f" ({' '.join(subject.rival_options)}, in turns)" if subject.rival_options else ""
        row(
            f"record {subject.name}, {cost.events / 1e6:.1f} M events: host CPU per event",
            f"{cost.median_ns:.1f} ns ({min(cost.pairs_ns):.1f} to {max(cost.pairs_ns):.1f}, {subject.pairs} pairs)",
            f"<= {target_ns:.1f} ns{rival}" if subject.rival_options else "",
            cost.median_ns <= target_ns if subject.rival_options else None,
            resolved=resolved,
        )
        row(f"record {subject.name}: collector's CPU per event", f"{cost.collector_ns:.0f} ns", "", None)
        row(f"record {subject.name}: bytes per event", f"{cost.bytes_per_event:.2f}", "", None)
        if subject.port:
            row(
                f"record {subject.name}: wall time of its load, recorded over bare (the recorder on its own processor)",
                f"{cost.wall_ratio:.3f}",
                "<= 1.15",
                cost.wall_ratio <= 1.15,
            )
    usual = [cost for name, cost in costs.items() if name != "xmalloc"]
    for what, value, unit, target in (
        ("host CPU per event", statistics.median(cost.median_ns for cost in usual), "ns", 8),
        ("collector's CPU per event", statistics.median(cost.collector_ns for cost in usual), "ns", 40),
        ("bytes per event", statistics.median(cost.bytes_per_event for cost in usual), "bytes", 0.8),
    ):
        what = f"median of {', '.join(name for name in costs if name != 'xmalloc')}: {what}"
        row(what, f"{value:.2f} {unit}", f"<= {target}", value <= target)


def converting(folder: Path) -> Path:
    """Rates and peak memory of compile, check and info; returns the compiled workload."""
    tape, work = rates.ten_million_events(folder), folder / "larson.work"
    events = info(tape)["events"]
    compile_rate = 0.0
    for command, extra in (("compile", ("-o", work)), ("check", ()), ("info", ())):
        spent = rates.spend(CONVERT, command, tape, *extra)
        rate = events / spent.seconds / 1e6
        compile_rate = rate if command == "compile" else compile_rate
        target = 10 if command == "compile" else compile_rate
        row(
            f"{command}, {events / 1e6:.1f} M events of larson",
            f"{rate:.1f} M events/s, peak RSS {spent.peak_rss_bytes / MIB:.0f} MiB",
            f">= {target:.1f} M/s",
            rate >= target,
        )
    profiling(folder)
    return work


def profiling(folder: Path) -> None:
    """Rate and peak memory of `profile`, without and with call stacks. HEAPTAPE_PROFILE_EVENTS=50000000,200000000 sets
    other lengths, for the slope; 200 M events are a file of 550 MB.
    """
    lengths = [int(n) for n in os.environ.get("HEAPTAPE_PROFILE_EVENTS", "20000000").split(",")]
    for events in lengths:
        for sites in (0, 2000):
            tape = rates.synthetic_trace(folder, events, sites)
            spent = rates.spend(CONVERT, "profile", tape)
            tape.unlink()
            rate = events / spent.cpu_seconds / 1e6
            row(
                f"profile, {events / 1e6:.0f} M events of 4 threads, {sites or 'no'} call stacks",
                f"{rate:.1f} M events/s of CPU, peak RSS {spent.peak_rss_bytes / MIB:.0f} MiB",
                ">= 5 M/s, <= 2048 MiB",
                rate >= 5 and spent.peak_rss_bytes <= 2048 * MIB,
            )


def importing(folder: Path) -> None:
    for rate in importers.rates(folder):
        row(
            f"import {rate.name}, {importers.EVENTS / 1e6:.0f} M events of {rate.input_bytes_per_event:.0f} bytes",
            f"{rate.events_per_second / 1e6:.1f} M events/s of CPU",
            f">= {rate.target / 1e6:.0f} M/s",
            rate.events_per_second >= rate.target,
        )


def writing(folder: Path) -> None:
    """Synthetic patterns written as workload files, without a run."""
    names = sorted(path.name for path in (OUT / "workloads").iterdir())
    rate = {name: rates.written_per_second(name, folder) for name in names}
    for name, (events, per_second) in rate.items():
        row(f"write {name}, {events / 1e6:.1f} M events", f"{per_second / 1e6:.1f} M events/s of CPU", "", None)
    median = statistics.median(per_second for _, per_second in rate.values())
    what = f"median of {len(rate)} synthetic patterns: written as workload files"
    row(what, f"{median / 1e6:.1f} M events/s of CPU", ">= 20 M/s", median >= 20e6)


def replaying(larson: Path, folder: Path) -> None:
    """The engine's own cost: threads, remote frees, many threads, memory; and on a real recording."""
    scale = rates.wall_ns_per_op(larson, "causal", processors="0") / rates.wall_ns_per_op(larson, "causal")
    row("engine, larson of 2 threads, causal: 2 processors to 1", f"{scale:.2f} times", ">= 1.8", scale >= 1.8)
    shape = {"ops": 4_000_000, "threads": 2, "only_malloc_free": 1, "live_objects": 100_000, "run_ops": 1000}
    remote, local = (
        rates.cpu_ns_per_op(rates.generated(folder, f"remote{share}", remote_percent=share, **shape), "causal")
        for share in (95, 0)
    )
    extra = 2 * (remote - local)  # every second op is a free
    row("engine, a remote free of a ready object", f"{extra:.1f} ns more than a local one", "<= 50 ns", extra <= 50)
    for threads in (1, 8, 64, 1000):
        shape = {"ops": 400_000, "threads": threads, "live_objects": 4000, "remote_percent": 5, "run_ops": 200}
        many = rates.generated(folder, f"threads{threads}", **shape)
        values = (f"{order} {rates.wall_ns_per_op(many, order):.0f}" for order in ("causal", "window", "recorded"))
        row(f"engine, {threads} threads, wall ns per op", ", ".join(values), "", None)
    peak = rates.engine_peak_rss_bytes(larson)
    row("engine's peak RSS, larson", f"{peak / MIB:.0f} MiB", "<= 64 MiB", peak <= 64 * MIB)
    android = folder / "android.work"
    succeed(CONVERT, "compile", REPOSITORY / "workloads/corpus/android-systemui.zip", "-o", android, "--json")
    bare = rates.cpu_ns_per_op(android, "window", null=False)
    row("Android recording, 393 threads, bare with glibc", f"{bare:.0f} ns CPU/op", "<= 21 ns", bare <= 21)
    timed = rates.wall_ns_per_op(android, "window", pass_="time", null=False)
    row("Android recording, time pass, wall", f"{timed:.0f} ns/op", "<= 71 ns", timed <= 71)


def the_reference_allocator(folder: Path) -> None:
    """Against glibc, and its own four corners."""
    shares = []
    for name, tape in reference_allocator.workloads(folder):
        result = reference_allocator.against_glibc(name, tape, folder)
        shares.append(result.cycles_share)
        cycles, peak = f"{result.cycles_share:.1%}", f"{result.peak_rss_share:.1%}"
        row(f"reference against glibc, {name}: cycles of all calls", cycles, "<= 100 %", result.cycles_share <= 1)
        row(f"reference against glibc, {name}: peak RSS", peak, "<= 102 %", result.peak_rss_share <= 1.02)
        corners = reference_allocator.corners(tape, folder)
        malloc, total, rss = (after / before for before, after in zip(corners["fastbins"], corners["both"]))
        value = f"malloc {malloc:.1%}, total {total:.1%}, peak RSS {rss:.1%}"
        row(f"reference, {name}: tcache over fast bins alone", value, "malloc <= 75 %", malloc <= 0.75)
        if name == "git":
            saved = reference_allocator.atomics_saved_per_fast_free(tape, folder)
            row("reference, git: atomics saved per free by fastchunks=relaxed", f"{saved:.2f}", "1 of 2", saved == 1)
    mean = reference_allocator.geometric_mean(shares)
    row("reference against glibc, geometric mean of cycles", f"{mean:.1%}", "<= 90 %", mean <= 0.9)


def main() -> int:
    """Prints the table; 0 whether targets are met or not."""
    heading()
    with tempfile.TemporaryDirectory(prefix="heaptape-bench-") as name:
        folder = Path(name)
        recording(folder)
        work = converting(folder)
        importing(folder)
        writing(folder)
        the_reference_allocator(folder)
        single, ops = rates.single_thread_workload(folder)
        engine_ns = rates.engine_ns_per_op(single, ops)
        row(f"engine, null allocator, bare, {ops / 1e6:.1f} M ops", f"{engine_ns:.1f} ns/op", "<= 3 ns", engine_ns <= 3)
        replaying(work, folder)
        replay_s, report_s, results = rates.replay_and_report(work, folder)
        allocators = len({run["allocator"] for run in results["runs"]})
        row(f"replay of larson, {allocators} allocators, time and memory, once", f"{replay_s:.0f} s", "", None)
        row(f"report of larson, {allocators} allocators", f"{report_s:.1f} s", "< 30 s", report_s < 30)
        large = big_report.measure(folder)
        shape = f"{big_report.WORKLOADS} workloads × {len(big_report.ALLOCATORS)} allocators × {big_report.REPEATS}"
        row(f"report of {shape} repetitions", f"{large.seconds:.1f} s", "<= 20 s", large.seconds <= 20)
        row(
            f"report of {shape} repetitions: page",
            f"{large.page_bytes / 1e6:.1f} MB",
            "<= 8 MB",
            large.page_bytes <= 8e6,
        )
        print(f"\nWorkload larson: sha256 {results['workload']['sha256']}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
