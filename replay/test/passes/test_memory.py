# SPDX-License-Identifier: MIT
"""The memory pass: planted memory, peaks and system calls are measured exactly."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.support import compile_trace, import_text

from .. import engine
from ..engine import ENGINE, PLANTED, make
from ..test_engine import map_rows

OS_PAGE, MIB, HUGE_PAGE = 4096, 1 << 20, 2 << 20
# Linux 6.17 and later sum each processor's counts for RssAnon; earlier versions are up to 64 OS pages late.
EXACT_RSS = tuple(int(part) for part in os.uname().release.split(".")[:2]) >= (6, 17)
RSS_ERROR_BYTES = 0 if EXACT_RSS else 64 * OS_PAGE
# What glibc's own start-up and the engine's stack may touch after the baseline was measured.
ENGINE_ERROR_BYTES = RSS_ERROR_BYTES + 4 * OS_PAGE


OTHERS = [pytest.param(name, marks=pytest.mark.long) for name in ("libjemalloc.so.2", "libtcmalloc_minimal.so.4")]


def memory_pass(path, *arguments, **plants):
    run = engine.memory_pass(path, *arguments, **plants)
    if "syscalls" not in run:
        pytest.skip(run["syscalls_missing_because"])
    return run


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    path = tmp_path_factory.mktemp("memory") / "mixed.work"
    return path, make(path, ops=8000, threads=4, live_objects=500, remote_percent=20)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Objects of less than an OS page, only malloc and free: each has its own mapping of two OS pages under
    OS_PAGES=1."""
    path = tmp_path_factory.mktemp("memory") / "small.work"
    return path, make(path, ops=6000, threads=1, live_objects=300, size_limit=512, only_malloc_free=1)


def timed(folder, lines):
    """The workload of these calls, whose times are nanoseconds."""
    return compile_trace(import_text(folder, "\n".join(lines) + "\n", "clock=nanoseconds"))


def test_the_mean_over_recorded_time_counts_memory_for_as_long_as_it_was_held(tmp_path):
    """8 MiB for a tenth of a second, then hardly anything for nine: half of the ops, a tenth of the time."""
    lines = ["0 1 malloc(8388608) = 0x10000000", "100000000 1 free(0x10000000)"]
    lines += ["100000100 1 malloc(16) = 0x1000", "1000000000 1 free(0x1000)"]
    run = engine.memory_pass(timed(tmp_path, lines), "--touch=all", preload=None)
    assert run["rss_anon_wall_mean_bytes"] == pytest.approx(0.1 * 8 * MIB, abs=ENGINE_ERROR_BYTES)
    parts = run["wall_parts"]
    assert (parts["from_ns"], parts["ns"]) == (0, 1000000000)
    tenth = len(parts["rss_anon_bytes"]) // 10
    for part, rss in enumerate(parts["rss_anon_bytes"]):
        assert part == tenth or rss == pytest.approx(8 * MIB if part < tenth else 0, abs=ENGINE_ERROR_BYTES), part
    assert run["rss_anon_mean_bytes"] == pytest.approx(0.25 * 8 * MIB, abs=ENGINE_ERROR_BYTES)


def test_a_thread_whose_turn_comes_late_puts_no_clock_ahead(tmp_path):
    """The second thread's next op is the last but one."""
    lines = ["0 2 malloc(16) = 0x2000", "1000000 1 malloc(8388608) = 0x10000000", "900000000 1 free(0x10000000)"]
    lines += ["990000000 2 malloc(16) = 0x1000", "1000000000 2 free(0x1000)"]
    run = engine.memory_pass(timed(tmp_path, lines), "--touch=all", preload=None)
    assert run["rss_anon_wall_mean_bytes"] == pytest.approx(0.9 * 8 * MIB, abs=ENGINE_ERROR_BYTES)


