# SPDX-License-Identifier: MIT
"""Every importer: what each record of its sample becomes, that its format is recognised by content, and what it
refuses.
"""

import bz2
import gzip
import io
import json
import lzma
import os
import shutil
import tarfile
import zipfile

import pytest
import zstandard

from convert.test.formats.importer_samples import (
    DATA,
    FORMAT_OF,
    TEXT,
    bytehound,
    bytehound_sample,
    dj_record,
    dj_sample,
    expected,
    mallocbench_line,
    mallocbench_sample,
    op,
    sample,
    wl,
)
from tests.support import CONVERT, OUT, REPLAY, check, proved, run, succeed

NAMES = sorted(FORMAT_OF)


@pytest.mark.parametrize("name", NAMES)
def test_each_record_becomes_its_event_whether_the_format_is_named_or_recognised_by_content(name, tmp_path):
    path = shutil.copy(sample(name, tmp_path), tmp_path / "no-suffix")
    for named in ((), ("--from", FORMAT_OF[name])):
        assert succeed(CONVERT, "dump", *named, path).stdout == expected(name).read_text()


@pytest.mark.parametrize("name", NAMES)
def test_no_second_format_recognises_a_sample(name, tmp_path):
    names = succeed(OUT / "test-programs" / "formats_that_recognise", sample(name, tmp_path)).stdout.split()
    assert names == [FORMAT_OF[name]]


@pytest.mark.parametrize("name", NAMES)
def test_history_is_legal_and_its_trace_compiles_and_replays(name, tmp_path):
    tape, work = tmp_path / "t.tape", tmp_path / "t.work"
    succeed(CONVERT, "convert", sample(name, tmp_path), tape)
    proved(tape, "overlapping_acquires", "double_frees")
    succeed(CONVERT, "compile", tape, "-o", work)
    assert check(work)["ok"]
    succeed(REPLAY, "--pass", "bare", "--order", "recorded", work)


@pytest.mark.parametrize("name", NAMES)
def test_trace_names_what_the_format_lacks(name, tmp_path):
    tape = tmp_path / "t.tape"
    succeed(CONVERT, "convert", sample(name, tmp_path), tape)
    about = json.loads(succeed(CONVERT, "info", tape, "--json").stdout)["info"]
    assert "usable_size" in about["lacks"]
    assert about["source"]
    assert about["note"] in " ".join(succeed(CONVERT, "info", tape).stdout.split())


@pytest.mark.parametrize("name", sorted(set(FORMAT_OF.values())))
def test_list_names_the_format_with_its_direction(name):
    (line,) = [line for line in succeed(CONVERT, "convert", "--list").stdout.splitlines() if line.split()[0] == name]
    assert "read" in line.split("(")[0]


def packed_as_zip(content: bytes) -> bytes:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("recording", content)
    return whole.getvalue()


def packed_as_tar(content: bytes) -> bytes:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        about = tarfile.TarInfo("recording")
        about.size = len(content)
        archive.addfile(about, io.BytesIO(content))
    return whole.getvalue()


PACKERS = [gzip.compress, zstandard.compress, packed_as_zip]


@pytest.mark.parametrize("name", sorted(TEXT))
@pytest.mark.parametrize("pack", PACKERS)
def test_packed_text_is_read_like_plain_text(name, pack, tmp_path):
    path = tmp_path / "packed"
    path.write_bytes(pack((DATA / name).read_bytes()))
    assert succeed(CONVERT, "dump", path).stdout == expected(name).read_text()


LONG_TEXT = "".join(f"{i} 0 malloc({i * i % 9973}) = {i << 14:#x}\n" for i in range(1, 9999)).encode()


@pytest.mark.parametrize("pack", PACKERS)
@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.999])
def test_recording_whose_pack_is_cut_off_is_called_cut_off(pack, share, tmp_path):
    whole = pack(LONG_TEXT)
    path = tmp_path / "cut"
    path.write_bytes(whole[: max(int(share * len(whole)), 12)])
    result = run(CONVERT, "check", path)
    assert (result.status, "cut off" in result.stderr, result.stderr.count("\n")) == (1, True, 1), result.stderr


OTHER_FILES = [
    (lzma.compress(LONG_TEXT), "packed by xz"),
    (bz2.compress(LONG_TEXT), "packed by bzip2"),
    (b"\x04\x22\x4d\x18" + LONG_TEXT, "packed by lz4"),
    (packed_as_tar(LONG_TEXT), "a tar archive"),
    (gzip.compress(packed_as_tar(LONG_TEXT)), "a tar archive"),
    (LONG_TEXT.decode().encode("utf-16"), "text in UTF-16"),
    (b'{"dhatFileVersion":2,"mode":"heap","verb":"Allocated"}', "DHAT's summary"),
    (b"desc: --time-unit=B\ncmd: ./p\ntime_unit: B\n", "Massif's summary"),
    (gzip.compress(b"\x0a\x04\x08\x01\x10\x02\x0a\x04\x08\x03\x10\x04" + bytes(40)), "a pprof profile"),
    (b"heap profile:      5:     1234 [    89:    10110] @ heapprofile\n", "a heap profile of gperftools or Go"),
    (b"heap_v2/524288\n  t*: 3: 1 [0: 0]\n", "a heap profile of jemalloc"),
    (b"memray\0\x0b\0\0\0", "memray's own file"),
    (b'reading file "heaptrack.p.1.zst" - please wait, this might take some time...\n', "heaptrack_print's summary"),
]


