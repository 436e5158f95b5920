# SPDX-License-Identifier: MIT
"""Each synthetic pattern makes the same calls as a program and as a workload file, and every program that reads
workloads reads the file. Long: three patterns of many events.
"""

import json
import signal
import subprocess
import time

import pytest

from tests.support import CONVERT, HEAPTAPE, HEAPTAPE_HERE, REPLAY, check, info, refused, run, succeed, workload
from workloads.test.synthetic import NAMES, OPTIONS, ops, recorded_ops, streams, written

THREADED = {name for name in NAMES if name not in {
    "alignment_storm", "arenas", "cfrac", "growing_reallocs", "huge_objects", "lru_cache", "phases", "random_mix",
    "random_mix_live", "string_building",
}}  # fmt: skip


def test_every_pattern_is_tested_here():
    assert sorted(OPTIONS) == NAMES


LARGE = ("many_threads", "random_mix_live", "ring")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] * (name in LARGE)) for name in sorted(set(NAMES) - {"remote_storm"})],
)
def test_the_recording_of_the_program_equals_the_written_workload(name):
    recorded, made = recorded_ops(name), ops(written(name))
    libc = name in THREADED
    assert streams(recorded, of_libc=libc) == streams(made, of_libc=libc)
    if not libc:

        def plain(op: dict) -> tuple:
            return tuple(op.get(key) for key in ("call", "size_bytes", "count", "align_bytes"))

        assert [plain(op) for op in recorded] == [plain(op) for op in made]


def test_where_threads_race_the_written_workload_has_the_recording_s_distribution():
    recorded, made = recorded_ops("remote_storm"), ops(written("remote_storm"))
    for call in ("malloc", "free", "realloc", "calloc", "malloc_usable_size"):
        counts = [sum(op["call"] == call for op in these) for these in (recorded, made)]
        assert counts[0] == pytest.approx(counts[1], rel=0.1), call


@pytest.mark.parametrize("name", NAMES)
def test_a_written_workload_is_legal_and_describes_itself(name):
    witness, about = check(written(name)), info(written(name))
    assert witness["ok"]
    assert about["live_at_end"] == 0
    assert about["info"]["name"] == name
    wanted = dict(option.removeprefix("--").split("=") for option in OPTIONS[name])
    pattern = about["info"]["pattern"]
    assert pattern["seed"] == 1
    assert {key: pattern["options"][key] for key in wanted} == {key: int(value) for key, value in wanted.items()}
    assert sum(about["calls"].values()) == about["ops"] == len(ops(written(name)))


@pytest.mark.parametrize("name", NAMES)
def test_the_engine_replays_a_written_workload(name):
    ran = json.loads(succeed(REPLAY, "--pass", "bare", "--order", "causal", written(name)).stdout)
    assert ran["ops"] == info(written(name))["ops"]


def test_the_printed_peaks_are_those_of_the_compiled_recording():
    made = info(written("lru_cache"))
    alive, peak, position, live = {}, 0, 0, 0
    for op in ops(written("lru_cache")):
        live += op["size_bytes"] if op["call"] == "malloc" else -alive.pop(op["slot"])
        if op["call"] == "malloc":
            alive[op["slot"]] = op["size_bytes"]
        if live > peak:
            peak, position = live, op["position"]
    assert (made["peak_live_bytes"], made["peak_position"]) == (peak, position)


def test_the_command_in_the_info_writes_the_same_file_again(tmp_path):
    program = info(written("larson"))["info"]["program"].split()
    succeed(workload(program[0]), *program[1:], f"--work={tmp_path / 'again.work'}")
    assert (tmp_path / "again.work").read_bytes() == written("larson").read_bytes()


def test_another_seed_and_other_turns_write_other_files(tmp_path):
    for option in ("--seed=2", "--turn=8"):
        succeed(workload("larson"), *OPTIONS["larson"], option, f"--work={tmp_path / 'other.work'}")
        assert (tmp_path / "other.work").read_bytes() != written("larson").read_bytes()


def test_turns_change_the_order_between_threads_and_nothing_else(tmp_path):
    succeed(workload("ring"), *OPTIONS["ring"], "--turn=1", f"--work={tmp_path / 'fine.work'}")
    assert check(tmp_path / "fine.work")["ok"]
    assert streams(ops(tmp_path / "fine.work"), of_libc=False) == streams(ops(written("ring")), of_libc=False)


@pytest.mark.parametrize("rounds", [10_000, 1_000_000])
def test_memory_does_not_grow_with_the_number_of_calls(tmp_path, rounds):
    command = (workload("mt_one_alloc"), "--threads=2", f"--rounds={rounds}", f"--work={tmp_path / 'w.work'}")
    succeed("prlimit", "--as=20000000", *command)


def test_the_command_line_writes_a_workload(tmp_path):
    done = succeed(HEAPTAPE_HERE, "workloads", "write", "cfrac", "-o", tmp_path / "c.work", "--", "--steps=100")
    assert "c.work" in done.stdout + done.stderr
    assert info(tmp_path / "c.work")["info"]["pattern"]["options"] == {"steps": 100}
    assert json.loads(succeed(HEAPTAPE, "info", "--json", tmp_path / "c.work").stdout)["info"]["name"] == "cfrac"
    assert json.loads(succeed(HEAPTAPE, "check", "--json", tmp_path / "c.work").stdout)["ok"]


def test_wrong_options_are_reported_with_what_is_right():
    for option, why in (("--threads=0", "must be 1 to"), ("--threads=x", "not a number"), ("--thread=1", "unknown")):
        result = run(workload("larson"), option)
        assert result.status == 2
        assert why in result.stderr
        assert "--slots=1000" in result.stderr
    assert "lowest must not be above" in run(workload("larson"), "--lowest=10", "--highest=9").stderr


def test_a_file_that_can_not_be_written_is_one_error(tmp_path):
    for path in ("/dev/full", tmp_path / "none" / "w.work"):
        refused(workload("cfrac"), "--steps=100000000", f"--work={path}", says=str(path))


def test_an_interrupted_write_leaves_nothing_behind(tmp_path):
    command = [workload("cfrac"), "--steps=1000000000", f"--work={tmp_path / 'w.work'}"]
    with subprocess.Popen(command) as program:
        deadline = time.monotonic() + 120
        while not list(tmp_path.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.01)
        program.send_signal(signal.SIGINT)
        assert program.wait(120) == -signal.SIGINT
    assert list(tmp_path.iterdir()) == []


def test_written_workloads_survive_the_compiler_s_own_reader():
    """`dump` and the Python reader agree on a written file."""
    from heaptape.tape.workload_format import read_workload

    made = read_workload(written("xmalloc"))
    assert made.ops == sum(len(made.ops_of(thread)) for thread in range(made.threads))
    assert succeed(CONVERT, "dump", written("xmalloc")).stdout.startswith("# heaptape workload")
