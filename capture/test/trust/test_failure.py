# SPDX-License-Identifier: MIT
"""Failures around a recording end the recording, never the program; the trace counts what it lacks."""

import json
import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from capture.test.driven import HANG_S, Driven, calling
from tests.support import RECORD, Result, check, compile_c, info, proved, record, run, small_disk, succeed

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root for a file system of its own")

# Calls whose sizes compress badly, from three threads; then prints a line.
STORM = """
import random, sys, threading
def storm(seed):
    choose = random.Random(seed)
    for i in range(int(sys.argv[1])):
        bytes(choose.randrange(600, 60_000))
threads = [threading.Thread(target=storm, args=[i]) for i in range(3)]
[t.start() for t in threads]
[t.join() for t in threads]
print("done", flush=True)
"""


def storm(folder: Path, rounds: int = 100_000, before: str = "") -> Result:
    """Records a storm into folder/t.tape, in a shell that first does something."""
    shell = ["unshare", "-m", "sh", "-c", f'{before} exec "$@"', "sh"]
    program = ["/usr/bin/python3", "-c", STORM, str(rounds)]
    return run(
        *shell, RECORD, "--all-processes", "-o", folder / "t.tape", "--", *program, env={"PYTHONMALLOC": "malloc"}
    )


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 400 KiB."""
    with small_disk(tmp_path / "disk", "400k") as folder:
        yield folder


def assert_reported(done: Result, trace: Path, why: str) -> None:
    """The program ended well; the trace has an end, and its gap is the one that the recorder reported."""
    assert done.status == 0
    assert done.stdout == "done\n"
    said = re.search(r"ends early: (\d+) events are in it, at least (\d+) more are not", done.stderr)
    assert said, done.stderr
    assert why in done.stderr
    assert str(trace) in done.stderr
    summary = info(trace)
    assert not summary["truncated"]
    assert summary["events"] == int(said[1]) > 0
    assert summary["dropped"] == int(said[2]) > 0
    assert summary["footer"]["end"] == "stopped"
    assert check(trace)["ok"]


@needs_root
def test_a_full_disk_ends_the_trace_with_a_count(disk: Path) -> None:
    done = storm(disk)
    assert_reported(done, disk / "t.tape", "No space left on device")
    assert (disk / "t.tape").stat().st_size > 200_000


@needs_root
def test_on_a_disk_that_is_full_from_the_start_the_program_runs_and_the_recording_fails(disk: Path) -> None:
    (disk / "ballast").write_bytes(bytes(400 << 10))
    done = storm(disk, rounds=10)
    assert (done.status, done.stdout) == (1, "done\n")
    assert "No space left on device" in done.stderr
    assert done.stderr.endswith("python3: nothing was recorded: its calls were not even counted\n")


@needs_root
def test_a_full_disk_beside_many_processes_is_one_error_and_a_count(disk: Path) -> None:
    (disk / "ballast").write_bytes(bytes(380 << 10))
    done = run(
        RECORD, "-o", disk / "t.tape", "--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8; do ls /usr/bin >/dev/null; done"
    )
    assert done.status == 0
    assert done.stderr.count("No space left on device") <= 4
    counts = re.findall(r"(\d+) further (?:files|traces): can't write: No space left on device", done.stderr)
    assert sum(map(int, counts)) >= 2, done.stderr


@needs_root
def test_a_size_limit_of_the_user_ends_the_trace_with_a_count(tmp_path: Path) -> None:
    """RLIMIT_FSIZE, which also stands for quotas: the write fails, the file system has room. The recorder is stopped
    until the limit, a little above what it has written, is set.
    """
    trace = tmp_path / "t.tape"
    size = f"$(stat -c %s {trace} || echo 0)"
    wait = f"until [ {size} -gt 50000 ]; do sleep 0.02; done 2>/dev/null"
    limit = f"kill -STOP $$; prlimit --fsize=$(({size} + 50000)) --pid $$; kill -CONT $$"
    done = storm(tmp_path, before=f"({wait}; {limit}) &")
    assert_reported(done, tmp_path / "t.tape", "File too large")


@needs_root
def test_a_limit_that_leaves_no_room_for_rings_is_reported(tmp_path: Path) -> None:
    done = storm(tmp_path, before="ulimit -f 400;", rounds=10)
    assert done.status == 0
    assert done.stdout == "done\n"
    assert "not recorded" in done.stderr
    assert "File too large" in done.stderr


@needs_root
def sockets(recorder: int) -> list[Path]:
    return list(Path("/tmp").glob(f"heaptape-{recorder:07}-*"))


def test_a_killed_recorder_s_socket_is_removed_by_the_next_one_and_a_living_one_s_stays(tmp_path: Path) -> None:
    killed = subprocess.Popen([RECORD, "-o", tmp_path / "killed.tape", "--", "sh", "-c", "kill -9 $PPID"])
    assert killed.wait(HANG_S) == -signal.SIGKILL
    assert len(sockets(killed.pid)) == 1
    living = driven(tmp_path)
    living.work()
    record(tmp_path / "next.tape", "true")
    assert (len(sockets(killed.pid)), len(sockets(living.process.pid))) == (0, 1)
    living.end()
    assert not sockets(living.process.pid)


def test_a_removed_directory_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    done = storm(folder, before=f"(until [ -s {folder}/t.tape ]; do sleep 0.02; done; rm -rf {folder}) &")
    assert done.status == 0
    assert done.stdout == "done\n"
    assert "was removed" in done.stderr


def driven(folder: Path, *options: str) -> Driven:
    """60,000 calls each time."""
    return Driven(folder / "t.tape", *options, program=calling(30_000, 77))


def test_a_stopped_collector_loses_nothing_under_wait(tmp_path: Path) -> None:
    program = driven(tmp_path)
    program.work()
    program.process.send_signal(signal.SIGSTOP)
    program.request()
    time.sleep(0.5)
    program.process.send_signal(signal.SIGCONT)
    program.answer()
    program.end()
    assert proved(program.trace, "dropped")["events"] >= 120_000


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Records a shell whose recorder is stopped before the shell begins the script."""
    shells = []

    def begin(script: str, *options: str) -> subprocess.Popen[str]:
        command = [RECORD, *options, "-o", tmp_path / "t.tape", "--", "sh", "-c", f"echo runs; read go; {script}"]
        shell = subprocess.Popen(command, stdin=-1, stdout=-1, stderr=-1, text=True)
        shells.append(shell)
        assert shell.stdout.readline() == "runs\n"
        shell.send_signal(signal.SIGSTOP)
        shell.stdin.write("\n")
        shell.stdin.flush()
        return shell

    yield begin
    for shell in shells:
        shell.send_signal(signal.SIGCONT)
        shell.communicate(timeout=HANG_S)


