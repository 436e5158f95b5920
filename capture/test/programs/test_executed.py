# SPDX-License-Identifier: MIT
"""A program that a recorded one executes and that does not attach is named, also where it ends at once."""

import os
import platform
from itertools import product
from pathlib import Path

import pytest

from capture.test.filters import system_calls
from capture.test.programs.test_unfollowed import HIDE, moved_root, reasons
from tests.support import OUT, RECORD, Result, check, compile_c, made_once, run

SOURCE = Path(__file__).parents[1] / "hosts" / "executes.c"
PROGRAM = "int main(void) { return 5; }"
SANDBOXED = """
int main(int count, char **words) {
  struct { uint64_t files, ports, scopes; } rules = {.scopes = 1}; /* no sockets of processes outside */
  int set = syscall(444, &rules, sizeof rules, 0);
  free(malloc(10));
  if (set < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(446, set, 0))
    return 77;
  for (int child = 0; child < 3; child++)
    if (!fork()) {
      for (int i = 0; i < 1000; i++)
        free(malloc(i));
      _exit(0);
    }
  if (!fork())
    execv(words[1], words + 1);
  while (wait(NULL) > 0)
    ;
  return 5;
}
"""
FILTERED = "started under a filter of system calls (seccomp) that forbids a call which recording makes"
STATIC = "statically linked"
UNSEEN = "for a reason that could not be seen"

EXECUTE = ["execv", "execve", "execvp", "execvpe", "execl", "execlp", "execle", "fexecve", "execveat", "syscall"]
SPAWN = ["posix_spawn", "posix_spawnp"]


@pytest.fixture(scope="session")
def executes(tmp_path_factory) -> Path:
    return made_once(tmp_path_factory, "executes", lambda path: compile_c(path, SOURCE, "-O1", "-pthread"))


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """With `shared` and `static`, which end at once."""
    folder = tmp_path_factory.mktemp("programs")
    compile_c(folder / "shared", PROGRAM)
    compile_c(folder / "static", PROGRAM, "-static")
    return folder


def recorded(folder: Path, *command: str | Path, status: int = 5, options: tuple[str, ...] = ()) -> Result:
    done = run(RECORD, "--all-processes", *options, "-o", folder / "t.tape", "--", *command)
    assert done.status == status, done.stderr
    return done


def forbidden(name: str) -> str:
    if platform.machine() != "x86_64":
        pytest.skip("the program's instruction is of x86-64")
    return system_calls()[name]


@pytest.mark.parametrize(
    ("way", "where"), [*product(EXECUTE, [(), ("fork",), ("vfork",), ("thread",)]), *product(SPAWN, [()])]
)
def test_a_static_program_that_ends_at_once_is_named(executes, folder, tmp_path, way, where):
    done = recorded(tmp_path, executes, *where, way, folder / "static")
    if way == "fexecve":  # of which only the descriptor is known, where the program was not seen
        ((reason, name),) = reasons(done).items()
        assert reason in {STATIC, UNSEEN}
        assert name in {"static", "descriptor 3"}
    else:
        assert reasons(done) == {STATIC: "static"}


@pytest.mark.parametrize("call", ["connect", "getpid", "gettid", "openat", "futex", "madvise"])
@pytest.mark.parametrize("where", [(), ("fork",), ("vfork",)])
def test_a_program_that_ends_at_once_under_a_filter_is_named(executes, folder, tmp_path, call, where):
    """The dynamic linker needs some of these calls, and the program is killed."""
    filters = f"kill:{forbidden(call)}"
    bare = run(executes, filters, *where, "execv", folder / "shared")
    status = 128 - bare.status if bare.status < 0 else bare.status
    assert reasons(recorded(tmp_path, executes, filters, *where, "execv", folder / "shared", status=status)) == {
        FILTERED: "shared"
    }


@pytest.mark.parametrize("where", [(), ("fork",), ("vfork",)])
def test_a_filter_by_an_instruction_is_the_reason_of_what_is_executed_under_it(executes, folder, tmp_path, where):
    done = recorded(tmp_path, executes, f"own:{forbidden('connect')}", *where, "execv", folder / "shared")
    assert list(reasons(done).values()) == ["shared"]