@pytest.mark.parametrize(("content", "what"), OTHER_FILES, ids=range(len(OTHER_FILES)))
def test_file_that_is_no_recording_is_named_with_what_to_do(content, what, tmp_path):
    path = tmp_path / "other"
    path.write_bytes(content)
    result = run(CONVERT, "info", path)
    assert (result.status, what in result.stderr, result.stderr.count("\n")) == (1, True, 1), result.stderr
    assert any(word in result.stderr for word in ("heaptape record", "first", "give", "unpack")), result.stderr


@pytest.mark.parametrize("name", ["lab.rep", "lttng.txt"])
def test_byte_order_mark_of_utf_8_is_left_out(name, tmp_path):
    path = tmp_path / "marked"
    path.write_bytes(b"\xef\xbb\xbf" + (DATA / name).read_bytes())
    assert succeed(CONVERT, "dump", path).stdout == expected(name).read_text()


def error_of(tmp_path, name: str, content: bytes | str, *options: str) -> str:
    """The one line that an import of the content fails with, without the program's and the file's name."""
    path = tmp_path / "bad"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    tape = tmp_path / "bad.tape"
    result = run(CONVERT, "convert", "--from", name, *options, path, tape)
    assert result.status == 1, result.stdout
    assert result.stderr.count("\n") == 1
    assert not tape.exists()
    prefix = f"heaptape-convert: {path}: "
    assert result.stderr.startswith(prefix[:-2]), result.stderr
    return result.stderr[len(prefix) - 1 :].strip()


