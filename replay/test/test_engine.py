# SPDX-License-Identifier: MIT
"""The engine, run as a program on generated workloads. The planted allocator's costs are known beforehand.

Long: 10,000 threads; 1,000 are in the short run.
"""

import base64
import json
import re
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from tests.support import REPLAY, REPOSITORY, compile_c, compile_trace, import_text, refused

from .engine import OUT, PLANTED, engine, make, replay

ON_PLANTED_CLOCK = OUT / "test-programs/heaptape-replay-planted-clock"  # the same sources on planted_clock.h
READING = 32  # cycles that a reading of that clock takes
RSS_ERROR_BYTES = 64 * 4096  # Linux before 6.17 counts RssAnon up to 64 OS pages late.
CONTROLS = {
    int(number): name
    for number, name in re.findall(
        r'CONTROL_NAME\((\d+), \w+, "([^"]+)"', (REPOSITORY / "core/trace/control_names.def").read_text()
    )
}
ORDERS = ["recorded", "causal", "window=256", "window"]
PASSES = ["time", "memory", "bare"]

MIXED = {"ops": 8000, "threads": 4, "live_objects": 500, "remote_percent": 20}
SINGLE = {"ops": 10000, "threads": 1, "live_objects": 800}


def replay_on_planted_clock(*arguments, **plants):
    return replay(*arguments, program=ON_PLANTED_CLOCK, **plants)


def one_error(result, status=1):
    assert result.returncode == status, (result.returncode, result.stderr)
    assert result.stdout == ""
    lines = [line for line in result.stderr.splitlines() if line.startswith("heaptape-replay: ")]
    assert len(lines) == 1
    return lines[0]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    path = tmp_path_factory.mktemp("replay") / "mixed.work"
    return path, make(path, **MIXED)


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    path = tmp_path_factory.mktemp("replay") / "single.work"
    return path, make(path, **SINGLE)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("pass_", PASSES)
def test_every_pass_and_order_replays_every_op(mixed, pass_, order):
    path, made = mixed
    for allocator in (["--null"], [], ["--preload", PLANTED]):
        run = replay("--pass", pass_, "--order", order, *allocator, path)
        assert run["ops"] == made["ops"]
        assert run["failed_calls"] == run["skipped_ops"] == 0
        assert run["order"] == {"window": "window=4096"}.get(order, order)
        if pass_ == "time":
            assert {name: call["count"] for name, call in run["calls"].items()} == made["calls"]
        if pass_ == "memory":
            assert run["live_bytes_end"] == made["live_end_bytes"]
            assert run["timeline"][-1][0] == made["ops"]
            assert len(run["timeline"]) >= 1000


@pytest.mark.parametrize("order", ["causal", "window=1", "window=100"])
def test_no_object_is_freed_before_it_was_handed_out(tmp_path, order):
    """The planted allocator aborts when an object that is not live is freed, so a WAIT that is not obeyed would
    show."""
    path = tmp_path / "remote.work"
    for seed in range(2):
        made = make(path, ops=20000, threads=6, live_objects=60, remote_percent=90, run_ops=2, seed=seed)
        run = replay("--pass", "bare", "--order", order, "--preload", PLANTED, path)
        assert run["ops"] == made["ops"]
        assert run["waits"]["count"] > 0


@pytest.mark.parametrize("order", ["recorded", "window"])
@pytest.mark.parametrize(("threads", "live"), [(1000, 0), pytest.param(10000, 8, marks=pytest.mark.long)])
def test_many_threads_come_and_go(tmp_path, threads, live, order):
    path = tmp_path / "threads.work"
    made = make(path, ops=20000, threads=threads, threads_live=live, live_objects=300, remote_percent=10)
    run = replay("--pass", "bare", "--order", order, path)
    assert run["ops"] == made["ops"]
    assert run["threads"] == threads


def test_refused_requests_are_counted_and_their_objects_left_out(mixed):
    path, made = mixed
    run = replay("--pass", "memory", "--preload", PLANTED, path, REFUSE_FROM=1000)
    whole = replay("--pass", "memory", "--preload", PLANTED, path)
    assert run["failed_calls"] > 0
    assert run["skipped_ops"] > 0
    assert run["ops"] == made["ops"]
    assert run["live_bytes_end"] < whole["live_bytes_end"]


