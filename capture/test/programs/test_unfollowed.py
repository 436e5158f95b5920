# SPDX-License-Identifier: MIT
"""Programs that a recorded process starts and that can't be recorded: each is named, with the reason."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import RECORD, Result, compile_c, info, run

SOURCE = """
int main(void) { for (int i = 0; i < 3000; i++) free(malloc(20)); usleep(400000); return 0; }
"""
HIDE = "rm /tmp/${HEAPTAPE_SOCKET%%:*}"  # the recorder's socket that is within reach from another network namespace


def compiled(path: Path, *options: str) -> Path:
    return compile_c(path, SOURCE, *options)


def recorded(folder: Path, *command: str | Path, options: tuple[str, ...] = ()) -> Result:
    done = run(RECORD, *options, "-o", folder / "t.tape", "--", *command)
    assert done.status == 0, done.stderr
    return done


def reasons(done: Result) -> dict[str, str]:
    """The names in each line of what was not recorded, by the first words of the reason."""
    text = " ".join(done.stderr.split())
    found = re.findall(r"heaptape: not recorded: ([^:]*): (.*?)(?= heaptape: |$)", text)
    return {reason.split(",")[0].split(":")[0]: names for names, reason in found}


def moved_root(folder: Path, program: Path) -> Path:
    """A root directory with that program and its libraries, and nothing of ours."""
    root = folder / "root"
    libraries = re.findall(r"/\S+", subprocess.run(["ldd", program], capture_output=True, text=True).stdout)
    for file in libraries:
        (root / file[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, root / file[1:])
    shutil.copy(program, root / "program")
    return root


@pytest.mark.parametrize("after", ["", "; true"])
@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("env -i {program}", "started without our LD_PRELOAD"),
        ("env -u LD_PRELOAD {program}", "started without our LD_PRELOAD"),
        ("LD_PRELOAD=libm.so.6 {program}", "started with another LD_PRELOAD in place of ours"),
        ("{hide}; unshare -n {program}", "another network namespace"),
        ("chroot {root} /program", "another root directory"),
        ("{static}", "statically linked"),
    ],
)
def test_a_program_that_can_not_be_followed_is_named_with_the_reason(tmp_path, command, reason, after):
    program, static = compiled(tmp_path / "program"), compiled(tmp_path / "static", "-static")
    root = moved_root(tmp_path, program)
    done = recorded(tmp_path, "sh", "-c", command.format(program=program, root=root, static=static, hide=HIDE) + after)
    assert reasons(done) == {reason: "static" if "{static}" in command else "program"}


def test_a_recording_ends_where_its_process_executes_an_unfollowed_program(tmp_path: Path) -> None:
    """Else its samples would be of the other program."""
    recorded(
        tmp_path, "env", "-i", "/usr/bin/python3", "-S", "-c", "x = bytearray(90 << 20); import time; time.sleep(.3)"
    )
    about = info(tmp_path / "t.tape")
    assert about["info"]["program"] == "env"
    assert about["footer"]["end"] == "exec"
    assert about["recorded"]["rss_anon_peak_bytes"] < 20 << 20


def test_the_rights_of_a_setuid_program_are_the_reason(tmp_path: Path) -> None:
    program = compiled(tmp_path / "program")
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):  # up to pytest's own, which others can't enter
        folder.chmod(folder.stat().st_mode | 0o055)
    shutil.chown(program, 1, 1)
    program.chmod(0o4755)
    (tmp_path / "out").mkdir()
    shutil.chown(tmp_path / "out", 65534)
    command = f"exec {RECORD} -o {tmp_path}/out/t.tape -- sh -c '{program}; true'"
    done = run("setpriv", "--reuid=65534", "--clear-groups", "sh", "-c", command)
    assert done.status == 0, done.stderr
    assert reasons(done) == {"rights that the caller lacks (setuid": "program"}


LOOP_OF_32_BITS = """
.globl _start
_start: movl $162, %eax; movl $wait, %ebx; xorl %ecx, %ecx; int $0x80
        movl $1, %eax; xorl %ebx, %ebx; int $0x80
.data
wait: .long 0, 300000000
"""


def test_a_child_of_32_bits_is_named_with_its_processor_as_the_reason(tmp_path: Path) -> None:
    program = tmp_path / "program"
    subprocess.run(["as", "--32", "-o", tmp_path / "p.o"], input=LOOP_OF_32_BITS.encode(), check=True)
    subprocess.run(["ld", "-m", "elf_i386", "-o", program, tmp_path / "p.o"], check=True)
    if subprocess.run([program], check=False).returncode != 0:
        pytest.skip("this kernel runs no programs of 32 bits")
    for before in ("", "env -i "):
        done = recorded(tmp_path, "sh", "-c", f"{before}{program}; true")
        assert reasons(done) == {"a program of 32 bits or for another processor": "program"}


def test_a_go_program_without_malloc_is_refused_for_gos_own_allocator(tmp_path: Path) -> None:
    """What `go version` looks for stands in for a program of Go, which CI may not have."""
    source = 'char mark[] = "\\377 Go buildinf:"; void _start(void) { for (;;) ; }'
    program = compile_c(tmp_path / "program", source, "-static", "-nostdlib")
    done = run(RECORD, "-o", tmp_path / "t.tape", "--", program)
    assert done.status == 1
    assert "a Go program without malloc" in done.stderr
    assert "strip" not in done.stderr


def test_a_static_program_that_ends_before_it_calls_malloc_is_not_told_to_be_recorded_by_itself(tmp_path):
    source = """