HEAPTRACK = "v 10400 3\n"
KDUMP = "  12 prog USER  0x10 = malloc(4)\n"
MEMRAY = (DATA / "memray.txt").read_text().splitlines()[0] + "\n"
LTTNG = (DATA / "lttng.txt").read_text().splitlines()[0] + "\n"
BAD_LINES = [
    ("heaptrack", "", "it is empty"),
    ("heaptrack", "hello\n", "1: not heaptrack data"),
    ("heaptrack", "v 10400 4\n", "1: heaptrack file version 4"),
    ("heaptrack", HEAPTRACK + "+ 18 1 5000\n", "2: stack 1 is not defined yet"),
    ("heaptrack", HEAPTRACK + "t 5000 1\n", "2: stack 1 is called by 1"),
    ("heaptrack", HEAPTRACK + "+ 18 0\n", "2: not a line"),
    ("heaptrack", HEAPTRACK + "+ 18 0 11112222333344445\n", "2: not a line"),
    ("heaptrack", HEAPTRACK + "- \n", "2: not a line"),
    ("heaptrack", HEAPTRACK + "m 5 x 10\n", "2: not a line"),
    ("heaptrack", HEAPTRACK + "q 1\n", "2: not a line"),
    *[("heaptrack", HEAPTRACK + kind + "\n", "2: not a line") for kind in "+-tmcIxRsia"],
    ("heaptrack", HEAPTRACK + "A\nS\nX\n+\n", "5: not a line"),
    ("heaptrack", HEAPTRACK + "R1 2\n", "2: not a line"),
    ("heaptrack", HEAPTRACK + "\n", "2: not a line"),
    ("heaptrack", HEAPTRACK + "s 4 main\ni 1 1\n+ 0\n", "4: allocation 0 is not defined yet"),
    ("heaptrack", HEAPTRACK + "i 10 1\nt 2 0\n", "3: instruction 2 is not defined yet"),
    ("heaptrack", HEAPTRACK + "i 10 g\n", "2: not a line"),
    ("heaptrack", HEAPTRACK + "i 10 1\nt 1 0\na 8 2\n", "4: stack 2 is not defined yet"),
    ("heaptrack", HEAPTRACK + "a 8 0\n+ 0\n- 0\n- 0\n", "5: an object is freed of which none lives"),
    ("heaptrack", HEAPTRACK + "+ 0\n", "2: not a line"),
    ("mtrace", "", "it is empty"),
    ("mtrace", "@ x - 0x10\n", "1: not mtrace text"),
    ("mtrace", "= Start\n@ ./p:[0x1] + 0x10\n", "2: not a line"),
    ("mtrace", "= Start\n@ ./p:[0x1] * 0x10 0x20\n", "2: not a line"),
    ("mtrace", "= Start\n@ ./p:[0x1] < 0x10\n@ ./p:[0x1] - 0x10\n", "3: '<' without a '>'"),
    ("mtrace", "= Start\n@ ./p:[0x1] > 0x10 0x20\n", "2: '>' without a '<'"),
    ("mtrace", "= Start\n@ ./p:[0x1] < 0x10\n", "ends inside a realloc"),
    ("mtrace", "= Start\n@ p + 0x10 0x4000000000000001\n", "2: malloc was given 4611686018427387905 bytes"),
    ("rep", "1\n2\n", "ends inside the header"),
    ("rep", "1\n2\nx\n", "3: a .rep file begins"),
    ("rep", "0\n1\n1\n1\na 1 5\n", "5: id 1"),
    ("rep", "0\n1\n1\n1\na 0 5\nf 0\n", "6: more than the 1 requests"),
    ("rep", "0\n1\n2\n1\na 0 5\n", "ends after 1 of 2"),
    ("rep", "0\n1\n2\n1\nb 0 5\n", "5: not a line"),
    ("rep", "0\n99999999999\n2\n1\n", "4: the header claims"),
    ("valgrind", "hello\n", "has no line"),
    ("valgrind", "--1-- malloc(4\n", "1: not a line"),
    ("valgrind", "--1-- malloc(4) = 0x10\n--2-- free(0x10)\n", "2: of process 2"),
    ("valgrind", "--1-- malloc(4)\n--1-- free(0x10)\n", "2: the call before has no result"),
    ("ltrace", "hello\n", "1: not a line"),
    ("ltrace", "1 p->malloc(4, x\n", "1: not a line"),
    ("ltrace", "1 p->malloc(4) = what\n", "1: not a line"),
    ("ltrace", "1 <... malloc resumed> ) = 0x10\n", "1: malloc ends here, but has not begun"),
    ("ltrace", "1 p->free(0x10 <unfinished ...>\n1 <... malloc resumed> ) = 0x10\n", "2: malloc ends here, but free"),
    ("kdump", "hello\n", "1: not a record"),
    ("kdump", "  12 prog CALL  exit(0)\n", "has no USER record"),
    ("kdump", KDUMP + "  12 prog USER  0x10 = malloc(4\n", "2: not a line"),
    ("kdump", KDUMP + "  13 prog USER  free(0x10)\n", "2: of process 13"),
    ("kdump", KDUMP + "  12 7 prog USER  free(0x10)\n", "2: thread or time"),
    ("memray", "", "it is empty"),
    ("memray", "ALLOCATION address=0x10\n", "1: not memray text"),
    ("memray", MEMRAY.replace("ALL_ALLOCATIONS", "AGGREGATED_ALLOCATIONS"), "1: memray has recorded sums"),
    (
        "memray",
        MEMRAY + "ALLOCATION address=0x10 size=4 allocator=slab native_frame_id=0\n",
        "2: unknown allocator 'slab'",
    ),
    ("memray", MEMRAY + "ALLOCATION address=0x10 size=x\n", "2: not a line"),
    ("memray", MEMRAY + "hello\n", "2: not a line"),
    ("lttng", "", "has no lttng_ust_libc:* event"),
    ("lttng", LTTNG + "hello\n", "2: not a line"),
    ("lttng", LTTNG.replace("ptr = ", "p = "), "1: not a line"),
    ("lttng", LTTNG + LTTNG.replace("vpid = 29078", "vpid = 5"), "2: of process 5"),
    ("lttng", LTTNG + "WARNING: Tracer discarded 343 events between\n", "its tracer discarded 343 events or more"),
    ("android", "7: malloc 0x10 4\n" + "x" * 70000, "longer than"),
    ("script", "", "it is empty"),
    ("script", "a 1 5\na 2\n", "2: not a line"),
    ("script", "a 1 5 6\n", "1: not a line"),
    ("script", "f 1073741824\n", "1: id 1073741824"),
    ("wee_alloc", "", "it is empty"),
    ("wee_alloc", "Alloc(5),\nRealloc(5),\n", "2: not a line"),
    ("wee_alloc", "Alloc(5\n", "1: not a line"),
    ("logalloc", "7 7 jemalloc_stats()\n", "has no call"),
    ("logalloc", "7 7 malloc(5) = 0x10\n", "1: not a line"),
    ("logalloc", "7 7 calloc(5)=0x10\n", "1: not a line"),
    ("logalloc", "7 7 malloc(5)=#1\n7 7 free(0x10)\n", "2: addresses and numbers of addresses"),
    ("logalloc", "7 7 malloc(5)=0x10\n8 7 free(0x10)\n", "2: of process 8"),
    ("columns", "op,ptr\n", "needs --columns"),
    # One more than the largest number that does not overflow.
    ("logalloc", f"7 7 malloc(5)=#{2**64 // 16}\n", "1: not a line"),
    ("heaptrack", HEAPTRACK + f"c {2**64 // 2_000_000 + 1:x}\n", "2: not a line"),
    ("memray", MEMRAY + f"MEMORY_RECORD time={2**64 // 2_000_000 + 1} memory=1\n", "2: not a line"),
    ("lttng", LTTNG + LTTNG.replace("[1795241222.", f"[{2**64 // 10**9 + 1}."), "2: not a line"),
    ("lttng", LTTNG + LTTNG.replace("[1795241222.", f"[{2**64 // 120 + 1}:00."), "2: not a line"),
]


