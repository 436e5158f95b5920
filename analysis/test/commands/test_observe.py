# SPDX-License-Identifier: MIT
"""`heaptape observe`: the observer's result as a table, on the requested allocator."""

import errno
import os
import subprocess
from pathlib import Path

import pytest

from capture.test.filters import ALLOW, Rule, compile_filtered, error, make_filter
from tests.support import published

OUT = Path(os.environ.get("HEAPTAPE_OUT", Path(__file__).resolve().parents[3] / "out"))


def observe(*arguments):
    return subprocess.run([OUT / "bin/heaptape", "observe", *arguments], capture_output=True, text=True, timeout=120)


def test_text_has_a_row_for_each_program_and_the_commands_output_and_status_are_its_own():
    done = observe("--", "sh", "-c", "/bin/echo one; exit 3")
    assert (done.returncode, done.stdout) == (3, "one\n")
    lines = done.stderr.splitlines()
    assert lines[0] == "Programs observed"
    assert "peak memory, MiB" in lines[1]
    assert [line.split()[0] for line in lines[2:4]] == ["sh", "echo"]


def test_json_is_complete_and_goes_to_the_named_file(tmp_path):
    path = tmp_path / "o.json"
    done = observe("--format", "json", "--interval-us", "500", "-o", path, "--", "sh", "-c", "exit 3")
    assert (done.returncode, done.stderr) == (3, "")
    found = published("observe", path.read_text())
    assert found["status"] == 3
    assert found["programs"][0]["rss_anon_peak_bytes"] > 0


def test_the_program_runs_on_the_allocator_that_was_named():
    done = observe("-a", "reference", "--", "sh", "-c", "echo $LD_PRELOAD")
    assert done.stdout.strip().endswith("libreference.so")
    assert "libreference.so" not in observe("--", "sh", "-c", "echo $LD_PRELOAD").stdout


def test_the_processor_time_of_a_child_of_fork_counts_from_its_birth(tmp_path):
    path = tmp_path / "o.json"
    loop = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done"
    done = observe("--time-only", "--format", "json", "-o", path, "--", "sh", "-c", f"( {loop} ) ; true")
    assert done.returncode == 0, done.stderr
    found = published("observe", path.read_text())
    times = [one["cpu_ns"] for one in found["programs"]]
    assert len(times) == 2
    assert times[1] > 10 * times[0]
    assert 0 <= found["system_ns"] < sum(times)
    counters = found["counters"]
    if "task_clock_ns" in counters:  # where counting is permitted, also without a PMU
        assert counters["task_clock_ns"] == pytest.approx(sum(times), rel=0.1)
    assert ("core_cycles" in counters) != ("counters_missing_because" in found)


REFUSED = {
    errno.EACCES: "perf_event_open is not permitted (see /proc/sys/kernel/perf_event_paranoid)",
    errno.EPERM: "perf_event_open is not permitted (see /proc/sys/kernel/perf_event_paranoid)",
    errno.ENOENT: "this machine shows no PMU",
    errno.ENOSYS: "the kernel has no perf_event_open",
    errno.EMFILE: "Too many open files",
}


@pytest.mark.parametrize("number", REFUSED, ids=errno.errorcode.get)
def test_where_a_filter_refuses_counters_processor_time_is_measured_without_a_word(number, tmp_path):
    denied = make_filter(tmp_path / "filter", ALLOW, [Rule("perf_event_open", error(number))])
    program = ["sh", "-c", "i=0; while [ $i -lt 9999 ]; do i=$((i + 1)); done"]
    observed = [OUT / "bin/heaptape", "observe", "--time-only", "--format", "json", "-o", tmp_path / "o.json", "--"]
    done = subprocess.run(
        [compile_filtered(tmp_path), denied, "--", *observed, *program], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    found = published("observe", (tmp_path / "o.json").read_text())
    assert found["programs"][0]["cpu_ns"] > 0
    assert (found["counters"], found["counters_missing_because"]) == ({}, REFUSED[number])


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ((), 2, "heaptape: observe: which command?"),
        (("-a", "none-such", "--", "true"), 2, "heaptape: unknown allocator 'none-such'"),
        (("--wrong", "--", "true"), 2, "heaptape-observe: unknown option --wrong"),
        (("--format", "cvs", "--", "true"), 2, "argument --format: unknown 'cvs': did you mean 'csv'?"),
        (("--", "/none/such"), 127, "heaptape-observe: /none/such: No such file or directory"),
    ],
)
def test_what_can_not_be_done_is_reported_in_one_message(arguments, status, message):
    done = observe(*arguments)
    assert (done.returncode, done.stdout) == (status, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_help_is_ours_and_the_programs():
    done = observe("--help")
    assert done.returncode == 0
    assert "--format text|md|csv|latex|json" in done.stdout


def test_an_output_that_can_not_be_written_is_found_before_the_program_runs(tmp_path):
    done = observe("-o", tmp_path / "none/o.json", "--", "touch", tmp_path / "ran")
    assert (done.returncode, done.stderr) == (1, f"heaptape: {tmp_path}/none/o.json: can't be written\n")
    assert not (tmp_path / "ran").exists()
