# SPDX-License-Identifier: MIT
"""What compile writes besides the ops: waits, starts, touched words, the time line, request sizes."""

import json
import struct
from pathlib import Path

import pytest
from heaptape.tape.workload_format import read_workload
from hypothesis import given
from hypothesis import strategies as st

from convert.test.models.tape_maker import INFO, Tape
from convert.test.models.workload_ops import END, MARK, START, WAIT, ops_of, streams_of
from tests.examples import examples
from tests.support import CONVERT, import_text, run, succeed

TOUCHED = 0xF2


def compiled(folder: Path, lines: list[str]) -> Path:
    source, work = folder / "c.txt", folder / "c.work"
    source.write_text("\n".join(lines) + "\n")
    succeed(CONVERT, "compile", source, "-o", work)
    succeed(CONVERT, "check", work)
    return work


def codes(words: list[int]) -> list[int]:
    return [word & 0xFF for word in words]


def test_objects_of_one_thread_need_no_wait(tmp_path):
    lines = [f"{i} {i % 2} {'malloc(8) = ' if i % 4 < 2 else 'free('}{hex(0x1000 * (1 + i % 2))}" for i in range(400)]
    lines = [line + ")" if "free" in line else line for line in lines]
    assert all(op.waits == [] for op in ops_of(compiled(tmp_path, lines)))


def test_remote_free_waits_for_the_malloc_and_the_slot_for_the_free(tmp_path):
    """A slot freed by another thread is not reused for 4,096 such frees; then its owner waits for the old one."""
    lines, time_ns, frees = [], 0, 10000
    for number in range(frees):
        lines.append(f"{time_ns} 0 malloc(8) = {hex(0x1000 + 16 * number)}")
        lines.append(f"{time_ns + 1} 1 free({hex(0x1000 + 16 * number)})")
        time_ns += 2
    ops = ops_of(compiled(tmp_path, lines))
    mallocs, remote = ops[0::2], ops[1::2]
    assert [op.waits for op in remote] == [[(0, number + 1)] for number in range(frees)]
    waiting = [(number, op.waits[0]) for number, op in enumerate(mallocs) if op.waits]
    assert waiting
    assert all(thread == 1 and number - awaited >= 4096 for number, (thread, awaited) in waiting)
    assert len({op.slot for op in ops}) <= 4096 + 8


def test_a_wait_that_an_earlier_one_implies_is_left_out(tmp_path):
    lines = [f"{i} 0 malloc(8) = {hex(0x1000 + 16 * i)}" for i in range(10)]
    lines += [f"{100 + i} 1 free({hex(0x1000 + 16 * (9 - i))})" for i in range(10)]
    remote = ops_of(compiled(tmp_path, lines))[10:]
    assert [op.waits for op in remote] == [[(0, 10)]] + [[]] * 9


MALLOC, MALLOPT, MALLCTL = 0, 13, 55  # as in calls.def


@examples(30)
@given(
    st.lists(
        st.tuples(st.sampled_from([MALLOC, MALLOPT, MALLCTL, 99]), st.integers(0, 255), st.integers(0, 1 << 40)),
        max_size=6,
    )
)
def test_settings_from_before_the_trace_are_its_first_ops_all_in_their_order(tmp_path, given_before):
    """What is no control call is none of them. A param of 1 is not written (WORKLOAD.md)."""
    tape = import_text(tmp_path, "1 0 malloc(8) = 0x1000\n2 0 free(0x1000)\n")
    parts = Tape.read(tape)
    about = parts.first(INFO).columns[0]
    about.raw = json.dumps(json.loads(about.raw) | {"set_before": given_before}).encode()
    parts.write(tape)
    succeed(CONVERT, "compile", tape, "-o", tmp_path / "c.work")
    *first, _, _ = [(op.call, op.param, op.size) for op in ops_of(tmp_path / "c.work")]
    controls = [one for one in given_before if one[0] in (MALLOPT, MALLCTL)]
    assert first == [(call, None if param == 1 else param, size) for call, param, size in controls]