def landlocked(folder: Path, tmp_path: Path) -> Path:
    program = compile_c(tmp_path / "sandboxed", SANDBOXED)
    if run(program, folder / "shared").status == 77:
        pytest.skip("the kernel has no Landlock of such a scope")
    return program


def test_processes_that_landlock_keeps_from_abstract_sockets_are_recorded(folder: Path, tmp_path: Path) -> None:
    program = landlocked(folder, tmp_path)
    done = recorded(tmp_path, program, folder / "shared")
    assert reasons(done) == {}
    calls = [check(tape)["dropped"] for tape in tmp_path.glob("*.tape")]
    assert calls == [0] * 5  # the program, its three fork children, and what it executes


def test_landlock_is_the_reason_where_it_keeps_processes_from_the_recorder(folder: Path, tmp_path: Path) -> None:
    """Said by the recorder, and not in the program; its fork children's calls are counted."""
    program = landlocked(folder, tmp_path)
    script = f"{HIDE}; {program} {folder / 'shared'} 2>{tmp_path / 'said'}; exit 5"
    done = recorded(tmp_path, "sh", "-c", script)
    assert (tmp_path / "said").read_text() == ""
    names = {reason.split(" (")[0]: name for reason, name in reasons(done).items()}
    assert names == {"a sandbox": "shared", "fork children that a sandbox": "sandboxed (3 processes)"}
    (dropped,) = filter(None, (check(tape)["dropped"] for tape in tmp_path.glob("*.tape")))
    assert dropped == 3 * 2 * 1000


@pytest.mark.parametrize("way", ["system", "popen"])
def test_a_shell_of_the_c_library_is_named_where_a_filter_keeps_it_from_attaching(executes, folder, tmp_path, way):
    done = recorded(tmp_path, executes, f"kill:{forbidden('connect')}", way, folder / "shared")
    assert reasons(done) == {FILTERED: "sh"}
    assert reasons(recorded(tmp_path, executes, way, folder / "shared")) == {}


@pytest.mark.skipif(os.getuid() != 0, reason="only root may make a network namespace")
@pytest.mark.parametrize("hide", ["true", HIDE])
def test_a_network_namespace_is_the_reason_where_it_keeps_processes_from_the_recorder(folder, tmp_path, hide):
    """And only there: while the socket in /tmp is within reach, all are recorded."""
    script = f"""
import ctypes, os
ctypes.CDLL(None).unshare(0x40000000)
if not os.fork():
    x = [bytearray(1000) for _ in range(1000)]
    os.execv("{folder}/shared", ["shared"])
os.wait()
os._exit(5)"""
    done = recorded(tmp_path, "sh", "-c", f"{hide}; /usr/bin/python3 -S -c '{script}'; exit 5")
    names = {reason.split(" (")[0]: name for reason, name in reasons(done).items()}
    if hide != HIDE:
        assert names == {}
        return
    assert names.pop("fork children that a sandbox").startswith("python3")
    assert list(names.values()) == ["shared"]
    assert {*names} <= {"a sandbox", "another network namespace"}  # the second where it was seen


@pytest.mark.skipif(os.getuid() != 0, reason="only root may make a network namespace")
def test_a_program_from_which_tmp_is_hidden_at_the_last_moment_is_named_with_the_reason(tmp_path: Path) -> None:
    """As by bwrap --unshare-net --tmpfs /tmp. It ends before anything can be seen of it."""
    script = """
import ctypes, os
libc = ctypes.CDLL(None)
libc.unshare(0x40000000)
if not os.fork():
    x = [bytearray(1000) for _ in range(1000)]
    libc.unshare(0x20000)
    libc.mount(None, b"/", None, 0x44000, None)
    assert libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0
    os.execv("/bin/true", ["true"])
os.wait()"""
    done = recorded(tmp_path, "/usr/bin/python3", "-S", "-c", script, status=0)
    [(reason, name)] = reasons(done).items()
    hides_our_library = OUT.is_relative_to("/tmp")
    expected = {"another root directory"} if hides_our_library else {"a sandbox", "another network namespace"}
    assert reason.split(" (")[0].split(",")[0] in expected
    assert name == "true"