BAD_BYTES = [
    ("dj", dj_sample() + b"x", "offset 960: 1 bytes are left over"),
    ("dj", dj_sample()[:128] + b"\1\0\0\0\x09" + bytes(59), "offset 128: record of unknown type 9"),
    ("dj", dj_record(1, "calloc", ptr2=0x10, size=1 << 60), "event 1: calloc was given"),
    ("bytehound", b"", "offset 0: cut off"),
    ("bytehound", bytehound_sample()[:-1], "offset 144: cut off"),
    ("bytehound", bytehound(1, [(1, 1, 0, 5)]), "offset 16: slot 1"),
    ("bytehound", bytehound(1, [(4, 0, 0, 5)]), "offset 16: operation of unknown kind 4"),
    ("bytehound", bytehound(1, [(1, 0, 0, 5), (2, 0, 0, 5)], promised=1), "offset 48: more than the 1"),
    ("bytehound", bytehound(1 << 50, []), "offset 0: claims"),
    ("bytehound", bytehound(1, [(1, 0, 0, 5), (2, 0, 2**64 // 2000 + 1, 5)]), "offset 48: time"),
    ("mallocbench", b"", "it is empty"),
    ("mallocbench", mallocbench_sample()[:-4], "offset 69: cut off"),
    ("mallocbench", mallocbench_line(5, {}), "offset 0: not a line"),
    ("mallocbench", mallocbench_line(1, {4: 1}), "offset 0: not a line"),
    ("mallocbench", mallocbench_line(1, {1: 1 << 49}), "offset 0: an id above"),
    ("mallocbench", b"\x0a" + b"\xff" * 10, "offset 0: cut off"),
    ("mallocbench", b"\x1a\x00", "offset 0: field 3"),
    ("wl", b"", "empty"),
    ("wl", b"\x08\x01\x09", "not a .wl workload"),
    ("wl", wl(1, 0, [op(2, 1, 24)]), "a thread's stream does not end"),
    ("wl", wl(1, 0, [op(2, 2, 24) + op(1)]), "a pointer's number"),
    ("wl", wl(1, 0, [op(6, 1) + op(1)]), "a sync's number"),
    ("wl", wl(1, 1, [op(7, 1) + op(1)]), "a sync that never comes"),
    ("wl", wl(1, 1, [op(7, 1) + op(1), op(7, 1) + op(1)]), "two threads wait for one sync"),
    ("wl", wl(1, 0, [op(99) + op(1)]), "an unknown code"),
    ("wl", op(8, 1) + op(9, 0) + op(10, 1 << 40) + op(1), "claims more than the file can hold"),
    ("wl", op(8, 1) + op(9, 0) + op(10, 1) + op(11, 999) + op(1), "begins after the file's end"),
    ("wl", op(8, 1) + op(9, 0) + op(10, 1) + op(1) + bytes(9), "more threads than it lists"),
    ("wl", b"\x08" + b"\xff" * 12, "not a .wl workload"),
]


@pytest.mark.parametrize(("name", "content", "what"), [*BAD_LINES, *BAD_BYTES])
def test_bad_content_is_one_error_with_its_line_or_offset(name, content, what, tmp_path):
    assert what in error_of(tmp_path, name, content)


def test_gaps_are_taken_when_allowed(tmp_path):
    path, tape = tmp_path / "gap.txt", tmp_path / "gap.tape"
    path.write_text(LTTNG + "[warning] Tracer discarded 343 events between [1] and [2]\n")
    result = succeed(CONVERT, "convert", "--allow-gaps", path, tape)
    assert "343 events were discarded" in result.stderr
    witness = check(tape)
    assert (witness["dropped"], witness["ok"]) == (343, True)


def lttng_event(contexts: str, ptr: int, time: int) -> str:
    return f"[17.{time:09}] host lttng_ust_libc:malloc: {{ cpu_id = 1 }}, {contexts}{{ size = 48, ptr = {ptr:#x} }}\n"


def test_lttng_processes_that_can_not_be_told_apart_are_not_merged_unsaid(tmp_path):
    path = tmp_path / "lttng.txt"
    named = '{{ procname = "{}", vtid = {} }}, '
    path.write_text(lttng_event(named.format("first", 5), 64, 1) + lttng_event(named.format("second", 6), 64, 2))
    result = run(CONVERT, "check", path)
    assert (result.status, '2: events of "first" and "second", without vpid' in result.stderr) == (1, True)
    chosen = succeed(CONVERT, "dump", "--process", "6", path)
    assert chosen.stdout.splitlines()[1:] == ["0 0 malloc(48) = 0x40"]
    assert "only thread 6 is taken" in chosen.stderr
    for contexts in (named.format("same", 5), named.format('sa\\"me', 6), "{ vtid = 7 }, ", ""):
        path.write_text(lttng_event(contexts, 64, 1) + lttng_event(contexts, 128, 2))
        assert "all are taken as one process's" in succeed(CONVERT, "check", path).stderr
        path.write_text(lttng_event(contexts, 64, 1) + lttng_event(contexts, 64, 2))
        assert run(CONVERT, "check", path).status == 1  # two heaps
    path.write_text(
        lttng_event('{ procname = "a", vpid = 5 }, ', 64, 1) + lttng_event('{ procname = "b", vpid = 5 }, ', 128, 2)
    )
    assert succeed(CONVERT, "check", path).stderr == ""


def test_one_process_of_several_is_chosen(tmp_path):
    path = tmp_path / "two.txt"
    path.write_text(KDUMP + "  13 prog USER  0x20 = malloc(5)\n")
    dumped = succeed(CONVERT, "dump", "--process", "13", path).stdout.splitlines()
    assert dumped[1:] == ["2 0 malloc(5) = 0x20"]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("123456 100073 prog     USER  0x10 = malloc(4)", "kdump"),
        ("42\n--7-- malloc(4) = 0x10", "valgrind"),
        ("1 2 3\n= Start\n@ p + 0x10 0x4", "mtrace"),
    ],
)
def test_look_alikes_and_greetings_do_not_mislead(line, name, tmp_path):
    path = tmp_path / "recording"
    path.write_text(line + "\n")
    found, named = run(CONVERT, "dump", path), run(CONVERT, "dump", "--from", name, path)
    assert (found.status, found.stdout, found.stderr) == (named.status, named.stdout, named.stderr)


def test_mtrace_without_the_sign_before_its_caller_is_read(tmp_path):
    path = tmp_path / "mtrace.txt"
    path.write_text("= Start\n[0x80481eb] + 0x10 0x14\n[0x8048209] - 0x10\n= End\n")
    calls = [line.split(" ", 2)[2] for line in succeed(CONVERT, "dump", path).stdout.splitlines()[1:]]
    assert calls == ["malloc(20) = 0x10", "free(0x10)"]


CALLS = ["malloc(10) = 0x10", "realloc(0x10, 50) = 0x20", "free(0x20)"]


@pytest.mark.parametrize(
    ("prefixes", "suffix", "times"),
    [
        (["23:59:59 ", "00:00:01 ", "00:00:01 "], "", [0, 2 * 10**9, 2 * 10**9 + 1]),
        (["23:59:59.900000 ", "00:00:00.000002 ", "00:00:01.000000 "], "", [0, 100002 * 1000, 11 * 10**8]),
        (["7 1795908066.253424 ", "7 1795908066.253693 ", "7 1795908067.000000 "], " <0.000083>",
         [0, 269000, 746576000]),
        (["  0.000000 ", "  0.000100 ", "  0.000050 "], "", [0, 100000, 150000]),
        (["[pid 7] ", "[pid 7] ", "[pid 7] "], " <1.000083>", [1, 2, 3]),
        (["[0x55c325e3c15b] ", "[0x1] ", "[0x2] "], "", [1, 2, 3]),
        (["7 12:00:00.5 [0x1] ", "7 12:00:00.000007 [0x2]   ", "7 12:00:03.000000 [0x2]   "], " <0.000001>",
         [0, 2000, 2999995000]),
        (["libx.so->", "p->", ""], "", [1, 2, 3]),
    ],
)  # fmt: skip
def test_columns_that_options_of_ltrace_add_are_read(prefixes, suffix, times, tmp_path):
    path = tmp_path / "ltrace.txt"
    results = ["malloc(10)   = 0x10", "realloc@libc.so.6(0x10, 50)   = 0x20", "free(0x20)   = <void>"]
    path.write_text(
        "".join(f"{a}{b}{suffix}\n" for a, b in zip(prefixes, results)) + f"{prefixes[0]}+++ exited (0) +++\n"
    )
    dumped = succeed(CONVERT, "dump", path).stdout.splitlines()
    assert dumped[1:] == [f"{time} 0 {call}" for time, call in zip(times, CALLS)]
    lacks = json.loads(succeed(CONVERT, "info", path, "--json").stdout)["info"]["lacks"]
    assert ("times" in lacks) == (times[0] == 1)
    assert ("threads" in lacks) == ("7" not in prefixes[0])


def test_ltrace_s_lines_of_a_forked_process_are_left_out_and_counted(tmp_path):
    path = tmp_path / "ltrace.txt"
    path.write_text(
        "7 fork()   = 8\n7 malloc(9)   = 0x10\n8 <... fork resumed> )   = 0\n"
        "8 malloc(77)   = 0x10\n8 free(0x10)   = <void>\n9 malloc(5)   = 0x20\n"
    )
    dumped = run(CONVERT, "dump", path)
    calls = [line.split(" ", 2)[2] for line in dumped.stdout.splitlines()[1:]]
    assert calls == ["malloc(9) = 0x10", "malloc(5) = 0x20"]
    assert "2 lines of processes that the program forked left out" in dumped.stderr


CHILD = "7 malloc(9)   = 0x10\n8 malloc(77)   = 0x20\n"


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (CHILD + "8 +++ exited (status 0) +++\n7 --- SIGCHLD (Child exited) ---\n", "4: process 8 is a child"),
        (CHILD + "7 +++ exited (status 0) +++\n8 free(0x20)   = <void>\n", "4: process 8 is a child"),
        (CHILD + "8 --- Called exec() ---\n", "3: process 8 becomes another program"),
        (CHILD + "7 --- Called exec() ---\n", "3: process 7 becomes another program"),
        (CHILD + "8 +++ exited (status 0) +++\n7 +++ exited (status 0) +++\n", ""),
        (CHILD + "9 +++ exited (status 0) +++\n7 --- SIGCHLD (Child exited) ---\n7 free(0x10)   = <void>\n", ""),
    ],
)
def test_ltrace_s_child_that_was_taken_for_a_thread_is_an_error(lines, error, tmp_path):
    path = tmp_path / "ltrace.txt"
    path.write_text(lines)
    checked = run(CONVERT, "check", path)
    assert (checked.status, error in checked.stderr) == (1 if error else 0, True)