def test_crash_of_the_allocator_is_reported_with_its_op(single):
    path, _ = single
    error = one_error(engine("--pass", "bare", "--preload", PLANTED, path, CRASH_AT=2000))
    assert "the allocator was killed by signal 11 (SIGSEGV) at op " in error
    assert error.endswith(" of thread 0")
    earlier = one_error(engine("--pass", "time", "--preload", PLANTED, path, CRASH_AT=1999))
    assert int(earlier.split(" at op ")[1].split()[0]) < int(error.split(" at op ")[1].split()[0])


@pytest.mark.parametrize("which", PASSES)
def test_library_without_malloc_is_refused(single, tmp_path, which):
    """Else the C library would be measured under its name."""
    library = tmp_path / "none.so"
    subprocess.run(["gcc", "-shared", "-x", "c", "/dev/null", "-o", library], check=True)
    path, _ = single
    assert one_error(engine("--pass", which, "--preload", library, path)).endswith(f"{library}: defines no malloc")


def test_planted_cycles_are_measured(single):
    """On the real counter: a malloc that spins for that many cycles is never reported with less than half of them."""
    path, _ = single
    planted = 4000
    calls = replay("--pass", "time", "--preload", PLANTED, path, SPIN_CYCLES=planted)["calls"]
    assert calls["malloc"]["histogram"][0][0] >= planted / 2


def test_planted_memory_is_measured(single):
    path, made = single
    hold = 8 << 20
    without, holding = (
        replay("--pass", "memory", "--touch", "all", "--preload", PLANTED, path, HOLD_BYTES=bytes_)
        for bytes_ in (0, hold)
    )
    for key in ("rss_anon_peak_bytes", "rss_anon_end_bytes", "rss_anon_mean_bytes"):
        assert abs(holding[key] - without[key] - hold) <= RSS_ERROR_BYTES, key
    assert abs(holding["vm_size_peak_bytes"] - without["vm_size_peak_bytes"]) <= RSS_ERROR_BYTES
    assert holding["rss_anon_start_bytes"] >= hold
    assert without["live_bytes_peak"] == made["peak_live_bytes"]


def test_planted_system_calls_are_counted(single):
    path, made = single
    run = replay("--pass", "memory", "--preload", PLANTED, path, MAP_EVERY=10)
    if "syscalls" not in run:
        pytest.skip(run["syscalls_missing_because"])
    expected = (made["calls"]["malloc"] + made["calls"].get("operator new", 0)) // 10
    # The constructor's arena is one mmap and one madvise more.
    assert run["syscalls"] == {"mmap": expected + 1, "munmap": expected, "mremap": 0, "madvise": expected + 1, "brk": 0}
    assert run["syscall_bytes"]["munmap"] == expected * 65536


def test_touching_every_byte_costs_more_memory_than_the_first(tmp_path):
    path = tmp_path / "large.work"
    make(path, ops=500, threads=1, live_objects=50, size_limit=1 << 20)
    peaks = [
        replay("--pass", "memory", "--touch", touch, "--preload", PLANTED, path)["rss_anon_peak_bytes"]
        for touch in ("none", "first", "pages", "all")
    ]
    none, first, pages, every = peaks
    assert none <= first + RSS_ERROR_BYTES
    assert pages > 2 * first
    assert abs(every - pages) < every / 50


def map_rows(map_):
    """Each position's [(region, live bytes, resident bytes)]."""
    cells, at, rows = zlib.decompress(base64.b64decode(map_["cells"])), 0, []
    for _ in map_["positions"]:
        (count,) = struct.unpack_from("<I", cells, at)
        rows.append([struct.unpack_from("<QII", cells, at + 4 + 16 * index) for index in range(count)])
        at += 4 + 16 * count
    assert at == len(cells)
    return rows


def test_memory_map_holds_all_live_bytes(single):
    path, made = single
    map_ = replay("--pass", "memory", path)["memory_map"]
    assert map_["encoding"] == "zlib+base64"
    assert map_["columns"] == ["region", "live_bytes", "resident_bytes"]
    assert map_["bytes_lost"] == map_["resident_bytes_lost"] == 0
    rows = map_rows(map_)
    for position in rows:
        assert position == sorted(position)
        assert all(live <= map_["region_bytes"] and resident <= map_["region_bytes"] for _, live, resident in position)
    sums = [sum(live for _, live, _ in position) for position in rows]
    assert sums[0] == 0
    assert sums[-1] == made["live_end_bytes"]
    assert map_["positions"] == sorted(map_["positions"])


