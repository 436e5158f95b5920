# SPDX-License-Identifier: MIT
"""One program, recorded by heaptape and by another recorder, has the same calls and sizes, except for what the other
one does not see or record; each such difference is a rule here. Long: memray.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import heaptape
import pytest

from tests.support import CONVERT, OUT, check, compile_c, need, record, run, succeed

PROGRAM = OUT / "test-programs" / "every_call"
FIRST_SIZE, LAST_SIZE = 1000003, 1000033
STEPS = "2000"
MALLOC_DEBUG = Path("/lib/x86_64-linux-gnu/libc_malloc_debug.so.0")
LTTNG_WRAPPER = "liblttng-ust-libc-wrapper.so.1"


# A program that has not reached the daemon within 3 s, as on a loaded machine, else begins without it.
TRACED = {"LTTNG_UST_ALLOW_BLOCKING": "1", "LTTNG_UST_REGISTER_TIMEOUT": "-1", "LD_PRELOAD": LTTNG_WRAPPER}


class Call(NamedTuple):
    """The part of a call on which recorders agree; null: it was given NULL."""

    name: str
    size: int = 0
    param: int = 0
    failed: bool = False
    null: bool = False


class Recorded(NamedTuple):
    """Calls with their thread, object passed in and object handed out."""

    call: Call
    thread: int
    released: str
    acquired: str


def calls_of(path: Path, *options: str, threads_whole: bool = False) -> list[Recorded]:
    """The calls between the two marks, in merged order. `threads_whole`: all calls of threads other than the marks'.

    Merged order is the order of the objects. Marks of one thread and calls of another have no object in common, so a
    call made before the second mark may come after it: by a tick of the recorder, which on a loaded machine is long.
    """
    rows = []
    inside = False
    marking = None
    for line in succeed(CONVERT, "dump", "--format", "jsonl", *options, path).stdout.splitlines():
        row = json.loads(line)
        size, acquired = row.get("size_bytes", 0), row.get("acquired", "")
        if size == FIRST_SIZE:
            inside, marking = True, row["thread"]
            continue
        if size == LAST_SIZE:
            inside = False
        if inside or (threads_whole and row["thread"] != marking):
            param = row.get("count", row.get("align_bytes", 0))
            released = row.get("released", "")
            has_null = row["call"] in ("free", "realloc", "reallocarray") and released in ("", None, "NULL")
            failed = row["call"] != "free" and acquired in ("", None, "NULL")
            rows.append(Recorded(Call(row["call"], size, param, failed, has_null), row["thread"], released, acquired))
    return rows


@pytest.fixture(scope="module")
def single(tmp_path_factory) -> list[Recorded]:
    """heaptape's own recording of the program with one thread."""
    tape = tmp_path_factory.mktemp("single") / "own.tape"
    record(tape, PROGRAM, "0", STEPS)
    return calls_of(tape)


@pytest.fixture(scope="module")
def threaded(tmp_path_factory) -> list[Recorded]:
    """The same with four threads."""
    tape = tmp_path_factory.mktemp("threaded") / "own.tape"
    record(tape, PROGRAM, "4", STEPS)
    return calls_of(tape, threads_whole=True)


Rule = Callable[[Call], Iterator[Call]]


def product(call: Call) -> int:
    """Requested bytes, times the count."""
    return call.size * call.param if call.name in ("calloc", "reallocarray") else call.size


def seen_by_heaptrack(call: Call) -> Iterator[Call]:
    """All acquires are malloc; realloc is free and malloc; failures, free(NULL) and some calls are not seen."""
    if call.failed or call.name in ("memalign", "pvalloc"):
        return
    if call.name == "free":
        if not call.null:
            yield Call("free")
        return
    if call.name in ("realloc", "reallocarray") and not call.null:
        yield Call("free")
    yield Call("malloc", product(call))