def test_an_allocators_thread_gives_memory_back_in_recorded_idle_time(tmp_path):
    """8 MiB that a thread of the allocator gives back by a timed wait of two seconds, in a recorded gap of ten."""
    lines = ["0 1 malloc(16) = 0x1000", "10000000000 1 free(0x1000)"]
    run = memory_pass(timed(tmp_path, lines), HOLD_BYTES=8 * MIB, RELEASE_AFTER_MS=2000)
    assert run["rss_anon_wall_mean_bytes"] == pytest.approx(0.2 * 8 * MIB, rel=0.1)
    assert run["rss_anon_end_bytes"] < MIB < run["rss_anon_peak_bytes"]


@pytest.mark.parametrize("preload", [None, PLANTED, *OTHERS])
def test_recorded_order_gives_the_same_memory_twice(mixed, preload):
    """Bit for bit: position, RssAnon, VmSize and live bytes of each sample; peaks; each system call at its place.

    For allocators that do not read the kernel's random numbers (mimalloc does) nor, as this workload has no times, the
    clock (jemalloc does for its decay, hence the setting). The samples of RssAnon are exact since Linux 6.17; on
    earlier versions only the other figures are compared.
    """
    path, made = mixed
    decay = "--env=MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:-1"
    first, second = (memory_pass(path, decay, preload=preload) for _ in range(2))
    columns = slice(None) if EXACT_RSS else slice(0, None, 3)
    assert not first["aslr"]
    assert len(first["timeline"]) >= 1000
    assert [row[columns] for row in first["timeline"]] == [row[columns] for row in second["timeline"]]
    assert [row[2] for row in first["timeline"]] == [row[2] for row in second["timeline"]]
    assert first["live_bytes_peak"] == second["live_bytes_peak"] == made["peak_live_bytes"]
    exact = ("fragmentation", "held", "rss_anon_peak_bytes") if EXACT_RSS else ()
    for key in ("syscall_rows", "vm_size_peak_bytes", "memory_map", *exact):
        assert first[key] == second[key], key


@pytest.mark.parametrize("after_ms", [500, 1500])
def test_allocators_clock_goes_as_it_was_recorded(tmp_path, after_ms):
    """Recorded at an op per 100 us: what the allocator does after some time, it does at that op, however fast the
    replay is."""
    path = tmp_path / "timed.work"
    make(path, ops=20000, threads=1, live_objects=300, size_limit=512, only_malloc_free=1, gap_ns=100000)
    run = memory_pass(path, "--touch", "none", HOLD_AFTER_MS=after_ms)
    assert run["clock"] == "recorded"
    held = [row for row in run["syscall_rows"] if row[1:] == ["mmap", 1 << 20]]
    assert len(held) == 1
    assert held[0][0] == pytest.approx(10 * after_ms, abs=60)  # some ops are frees; times are exact to 1 ms


def test_an_allocator_can_calibrate_its_cycle_counter_while_it_is_loaded(small):
    assert memory_pass(small[0], CALIBRATES=1)["clock"] == "steps"


@pytest.mark.parametrize("options", [("--clock", "real"), ("--order", "paced=1000")])
def test_allocators_clock_is_real_on_demand(tmp_path, options):
    """Recorded over 200,000 s, which no replay waits for."""
    path = tmp_path / "timed.work"
    gap_ns = 100 if "paced=1000" in options else 10**11
    make(path, ops=2000, threads=1, live_objects=30, only_malloc_free=1, gap_ns=gap_ns)
    run = memory_pass(path, *options, HOLD_AFTER_MS=10**8)
    assert run["clock"] == "real"
    assert not [row for row in run["syscall_rows"] if row[1:] == ["mmap", 1 << 20]]


def test_bytes_held_per_object_are_measured(small):
    path, made = small
    run = memory_pass(path, "--touch", "none", OS_PAGES=1)
    start = run["rss_anon_start_bytes"]
    objects = made["peak_live_bytes"] and [row[1] for row in run["timeline"]]
    assert all(abs((rss - start) % (2 * OS_PAGE)) <= ENGINE_ERROR_BYTES for rss in objects)
    assert abs(run["rss_anon_end_bytes"] - start - made["live_end_objects"] * 2 * OS_PAGE) <= ENGINE_ERROR_BYTES
    assert run["vm_size_end_bytes"] - run["timeline"][0][2] == made["live_end_objects"] * 2 * OS_PAGE


