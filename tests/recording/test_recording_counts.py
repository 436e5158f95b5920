# SPDX-License-Identifier: MIT
"""Recordings of real programs are complete and legal: an independent library counts exactly what was recorded.

Why exactly. libheaptape.so comes first in the loader's search order, so every call that any object of the process
makes through the dynamic linker reaches it first, and it passes each on to the next library in that order: with
`--preload libcount_calls.so` that is the counting one, which passes it on to the C library (or to jemalloc, in redis).
So both see the same calls of the same run, from the loader's first to the last destructor, and no tolerance is needed
at either end:
- start: a call before the recorder is ready is passed on and recorded like any other. The recorder's own look-ups with
  dlsym may allocate; those calls it serves itself, and neither side counts them.
- end: a call is recorded before or after it is passed on, but in the same thread. Only a process that ends while
  another thread is inside a call could differ; the recorder then reports it as in flight, and the tests demand that
  there is none.
- C++ operators: calls that an operator makes in turn count on neither side.
- fork and exec: both keep their state in memory that a fork child finds wiped, so each process image has its own
  counts. An image is identified by its pid; images of one pid (exec) are added up.
A deterministic program shows the other half, that the order of the libraries hides nothing: counted without
heaptape, it makes as many calls as are recorded with it.
Long: a server.
"""

import os
import re
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.support import OUT, RECORD, assert_clean, counted_calls, info, need, record, succeed, workload

COUNTER = OUT / "test-lib" / "libcount_calls.so"

Calls = dict[int, Counter[str]]  # pid -> calls by name


@pytest.fixture
def counts(tmp_path: Path) -> Path:
    directory = tmp_path / "counts"
    directory.mkdir()
    return directory


def recorded_calls(tapes: list[Path]) -> Calls:
    calls: Calls = {}
    for tape in tapes:
        about = info(tape)
        assert about["footer"]["in_flight"] == 0, (tape.name, about["footer"])
        assert about["footer"]["nested"] == 0, (tape.name, about["footer"])
        about["calls"].pop("mallctl", None)  # the counting library counts no control calls
        calls.setdefault(about["info"]["pid"], Counter()).update(about["calls"])
    return {pid: +count for pid, count in calls.items() if +count}


def assert_all_recorded(tapes: Path, counts: Path, at_least: int, processes: int = 1) -> None:
    traces = sorted(tapes.glob("*.tape"))
    for tape in traces:
        assert_clean(tape)
    counted = counted_calls(counts)
    assert recorded_calls(traces) == counted
    assert len(counted) >= processes
    assert sum(sum(calls.values()) for calls in counted.values()) >= at_least


def record_counted(tmp_path: Path, counts: Path, *command: str | Path, options: tuple[str, ...] = ()) -> None:
    record(
        tmp_path / "t.tape",
        *command,
        options=("--preload", str(COUNTER), *options),
        env={"COUNT_CALLS_DIR": str(counts), "PYTHONMALLOC": "malloc"},
    )


def test_gcc_is_recorded_completely_with_its_process_tree(tmp_path: Path, counts: Path) -> None:
    source = tmp_path / "hello.c"
    source.write_text('#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n')
    record_counted(tmp_path, counts, need("gcc"), "-O2", "-o", tmp_path / "hello", source)
    assert_all_recorded(tmp_path, counts, at_least=10_000, processes=4)
    assert succeed(tmp_path / "hello").stdout == "hello\n"


def test_a_cpp_program_is_recorded_completely_by_its_operators(tmp_path: Path, counts: Path) -> None:
    """heaptrack's reader is C++ throughout, and independent of heaptape. It keeps each function name as a string."""
    source = tmp_path / "heaptrack.raw"
    names = [f"a_function_of_a_long_name_number_{number:05}" for number in range(2000)]
    source.write_text("v 10400 3\nX program\n" + "".join(f"s {len(name):x} {name}\n" for name in names))
    record_counted(tmp_path, counts, need("heaptrack_print"), "-f", source)
    assert_all_recorded(tmp_path, counts, at_least=2_000)
    calls = info(tmp_path / "t.tape")["calls"]
    assert sum(n for name, n in calls.items() if name.startswith("operator")) > 1_000