def seen_by_mtrace(call: Call) -> Iterator[Call]:
    """All acquires are malloc, except realloc; realloc(p, 0) is free; free(NULL) is not seen."""
    if call.name == "free":
        if not call.null:
            yield Call("free")
    elif call.name in ("realloc", "reallocarray") and not call.null:
        yield Call("free") if product(call) == 0 else Call("realloc", product(call), 0, call.failed)
    else:
        yield Call("malloc", product(call), 0, call.failed)


def seen_by_valgrind(call: Call) -> Iterator[Call]:
    """Aligned calls are memalign, reallocarray is realloc."""
    if call.name in ("memalign", "posix_memalign", "aligned_alloc"):
        yield call._replace(name="memalign")
    elif call.name == "valloc":
        yield call._replace(name="memalign", param=4096)
    elif call.name == "reallocarray":
        yield Call("realloc", product(call), 0, call.failed, call.null)
    else:
        yield call


def seen_by_ltrace(call: Call) -> Iterator[Call]:
    """All except posix_memalign, whose address it does not show."""
    if call.name != "posix_memalign":
        yield call


def seen_by_lttng(call: Call) -> Iterator[Call]:
    """All except these; reallocarray is realloc."""
    if call.name == "reallocarray":
        yield Call("realloc", product(call), 0, call.failed, call.null)
    elif call.name not in ("aligned_alloc", "valloc"):
        yield call


def expected(calls: list[Recorded], rule: Rule) -> list[Call]:
    """What the other recorder should have seen of heaptape's calls."""
    return [seen for recorded in calls for seen in rule(recorded.call)]


def by_thread(calls: list[Recorded], rule: Rule | None = None) -> Counter[tuple[Call, ...]]:
    """Each thread's calls in order: the same whatever the threads' numbers are."""
    threads: dict[int, list[Call]] = {}
    for recorded in calls:
        threads.setdefault(recorded.thread, []).extend(rule(recorded.call) if rule else [recorded.call])
    return Counter(tuple(own) for own in threads.values())


def assert_legal_and_compiled(path: Path, tmp_path: Path, *options: str) -> None:
    """The import's history is legal or excused, and compiles to a valid workload."""
    tape, work = tmp_path / "import.tape", tmp_path / "import.work"
    succeed(CONVERT, "convert", *options, path, tape)
    witness = check(tape)
    assert witness["ok"], witness
    succeed(CONVERT, "compile", tape, "-o", work)
    assert check(work)["ok"]


def heaptrack(folder: Path, threads: str) -> Path:
    need("heaptrack")
    succeed("heaptrack", "--raw", "-o", folder / "heap", PROGRAM, threads, STEPS)
    (made,) = folder.glob("heap.raw.*")
    return made


def test_heaptrack_four_threads(tmp_path, threaded):
    made = heaptrack(tmp_path, "4")
    seen, own = Counter(recorded.call for recorded in calls_of(made)), Counter(expected(threaded, seen_by_heaptrack))
    # The loader allocates a vector for each thread, 16 bytes for each library with thread-local variables; heaptrack
    # loads its own libraries.
    for only in (seen - own, own - seen):
        ((vector, count),) = only.items()
        assert (vector.name, vector.size % 16, count) == ("malloc", 0, 4)
    assert_legal_and_compiled(made, tmp_path)


def test_heaptrack_interpreted_has_the_calls_and_the_peak_of_its_raw_data(tmp_path):
    raw, made = heaptrack(tmp_path, "0"), tmp_path / "interpreted"
    interpreters = list(Path("/usr").glob("lib*/**/heaptrack_interpret"))
    if not interpreters:
        pytest.skip("heaptrack_interpret is not where Debian has it")
    unpacked = subprocess.run(["zstd", "-dc", raw], capture_output=True, check=True).stdout
    made.write_bytes(subprocess.run(interpreters[:1], input=unpacked, capture_output=True, check=True).stdout)
    whole, own = check(raw), check(made)
    # heaptrack leaves out what frees objects that it has not seen.
    assert own["events"] == whole["events"] - whole["unseen_frees"] - whole["double_frees"]
    for key in ("ok", "peak_live_bytes", "peak_live_objects", "live_at_end", "live_bytes_at_end"):
        assert own[key] == whole[key], key