def test_huge_pages_are_counted_in_start_up_and_replay(tmp_path):
    if "[never]" in Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text():
        pytest.skip("the kernel gives no huge pages")
    path = tmp_path / "large.work"
    make(path, ops=40_000, threads=1, live_objects=300, size_limit=40_000, only_malloc_free=1)
    plain, huge = (memory_pass(path, HOLD_BYTES=4 * HUGE_PAGE, HUGE_PAGES=on) for on in (0, 1))
    assert (plain["huge_pages"], plain["startup_huge_pages"]) == (0, 0)
    assert huge["startup_huge_pages"] in (3, 4, 5)  # where the arena begins is up to the kernel
    grown = huge["rss_anon_end_bytes"] - huge["rss_anon_start_bytes"]
    assert huge["huge_pages"] == round(grown / HUGE_PAGE) > 10
    assert huge["page_faults"] < huge["huge_pages"] + 200 < plain["page_faults"] / 10


def test_a_callers_refusal_of_huge_pages_does_not_reach_the_engine(small, tmp_path):
    refusing = tmp_path / "refusing"
    code = f"import ctypes, os, sys; ctypes.CDLL(None).prctl(41, 1, 0, 0, 0); os.execv('{ENGINE}', sys.argv)"
    refusing.write_text(f"#!{sys.executable}\n{code}\n")
    refusing.chmod(0o755)
    plants = {"HOLD_BYTES": 4 * HUGE_PAGE, "HUGE_PAGES": 1}
    had, has = (memory_pass(small[0], program=program, **plants) for program in (ENGINE, refusing))
    assert had["startup_huge_pages"] == has["startup_huge_pages"]


def test_memory_returned_in_system_calls_is_measured(small):
    """Each malloc maps, each free unmaps: kinds, bytes and positions match the calls."""
    path, made = small
    run = memory_pass(path, OS_PAGES=1)
    mallocs, frees = made["calls"]["malloc"], made["calls"]["free"]
    # The constructor's arena is one mmap and one madvise more.
    assert run["syscalls"] == {"mmap": mallocs + 1, "munmap": frees, "mremap": 0, "madvise": 1, "brk": 0}
    assert run["syscall_bytes"]["munmap"] == frees * 2 * OS_PAGE
    rows = run["syscall_rows"]
    assert [row[0] for row in rows] == list(range(made["ops"]))
    assert {row[1] for row in rows} == {"mmap", "munmap"}
    live = 0
    by_position = {row[0]: row[3] for row in run["timeline"]}
    assert len(by_position) >= 1000
    for position, kind, bytes_ in rows:
        live += 1 if kind == "mmap" else -1
        assert bytes_ == 2 * OS_PAGE
        if position + 1 in by_position:
            assert (by_position[position + 1] > 0) == (live > 0)
    assert live == made["live_end_objects"]