def test_ltrace_s_child_that_runs_another_program_is_left_out_and_later_threads_are_counted(tmp_path):
    path = tmp_path / "ltrace.txt"
    path.write_text(
        "7 malloc(9)   = 0x10\n8 --- Called exec() ---\n8 malloc(77)   = 0x10\n"
        "9 malloc(5)   = 0x20\n9 free(0x20)   = <void>\n"
    )
    checked = run(CONVERT, "check", path, "--json")
    assert json.loads(checked.stdout)["ops"] == 3
    assert "1 lines of processes that the program forked left out; 1 threads that began after" in checked.stderr


def test_operators_and_null_in_ltrace_are_read(tmp_path):
    path = tmp_path / "ltrace.txt"
    path.write_text(
        "_Znwm(64, 3, 0x7f, 0)     = 0x10\nrealloc(NULL, 80)     = 0x20\nfree(nil)     = <void>\n_Znam(9)     = 0x30\n"
        "_ZdlPv(0x10, 1, 2, 3)     = 0x4933840\n_ZdaPvm(0x30, 9)     = 1\n"
        "malloc(1)     = NULL\nfree((nil))     = <void>\n"
    )
    calls = ["new(64) = 0x10", "realloc(NULL, 80) = 0x20", "free(NULL)", "new_array(9) = 0x30"]
    calls += ["delete(0x10)", "delete_array(0x30)", "malloc(1) = NULL", "free(NULL)"]
    assert [line.split(" ", 2)[2] for line in succeed(CONVERT, "dump", path).stdout.splitlines()[1:]] == calls