def test_a_thread_is_started_by_the_one_before_its_first_op(tmp_path):
    lines = ["0 5 malloc(1) = 0x10", "1 9 malloc(1) = 0x20", "2 5 malloc(1) = 0x30", "3 7 malloc(1) = 0x40"]
    streams, _ = streams_of(compiled(tmp_path, lines))
    assert codes(streams[0]) == [MARK, 0, START, 0, START, END]
    assert [word >> 8 for word in streams[0] if word & 0xFF == START] == [1, 2]
    assert codes(streams[1]) == codes(streams[2]) == [MARK, 0, END]


def test_touched_os_pages_of_a_release_stand_before_its_acquire(tmp_path):
    lines = [
        "0 0 malloc(8192) = 0x10000",
        "1 0 malloc(8191) = 0x30000",
        "2 0 malloc(70000) = 0x50000",
        "3 0 free(0x10000) touched=5",
        "4 0 free(0x30000)",
        "5 0 realloc(0x50000, 90000) = 0x90000 touched=0",
        "6 0 malloc(99999) = 0x10000",
    ]
    streams, _ = streams_of(compiled(tmp_path, lines))
    touched = [word >> 8 for word in streams[0] if word & 0xFF == TOUCHED]
    assert touched == [6, 1, 0, 0]


LIKE = ["malloc(81920) = 0x100000", "malloc(81920) = 0x200000", "free(0x100000) touched=5", "free(0x200000) touched=5"]


@pytest.mark.parametrize(
    ("address", "resident", "touched"),
    [
        (0x300000, 20, 20),  # new memory
        (0x100000, 20, 5),  # as the two before
        (0x100000, 3, 3),  # no more than is resident
        (0x108000, 20, 8),  # 8 OS pages can't be from before
    ],
)
def test_in_memory_used_before_as_much_was_touched_as_of_like_objects_in_new_memory(
    tmp_path, address, resident, touched
):
    lines = [*LIKE, f"malloc(81920) = {address:#x}", f"free({address:#x}) touched={resident}"]
    work = compiled(tmp_path, [f"{at} 0 {line}" for at, line in enumerate(lines)])
    words = [word >> 8 for word in streams_of(work)[0][0] if word & 0xFF == TOUCHED]
    estimated = (touched < resident) << 23
    assert words == [6, 6, touched + 1 | estimated]
    assert read_workload(work).info["touched_estimated_bytes"] == (0 if touched == resident else 81920)


def sparse(folder: Path, parts: int, os_pages: int = 40) -> Path:
    lines = ["0 0 malloc(4194304) = 0x100000", f"1 0 free(0x100000) touched={os_pages} parts={parts}"]
    return compiled(folder, lines)


def test_touched_parts_stand_beside_the_os_pages(tmp_path):
    work = sparse(tmp_path, 0x80000001)
    streams, _ = streams_of(work)
    assert [word >> 8 for word in streams[0] if word & 0xFF == TOUCHED] == [41 | 0x80000001 << 24]
    assert "touched=40 parts=2147483649" in succeed(CONVERT, "dump", work).stdout


def test_of_a_resized_object_what_was_touched_since_stands_in_what_it_got(tmp_path):
    def words(work: Path) -> list[int]:
        return [word >> 8 for word in streams_of(work)[0][0] if word & 0xFF == TOUCHED]

    for to, touched, parts, since in (
        ("0x9000000", 1000, 0xFFFFFFFF, 1000 - 64),  # moved by the kernel: fewer OS pages than a copy writes
        ("0x9000000", 1024 + 50, 0xFFFFFFFF, 50),  # copied
        ("0x100000", 1024 + 50, 0xFFFFFFFF, 1024 + 50 - 64),  # in place
    ):
        lines = [
            "0 0 malloc(4194304) = 0x100000",
            f"1 0 realloc(0x100000, 8388608) = {to} touched=64",
            f"2 0 realloc({to}, 16777216) = 0x20000000 touched={touched} parts={parts}",
            f"3 0 free(0x20000000) touched={touched}",
        ]
        work = compiled(tmp_path, lines)
        assert words(work) == [65, since + 1 | 0xFFFF0000 << 24, 1]
        again = tmp_path / "again.tape"
        succeed(CONVERT, "reduce", work, "-o", again)
        succeed(CONVERT, "compile", again, "-o", work)
        assert words(work) == [65, since + 1 | 0xFFFF0000 << 24, 1]


