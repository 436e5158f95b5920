# SPDX-License-Identifier: MIT
"""A quota of processor time under which a program was recorded is in its trace, and in what follows from that."""

import os
from pathlib import Path

import pytest
from heaptape.tape.trace import open_trace
from heaptape.tape.workload_format import read_workload

from tests.support import RECORD, compile_c, compile_trace, record, succeed

ROOT = Path("/sys/fs/cgroup")
BURSTS = r"""
int main(void) {
  for (int burst = 0; burst < 3; burst++) {
    void *held = calloc(1, 8 << 20);
    struct timespec used;
    do
      clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    while (used.tv_nsec < 20000000 * (burst + 1));
    free(held);
    nanosleep(&(struct timespec){0, 100000000}, 0);
  }
}
"""


@pytest.fixture
def part_of_a_processor():
    """A new control group with that quota, of either version, and one in it."""
    first = ROOT / "cpu"
    group = (first if first.is_dir() else ROOT) / f"heaptape-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made: {error}")
    try:
        if (group / "cpu.cfs_quota_us").exists():
            (group / "cpu.cfs_quota_us").write_text("5000")
        elif (group / "cpu.max").exists():
            (group / "cpu.max").write_text("5000 100000")
        else:
            pytest.skip("new control groups have no quotas")
        (group / "inner").mkdir()
        yield group / "inner"
        (group / "inner").rmdir()
    finally:
        group.rmdir()


def test_a_quota_and_how_long_it_held_the_program_back_are_recorded(tmp_path, part_of_a_processor):
    program, tape = compile_c(tmp_path / "bursts", BURSTS), tmp_path / "F.tape"
    enter = ["sh", "-c", f'echo 0 >{part_of_a_processor}/cgroup.procs && exec "$@"', "-"]
    succeed(*enter, RECORD, "-o", tape, "--", program)
    with open_trace(tape) as trace:
        assert trace.info["quota_processors"] == pytest.approx(0.05)
        throttled = trace.samples()["throttled_ns"].to_numpy()
    assert throttled[-1] - throttled[0] > 0
    info = read_workload(compile_trace(tape)).info
    assert info["quota_processors"] == pytest.approx(0.05)
    assert info["throttled_ns"] == throttled[-1] - throttled[0]


def test_without_a_quota_nothing_is_said_of_one(tmp_path):
    if any(path.read_text().split()[0] != "max" for path in ROOT.glob("cpu.max")):
        pytest.skip("this container has a quota")
    tape = tmp_path / "F.tape"
    record(tape, "/bin/true")
    with open_trace(tape) as trace:
        assert "quota_processors" not in trace.info
        assert "throttled_ns" not in trace.samples()
