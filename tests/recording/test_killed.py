# SPDX-License-Identifier: MIT
"""A program that a signal kills cannot tell how much of its large objects was resident: info and replay say so."""

import signal

import pytest

from tests.support import CONVERT, HEAPTAPE_HERE, compile_c, info, record, succeed

SOURCE = """
int main(int argc, char **argv) {
  for (int i = 0; i < 10; i++) *(char *volatile)malloc(atoi(argv[1])) = 1;
  if (argc > 2) raise(SIGTERM);
  return 0;
}
"""


@pytest.mark.parametrize(
    ("bytes_each", "killed", "untold"), [(1 << 20, 1, 10 << 20), (1 << 20, 0, None), (100, 1, None)]
)
def test_what_a_killed_program_could_not_tell_is_said(tmp_path, bytes_each, killed, untold):
    tape = tmp_path / "t.tape"
    words = [compile_c(tmp_path / "program", SOURCE), str(bytes_each), *["killed"] * killed]
    record(tape, *words, status=128 + signal.SIGTERM if killed else 0)
    assert info(tape)["witness"].get("untold_bytes_at_end") == untold
    replay = (HEAPTAPE_HERE, "replay", tape, "-a", "glibc", "--passes", "memory", "-n", "1", "-o", tmp_path / "r.json")
    for command in ((CONVERT, "info", tape), replay):
        said = " ".join(succeed(*command).stdout.split())
        assert ("of 10.0 MiB in large objects that lived then it is not known" in said) == bool(untold)
