# SPDX-License-Identifier: MIT
"""A process id that belongs to one process after the other: each is recorded as itself."""

import subprocess
from pathlib import Path

import pytest

from tests.support import RECORD, compile_c, info

CHILDREN, PAIRS = 20, 100
# Forks children one after the other, all with the id 300: the kernel lets root choose the next one.
FORKS = f"""
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
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


def test_each_process_of_a_reused_number_has_its_own_recording_and_end(tmp_path: Path) -> None:
    program = compile_c(tmp_path / "forks", FORKS)
    own = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")
    command = [*own, RECORD, "--all-processes", "-o", tmp_path / "t.tape", "--", program]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"no process ids of our own: {done.stderr.strip() or 'the kernel chooses the next one'}")
    assert done.returncode == 0, done.stderr
    assert "exec" not in done.stderr
    children = [info(path) for path in tmp_path.glob("t*.tape")]
    children = [one for one in children if one["info"]["pid"] == 300]
    assert [one["events"] for one in children] == [2 * PAIRS] * CHILDREN
    assert {one["info"]["parent_pid"] for one in children} != {300}
    assert {one["footer"]["end"] for one in children} == {"exit"}
