# SPDX-License-Identifier: MIT
"""A process that can't be attached to safely is refused in one line, and continues as before.

Long: one that stays in the dynamic linker, for which the recorder waits some seconds.
"""

import ctypes
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from capture.test.attach.attached import wait_until
from tests.support import RECORD, compile_c, refused

as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can make such a process")
HANG_S = 60  # bounds a hang, and is not a claim
NOBODY = 65534

SLEEPS = """
int main(void) { write(1, "\\n", 1); for (;;) pause(); }
"""
# free has one byte, behind which another function begins.
OWN_MALLOC = """
static char arena[1 << 20];
static size_t used;
void *malloc(size_t bytes) {
  used += (bytes + 15) & ~(size_t)15;
  return arena + used;
}
void free(void *);
int reused(void);
__asm__(".text\\n.globl free\\n.type free, @function\\nfree: ret\\n.size free, 1\\n"
        ".globl reused\\nreused: mov $7, %eax\\n  ret\\n");
int main(void) { free(malloc(10)); write(1, "\\n", 1); for (;;) pause(); return reused(); }
"""
CHANGED_USER = """
int main(void) { if (setresuid(0, 65534, 0)) return 1; write(1, "\\n", 1); for (;;) pause(); }
"""
VFORKED = """
int main(void) {
  if (vfork() == 0) { write(1, "\\n", 1); for (;;) pause(); }
  return 0;
}
"""
ACQUIRES = """
int main(void) { for (;;) { free(malloc(777)); usleep(1000); } }
"""
WITHOUT_C_LIBRARY = """
void _start(void) {
  __asm__ volatile("syscall" : : "a"(1), "D"(1), "S"("\\n"), "d"(1) : "rcx", "r11", "memory");
  for (;;) __asm__ volatile("syscall" : : "a"(34) : "rcx", "r11", "memory");
}
"""
ENDLESS = """
#include "core/test/usual.h"
#include <link.h>
int main(void) {
  struct link_map *last = _r_debug.r_map;
  while (last->l_next) last = last->l_next;
  last->l_next = _r_debug.r_map;
  write(1, "\\n", 1);
  for (;;) pause();
}
"""

# Calls malloc until our library has been loaded by such a call, and then no more.
QUIET_ONCE_LOADED = """
static char maps[1 << 16];
static int loaded(void) {
  size_t used = 0; ssize_t got; int fd = open("/proc/self/maps", O_RDONLY);
  while ((got = read(fd, maps + used, sizeof maps - used)) > 0) used += got;
  close(fd);
  return memmem(maps, used, "libheaptape", 11) != 0;
}
int main(void) {
  write(1, "\\n", 1);
  while (!loaded()) { malloc(10); usleep(1000); }
  for (;;) pause();
}
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen]]:
    """Starts a program, given by its text, and waits for its line."""
    started: list[subprocess.Popen] = []

    def begin(
        source: str = SLEEPS, *options: str, before: tuple[str, ...] = (), compiler: str = "cc"
    ) -> subprocess.Popen:
        program = compile_c(tmp_path / f"program{len(started)}", source, "-w", *options, compiler=compiler)
        started.append(subprocess.Popen([*before, str(program)], stdout=subprocess.PIPE, start_new_session=True))
        assert started[-1].stdout.readline() == b"\n", "the program has not begun"
        return started[-1]

    yield begin
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def mappings(pid: int) -> str:
    return Path(f"/proc/{pid}/maps").read_text()


def child_of(process: subprocess.Popen) -> int:
    return int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())


def refuse(pid: int, says: str, folder: Path) -> None:
    """It is refused with these words; nothing was mapped, and there is no trace."""
    before = mappings(pid)
    refused(RECORD, "--attach", str(pid), "-o", folder / "t.tape", says=says)
    assert mappings(pid) == before
    assert not (folder / "t.tape").exists()


def test_no_such_process(tmp_path: Path) -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    refused(RECORD, "--attach", str(process.pid), "-o", tmp_path / "t.tape", says="no such process")


def test_stopped(start, tmp_path: Path) -> None:
    process = start()
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    refuse(process.pid, "is stopped", tmp_path)


def test_traced(start, tmp_path: Path) -> None:
    process = start()
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    seize, detach, interrupt = 0x4206, 17, 0x4207
    assert ptrace(seize, process.pid, None, None) == 0
    refuse(process.pid, f"is traced by process {os.getpid()}", tmp_path)
    assert ptrace(interrupt, process.pid, None, None) == 0
    os.waitpid(process.pid, 0x40000000)
    assert ptrace(detach, process.pid, None, None) == 0


def test_a_thread_of_a_process(start, tmp_path: Path) -> None:
    process = start(
        "#include <pthread.h>\n#include <unistd.h>\nstatic void *run(void *x) { for (;;) pause(); return x; }\n"
        'int main(void) { pthread_t t; pthread_create(&t, 0, run, 0); write(1, "\\n", 1); for (;;) pause(); }',
        "-pthread",
    )
    tasks = (int(path.name) for path in Path(f"/proc/{process.pid}/task").iterdir())
    (thread,) = (task for task in tasks if task != process.pid)
    refuse(thread, "is a thread of another process", tmp_path)


@pytest.mark.parametrize(
    ("source", "options", "says"),
    [
        pytest.param(SLEEPS, ("-static",), "statically linked", id="static"),
        pytest.param(
            OWN_MALLOC, ("-rdynamic",), "has an allocator that can't be redirected: free is too short", id="own malloc"
        ),
        pytest.param(WITHOUT_C_LIBRARY, ("-nostdlib",), "does not use the GNU C library", id="no C library"),
        pytest.param(ENDLESS, (), "list of objects has more than 8192, or no end", id="endless list"),
        pytest.param(CHANGED_USER, (), "has changed its user", id="user", marks=as_root),
    ],
)
def test_a_program(start, tmp_path: Path, source: str, options: tuple[str, ...], says: str) -> None:
    refuse(start(source, *options).pid, says, tmp_path)


@pytest.mark.skipif(not shutil.which("musl-gcc"), reason="musl-tools is not installed")
def test_a_program_of_musl(start, tmp_path: Path) -> None:
    refuse(start(compiler="musl-gcc").pid, "uses musl", tmp_path)


@pytest.fixture
def loading(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """A process whose dynamic linker waits for the writer of a pipe, and that pipe."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    program = compile_c(tmp_path / "program", ACQUIRES)
    with subprocess.Popen([program], env={"LD_PRELOAD": str(pipe)}, stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: "wait_for_partner" in Path(f"/proc/{process.pid}/wchan").read_text())
        yield process.pid, pipe
        process.kill()


