# SPDX-License-Identifier: MIT
"""Programs that have, or may gain, other rights than the user who wants to attach to them."""

import os
import subprocess

import pytest

from capture.test.trust.test_other_users import VICTIM, as_user, folder  # noqa: F401 (a fixture)
from tests.support import compile_c

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to act as another user")

# Waits; with KIND 12 it is not dumpable, with 8 it executes itself all the time.
PROTECTED = """
int main(int count, char **arguments) {
  if (KIND == 12) prctl(PR_SET_DUMPABLE, 0);
  if (count == 1) write(1, "\\n", 1);
  if (KIND == 8) { usleep(300); execl(arguments[0], arguments[0], "again", (char *)0); }
  for (;;) pause();
}
"""


@pytest.mark.parametrize(
    ("kind", "says"),
    [("setuid", "has changed its user"), ("not dumpable", ""), ("executes", "")],
)
def test_what_cannot_be_attached_to_is_refused_in_one_line(folder, kind, says):  # noqa: F811
    """Also where that is found only when the recording has begun to be prepared."""
    program = compile_c(folder / "program", PROTECTED, f"-DKIND={len(kind)}")
    program.chmod(0o4755 if kind == "setuid" else 0o755)
    process = as_user(VICTIM, program)
    assert process.stdout.readline() == "\n"
    command = (folder / "libexec" / "heaptape-record", "--attach", str(process.pid), "-o", folder / "t.tape")
    recorder = as_user(VICTIM, *command, stderr=subprocess.PIPE)
    _, said = recorder.communicate(timeout=60)
    process.kill()
    process.communicate()
    assert recorder.returncode == 1
    assert said.count("\n") == 1, said
    assert says in said
    assert not (folder / "t.tape").exists()
