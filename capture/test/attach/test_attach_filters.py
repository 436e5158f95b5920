# SPDX-License-Identifier: MIT
"""A process under filters of system calls is attached to where they permit our calls, and left alone elsewhere.

Long: the real servers under the filters of Debian's units.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from capture.test.attach.attached import Attached, Worker, library_mappings, relay_mappings, running, workers
from capture.test.attach.test_attach_programs import accepts, free_port, record_twice
from capture.test.filters import (
    ALLOW,
    EQUAL,
    KILL,
    MASKED,
    Rule,
    compile_filtered,
    docker,
    error,
    make_filter,
    memcached_unit,
    redis_unit,
    system_calls,
)
from tests.support import RECORD, check, need, refused

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can read another process's filters")

# What the worker needs without threads, from its start to its end.
ITS_OWN = """
execve access arch_prctl set_tid_address set_robust_list rseq prlimit64 getrandom brk clone wait4 exit_group write
"""
THREADS = "clone3 rt_sigaction sched_getaffinity exit clock_nanosleep madvise mprotect mmap rt_sigprocmask"


@pytest.fixture
def filtered(programs, tmp_path: Path) -> Callable[..., Worker]:
    """Starts a worker under filters."""
    tool = compile_filtered(tmp_path)
    with workers(programs("plain")) as begin:
        yield lambda filters, threads=0: begin(threads, under=(tool, *filters, "--"))


@contextmanager
def calling(program: Worker) -> Iterator[None]:
    """Meanwhile its main thread calls malloc, also where it has no others."""
    ended = threading.Event()

    def call() -> None:
        while not ended.is_set():
            program.obey("c")

    thread = threading.Thread(target=call)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def record(program: Worker, trace: Path, *options: str) -> None:
    """Records some calls of it and of a fork child; the trace is legal, and the program has come to no harm."""
    with calling(program):
        attached = Attached(program.pid, trace, *options)
    program.obey("c")
    program.obey("f")
    attached.stop()
    found = check(trace)
    assert found["ok"], found
    assert found["events"] >= 20_000
    program.obey("c")
    assert program.end() == 0


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("options", [(), ("--stacks", "--latency", "--usable")], ids=len)
def test_no_other_calls_are_made_than_those_of_the_list(filtered, tmp_path, threads, options):
    """All others kill the program, but for those that it makes itself."""
    numbers = system_calls()
    own = [numbers[name] for name in [*ITS_OWN.split(), *(THREADS.split() if threads else [])]]
    code = subprocess.run([tmp_path / "filtered", "-list", *own], capture_output=True, check=True).stdout
    (tmp_path / "list").write_bytes(code)
    record(filtered([tmp_path / "list"], threads), tmp_path / "t.tape", *options)


@pytest.mark.parametrize("made", [docker, memcached_unit, redis_unit])
def test_under_the_filters_of(filtered, tmp_path: Path, made: Callable[[Path], list[Path]]) -> None:
    record(filtered(made(tmp_path), 2), tmp_path / "t.tape")


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (Rule("connect", KILL), "forbids connect"),
        (Rule("recvmsg", error()), "forbids recvmsg"),
        (Rule("mincore", KILL), "forbids mincore"),
        (Rule("socket", error(), ((0, EQUAL, 1), (1, EQUAL, 0x80005))), "forbids socket"),
        (Rule("mmap", error(), ((2, EQUAL, 5), (3, MASKED, 0x20, 0x20))), "forbids mmap of code"),
        (Rule("munmap", KILL, ((1, EQUAL, 123456789),)), "forbids munmap"),
        (Rule("restart_syscall", KILL), "forbids restart_syscall"),  # the kernel makes it after a stop
    ],
)
def test_what_is_forbidden_is_named_and_nothing_changes(filtered, tmp_path: Path, rule: Rule, says: str) -> None:
    program = filtered([make_filter(tmp_path / "one", ALLOW, [rule]), make_filter(tmp_path / "other", ALLOW, [])], 2)
    refused(RECORD, "--attach", str(program.pid), "-o", tmp_path / "t.tape", says=says)
    assert library_mappings(program.pid) == relay_mappings(program.pid) == []
    program.obey("c")
    assert program.end() == 0


def test_what_may_fail_may_be_forbidden(filtered, tmp_path: Path) -> None:
    optional = ["mincore", "sigaltstack", "tgkill", "sched_yield"]
    rules = [Rule(name, error()) for name in optional]
    record(filtered([make_filter(tmp_path / "rules", ALLOW, rules)], 2), tmp_path / "t.tape")


@pytest.mark.long
def test_redis_server_as_its_unit_runs_it(tmp_path: Path) -> None:
    place = tmp_path / "socket"
    under = ["unshare", "--mount", "--user", "--map-root-user", compile_filtered(tmp_path), *redis_unit(tmp_path), "--"]
    server = [need("redis-server"), "--save", "", "--port", "0", "--unixsocket", str(place)]
    load = [need("redis-benchmark"), "-n", "100000000", "-q", "-s", str(place)]
    with running(*under, *server, ready=place.exists) as process, running(*load):
        record_twice(process.pid, tmp_path)


ASKS = """
import socket, sys
while True:
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as one:
        for _ in range(100):
            one.sendall(b"stats\\r\\n")
            one.recv(9000)
"""


@pytest.mark.long
def test_memcached_as_its_unit_runs_it(tmp_path: Path) -> None:
    port = free_port()
    under = ["unshare", "--mount", compile_filtered(tmp_path), *memcached_unit(tmp_path), "--"]
    server = [need("memcached"), "-u", "root", "-p", str(port)]
    with (
        running(*under, *server, ready=lambda: accepts(port)) as process,
        running(sys.executable, "-c", ASKS, str(port)),
    ):
        record_twice(process.pid, tmp_path)