@pytest.mark.parametrize("threads", [1, 3])
def test_sum_of_timed_calls_is_what_the_bare_pass_measures(tmp_path, threads):
    """With threads, too: none of their waiting for one another counts as the allocator's, except the reading that
    begins it."""
    path = tmp_path / "plain.work"
    made = make(path, ops=20000, threads=threads, only_malloc_free=1)
    flags = ("--touch", "none", "--preload", PLANTED, path)
    timed = replay_on_planted_clock("--pass", "time", *flags, SPIN_CYCLES=10000)
    bare = replay_on_planted_clock("--pass", "bare", *flags, SPIN_CYCLES=10000)
    assert timed["cycles_total"] == 10000 * made["calls"]["malloc"]
    assert bare["cycles_total"] == timed["cycles_total"] + READING * bare["waits"]["count"]
    assert bare["cpu_ns"] == bare["cycles_total"]


def test_baseline_is_that_of_an_engine_without_allocator(single):
    path, _ = single
    baseline = json.loads(engine("--baseline", path).stdout)["rss_anon_bytes"]
    run = replay("--pass", "memory", "--baseline-rss-anon-bytes", baseline, path)
    assert run["rss_anon_baseline_bytes"] == baseline
    assert run["rss_anon_start_bytes"] <= 64 << 10


def test_library_that_cannot_be_loaded_is_an_error(single, tmp_path):
    path, _ = single
    text = tmp_path / "not_a_library.so"
    text.write_text("not a library")
    assert "not_a_library.so: the dynamic linker can't load it" in one_error(
        engine("--pass", "bare", "--preload", text, path)
    )


def system_libc() -> tuple[Path, Path]:
    """Its dynamic linker, and the file of its C library."""
    maps = subprocess.run(["cat", "/proc/self/maps"], capture_output=True, text=True, check=True).stdout
    mapped = {Path(word) for line in maps.splitlines() for word in line.split()[5:6] if word.startswith("/")}
    return tuple(next(path for path in mapped if path.name.startswith(name)) for name in ("ld-linux", "libc.so"))


def test_a_c_library_of_another_folder_is_replayed_by_its_own_loader(single, tmp_path):
    path, made = single
    folder = tmp_path / "other"
    folder.mkdir()
    loader, library = (Path(shutil.copy(file, folder)) for file in system_libc())
    given = ["--pass", "bare", "--loader", loader, "--libraries", folder]
    planted = ["--preload", PLANTED, path]
    for words, malloc in (([path], library), (["--libraries", PLANTED.parent, *planted], PLANTED)):
        run = replay(*given, *words)
        assert run["ops"] == made["ops"]
        assert run["malloc"]["path"] == str(malloc)
    says = f"not its C library's malloc was replayed, but that of {PLANTED}"
    assert says in one_error(engine(*given, *planted))


@pytest.mark.parametrize(
    ("content", "says"), [(None, "can't open"), (b"text", "not a dynamic linker"), ("machine", "of another processor")]
)
def test_what_is_no_loader_of_the_engine_is_one_error(single, tmp_path, content, says):
    loader = tmp_path / "ld.so"
    if content == "machine":
        data = bytearray(system_libc()[0].read_bytes())
        data[18:20] = struct.pack("<H", 243)
        content = bytes(data)
    if content:
        loader.write_bytes(content)
    result = engine("--pass", "bare", "--loader", loader, "--libraries", tmp_path, single[0])
    assert says in result.stderr
    assert result.returncode in (1, 2)