int main(int count, char **words) {
  usleep(400000);
  if (count > 1)
    free(malloc(count));
  _exit(0);
}"""
    done = run(RECORD, "-o", tmp_path / "t.tape", "--", compile_c(tmp_path / "program", source, "-static"))
    assert "by itself" not in done.stderr, done.stderr


def test_a_kernel_without_pidfd_open_gets_one_line(tmp_path: Path) -> None:
    """By a filter that answers as such a kernel does."""
    source = """
#include "core/test/usual.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
int main(int count, char **words) {
  struct sock_filter code[] = {{0x20, 0, 0, 0}, {0x15, 0, 1, 434}, {0x06, 0, 0, 327680 | 38}, {6, 0, 0, 0x7fff0000}};
  struct sock_fprog program = {4, code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &program) || execv(words[1], words + 1);
}"""
    filtered = compile_c(tmp_path / "filtered", source)
    for what in (("--", "true"), ("--attach", "1")):
        done = run(filtered, RECORD, "-o", tmp_path / "t.tape", *what)
        assert done.status == 1
        assert done.stderr.count("\n") == 1
        assert "Linux 5.3" in done.stderr
    assert not (tmp_path / "t.tape").exists()


def test_programs_that_are_followed_are_not_named(tmp_path: Path) -> None:
    program = compiled(tmp_path / "program")
    script = (
        f"{program} & (exec env X=1 {program}) & sh -c 'sleep 0.3' & for i in 1 2 3 4 5; do ls / >/dev/null; done; wait"
    )
    assert reasons(recorded(tmp_path, "sh", "-c", script)) == {}
    assert reasons(recorded(tmp_path, "env", "-i", program, options=("--no-follow",))) == {}


def test_several_of_one_cause_share_a_line_and_names_are_escaped(tmp_path: Path) -> None:
    evil = compiled(tmp_path / "e\033[1m")
    program = compiled(tmp_path / "program")
    script = f"for i in 1 2 3; do env -i {program} & done; env -i {evil} & wait"
    done = recorded(tmp_path, "sh", "-c", script)
    assert "\033" not in done.stderr
    ((reason, names),) = reasons(done).items()
    assert reason == "started without our LD_PRELOAD"
    assert re.fullmatch(r"(program, e\\x1b\[1m|e\\x1b\[1m, program) \(4 processes\)", names)


def test_strict_fails_where_a_process_was_not_recorded_and_else_keeps_the_programs_status(tmp_path: Path) -> None:
    program = compiled(tmp_path / "program")
    for script, status in ((f"env -i {program}; true", 1), (f"{program}; true", 0), (f"{program}; exit 3", 3)):
        done = run(RECORD, "--strict", "-o", tmp_path / "t.tape", "--", "sh", "-c", script)
        assert done.status == status, done.stderr
        assert ("not recorded: program" in done.stderr) == (status == 1), done.stderr


TWICE = """
int main(int count, char **words) {
  int fails = count > 1 && !dlmopen(LM_ID_NEWLM, words[1], RTLD_NOW);
  for (int i = 0; i < 3000; i++) free(malloc(777));
  if (fails) puts(dlerror());
  return fails;
}
"""


def test_a_second_program_in_a_recorded_process_is_named_and_costs_no_call(tmp_path: Path) -> None:
    """Our library is there twice, as in an emulator whose guest is preloaded too."""
    program = compile_c(tmp_path / "twice", TWICE)
    done = recorded(tmp_path, program, RECORD.parent.parent / "lib" / "libheaptape.so")
    assert reasons(done) == {"an emulator (qemu-user) runs it in its own process": "program inside twice"}
    assert info(tmp_path / "t.tape")["calls"]["free"] >= 3000


@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="needs qemu-user")
def test_an_emulator_is_recorded_to_its_end_and_its_guest_is_named(tmp_path: Path) -> None:
    guest = compile_c(tmp_path / "guest", TWICE)
    done = recorded(tmp_path, "qemu-x86_64", guest)
    assert reasons(done) == {"an emulator (qemu-user) runs it in its own process": "program inside qemu-x86_64"}
    assert info(tmp_path / "t.tape")["footer"]["end"] == "exit"


def test_a_program_that_has_overwritten_its_environment_is_not_said_to_lack_our_preload(tmp_path: Path) -> None:
    source = """
int main(int count, char **words, char **environment) {
  for (; *environment; environment++)
    memset(*environment, 0, strlen(*environment));
  return usleep(400000);
}"""
    program = compile_c(tmp_path / "titled", source)
    done = recorded(tmp_path, "sh", "-c", f"{HIDE}; unshare -n {program}; true")
    assert reasons(done) == {"another network namespace": "titled"}
