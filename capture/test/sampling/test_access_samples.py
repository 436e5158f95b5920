# SPDX-License-Identifier: MIT
"""Samples of data accesses: kernel records from files, as PEBS and IBS produce them; page faults, which any
machine has, recorded for real; and what is refused where there is no PMU."""

import json
import struct
from pathlib import Path

import pytest
from heaptape.tape.tape_format import open_trace

from tests import support
from tests.support import CONVERT, OUT, compile_c, info, refused, run, succeed

READER = OUT / "test-programs" / "read-perf-records"
HERE = Path(__file__).parent
LOST, THROTTLE, UNTHROTTLE, SAMPLE, LOST_SAMPLES = 2, 5, 6, 9, 13  # linux/perf_event.h, enum perf_event_type
KERNEL, USER = 1, 2  # misc
LOAD, STORE, TLB_MISS = 16, 32, 64  # core/trace/FORMAT.md 6b
L1, LINE_BUFFER, L2, L3, MEMORY, REMOTE, BEYOND_L1, PAGE_FAULT = 1, 2, 3, 4, 5, 6, 8, 9


def record(kind: int, body: bytes, misc: int = USER) -> bytes:
    return struct.pack("<IHH", kind, misc, 8 + len(body)) + body


def sample(pid: int, time: int, address: int, detail: tuple[int, int] | None = None, misc: int = USER) -> bytes:
    """detail: latency in cycles, data source."""
    body = struct.pack("<IIQQ", pid, pid + 1, time, address)
    return record(SAMPLE, body + (struct.pack("<QQ", *detail) if detail else b""), misc)


def source(op: int, level: int, number: int = 0, tlb: int = 0, remote: int = 0) -> int:
    """perf_mem_data_src: op 2 load, 4 store; level: its bits; number: mem_lvl_num; tlb: mem_dtlb."""
    return op | level << 5 | tlb << 26 | number << 33 | remote << 37


def read(folder: Path, data: bytes, form: str = "detail", clock: tuple[int, int, int] = (0, 1, 0)) -> tuple[list, dict]:
    """Samples and counts. clock: zero, multiplier, shift."""
    (folder / "records").write_bytes(data)
    lines = succeed(READER, "records", folder / "records", form, *map(str, clock)).stdout.splitlines()
    *samples, counts = map(json.loads, lines)
    return samples, counts


@pytest.mark.parametrize(
    ("source_word", "what"),
    [
        # PEBS, arch/x86/events/intel/ds.c: loads by their latency, and stores
        (source(2, 0x02 | 0x08, 1, 0x02 | 0x08 | 0x10), LOAD | L1),
        (source(2, 0x02 | 0x10, 12, 0x02 | 0x08 | 0x10), LOAD | LINE_BUFFER),
        (source(2, 0x02 | 0x20, 2, 0x02 | 0x08 | 0x10), LOAD | L2),
        (source(2, 0x02 | 0x40, 3, 0x04 | 0x10), LOAD | L3 | TLB_MISS),
        (source(2, 0x02 | 0x80, 13, 0x04 | 0x10), LOAD | MEMORY | TLB_MISS),
        (source(2, 0x04 | 0x40, 3, 0x02), LOAD | MEMORY),
        (source(2, 0x02 | 0x400, 3, 0x02, 1), LOAD | REMOTE),
        (source(4, 0x02 | 0x08, 1, 0x02), STORE | L1),
        (source(4, 0x04 | 0x08, 1, 0x02), STORE | BEYOND_L1),
        # IBS, arch/x86/events/amd/ibs.c: only the number is given
        (source(2, 0x01, 1, 0x02 | 0x08), LOAD | L1),
        (source(2, 0x01, 2, 0x02 | 0x10), LOAD | L2),
        (source(2, 0x01, 3, 0x04 | 0x20), LOAD | L3 | TLB_MISS),
        (source(2, 0x01, 13, 0x04 | 0x20), LOAD | MEMORY | TLB_MISS),
        (source(2, 0x01, 11, 0x02, 1), LOAD | REMOTE),
        (source(4, 0x01, 15), STORE),
        (source(1, 0x01, 15), 0),  # not a memory access
    ],
)
def test_level_and_operation_are_those_of_the_data_source(tmp_path, source_word, what):
    samples, counts = read(tmp_path, sample(7, 1000, 0x5000, (321, source_word)))
    expected = {"pid": 7, "kernel": False, "stamp": 1000, "address": 0x5000, "latency": 321, "what": what}
    assert samples == [expected]
    assert counts == {"lost": 0, "throttled": 0, "damaged": 0}