def test_mallinfo_in_valgrind_s_trace_is_a_control_call(tmp_path):
    path = tmp_path / "valgrind.txt"
    path.write_text("--7-- malloc(4) = 0x10\n--7-- mallinfo()\n--7-- free(0x10)\n")
    succeed(CONVERT, "convert", "--from", "valgrind", path, tmp_path / "a.tape")
    said = json.loads(succeed(CONVERT, "info", tmp_path / "a.tape", "--json").stdout)["witness"]["controls"]
    assert (said["text"], said["of"]) == ("calls mallinfo", "glibc")


def test_ints_of_mallopt_have_their_sign_in_text_and_come_back(tmp_path):
    path, calls = tmp_path / "a.txt", ("mallopt(-8, 2)", "mallopt(1, -1)", "tc_mallopt(-2147483648, 2147483647)")
    path.write_text("".join(f"{at} 0 {call}\n" for at, call in enumerate(calls)))
    succeed(CONVERT, "convert", path, tmp_path / "a.tape")
    lines = succeed(CONVERT, "dump", "--format", "jsonl", tmp_path / "a.tape").stdout.splitlines()
    raw = [(one["option"], one["size_bytes"]) for one in map(json.loads, lines)]
    assert raw == [(2**32 - 8, 2), (1, 2**32 - 1), (2**31, 2**31 - 1)]
    assert [
        line.partition(" 0 ")[2] for line in succeed(CONVERT, "dump", tmp_path / "a.tape").stdout.splitlines()[1:]
    ] == [*calls]


def test_what_valgrind_s_listener_took_is_what_was_sent_to_it(tmp_path):
    lines = sample("valgrind.txt", tmp_path).read_text().splitlines()
    path = tmp_path / "listened.txt"
    path.write_text("".join(f"{line}\n" for line in ["valgrind-listener started at Mon", "", "(1)"]))
    with path.open("a") as file:
        file.writelines(f"(1) {line}\n" for line in lines)
    assert succeed(CONVERT, "dump", path).stdout.splitlines()[1:] == [
        f"{int(stamp) + 3} {rest}"
        for stamp, rest in (line.split(" ", 1) for line in expected("valgrind.txt").read_text().splitlines()[1:])
    ]


def test_time_stamps_of_valgrind_are_the_times(tmp_path):
    path = tmp_path / "valgrind.txt"
    stamps = ["00:00:00:00.500", "00:00:00:01.000", "01:02:03:04.005"]
    calls = ["malloc(10) = 0x10", "realloc(0x10,50) = 0x20", "free(0x20)"]
    path.write_text("".join(f"--{stamp} 77-- {call}\n" for stamp, call in zip(stamps, calls)))
    times = [500 * 10**6, 10**9, (26 * 3600 + 3 * 60 + 4) * 10**9 + 5 * 10**6]
    dumped = succeed(CONVERT, "dump", path).stdout.splitlines()
    assert dumped[1:] == [f"{time} 0 {call}" for time, call in zip(times, CALLS)]
    info = json.loads(succeed(CONVERT, "info", path, "--json").stdout)["info"]
    assert ("times" in info["lacks"], info["pid"]) == (False, 77)


def test_repairs_are_noted_in_the_trace(tmp_path):
    tape = tmp_path / "t.tape"
    stderr = succeed(CONVERT, "convert", DATA / "heaptrack-v3.raw", tape).stderr
    footer = json.loads(succeed(CONVERT, "info", tape, "--json").stdout)["footer"]
    assert footer["note"] in stderr
    assert "1 releases were logged after" in footer["note"]


def test_interpreted_heaptrack_keeps_sizes_and_peaks_and_calls_its_lifetimes_made_up(tmp_path):
    sizes, live, peak = [64, 4096], [0, 0], 0
    lines = ["v 10500 2", "s prog", "i 401000 1", "t 1 0", "a 40 1", "a 1000 0"]
    changes = [("+", 0), ("+", 0), ("+", 1), ("-", 0), ("+", 1), ("-", 1), ("+", 0), ("+", 0), ("-", 0)]
    for sign, kind in changes:
        lines.append(f"{sign} {kind}")
        live[kind] += 1 if sign == "+" else -1
        peak = max(peak, sum(size * count for size, count in zip(sizes, live)))
    path = tmp_path / "heaptrack.prog.1"
    path.write_text("\n".join(lines) + "\n")
    witness = check(path)
    assert (witness["ok"], witness["events"], witness["live_at_end"]) == (True, len(changes), sum(live))
    assert witness["peak_live_bytes"] == peak
    assert {"addresses", "lifetimes"} <= set(json.loads(succeed(CONVERT, "profile", path).stdout)["lacks"])
    assert "lifetimes: the file does not say" in " ".join(succeed(CONVERT, "info", path).stdout.split())


TABLE = [
    ("event,bytes,address,from,when,tid\nmalloc,24,0x1000,,5,7\nrealloc,4096,8192,0x1000,9.5,7\n"
     '"FREE",,0x2000,,12,8\n'),
    "tid;when;from;address;bytes;event\n7;5;;0x1000;24;alloc\n7;9.5;0x1000;0x2000;4096;realloc\n8;12;;0x2000;;dealloc\n",
    ('{"event": "malloc", "bytes": 24, "address": "0x1000", "when": 5, "tid": 7}\n'
     '{"event": "r", "bytes": 4096, "address": 8192, "from": 4096, "when": 9.5, "tid": "7"}\n\n'
     '{"event": "free", "bytes": null, "address": "0x2000", "when": "12", "tid": 8}\n'),
]  # fmt: skip
NAMED = "op=event,size=bytes,ptr=address,old=from,time:us=when,thread=tid"