@pytest.mark.skipif(os.getuid() != 0, reason="only root may change its root directory")
@pytest.mark.parametrize("where", [(), ("vfork",)])
@pytest.mark.parametrize("way", EXECUTE + SPAWN)
def test_the_loader_complains_of_nothing_in_a_root_directory_without_our_library(
    executes, folder, tmp_path, way, where
):
    """It would, on the program's standard error, of each program there."""
    root = moved_root(tmp_path, folder / "shared")
    done = recorded(tmp_path, executes, *where, f"root:{root}", way, "/program")
    assert "ld.so" not in done.stderr
    assert reasons(done) in ({"another root directory": name} for name in ("program", "descriptor 3"))


@pytest.mark.skipif(os.getuid() != 0, reason="only root may change its user")
def test_the_loader_complains_of_nothing_where_the_user_may_not_read_our_library(executes, folder, tmp_path):
    (tmp_path / "own").mkdir(mode=0o700)
    library = tmp_path / "own" / "libheaptape.so"
    library.write_bytes(b"")
    tmp_path.chmod(0o755)
    done = recorded(tmp_path, executes, f"preload:{library}", "user:65534", "execv", "/bin/true", status=0)
    assert "ld.so" not in done.stderr
    assert reasons(done) == {"their user may not read libheaptape.so": "true"}


@pytest.mark.skipif(os.getuid() != 0, reason="only root may change its root directory")
@pytest.mark.parametrize("way", ["system", "popen"])
def test_the_loader_complains_of_nothing_in_a_shell_of_the_c_library(executes, folder, tmp_path, way):
    root = moved_root(tmp_path, Path("/bin/sh"))
    (root / "bin").mkdir(exist_ok=True)
    (root / "program").rename(root / "bin" / "sh")
    done = recorded(tmp_path, executes, f"root:{root}", way, "exit 5")
    assert "ld.so" not in done.stderr
    assert reasons(done) == {"another root directory": "sh"}


BAD_POINTERS = """
extern char **environ;
#define TRY(call) (errno = 0, (void)call, printf("%d ", errno))
int main(void) {
  char *words[] = {"program", NULL}, *bad_entry[] = {(char *)16, NULL};
  char *end = (char *)mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + 4096;
  munmap(end, 4096);
  for (long bad = -1; bad < 10000; bad += 4097) {
    TRY(execve((char *)bad, words, environ));
    TRY(execve("/nowhere/program", words, (char **)bad));
    TRY(execv((char *)bad, words));
    TRY(syscall(SYS_execve, bad, bad, bad));
    TRY(syscall(SYS_execveat, AT_FDCWD, bad, words, bad, 0));
  }
  TRY(execve("/bin/true", words, bad_entry));
  TRY(execv(strcpy(end - 6, "/none"), words));
  char **environment = (char **)(end - 32);
  environment[0] = strcpy(end - 16, "A=1");
  environment[1] = NULL;
  TRY(execve("/nowhere/program", words, environment));
  environment = (char **)(end - 8);
  environment[0] = end - 4096;
  TRY(execve("/bin/true", words, environment));
  return 5;
}
"""


def test_pointers_that_the_kernel_refuses_are_refused_as_without_us(tmp_path: Path) -> None:
    program = compile_c(tmp_path / "program", BAD_POINTERS, "-w")
    bare = run(program)
    done = recorded(tmp_path, program)
    assert bare.status == 5
    assert done.stdout == bare.stdout
    assert reasons(done) == {}