def is_asleep(pid: int) -> bool:
    """Has the recorder's restorer looked at the process, and sleeps now?"""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return bool(children) and "nanosleep" in Path(f"/proc/{children[0]}/wchan").read_text()


def test_a_process_that_is_still_being_loaded_is_waited_for(loading, tmp_path: Path) -> None:
    pid, pipe = loading
    command = [RECORD, "--attach", str(pid), "-o", tmp_path / "t.tape", "--duration", "0.2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as recorder:
        wait_until(lambda: is_asleep(recorder.pid) or recorder.poll() is not None)
        os.close(os.open(pipe, os.O_WRONLY))
        assert "recording begins" in recorder.communicate(timeout=HANG_S)[1]
    assert recorder.returncode == 0


@pytest.mark.long
def test_a_process_that_stays_in_the_dynamic_linker(loading, tmp_path: Path) -> None:
    refuse(loading[0], "is still being loaded by the dynamic linker", tmp_path)


def test_a_vfork_child(start, tmp_path: Path) -> None:
    refuse(child_of(start(VFORKED)), "shares its parent's memory", tmp_path)


def test_started_by_heaptape_record(start, tmp_path: Path) -> None:
    first = tmp_path / "first.tape"
    refuse(child_of(start(before=(str(RECORD), "-o", str(first), "--"))), "has libheaptape.so already", tmp_path)


@as_root
def test_another_users(start, tmp_path: Path) -> None:
    process = start()
    before = mappings(process.pid)
    tmp_path.chmod(0o777)
    done = subprocess.run(
        ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", RECORD, "--attach", str(process.pid)],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    if "Permission denied" in done.stderr and "heaptape-record" not in done.stderr.split(":")[0]:
        pytest.skip("this build's folder can't be reached by another user")
    assert done.returncode == 1, done.stderr
    assert "belongs to another user" in done.stderr
    assert done.stderr.count("\n") == 1
    assert mappings(process.pid) == before


def test_a_process_that_calls_no_malloc_is_waited_for_and_let_go(start, tmp_path: Path) -> None:
    process = start()
    trace = tmp_path / "t.tape"
    recorder = subprocess.Popen([RECORD, "--attach", str(process.pid), "-o", trace], stderr=subprocess.PIPE, text=True)
    assert "waiting for one" in recorder.stderr.readline()
    recorder.send_signal(signal.SIGTERM)
    recorder.communicate(timeout=HANG_S)
    assert not trace.exists()
    assert "libheaptape" not in mappings(process.pid)
    assert process.poll() is None


def test_a_process_that_ends_without_a_call_is_reported(start, tmp_path: Path) -> None:
    process = start(QUIET_ONCE_LOADED)
    command = [RECORD, "--attach", str(process.pid), "-o", tmp_path / "t.tape"]
    recorder = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert "recording begins" in recorder.stderr.readline()
    process.kill()
    output = recorder.communicate(timeout=HANG_S)[1]
    assert recorder.returncode == 1
    assert output.endswith(f"heaptape-record: process {process.pid}: nothing was recorded: it made no call\n")