def test_a_stopped_collector_keeps_no_new_program_from_starting_under_drop(stopped):
    shell = stopped("/bin/echo ran; exec /bin/echo ended", "--all-processes", "--on-full", "drop")
    for line in ("ran\n", "ended\n"):
        assert select.select([shell.stdout], [], [], HANG_S)[0], "the program stands still"
        assert shell.stdout.readline() == line


@pytest.mark.parametrize(("on_full", "slices"), [("drop", 4), pytest.param("wait", 120, marks=pytest.mark.long)])
def test_a_starting_program_waits_once_and_only_where_nothing_may_be_lost_for_long(stopped, tmp_path, on_full, slices):
    """In slices of a quarter of a second: of the program, and not again of its fork child."""
    forks = "import os; x = os.fork(); x and os.wait()"
    trace = "P=$LD_PRELOAD; LD_PRELOAD= exec strace -f -E LD_PRELOAD=$P -qq -e trace=recvmsg,setsockopt"
    shell = stopped(f"{trace} -o {tmp_path / 'seen'} /usr/bin/python3 -S -c '{forks}; print(x)'", "--on-full", on_full)
    assert shell.stdout.readline()
    seen = (tmp_path / "seen").read_text()
    assert seen.count("EAGAIN") == slices
    assert set(re.findall(r'SO_RCVTIMEO\w*, "(\S+)"', seen)) == {r"\0\0\0\0\0\0\0\0\220\320\3\0\0\0\0\0"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_program_that_waits_for_a_stopped_collector_ends_by_a_signal(stopped, number):
    shell = stopped("sleep 999 & echo $!; wait $!; echo ended; exit 0", "--on-full", "wait")
    os.kill(int(shell.stdout.readline()), number)
    assert select.select([shell.stdout], [], [], 20)[0], "it waits with all signals blocked"
    assert shell.stdout.readline() == "ended\n"


def test_another_preloaded_library_may_allocate_in_what_attaching_calls(tmp_path: Path) -> None:
    """As libfakeroot, whose fstat looks the real one up at its first call: dlsym's failures allocate."""
    shim = """
int fstat(int fd, struct stat *status) {
  free(malloc(100));
  return (int)syscall(SYS_fstat, fd, status);
}
void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
  free(malloc(100));
  return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}
"""
    library = compile_c(tmp_path / "shim.so", shim, "-shared", "-fPIC")
    record(tmp_path / "t.tape", "sort", "/etc/passwd", env={"LD_PRELOAD": str(library)})
    assert check(tmp_path / "t.tape")["ok"]


@needs_root
def test_a_program_in_a_memory_cgroup_keeps_its_memory(tmp_path: Path) -> None:
    group = Path("/sys/fs/cgroup/memory") / f"heaptape-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(64 << 20))
    except OSError:
        pytest.skip("no memory cgroup can be made here")
    try:
        program = "x = [bytearray(1 << 20) for _ in range(40)]; y = [bytes(999) for _ in range(9999)]; print('done')"
        shell = ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh"]
        done = succeed(*shell, RECORD, "-o", tmp_path / "t.tape", "--", "/usr/bin/python3", "-c", program)
        assert done.stdout == "done\n"
        assert check(tmp_path / "t.tape")["ok"]
    finally:
        time.sleep(0.1)
        group.rmdir()


SILENT = """
import json, os, socket, subprocess, sys
name, secret = os.environ["HEAPTAPE_SOCKET"].split(":")
silent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
silent.connect(chr(0) + name)
for _ in range(3):
    subprocess.run(["/bin/true"], check=True)
silent.send(json.dumps({"verb": "status", "pid": os.getppid()}).encode())
print(silent.recv(1 << 16).decode())
"""


def test_a_process_that_is_slow_between_connect_and_request_is_still_answered(tmp_path: Path) -> None:
    """On a busy machine it may be off its processor there. Processes that connect meanwhile do not wait for it."""
    reply = json.loads(record(tmp_path / "t.tape", "/usr/bin/python3", "-c", SILENT).stdout)
    assert reply["ok"]
    assert reply["recorded"] == 4
    assert len(list(tmp_path.glob("*.tape"))) == 4


def test_a_daemon_that_is_held_up_before_its_first_call_is_recorded(tmp_path: Path) -> None:
    """It is held up for longer than the recorder waits for an idle one."""
    source = """
                static long ms(void) {
                  struct timespec now;
                  clock_gettime(CLOCK_MONOTONIC, &now);
                  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
                }
                int main(void) {
                  if (fork() != 0)
                    _exit(0);
                  for (long begin = ms(); ms() < begin + 1200;)
                    ;
                  for (int i = 0; i < 5000; i++) {
                    void *volatile object = malloc(10);
                    free(object);
                  }
                  _exit(0);
                }"""
    done = record(tmp_path / "t.tape", compile_c(tmp_path / "program", source))
    assert info(tmp_path / "t.tape")["events"] == 10000, done.stderr


def test_a_process_that_has_connected_is_recorded_even_if_the_recorder_is_notified_late(tmp_path: Path) -> None:
    """As on a busy machine: the recorder's thread that watches its socket is late."""
    late, source = (
        """
           int epoll_wait(int fd, void *events, int most, int timeout_ms) {
             usleep(1500000);
             return (int)syscall(SYS_epoll_pwait, fd, events, most, timeout_ms, NULL, 8);
           }""",
        """
           int main(void) {
             if (fork() != 0)
               _exit(0);
             usleep(100000);
             for (int i = 0; i < 5000; i++) {
               void *volatile object = malloc(10);
               free(object);
             }
             _exit(0);
           }""",
    )
    shim = compile_c(tmp_path / "late.so", late, "-shared", "-fPIC")
    program = compile_c(tmp_path / "program", source)
    done = record(tmp_path / "t.tape", program, env={"LD_PRELOAD": str(shim)})
    assert info(tmp_path / "t.tape")["events"] == 10000, done.stderr


CHILD_WITHOUT_DESCRIPTORS = """
int main(int argc, char **argv) {
  int status, descriptor = -1, spare = atoi(argv[1]);
  struct rlimit limit = {20, 20};
  free(malloc(10));
  setrlimit(RLIMIT_NOFILE, &limit);
  while ((status = open("/dev/null", O_RDONLY)) >= 0) descriptor = status;
  for (int i = 0; i < spare; i++) close(descriptor - i);
  if (fork() == 0) {
    for (int i = 0; i < 1000; i++) free(malloc(777));
    for (int i = 3; i < 20; i++) close(i);
    for (int i = 0; i < 4000; i++) free(malloc(777));
    _exit(0);
  }
  return wait(&status) < 0 || status;
}
"""


@pytest.mark.parametrize("spare", [0, 1, 2, 3])
def test_a_fork_child_without_descriptors_is_counted_until_it_has_some(tmp_path: Path, spare: int) -> None:
    program = compile_c(tmp_path / "program", CHILD_WITHOUT_DESCRIPTORS)
    done = run(RECORD, "--all-processes", "-o", tmp_path / "t.tape", "--", program, str(spare))
    assert done.status == 0
    found = [check(tape) for tape in tmp_path.glob("*.tape")]
    assert sum(one["events"] + one["dropped"] for one in found) == 2 + 2 * 5000
    assert sum(one["events"] for one in found) >= 2 + 2 * (5000 if spare == 3 else 2500)
    assert ("a lack of file descriptors" in " ".join(done.stderr.split())) == (spare < 3)