@pytest.mark.parametrize("table", TABLE, ids=["csv", "semicolons", "json"])
def test_named_columns_of_a_table_are_calls(table, tmp_path):
    path = tmp_path / "table"
    path.write_text(table)
    dumped = succeed(CONVERT, "dump", "--columns", NAMED, path).stdout.splitlines()
    calls = ["0 0 malloc(24) = 0x1000", "4500 0 realloc(0x1000, 4096) = 0x2000", "7000 1 free(0x2000)"]
    assert dumped[1:] == calls
    few = json.loads(succeed(CONVERT, "info", "--json", "--columns", NAMED.split(",time")[0], path).stdout)["info"]
    assert few["lacks"] == ["times", "threads", "usable_size"]


def test_columns_are_named_by_number_where_a_table_has_no_first_line(tmp_path):
    path = tmp_path / "table"
    path.write_text("calloc,3,8,0x10\nposix_memalign,64,9,0x40\ncalloc,,7,0x80\nfree,,,nil\nmalloc,,5,0\n")
    dumped = succeed(CONVERT, "dump", "--columns", "op=1,count=2,align=2,size=3,ptr=4", path).stdout.splitlines()
    calls = ["calloc(3, 8) = 0x10", "posix_memalign(64, 9) = 0x40", "calloc(1, 7) = 0x80", "free(NULL)"]
    assert [line.split(" ", 2)[2] for line in dumped[1:]] == [*calls, "malloc(5) = NULL"]


@pytest.mark.parametrize(
    ("columns", "content", "what"),
    [
        ("op=a", "a,b\n", "op and ptr are needed"),
        ("op=a,ptr=b,time:h=c", "a,b\n", "time[:s|ms|us|ns]"),
        ("op=a,op=b,ptr=b", "a,b\n", "given twice"),
        ("op=a,ptr=c", "a,b\n", "1: has no column 'c'"),
        ("op=a,ptr=b", "a,b\nswim,0x10\n", "2: op is 'swim'"),
        ("op=a,ptr=b", "a,b\nmalloc,0x10\n", "2: size is ''"),
        ("op=a,ptr=b,size=c", "a,b,c\nmalloc,here,5\n", "2: ptr is 'here'"),
        ("op=a,ptr=b,size=c", "a,b,c\nrealloc,0x10,5\n", "2: realloc needs the column old"),
        ("op=a,ptr=b,size=c,time=d", "a,b,c,d\nmalloc,0x10,5,noon\n", "2: time is 'noon'"),
        ("op=a,ptr=b", '{"a": "free", "b"\n', "1: not a JSON object"),
        ("op=a,ptr=b,size=c", 'a,b,c\nmalloc,"0x10",5\nmalloc,7,"5', "3: a quote is not closed"),
        ("op=a,ptr=b", "a,b\n", "has no row"),
    ],
)
def test_wrong_columns_are_one_error(columns, content, what, tmp_path):
    assert what in error_of(tmp_path, "columns", content, "--columns", columns)


def test_directory_without_ctf_is_refused(tmp_path):
    result = run(CONVERT, "check", tmp_path)
    assert (result.status, "not a regular file" in result.stderr) == (1, True)


@pytest.mark.skipif(not shutil.which("babeltrace2"), reason="needs babeltrace2")
def test_directory_that_babeltrace2_can_not_read_is_an_error(tmp_path):
    folder = tmp_path / "ctf"
    folder.mkdir()
    (folder / "metadata").write_text("no metadata")
    result = run(CONVERT, "check", folder)
    assert result.status == 1
    assert "babeltrace2 failed" in result.stderr


def test_every_complaint_of_babeltrace2_counts_what_was_discarded(tmp_path):
    folder, program, tape = tmp_path / "ctf", tmp_path / "babeltrace2", tmp_path / "t.tape"
    folder.mkdir()
    (folder / "metadata").touch()
    said = "".join(
        f"echo '{one}' >&2\n" for one in ("something else", "Tracer discarded 3 events", "tracer discarded 40")
    )
    program.write_text(f"#!/bin/sh\n{said}cat {DATA / 'lttng.txt'}\n")
    program.chmod(0o755)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert "discarded 43 events" in run(CONVERT, "convert", folder, tape, env=path).stderr
    succeed(CONVERT, "convert", "--allow-gaps", folder, tape, env=path)
    assert check(tape)["dropped"] == 43


def test_threads_of_a_wl_wait_for_one_another(tmp_path):
    # Thread 0 begins, but waits for thread 1, which frees what 0 made earlier: the file's order can't be kept.
    first = op(2, 1, 24) + op(6, 1) + op(7, 2) + op(2, 1, 30) + op(1)
    second = op(7, 1) + op(5, 1) + op(6, 2) + op(1)
    path = tmp_path / "sync.wl"
    path.write_bytes(wl(1, 2, [first, second]))
    dumped = succeed(CONVERT, "dump", path).stdout.splitlines()[1:]
    assert dumped == ["1 0 malloc(24) = 0x10", "2 1 free(0x10)", "3 0 malloc(30) = 0x10"]
    assert check(path)["ok"]