def test_page_faults_have_no_data_source(tmp_path):
    samples, _ = read(tmp_path, sample(7, 1000, 0x5000), form="faults")
    assert [(s["address"], s["what"], s["latency"]) for s in samples] == [(0x5000, PAGE_FAULT, 0)]


def test_times_become_stamps_of_the_cycle_counter(tmp_path):
    """The kernel gives time = zero + (cycles x multiplier >> shift); a stamp is within one unit of that time."""
    zero, multiplier, shift = (1 << 64) - 12345, 0x40000000 // 3, 31
    for cycles in (0, 1, 10**9, 123_456_789_012_345, 1 << 60):
        time = (zero + (cycles * multiplier >> shift)) % (1 << 64)
        samples, _ = read(tmp_path, sample(1, time, 1), "faults", (zero, multiplier, shift))
        assert 0 <= cycles - samples[0]["stamp"] <= (1 << shift) // multiplier + 1


def test_what_was_not_delivered_is_counted(tmp_path):
    data = b"".join([
        sample(7, 1, 0x10),
        record(LOST, struct.pack("<QQ", 99, 1000)),
        record(THROTTLE, bytes(24)),
        record(UNTHROTTLE, bytes(24)),
        record(LOST_SAMPLES, struct.pack("<Q", 5)),
        record(77, bytes(40)),  # of a kind that a later kernel may have
        sample(7, 2, 0x20),
    ])  # fmt: skip
    samples, counts = read(tmp_path, data, "faults")
    assert [s["address"] for s in samples] == [0x10, 0x20]
    assert counts == {"lost": 1005, "throttled": 1, "damaged": 0}


def test_accesses_of_the_kernel_and_without_an_address_are_distinguished(tmp_path):
    data = sample(7, 1, (1 << 64) - 4096, misc=KERNEL) + sample(8, 2, 0) + sample(9, 3, 0x30)
    samples, _ = read(tmp_path, data, "faults")
    assert [(s["pid"], s["kernel"], s["address"] == 0) for s in samples] == [
        (7, True, False),
        (8, False, True),
        (9, False, False),
    ]


@pytest.mark.parametrize(
    "bad",
    [
        struct.pack("<IHH", SAMPLE, USER, 0),  # would be read forever
        struct.pack("<IHH", SAMPLE, USER, 7) + bytes(8),
        struct.pack("<IHH", SAMPLE, USER, 65535) + bytes(64),  # beyond the end
        record(SAMPLE, bytes(16)),
        record(SAMPLE, bytes(32)),
        record(LOST, bytes(8)),
        record(LOST_SAMPLES, b""),
        b"\x09\x00\x00",
    ],
)
def test_damaged_record_ends_the_run_and_is_counted(tmp_path, bad):
    samples, counts = read(tmp_path, sample(7, 1, 0x10) + bad + sample(7, 2, 0x20), "faults")
    assert [s["address"] for s in samples] == [0x10]
    assert (counts["damaged"], counts["lost"]) == (1, 0)