def test_parts_that_an_object_does_not_have_are_left_out_of_a_workload_and_refused_in_one(tmp_path):
    streams, _ = streams_of(
        compiled(tmp_path, ["0 0 malloc(600000) = 0x100000", "1 0 free(0x100000) touched=40 parts=1024"])
    )
    assert [word >> 8 for word in streams[0] if word & 0xFF == TOUCHED] == [41]
    for wrong in (1 | 1 << 24, 2 | 5 << 24, 3 << 24):
        work = sparse(tmp_path, 5)
        work.write_bytes(
            work.read_bytes().replace(
                struct.pack("<Q", (41 | 5 << 24) << 8 | TOUCHED), struct.pack("<Q", wrong << 8 | TOUCHED)
            )
        )
        checked = run(CONVERT, "check", work)
        assert checked.status == 1
        assert checked.stderr.count("\n") == 1
        assert f"{work}: offset " in checked.stderr
        assert "TOUCHED names parts" in checked.stderr


def test_time_line_has_the_start_the_peak_and_the_end(tmp_path):
    lines = [f"{i} 0 malloc({10 + i}) = {hex(0x1000 + 64 * i)}" for i in range(5000)]
    lines += [f"{10000 + i} 0 free({hex(0x1000 + 64 * i)})" for i in range(5000)]
    streams, header = streams_of(compiled(tmp_path, lines))
    groups = list(zip(*[iter(streams[-1])] * 4))
    peak_bytes = sum(10 + i for i in range(5000))
    assert struct.unpack_from("<Q", header, 80)[0] == 4999
    assert (5000, 10000, peak_bytes, 5000) in groups
    assert groups[0] == (0, 0, 0, 0)
    assert groups[-1] == (10000, 14999, 0, 0)
    assert 2000 < len(groups) <= 4099
    assert [g[0] for g in groups] == sorted({g[0] for g in groups})


def test_request_sizes_fall_into_quarters_of_powers_of_two(tmp_path):
    sizes = [0, 1, 4, 5, 8, 9, 10, 100, 127, 128, 1 << 20]
    lines = [f"{i} 0 malloc({size}) = {hex(0x1000 + (i << 24))}" for i, size in enumerate(sizes)]
    work = compiled(tmp_path, lines)
    info = json.loads(succeed(CONVERT, "info", work, "--json").stdout)["info"]
    lowers = {
        0: [0],
        1: [1],
        4: [4],
        5: [5],
        8: [8, 9],
        10: [10],
        96: [100],
        112: [127],
        128: [128],
        1 << 20: [1 << 20],
    }
    assert info["request_sizes"] == [[lower, len(those), sum(those)] for lower, those in lowers.items()]
    assert info["calls"] == {"malloc": len(sizes)}


def test_size_beyond_24_bits_and_params_are_kept(tmp_path):
    lines = ["0 0 malloc(1099511627775) = 0x1000", "1 0 calloc(7, 3) = 0x2000", "2 0 aligned_alloc(4096, 1) = 0x3000"]
    ops = ops_of(compiled(tmp_path, lines))
    assert [(op.size, op.param) for op in ops] == [(1099511627775, None), (3, 7), (1, 4096)]


def test_wait_words_are_counted_by_check(tmp_path):
    work = compiled(tmp_path, ["0 0 malloc(8) = 0x1000", "1 1 free(0x1000)"])
    proof = json.loads(succeed(CONVERT, "check", work, "--json").stdout)
    assert (proof["ok"], proof["ops"], proof["waits"], proof["starts"]) == (True, 2, 1, 1)
    assert [WAIT in codes(words) for words in streams_of(work)[0][:2]] == [False, True]