@pytest.mark.parametrize("spike", [1 << 20, 32 << 20])
def test_peak_inside_a_call_is_found_exactly(small, spike):
    """Memory that is mapped and unmapped within one malloc, where no sample is ever taken."""
    path, made = small
    without, with_ = (memory_pass(path, SPIKE_AT=at, SPIKE_BYTES=spike) for at in (0, made["calls"]["malloc"] // 2))
    sampled = max(row[1] for row in with_["timeline"])
    assert sampled == pytest.approx(max(row[1] for row in without["timeline"]), abs=RSS_ERROR_BYTES)
    assert with_["peaks"] == "exact"
    before = max(row[1] for row in with_["timeline"] if row[0] <= with_["rss_anon_peak_position"])
    assert abs(with_["rss_anon_peak_bytes"] - before - spike) <= RSS_ERROR_BYTES + 2 * OS_PAGE
    vm_before = max(row[2] for row in with_["timeline"] if row[0] <= with_["rss_anon_peak_position"])
    assert with_["vm_size_peak_bytes"] == vm_before + spike


def test_peak_agrees_with_the_kernels_own(small):
    """VmHWM also counts the engine's shared and file memory, of which there is less at the spike than at the end."""
    path, _ = small
    spike = 256 << 20
    run = memory_pass(path, SPIKE_AT=1000, SPIKE_BYTES=spike)
    without = memory_pass(path)
    engine_bytes = without["vm_hwm_bytes"] - without["rss_anon_peak_bytes"]
    assert run["vm_hwm_bytes"] - run["rss_anon_peak_bytes"] == pytest.approx(engine_bytes, abs=spike / 100)


def test_held_memory_and_what_a_purge_gives_back_are_measured(mixed):
    path, made = mixed
    hold = 8 << 20
    run = memory_pass(path, HOLD_BYTES=hold)
    held = run["held"]
    # It never uses an address twice, so all memory that was ever touched is held.
    assert held["rss_anon_bytes"] == pytest.approx(run["rss_anon_end_bytes"], abs=ENGINE_ERROR_BYTES)
    assert held["purge_call"] == "malloc_trim(0)"
    assert held["rss_anon_bytes"] - held["purged_rss_anon_bytes"] == pytest.approx(hold, abs=RSS_ERROR_BYTES)
    assert held["syscalls"] == {"mmap": 0, "munmap": 0, "mremap": 0, "madvise": 1, "brk": 0}


def test_all_memory_given_back_leaves_nothing_held(small):
    path, made = small
    run = memory_pass(path, OS_PAGES=3)
    assert run["held"]["rss_anon_bytes"] - run["rss_anon_start_bytes"] <= ENGINE_ERROR_BYTES
    assert run["held"]["syscalls"]["munmap"] == made["live_end_objects"]


@pytest.mark.parametrize(
    ("preload", "call"),
    [
        (None, "malloc_trim(0)"),
        ("libjemalloc.so.2", "mallctl thread.tcache.flush, arena.4096.purge"),
        ("libtcmalloc_minimal.so.4", "MallocExtension_ReleaseFreeMemory()"),
        ("libmimalloc.so.2", "mi_collect(true)"),
        ("libtbbmalloc_proxy.so.2", "scalable_allocation_command(TBBMALLOC_CLEAN_ALL_BUFFERS)"),
    ],
)
def test_each_known_allocator_is_purged_by_its_own_call(mixed, preload, call):
    held = memory_pass(mixed[0], preload=preload)["held"]
    assert held["purge_call"] == call
    assert held["purged_rss_anon_bytes"] <= held["rss_anon_bytes"] + RSS_ERROR_BYTES


def test_page_cache_of_the_workload_is_not_counted_as_memory(tmp_path):
    """A file of 23 MiB, in the page cache or not: RssAnon is the same throughout, and total RSS little more than with a
    small file.

    The words are read into buffers of fixed size, so a workload larger than memory works, too.
    """
    path = tmp_path / "long.work"
    make(path, ops=3_000_000, threads=2, live_objects=300, only_malloc_free=1, run_ops=1000)
    assert path.stat().st_size > 20 << 20
    warm = memory_pass(path, preload=None)
    not_cached(path)
    cold = memory_pass(path, preload=None)
    assert [row[0::3] for row in warm["timeline"]] == [row[0::3] for row in cold["timeline"]]
    assert cold["rss_anon_peak_bytes"] == pytest.approx(warm["rss_anon_peak_bytes"], abs=RSS_ERROR_BYTES)
    short = tmp_path / "short.work"
    make(short, ops=30_000, threads=2, live_objects=300, only_malloc_free=1, run_ops=1000)
    small = memory_pass(short, preload=None)
    for run in (warm, cold):
        engine_bytes, small_bytes = (r["vm_hwm_bytes"] - r["rss_anon_peak_bytes"] for r in (run, small))
        assert engine_bytes < small_bytes + (4 << 20)


def test_counters_are_there_or_the_reason_is_reported(mixed):
    """With a PMU or without: missing counters have a reason. Instructions are those of all threads, which make the
    calls."""
    path, made = mixed
    run = engine.replay("--pass", "bare", path)
    counted = set(run["counters"])
    if "instructions" in counted:
        assert run["counters"]["instructions"] > 10 * sum(made["calls"].values())
    else:
        assert run["counters_missing_because"]
    assert set(run["engine_counters_per_op"]) <= counted
    assert "task_clock_ns" in counted or "perf_event_open" in run["counters_missing_because"]


def test_residency_in_the_memory_map_adds_up_to_rss(small):
    """At the last position: every resident OS page that is not the engine's."""
    path, made = small
    run = memory_pass(path, OS_PAGES=1)
    map_ = run["memory_map"]
    assert map_["residency"] in ("pagemap scan", "pagemap")
    assert map_["resident_bytes_lost"] == 0
    resident = sum(row[2] for row in map_rows(map_)[-1])
    # libc's thread block and the like are there from the start.
    assert abs(resident - made["live_end_objects"] * 2 * OS_PAGE) <= 16 * OS_PAGE


def test_the_memory_map_reaches_the_last_op_however_few_there_are(tmp_path):
    path = tmp_path / "few.work"
    make(path, ops=511, threads=1)
    run = memory_pass(path)
    for table in ("memory_map", "fragmentation"):
        assert run[table]["positions"][-1] == run["ops"]


def not_cached(path):
    """Makes the kernel drop a file's pages from its cache: they are read back from the disk in other pieces than
    written."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def pages_moved():
    """OS pages that the kernel moved or tried to move: it compacts memory when free memory is in small pieces."""
    rows = (line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    return sum(int(count) for name, count in rows if name.startswith("pgmigrate_"))


def undisturbed_page_faults(*arguments, **options):
    """Page faults of a run in which the kernel moved no OS page: one that is touched while it is moved faults once
    more.

    If it moves some in each of twenty runs, those of the run with the fewest.
    """
    found = []
    for _ in range(20):
        before = pages_moved()
        found.append(engine.memory_pass(*arguments, **options)["page_faults"])
        if pages_moved() == before:
            return found[-1]
    return min(found)


@pytest.mark.parametrize("preload", [None, OTHERS[0]])
def test_page_faults_do_not_depend_on_the_page_cache_nor_on_what_the_process_was_started_with(
    mixed, preload, tmp_path, monkeypatch
):
    """Nor on the lengths of the environment, the working directory, the program's path and the workload's: exactly."""
    path, _ = mixed
    decay = "--env=MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:-1"
    expected = undisturbed_page_faults(path, decay, preload=preload)
    deep = tmp_path / ("d" * 200) / ("e" * 200)
    deep.mkdir(parents=True)
    program = Path(shutil.copy2(engine.ENGINE, deep))
    same = shutil.copy2(path, deep / "w.work")
    found = {}
    for where, length in zip((tmp_path, deep) * 2, (1, 5_000, 17_000, 40_000), strict=True):
        monkeypatch.chdir(where)
        environment = {**os.environ, "HEAPTAPE_TEST_FILLS": "x" * length}
        options = {"preload": preload, "program": program, "environment": environment}
        found[length] = undisturbed_page_faults(same, decay, **options)
        not_cached(program)
    assert found == dict.fromkeys(found, expected)


def test_objects_beyond_all_memory_take_no_time_and_are_lost_from_the_map(tmp_path):
    """Of 2^55 bytes each, which an allocator that touches nothing may give."""
    lines = [f"{number} 1 malloc({1 << 55}) = {0x10000000 + number * (1 << 56):#x}" for number in range(3)]
    lines += ["4 1 malloc(100) = 0x1000", "5 1 free(0x1000)"]
    map_ = engine.replay("--pass", "memory", "--null", timed(tmp_path, lines))["memory_map"]
    assert map_["bytes_lost"] > 1 << 55