# Writes what it is told.
TOLD = """
extern void *__libc_malloc(size_t); extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t); extern void __libc_free(void *);
void *malloc(size_t n) { return __libc_malloc(n); }
void *calloc(size_t n, size_t m) { return __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { return __libc_realloc(p, n); }
void free(void *p) { __libc_free(p); }
static void tell(const char *format, ...) {
  char text[200];
  va_list all;
  va_start(all, format);
  int n = vsnprintf(text, sizeof text, format, all), fd = open(getenv("TOLD"), O_WRONLY | O_APPEND | O_CREAT, 0600);
  write(fd, text, n);
  close(fd);
}
static void value(const void *new, size_t bytes, unsigned *old, size_t *old_bytes) {
  unsigned long long read = 0;
  memcpy(&read, new ? new : &read, bytes);
  tell(" %zu:%lld %d\\n", bytes, read, old && *old_bytes == sizeof *old);
}
int mallctl(const char *name, void *old, size_t *old_bytes, void *new, size_t bytes) {
  tell("%s", name);
  value(new, bytes, old, old_bytes);
  return 0;
}
int mallctlnametomib(const char *name, size_t *mib, size_t *parts) {
  tell("look up %s\\n", name);
  for (size_t i = 0; i < 3; i++)
    mib[i] = 70 + i;
  *parts = 3;
  return 0;
}
int mallctlbymib(const size_t *mib, size_t parts, void *old, size_t *old_bytes, void *new, size_t bytes) {
  tell("%zu.%zu.%zu of %zu", mib[0], mib[1], mib[2], parts);
  value(new, bytes, old, old_bytes);
  return 0;
}
int MallocExtension_SetNumericProperty(const char *name, size_t value) { tell("%s %zu\\n", name, value); return 1; }
void *_ZN15MallocExtension8instanceEv(void) { return (void *)4; }
void _ZN22TCMallocImplementation20SetMemoryReleaseRateEd(void *self, double rate) { tell("%p %g\\n", self, rate); }
"""


def test_named_controls_reach_the_allocator_with_their_values(tmp_path):
    library = compile_c(tmp_path / "libtold.so", TOLD, "-shared", "-fPIC", "-O1", "-w")
    property_ = next(n for n, name in CONTROLS.items() if name == "tcmalloc.max_total_thread_cache_bytes")
    calls = {
        "mallctl(1, 0)": ["epoch 8:0 0"],
        "mallctl(2, 1)": ["background_thread 1:1 0"],
        "mallctl(2, 0)": ["background_thread 1:0 0"],
        "mallctl(4, 3)": ["thread.arena 4:3 0"],
        "mallctl(6, 0)": ["thread.tcache.flush 0:0 0"],
        "mallctl(8, 5)": [],
        "mallctl(13, 9)": ["tcache.create 0:0 1"],
        f"mallctl({5 << 16 | 21}, 7000)": ["arena.5.dirty_decay_ms 8:7000 0"],
        f"mallctlbymib({6 << 16 | 17}, 0)": ["look up arena.0.purge", "70.6.72 of 3 0:0 0"],
        f"mallctlbymib({7 << 16 | 17}, 0)": ["70.7.72 of 3 0:0 0"],
        "mallctlbymib(13, 0)": ["look up tcache.create", "70.71.72 of 3 0:0 1"],
        "mallctlbymib(8, 5)": [],
        f"tc_set_property({property_}, 123456)": ["tcmalloc.max_total_thread_cache_bytes 123456"],
        "tc_set_release_rate(2500000)": ["0x4 2.5"],
    }
    lines = ["1 0 malloc(8) = 0x1000", *(f"{i} 0 {call}" for i, call in enumerate(calls, 2))]
    work = compile_trace(import_text(tmp_path, "".join(f"{line}\n" for line in lines)))
    replay("--pass", "verify", f"--env=TOLD={tmp_path}/told", "--preload", library, work)
    assert (tmp_path / "told").read_text().splitlines() == [line for told in calls.values() for line in told]


@pytest.mark.parametrize("name", ["libnosuch.so", "/no/such.so"])
def test_unknown_allocator_is_wrong_usage(single, name):
    result = engine("--pass", "bare", "--preload", name, single[0])
    assert result.returncode == 2
    assert f"heaptape-replay: {name}: no such allocator\n" in result.stderr


def test_workload_without_ops_is_refused(tmp_path):
    path = compile_trace(import_text(tmp_path, ""))
    refused(REPLAY, "--pass", "bare", path, says=f"heaptape-replay: {path}: has no ops: there is nothing to replay\n")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--pass", "often"),
        ("--pass", "bare", "--order", "window=x"),
        ("--pass", "bare", "--null", "--preload", "x"),
        *(("--pass", "blame", *words.split()) for words in ("--at nowhere", "--at mark=", "--positions 251")),
        ("--pass", "blame", "--order", "causal"),
        ("--pass", "memory", "--at", "end"),
        *(("--pass", "contention", option, "x") for option in ("--accesses", "--origins", "--order")),
        ("--pass", "contention", "--caches", "64:1"),
        ("--pass", "contention", "--positions", "3"),
    ],
)
def test_wrong_usage_exits_2(single, arguments):
    result = engine(*arguments, single[0])
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("heaptape-replay: ")