def test_fork_children_are_recorded_completely_and_say_that_they_lack_the_start(tmp_path: Path, counts: Path) -> None:
    """A shell's subshells are forks without exec: they free what their parent allocated."""
    script = "for i in 1 2 3 4 5; do (x=$(printf %s $i$i); unset script; echo $x); done"
    record_counted(tmp_path, counts, need("bash"), "-c", script)
    assert_all_recorded(tmp_path, counts, at_least=1_000, processes=6)
    shell, *children = sorted(tmp_path.glob("*.tape"), key=lambda tape: tape.name != "t.tape")
    assert "start" not in info(shell)["info"]["lacks"]
    assert all("start" in info(child)["info"]["lacks"] for child in children)


@pytest.mark.parametrize("stamp", ["tags", "every"])
def test_64_threads_that_free_each_others_blocks_are_recorded_completely(tmp_path, counts, stamp):
    program = (workload("many_threads"), "--threads=64", "--generations=3", "--turns=10")
    record_counted(tmp_path, counts, *program, options=("--stamp", stamp))
    assert_all_recorded(tmp_path, counts, at_least=2 * 64 * 3 * 10 * 50)


def test_failed_and_empty_calls_are_recorded_too(tmp_path: Path, counts: Path) -> None:
    record_counted(tmp_path, counts, workload("random_mix"), "--odd=1", "--rounds=50000")
    assert_all_recorded(tmp_path, counts, at_least=50_000)


@pytest.fixture
def redis_port(tmp_path: Path) -> int:
    return 20000 + int.from_bytes(str(tmp_path).encode(), "little") % 10000


def wait_for_redis(port: int) -> None:
    for _ in range(2400):
        ping = subprocess.run(["redis-cli", "-p", str(port), "ping"], capture_output=True, text=True)
        if ping.stdout.strip() == "PONG":
            return
        time.sleep(0.05)
    pytest.fail("redis-server did not answer")


@pytest.mark.long
def test_redis_is_recorded_completely(tmp_path: Path, counts: Path, redis_port: int) -> None:
    server_command = (need("redis-server"), "--port", redis_port, "--save", "", "--io-threads", "2", "--dir", tmp_path)
    command = (RECORD, "--all-processes", "-o", tmp_path / "t.tape", "--preload", COUNTER, "--", *server_command)
    environment = {**os.environ, "COUNT_CALLS_DIR": str(counts)}
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, env=environment) as server:
        try:
            wait_for_redis(redis_port)
            load = "-t set,get,lpush,lpop,sadd,hset,zadd -n 500 -r 1000 -d 100 -c 20 -q"
            succeed(need("redis-benchmark"), "-p", str(redis_port), *load.split())
        finally:
            server.send_signal(signal.SIGTERM)
            assert server.wait(120) == 0
    assert_all_recorded(tmp_path, counts, at_least=3_000)


def test_a_deterministic_program_makes_as_many_calls_as_are_recorded(tmp_path: Path, counts: Path) -> None:
    program = (workload("random_mix"), "--odd=1", "--rounds=20000", "--seed=7", "--quiet=1")
    succeed(*program, env={"COUNT_CALLS_DIR": str(counts), "LD_PRELOAD": str(COUNTER)})
    (alone,) = counted_calls(counts).values()
    record(tmp_path / "t.tape", *program)
    assert Counter(info(tmp_path / "t.tape")["calls"]) == alone


def test_the_counting_library_counts_what_the_workload_says(counts: Path) -> None:
    program = (workload("cfrac"), "--steps=1000")
    printed = succeed(*program, env={"COUNT_CALLS_DIR": str(counts), "LD_PRELOAD": str(COUNTER)}).stdout
    (calls,) = counted_calls(counts).values()
    assert sum(calls.values()) == int(re.match(r"(\d+) calls", printed)[1])