def test_late_release_beyond_the_window_is_left_where_it_is(tmp_path):
    lines = ["= Start", "@ p + 0x10 0x8", "@ p + 0x10 0x9"]
    lines += [f"@ p + {0x1000 + 16 * i:#x} 0x8" for i in range(70000)]
    lines += ["@ p < 0x10", "@ p > 0x20 0x8", "= End"]
    path = tmp_path / "late.txt"
    path.write_text("\n".join(lines) + "\n")
    witness = check(path)
    assert (witness["events"], witness["overlapping_acquires"]) == (70003, 1)


def test_late_releases_of_one_address_are_moved_at_any_depth(tmp_path):
    lines = ["= Start"] + ["@ p + 0x10 0x8"] * 4
    for number in range(3):
        lines += ["@ p < 0x10", f"@ p > {0x20 + 16 * number:#x} 0x8"]
    path = tmp_path / "deep.txt"
    path.write_text("\n".join([*lines, "@ p - 0x10", "= End"]) + "\n")
    witness = check(path)
    assert (witness["overlapping_acquires"], witness["double_frees"], witness["live_at_end"]) == (0, 0, 3)


def test_dj_inversion_is_repaired(tmp_path):
    path = tmp_path / "inverted.dj"
    path.write_bytes(
        dj_record(1, "malloc", ptr2=0x10, size=8)
        + dj_record(2, "malloc", ptr2=0x10, size=9)
        + dj_record(1, "free", ptr1=0x10)
        + dj_record(2, "free", ptr1=0x10)
    )
    witness = check(path)
    assert (witness["inversions_repaired"], witness["live_at_end"], witness["ok"]) == (1, 0, True)


def rep(*requests: str) -> str:
    """A .rep file of these requests."""
    return "\n".join(["0", "8", str(len(requests)), "1", *requests]) + "\n"


@pytest.mark.parametrize(
    ("requests", "calls"),
    [
        (["r 0 16", "r 0 64"], ["realloc(NULL, 16) = 0x10", "realloc(0x10, 64) = 0x10"]),
        (["f 3", "a 3 5", "f 3"], ["free(NULL)", "malloc(5) = 0x40", "free(0x40)"]),
        (["r 1 0", "f 1"], ["realloc(NULL, 0) = NULL", "free(NULL)"]),
        (["a 1 9", "r 1 0", "f 1", "r 1 7"],
         ["malloc(9) = 0x20", "realloc(0x20, 0) = NULL", "free(NULL)", "realloc(NULL, 7) = 0x20"]),
        (["a 0 64  ", "w 0 64", "f 0 ", "w 0 1"], ["malloc(64) = 0x10", "free(0x10)"]),
    ],
)  # fmt: skip
def test_rep_ids_begin_as_null_pointers_and_writes_are_no_calls(requests, calls, tmp_path):
    path = tmp_path / "lab"
    path.write_text(rep(*requests))
    result = succeed(CONVERT, "dump", path)
    assert [line.split(" ", 2)[2] for line in result.stdout.splitlines()[1:]] == calls
    assert ("2 writes into objects" in result.stderr) == ("w 0 1" in requests)
    assert check(path)["ok"]


def test_made_up_addresses_have_no_ranges_to_check(tmp_path):
    path = tmp_path / "lab"
    path.write_text(rep("a 0 100", "a 1 100", "f 0"))
    result = succeed(CONVERT, "check", "--ranges", path)
    assert "made up" in result.stderr
    assert "overlapping_ranges" not in json.loads(succeed(CONVERT, "check", "--ranges", "--json", path).stdout)


def test_rep_files_of_two_numbers_are_read_like_those_of_four(tmp_path):
    path, short = tmp_path / "lab", tmp_path / "short"
    path.write_text(rep("a 0 4", "r 0 9", "f 0"))
    short.write_text(path.read_text().replace("0\n8\n3\n1\n", "8\n3\n"))
    assert [line.split(" ", 2)[2:] for line in succeed(CONVERT, "dump", short).stdout.splitlines()[1:]] == [
        line.split(" ", 2)[2:] for line in succeed(CONVERT, "dump", path).stdout.splitlines()[1:]
    ]


def test_peaks_of_bytes_and_of_objects_have_their_own_times(tmp_path):
    small = [f"a {i} 1" for i in range(7)] + [f"f {i}" for i in range(7)]
    path, work = tmp_path / "lab", tmp_path / "lab.work"
    path.write_text(rep(*small, "a 7 1000", "f 7"))
    succeed(CONVERT, "compile", path, "-o", work)
    for file in (path, work):
        assert "peak 1,000 bytes live in 1 object; at another time 7 objects" in succeed(CONVERT, "check", file).stdout
    path.write_text(rep("a 0 5", "a 1 5"))
    assert "peak 10 bytes live in 2 objects\n" in succeed(CONVERT, "check", path).stdout


@pytest.mark.parametrize("out", ["out.tape", "out.work", "out.txt", "out.csv", "out.mtrace", "-"])
def test_conversion_of_an_illegal_history_is_whole_but_fails(out, tmp_path):
    path = tmp_path / "lab"
    for requests, status in ((["a 0 4", "f 0"], 0), (["a 0 4", "f 0", "f 0"], 1)):
        path.write_text(rep(*requests))
        to = out if out == "-" else tmp_path / out
        result = run(CONVERT, "convert", path, to)
        assert (result.status, "not a legal history" in result.stderr) == (status, status == 1)
        assert result.stdout.count("free(0x10)") == len(requests) - 1 if out == "-" else to.stat().st_size > 0
