# SPDX-License-Identifier: MIT
"""Every C test program: its name is its claim, exit 0 = holds, 77 = skipped (it says why).

Long: three that try very many cases, of code that rarely changes: every cut of a trace and 6,000 mutants of it, every
state of the model of the ownership tags, and every order in which a processor may perform them.
"""

import functools
import os
import subprocess
from pathlib import Path

import pytest

from tests.support import OUT, REPOSITORY

SKIPPED = 77
# Of one process; the largest model took 48 s on a slow machine. A limit of 240 s of wall time instead
# failed where two suites and four busy loops shared two processors.
CPU_LIMIT_S = 240
HANG_S = 1800  # bounds a program that waits without end, and is not a claim
LONG = (
    "damaged_file_gives_one_error_or_a_prefix",
    "ownership_tags_order_every_history",
    "weak_memory_orders_every_history",
)


@functools.cache
def listed_programs() -> list[Path]:
    """The programs that the part.mk files list with c_test: other programs beside them are helpers of a test."""
    show = ("--eval", "list-tests: ; @echo $(TESTS)")
    environment = {
        name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    }
    done = subprocess.run(
        ["make", "-s", "--no-print-directory", *show, "list-tests", f"OUT={OUT}"],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return [Path(word) for word in done.stdout.split()]


PROGRAMS = {str(path.relative_to(OUT / "test")): path for path in listed_programs()}


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(path, id=place, marks=[pytest.mark.long] if path.name in LONG else [])
        for place, path in PROGRAMS.items()
    ],
)
def test_program(program: Path, tmp_path: Path) -> None:
    assert program.exists(), "not built: run make programs"
    command = ["prlimit", f"--cpu={CPU_LIMIT_S}", "--", program]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=HANG_S, cwd=tmp_path)
    output = (done.stdout + done.stderr).strip()
    if done.returncode == SKIPPED:
        pytest.skip(output or "it does not say why")
    assert done.returncode == 0, f"exit status {done.returncode}\n{output[-4000:]}"


def test_every_part_in_c_lists_programs() -> None:
    assert {place.partition("/")[0] for place in PROGRAMS} >= {"allocators", "capture", "core", "replay"}