def test_heaptrack_stacks_and_modules_come_along(tmp_path):
    made = heaptrack(tmp_path, "0")
    tape = tmp_path / "t.tape"
    succeed(CONVERT, "convert", made, tape)
    trace = heaptape.open(tape)
    modules, stacks = trace.modules(), trace.stacks()
    assert (modules["name"] == PROGRAM.name).sum() == 1
    program = modules[modules["name"] == PROGRAM.name].iloc[0]
    assert ((stacks["instruction"] >= program["start"]) & (stacks["instruction"] < program["end"])).any()


def mtrace(folder: Path, threads: str) -> Path:
    if not MALLOC_DEBUG.exists():
        pytest.skip("needs libc_malloc_debug.so.0")
    made = folder / "mtrace.txt"
    begins = "#include <mcheck.h>\n__attribute__((constructor)) static void begin(void) { mtrace(); }\n"
    library = compile_c(folder / "libstart.so", begins, "-shared", "-fPIC")
    succeed(PROGRAM, threads, STEPS, env={"LD_PRELOAD": f"{MALLOC_DEBUG} {library}", "MALLOC_TRACE": str(made)})
    return made


def valgrind(folder: Path, threads: str) -> Path:
    need("valgrind")
    made = folder / "valgrind.txt"
    succeed("valgrind", "--trace-malloc=yes", "--run-libc-freeres=no", f"--log-file={made}", PROGRAM, threads, STEPS)
    return made


def ltrace(folder: Path, threads: str) -> Path:
    need("ltrace")
    made = folder / "ltrace.txt"
    family = "malloc+free+calloc+realloc+reallocarray+memalign+posix_memalign+aligned_alloc+valloc+pvalloc"
    succeed("ltrace", "-f", "-e", family, "-o", made, PROGRAM, threads, STEPS)
    return made


def daemon_answers() -> bool:
    return run("lttng", "--no-sessiond", "list").status == 0


@pytest.fixture(scope="module")
def session_daemon(tmp_path_factory) -> Iterator[None]:
    """The session daemon that already runs, or our own, which ends when no other process of the tests uses it."""
    need("lttng", "lttng-sessiond", "babeltrace2")
    if not any(Path("/usr/lib").glob(f"*/{LTTNG_WRAPPER}")):
        pytest.skip(f"needs {LTTNG_WRAPPER}")
    pid_file = tmp_path_factory.mktemp("lttng") / "pid"
    with (Path(tempfile.gettempdir()) / f"heaptape-lttng-{os.getuid()}.lock").open("w") as users:
        while not (fcntl.flock(users, fcntl.LOCK_SH) or daemon_answers()):
            fcntl.flock(users, fcntl.LOCK_EX)
            if daemon_answers():
                continue
            started = run("lttng-sessiond", "--daemonize", "--no-kernel", "--pidfile", pid_file)
            if started.status != 0:
                pytest.skip(f"lttng-sessiond does not start here: {started.stderr.strip()[:200]}")
        yield
        fcntl.flock(users, fcntl.LOCK_EX)
        if pid_file.exists():
            os.kill(int(pid_file.read_text()), signal.SIGTERM)


def lttng(folder: Path, threads: str, *channel: str) -> Path:
    """Records the program; returns the trace's directory."""
    trace, session = folder / "ctf", f"heaptape-{os.getpid()}"
    succeed("lttng", "--no-sessiond", "create", session, f"--output={trace}")
    try:
        succeed("lttng", "--no-sessiond", "enable-channel", "-u", "-s", session, "c", *channel)
        succeed("lttng", "--no-sessiond", "enable-event", "-u", "-s", session, "-c", "c", "lttng_ust_libc:*")
        succeed("lttng", "--no-sessiond", "add-context", "-u", "-s", session, "-c", "c", "-t", "vtid", "-t", "vpid")
        succeed("lttng", "--no-sessiond", "start", session)
        succeed(PROGRAM, threads, STEPS, env=TRACED)
        succeed("lttng", "--no-sessiond", "stop", session)
    finally:
        run("lttng", "--no-sessiond", "destroy", session)
    return trace