def test_run_that_is_cut_anywhere_gives_a_prefix(tmp_path):
    whole = b"".join(sample(7, i, 16 * i, (i, source(2, 0x02 | 0x20))) for i in range(1, 5))
    for end in range(len(whole) + 1):
        samples, counts = read(tmp_path, whole[:end])
        assert [s["address"] for s in samples] == [16 * i for i in range(1, end // 48 + 1)]
        assert counts["damaged"] == (end % 48 != 0)


def pmu(folder: Path, name: str, files: dict[str, str]) -> None:
    for file, content in files.items():
        path = folder / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")


CPU = {
    "type": "4",
    "format/event": "config:0-7",
    "format/umask": "config:8-15",
    "format/ldlat": "config1:0-15",
    "events/mem-loads": "event=0xcd,umask=0x1,ldlat=3",
    "events/mem-stores": "event=0xd0,umask=0x82",
}


def test_loads_and_stores_are_chosen_where_there_is_pebs(tmp_path):
    pmu(tmp_path, "cpu", CPU)
    found = [json.loads(line) for line in succeed(READER, "pmu", tmp_path).stdout.splitlines()]
    assert found == [
        {"name": "cpu/mem-loads,ldlat=30/", "type": 4, "config": [0x1CD, 30, 0], "precise": 2, "factor": 1,
         "samples": True},
        {"name": "cpu/mem-stores/", "type": 4, "config": [0x82D0, 0, 0], "precise": 2, "factor": 64, "samples": True},
    ]  # fmt: skip


def test_event_that_loads_must_stand_behind_is_opened_first(tmp_path):
    pmu(tmp_path, "cpu", CPU | {"events/mem-loads-aux": "event=0x03,umask=0x82"})
    found = [json.loads(line) for line in succeed(READER, "pmu", tmp_path).stdout.splitlines()]
    assert [(e["name"], e["config"][0], e["samples"]) for e in found] == [
        ("cpu/mem-loads-aux/", 0x8203, False),
        ("cpu/mem-loads,ldlat=30/", 0x1CD, True),
        ("cpu/mem-stores/", 0x82D0, True),
    ]


def test_ibs_is_chosen_where_there_is_no_pebs(tmp_path):
    pmu(tmp_path, "cpu", {"type": "4", "format/event": "config:0-7,32-35", "format/umask": "config:8-15"})
    pmu(tmp_path, "ibs_op", {"type": "10", "format/cnt_ctl": "config:19"})
    found = [json.loads(line) for line in succeed(READER, "pmu", tmp_path).stdout.splitlines()]
    assert [(e["name"], e["type"], e["config"]) for e in found] == [("ibs_op/cnt_ctl=1/", 10, [1 << 19, 0, 0])]


@pytest.mark.parametrize(
    "bits", ["config:0-", "config9:0-7", "konfig:0-7", "config:7-0", "config:0-64", "config:0-7x", "config:0-7,", ""]
)
def test_description_that_makes_no_sense_is_refused(tmp_path, bits):
    pmu(tmp_path, "cpu", CPU | {"format/umask": bits})
    refused(READER, "pmu", tmp_path, says="no event of this processor samples data addresses")


@pytest.fixture(scope="module")
def touches(tmp_path_factory) -> Path:
    return compile_c(
        tmp_path_factory.mktemp("samples") / "touches", HERE / "touches.c", "-D_GNU_SOURCE", "-O1", "-pthread"
    )


def recorded(tape: Path, *command: str | Path, accesses: str = "faults") -> str:
    return support.record(tape, *command, options=[f"--accesses={accesses}"]).stderr


def profiled(tape: Path) -> dict:
    return json.loads(succeed(CONVERT, "profile", tape).stdout)["access_samples"]


def by_size(found: dict, least_bytes: int = 65536) -> dict[int, int]:
    """Samples of touches.c's accesses by the lower bound of the sizes' bucket."""
    return {row[0]: row[4] for row in found["by_size"] if row[0] >= least_bytes}


def faults_can_be_sampled() -> bool:
    paranoid = Path("/proc/sys/kernel/perf_event_paranoid")
    return paranoid.exists() and (int(paranoid.read_text()) <= 2 or support.os.geteuid() == 0)


can_sample = pytest.mark.skipif(not faults_can_be_sampled(), reason="the kernel forbids perf events")


@can_sample
@pytest.mark.parametrize(("how", "rounds"), [("alone", 10), ("thread", 15)])
def test_page_faults_are_in_the_objects_whose_pages_were_touched(touches, tmp_path, how, rounds):
    said = recorded(tmp_path / "a.tape", touches, how)
    found = profiled(tmp_path / "a.tape")
    assert by_size(found) == {917504: 100 * rounds, 458752: 20 * rounds}
    assert found["events"] == [{"event": "page-faults", "period": 1}]
    totals = info(tmp_path / "a.tape")["access_samples"]
    assert totals["rows"] == found["in_objects"] + found["elsewhere"]
    assert (totals["lost"], totals["kernel"], totals["no_address"]) == (0, 0, 0)
    assert f"{totals['rows']:} samples of accesses (0 lost)" in said


@can_sample
def test_period_leaves_out_all_but_one_of_so_many(touches, tmp_path):
    recorded(tmp_path / "a.tape", touches, "alone", accesses="faults:10")
    found = by_size(profiled(tmp_path / "a.tape"))
    assert 99 <= found[917504] <= 101
    assert 19 <= found[458752] <= 21


@can_sample
def test_each_process_has_its_own_samples(touches, tmp_path):
    recorded(tmp_path / "a.tape", touches, "fork")
    traces = sorted(tmp_path.glob("*.tape"))
    assert len(traces) == 2
    for tape in traces:
        assert by_size(profiled(tape)) == {917504: 1000, 458752: 200}


@can_sample
def test_samples_of_a_process_that_is_not_recorded_are_left_out(touches, tmp_path):
    support.record(tmp_path / "a.tape", touches, "fork", options=["--accesses=faults", "--no-follow"])
    assert len(list(tmp_path.glob("*.tape"))) == 1
    assert by_size(profiled(tmp_path / "a.tape")) == {917504: 1000, 458752: 200}


@can_sample
def test_samples_that_find_no_room_are_counted(touches, tmp_path):
    """40,000 page faults while the recorder is stopped: a ring holds 8,192, and no sample follows the last losses that
    could report them.
    """
    recorded(tmp_path / "a.tape", touches, "overflow")
    found = by_size(profiled(tmp_path / "a.tape"), 1 << 20)
    lost = info(tmp_path / "a.tape")["access_samples"]["lost"]
    (kept,) = found.values()
    assert lost > 0
    assert 40000 <= kept + lost <= 40100  # the stack, too, is touched


@can_sample
def test_both_readers_agree_on_samples(touches, tmp_path):
    recorded(tmp_path / "a.tape", touches, "alone")
    with open_trace(tmp_path / "a.tape") as trace:
        samples = trace.access_samples()
        events = next(iter(trace.frames()))
        assert trace.info["order"] == "every"
        assert not trace.differences
    assert len(samples) == info(tmp_path / "a.tape")["access_samples"]["rows"]
    assert set(samples["level"]) == {"page_fault"}
    largest = events[events["request_bytes"] == 1000000]["acquired_address"].max()
    inside = samples[(samples["address"] > largest) & (samples["address"] < largest + 1000000)]
    assert len(inside) >= 100


@can_sample
def test_copy_keeps_samples_and_what_changes_addresses_says_that_it_does_not(touches, tmp_path):
    recorded(tmp_path / "a.tape", touches, "alone")
    kept = profiled(tmp_path / "a.tape")
    succeed(CONVERT, "convert", "--archive", tmp_path / "a.tape", tmp_path / "b.tape")
    assert profiled(tmp_path / "b.tape") == kept
    for options in (["--anonymise"], ["--slice", "progress=0%..50%"]):
        done = succeed(CONVERT, "convert", *options, tmp_path / "a.tape", tmp_path / "c.tape")
        assert "data accesses are left out" in done.stderr
        assert "access_samples" not in info(tmp_path / "c.tape")


@can_sample
def test_samples_are_not_taken_for_the_accesses(touches, tmp_path):
    tape = tmp_path / "a.tape"
    recorded(tape, touches, "alone")
    says = "has samples of data accesses, which can't stand for all of them"
    refused(CONVERT, "compile", tape, "-o", tmp_path / "a.work", "--accesses", tmp_path / "a.accesses", says=says)
    refused(CONVERT, "dump", "--accesses", tape, says=says)
    succeed(CONVERT, "compile", tape, "-o", tmp_path / "a.work")
    command = [support.HEAPTAPE_HERE, "replay", tape, "--passes", "misses", "-a", "glibc", "-o", tmp_path / "r.json"]
    refused(*command, says="only samples of the data accesses")


@pytest.mark.skipif(
    any((Path("/sys/bus/event_source/devices") / name).exists() for name in ("cpu/events/mem-loads", "ibs_op")),
    reason="a PMU is here",
)
def test_without_a_pmu_the_program_does_not_start(tmp_path):
    program = compile_c(tmp_path / "program", '#include <stdio.h>\nint main(void) { puts("ran"); return 0; }')
    done = run(support.RECORD, "-o", tmp_path / "a.tape", "--accesses=sampled", "--", program)
    assert done.status == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "cpu/events/mem-loads: No such file or directory" in done.stderr
    assert not (tmp_path / "a.tape").exists()


@pytest.mark.parametrize("value", ["sampled:0", "sampled:", "sampled:x", "faults:4294967296", "samples", "faults:-1"])
def test_wrong_period_is_wrong_usage(value):
    assert run(support.RECORD, f"--accesses={value}", "--", "true").status == 2


def test_counter_as_a_clock_is_refused(tmp_path):
    done = run(support.RECORD, "-o", tmp_path / "a.tape", "--clock", "counter", "--accesses=faults", "--", "true")
    assert done.status == 1
    assert "the clock is a counter" in done.stderr
