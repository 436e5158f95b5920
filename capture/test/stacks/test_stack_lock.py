# SPDX-License-Identifier: MIT
"""A call that a signal handler leaves by longjmp keeps no lock of the call stacks' nodes."""

import os
from pathlib import Path

import pytest

from capture.test.stacks.stack_hosts import SOURCES, record
from tests.support import OUT, REPOSITORY, compile_c


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="steps are for x86-64")
@pytest.mark.parametrize("mode", ["alone", "and-another", "ends"])
def test_every_stack_is_taken_after_a_call_was_left_that_held_the_lock(mode: str, tmp_path: Path) -> None:
    include = ("-std=gnu11", "-D_GNU_SOURCE", f"-I{REPOSITORY}")
    host = compile_c(tmp_path / "host", SOURCES / "leaves_by_longjmp.c", "-pthread", *include)
    # glibc's malloc may not be left in the middle
    options = ("--stacks", "--preload", str(OUT / "lib/test/libbump.so"))
    assert record(tmp_path / "t.tape", host, mode, options=options).status == 0
