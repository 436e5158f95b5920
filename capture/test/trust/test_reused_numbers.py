# SPDX-License-Identifier: MIT
"""A process id that belongs to one process after the other: each is recorded as itself."""

import subprocess
from pathlib import Path

import pytest

from tests.support import RECORD, compile_c, info

CHILDREN, PAIRS = 20, 100
# Forks children one after the other, all with the id 300: the kernel lets root choose the next one.
FORKS = f"""
static void *volatile kept;
int main(void) {{
  for (int i = 0; i < {CHILDREN}; i++) {{
    int status, next = open("/proc/sys/kernel/ns_last_pid", O_WRONLY);
    if (write(next, "299", 3) != 3)
      return 77;
    close(next);
    int pid = fork();
    for (int k = 0; pid == 0 && k < {PAIRS}; k++)
      free(kept = malloc(100));
    if (pid == 0)
      _exit(i);
    if (pid != 300 || waitpid(pid, &status, 0) != pid || WEXITSTATUS(status) != i)
      return 1;
  }}
  return 0;
}}
"""

# Executes the programs, each in a child with the id 300, the second when the recorder has seen that the first ended.
EXECUTES = """
int main(int count, char **words) {
  free(malloc(100));
  for (int i = 1; i < count; i++) {
    int next = open("/proc/sys/kernel/ns_last_pid", O_WRONLY);
    if (write(next, "299", 3) != 3)
      return 77;
    close(next);
    int pid = fork();
    if (pid == 0)
      return execv(words[i], words + i);
    if (pid != 300 || waitpid(pid, NULL, 0) != pid)
      return 1;
    sleep(i == 1);
  }
  return 0;
}
"""


def recorded(folder: Path, *program: str | Path) -> str:
    """What the recorder printed; in a PID namespace, where the program may choose its children's ids."""
    own = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")
    command = [*own, RECORD, "--all-processes", "-o", folder / "t.tape", "--", *program]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"no process ids of our own: {done.stderr.strip() or 'the kernel chooses the next one'}")
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_each_process_of_a_reused_number_has_its_own_recording_and_end(tmp_path: Path) -> None:
    program = compile_c(tmp_path / "forks", FORKS)
    assert "exec" not in recorded(tmp_path, program)
    children = [info(path) for path in tmp_path.glob("t*.tape")]
    children = [one for one in children if one["info"]["pid"] == 300]
    assert [one["events"] for one in children] == [2 * PAIRS] * CHILDREN
    assert {one["info"]["parent_pid"] for one in children} != {300}
    assert {one["footer"]["end"] for one in children} == {"exit"}


def test_an_unrecorded_program_is_named_though_a_recorded_one_has_its_number_later(tmp_path: Path) -> None:
    program = compile_c(tmp_path / "executes", EXECUTES)
    static = compile_c(tmp_path / "static", "int main(void) { return 0; }", "-static")
    shared = compile_c(tmp_path / "shared", "#include <stdlib.h>\nint main(void) { free(malloc(9)); return 0; }", "-O0")
    said = " ".join(recorded(tmp_path, program, static, shared).split())
    assert "not recorded: static: statically linked" in said
    assert said.count("not recorded:") == 1