def test_other_preloaded_libraries_are_kept_where_ours_is_not_there(executes: Path, tmp_path: Path) -> None:
    for value, kept in (
        ("/nowhere/libheaptape.so", "none"),
        ("/nowhere/libheaptape.so:/nowhere/libheaptape-unwind.so:libm.so.6", "libm.so.6"),
        ("libm.so.6 /nowhere/libheaptape.so libdl.so.2", "libm.so.6:libdl.so.2"),
        ("libm.so.6", "libm.so.6"),
    ):
        script = 'echo "${LD_PRELOAD-none}"; exit 5'
        done = recorded(tmp_path, executes, f"preload:{value}", "execv", "/bin/sh", "-c", script)
        assert done.stdout == f"{kept}\n"
        assert "ld.so" not in done.stderr


@pytest.mark.parametrize("script", ["{program}; exit 5", "env -i {program}; exit 5", "exec env -i {program}"])
def test_a_short_program_of_a_shell_is_named_where_it_is_not_recorded(folder, tmp_path, script):
    done = recorded(tmp_path, "sh", "-c", script.format(program=folder / "static"))
    assert list(reasons(done).values()) == ["static"]
    done = recorded(tmp_path, "sh", "-c", script.format(program=folder / "shared"))
    assert reasons(done) == ({"started without our LD_PRELOAD": "shared"} if "env" in script else {})


def test_each_of_many_is_counted_once(folder: Path, tmp_path: Path) -> None:
    script = f"for i in $(seq 300); do {folder}/static; {folder}/shared; done; exit 5"
    assert reasons(recorded(tmp_path, "sh", "-c", script)) == {STATIC: "static (300 processes)"}


def test_what_a_stopped_recorder_is_not_told_is_counted(folder: Path, tmp_path: Path) -> None:
    script = f"kill -STOP $PPID; for i in {'1 ' * 300}; do {folder}/static; done; kill -CONT $PPID; exit 5"
    done = recorded(tmp_path, "sh", "-c", script)
    assert reasons(done) == {STATIC: "static (256 processes)"}
    assert "of up to 44 more programs it is not known whether they were recorded" in " ".join(done.stderr.split())


@pytest.mark.long
def test_a_program_that_asks_a_stopped_recorder_is_named(folder: Path, tmp_path: Path) -> None:
    script = f"kill -STOP $PPID; {folder}/shared; kill -CONT $PPID; exit 5"
    assert reasons(recorded(tmp_path, "sh", "-c", script)) == {"they asked": "shared"}


def test_many_that_live_at_a_time_are_counted(folder: Path, tmp_path: Path) -> None:
    """A note of each is taken as soon as it runs, not when it ends."""
    waits = compile_c(
        tmp_path / "waits", "#include <unistd.h>\nint main(void) { return read(0, &(char){0}, 1); }", "-static"
    )
    start = f"exec 3<&0; for i in {'1 ' * 300}; do {waits} <&3 & done; wait"
    done = recorded(tmp_path, "sh", "-c", f"sleep 1 | {{ {start}; }}; exit 5")
    assert reasons(done) == {STATIC: "waits (300 processes)"}


@pytest.mark.skipif(os.getuid() != 0, reason="makes a PID namespace")
def test_programs_of_a_process_in_a_pid_namespace_are_named_once_or_recorded(folder: Path, tmp_path: Path) -> None:
    script = f"for i in 1 2 3; do {folder}/shared; {folder}/static; done; exit 5"
    done = recorded(tmp_path, "unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", script)
    assert reasons(done) == {STATIC: "static (3 processes)"}


@pytest.mark.parametrize("way", EXECUTE + SPAWN)
@pytest.mark.parametrize("filtered", [False, True])
def test_a_call_that_fails_names_nothing(executes, folder, tmp_path, way, filtered):
    """And what attaches is not named either."""
    if way == "fexecve" and filtered:
        pytest.skip("it opens no file first")
    filters = [f"kill:{forbidden('setsockopt')}"] if filtered else []
    done = recorded(tmp_path, executes, *filters, "fails", way, folder / "shared")
    assert reasons(done) == ({FILTERED: "shared"} if filtered else {})


@pytest.mark.parametrize("options", [("--no-follow",)])
def test_without_following_none_is_named(executes, folder, tmp_path, options):
    assert reasons(recorded(tmp_path, executes, "fork", "execv", folder / "static", options=options)) == {}