LOSSLESS = ("--blocking-timeout=inf", "--subbuf-size=1M", "--num-subbuf=4")

RECORDERS: dict[str, tuple[Callable[[Path, str], Path], Rule]] = {
    "heaptrack": (heaptrack, seen_by_heaptrack),
    "mtrace": (mtrace, seen_by_mtrace),
    "valgrind": (valgrind, seen_by_valgrind),
    "ltrace": (ltrace, seen_by_ltrace),
    "lttng": (lambda folder, threads: lttng(folder, threads, *LOSSLESS), seen_by_lttng),
}


@pytest.mark.parametrize("name", RECORDERS)
def test_of_one_thread_each_recorder_sees_the_same_calls(name, request, tmp_path, single):
    if name == "lttng":
        request.getfixturevalue("session_daemon")
    make, rule = RECORDERS[name]
    made = make(tmp_path, "0")
    seen = [recorded.call for recorded in calls_of(made)]
    if name == "mtrace":  # it does not show that NULL was passed
        seen = [call._replace(null=False) for call in seen]
    assert seen == expected(single, rule)
    assert_legal_and_compiled(made, tmp_path)


@pytest.mark.usefixtures("session_daemon")
def test_lttng_four_threads(tmp_path, threaded):
    made = lttng(tmp_path, "4", *LOSSLESS)
    own, seen = by_thread(threaded, seen_by_lttng), by_thread(calls_of(made))
    assert sum(map(len, seen)) == sum(map(len, own))
    # The main thread's may differ, by the vectors of thread-local variables (see heaptrack above).
    assert (own - seen).total() <= 1
    assert_legal_and_compiled(made, tmp_path)


@pytest.mark.usefixtures("session_daemon")
def test_lttng_trace_with_discarded_events_is_refused_unless_gaps_are_allowed(tmp_path):
    made, tape = lttng(tmp_path, "8", "--subbuf-size=4096", "--num-subbuf=2"), tmp_path / "t.tape"
    result = run(CONVERT, "convert", made, tape)
    assert result.status == 1
    assert "discarded" in result.stderr
    succeed(CONVERT, "convert", "--allow-gaps", made, tape)
    witness = check(tape)
    assert witness["ok"]
    assert witness["dropped"] > 0


MEMRAY_PROGRAM = """
import ctypes
library = ctypes.CDLL(None)
for name in ("malloc", "calloc", "realloc", "aligned_alloc", "memalign", "valloc"):
    getattr(library, name).restype = ctypes.c_void_p
import decimal
kept = []
for size in range(2000, 60000, 1000):
    kept.append(bytearray(size))
    kept[len(kept) // 2].extend(bytes(size))
    if size % 3000 == 0:
        del kept[0]
"""


@pytest.mark.long
def test_memray_has_the_large_objects(tmp_path):
    """Python's blocks above 512 bytes come from malloc: the bytearrays' sizes are those that heaptape records."""
    memray = Path(sys.executable).parent / "memray"
    script, made, text, tape = (tmp_path / name for name in ("p.py", "m.bin", "m.txt", "own.tape"))
    script.write_text(MEMRAY_PROGRAM)
    succeed(memray, "run", "-q", "-o", made, script)
    text.write_text(succeed(memray, "parse", made).stdout)
    interpreter = memray.parent / "python"
    record(tape, interpreter, script)
    sizes = {size + 1 for size in range(2000, 60000, 1000)}
    assert_legal_and_compiled(text, tmp_path)
    seen, own = (
        Counter(row["size_bytes"] for row in rows if row.get("size_bytes") in sizes and row["call"] == "malloc")
        for rows in (dump_rows(text), dump_rows(tape))
    )
    assert seen == own
    assert sum(seen.values()) >= len(sizes)


def dump_rows(path: Path) -> Iterator[dict]:
    """`dump --format jsonl` of a trace or a recording."""
    return map(json.loads, succeed(CONVERT, "dump", "--format", "jsonl", path).stdout.splitlines())
