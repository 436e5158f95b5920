# SPDX-License-Identifier: MIT
"""Formats of other replayers: written and read back, a trace loses what the format's note says and nothing else."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from convert.test.models.history_maker import damage, in_turn, legal
from convert.test.models.history_model import text
from convert.test.test_history import CALL_IDS, compiled, used_threads
from tests.examples import examples
from tests.support import CONVERT, check, convert, import_text, info, run, succeed

PROPERTY = examples(20)
SHAPES = {
    "seed": st.integers(0, 1 << 32),
    "threads": st.integers(1, 5),
    "steps": st.integers(1, 120),
    "addresses": st.integers(1, 12),
}
THREADED, ORDERED = ("android", "wl"), ("mtrace", "rep")
NAMES = {number: name for name, number in CALL_IDS.items()}
FREES = {"free", "free_sized", "delete_sized"}
Row = tuple[int, int, int | None, int, int | None]  # thread, call, object, size, param: test_history.compiled


def ops(tape: Path) -> list[Row]:
    work = tape.with_suffix(".work")
    succeed(CONVERT, "compile", tape, "-o", work)
    return compiled(work)


def translated(name: str, row: Row) -> tuple[str, int, int] | None:
    """The op as the format has it: call, size, param; None if the format can't express it."""
    _, call, obj, size, param = row
    kind, null_in, freed = NAMES[call & 0x3F], bool(call & 0x40), bool(call & 0x80)
    product = size * (param if kind in ("calloc", "reallocarray") and param is not None else 1)
    if kind == "malloc_usable_size":
        return None
    if kind in FREES or freed:
        return None if obj is None and name == "mtrace" else ("free", 0, 0)
    if kind in ("realloc", "reallocarray"):
        if null_in and name in ORDERED:
            return "malloc", product, 0
        return "realloc", max(product, 1) if name == "rep" else product, 0
    if name in ORDERED:
        return "malloc", product, 0
    if kind in ("posix_memalign", "memalign"):
        return "memalign", size, param
    if kind == "calloc":
        return ("calloc", size, param) if name == "android" else ("calloc", product, 1)
    return "malloc", size, 0


def calls_of(name: str, rows: list[Row], threads: bool) -> list[list]:
    """Each thread's ops as the format has them, and their objects: own or not, and number of their birth in its thread.

    Independent of the order of threads, which .wl loses.
    """
    births: Counter[int] = Counter()
    identity: dict[int, tuple[int, int]] = {}
    out: dict[int, list] = {}
    for row in rows:
        thread, obj = row[0] if threads else 0, row[2]
        if obj is not None and obj not in identity:
            identity[obj] = thread, births[thread]
            births[thread] += 1
        words = translated(name, row)
        if words:
            owner, number = (-1, -1) if obj is None else identity[obj]
            out.setdefault(thread, []).append((words, owner == thread, number))
    return sorted(out.values())


def round_trip(tape: Path, name: str) -> tuple[Path, str]:
    """The trace read back, and the exporter's report."""
    foreign, back = tape.with_suffix(f".{name}"), tape.with_suffix(f".{name}.tape")
    report = convert(tape, "--to", name, foreign).stderr
    succeed(CONVERT, "convert", "--from", name, foreign, back)
    return back, report


@pytest.mark.parametrize("name", THREADED + ORDERED)
@PROPERTY
@given(**SHAPES)
def test_round_trip_loses_what_the_note_says(tmp_path, name, seed, threads, steps, addresses):
    events, threads = used_threads(legal(seed, threads, steps, addresses))
    tape = import_text(tmp_path, text(events, threads))
    back, report = round_trip(tape, name)
    assume("reallocs written as free and malloc" not in report)
    assert check(back)["ok"]
    before, after = calls_of(name, ops(tape), name in THREADED), calls_of(name, ops(back), name in THREADED)
    assert after == before


@pytest.mark.parametrize("name", THREADED + ORDERED)
@PROPERTY
@given(**SHAPES, lost=st.floats(0, 0.4), repeated=st.floats(0, 0.3))
def test_damaged_trace_becomes_a_legal_recording(tmp_path, name, seed, threads, steps, addresses, lost, repeated):
    events, threads = used_threads(damage(seed, legal(seed, threads, steps, addresses), lost, repeated))
    tape = import_text(tmp_path, text(events, threads))
    witness = check(round_trip(tape, name)[0])
    assert witness["double_frees"] == witness["unseen_frees"] == witness["overlapping_acquires"] == 0


@PROPERTY
@given(seed=st.integers(0, 1 << 32), steps=st.integers(1, 120), addresses=st.integers(1, 12))
def test_minimalloc_has_the_lifetime_of_each_object(tmp_path, seed, steps, addresses):
    events, threads = in_turn(seed, steps, addresses)
    written = [e for e in events if e.releases or e.hands_out or (e.call in FREES and not e.takes)]
    rows: list[list[int]] = []  # lower, upper, size
    number: dict[int, int] = {}  # of the object at an address
    for at, event in enumerate(written):
        if event.releases:
            rows[number.pop(event.released)][1] = at
        if event.hands_out:
            number[event.acquired] = len(rows)
            rows.append([at, len(written), max(event.request, 1)])
    tape = import_text(tmp_path, text(events, threads))
    lines = succeed(CONVERT, "convert", tape, "--to", "minimalloc", "-").stdout.splitlines()
    assert lines == ["id,lower,upper,size", *(f"{i},{','.join(map(str, row))}" for i, row in enumerate(rows, 1))]


def test_what_a_format_cannot_express_is_counted(tmp_path):
    lines = "1 0 malloc(8) = 0x1000\n2 0 malloc_usable_size(0x1000)\n3 0 realloc(0x1000, 1099511627776) = NULL\n"
    tape = import_text(tmp_path, lines + "4 0 free(NULL)\n")
    result = succeed(CONVERT, "convert", tape, tmp_path / "o.mtrace")
    assert "1 calls of malloc_usable_size left out, 1 failed calls left out, 1 frees of NULL left out" in result.stderr


def test_android_text_has_the_times(tmp_path):
    tape = import_text(tmp_path, "10 0 malloc(8) = 0x1000\n20+5 0 realloc(0x1000, 9) = 0x2000\n")
    assert succeed(CONVERT, "convert", tape, "--to", "android", "-").stdout == (
        "0: malloc 0x1000 8 10 10\n0: realloc 0x2000 0x1000 9 20 25\n0: thread_done 0x0 25 25\n"
    )


def test_realloc_overtaken_by_another_thread_becomes_free_and_malloc(tmp_path):
    """In a format with one line for both steps."""
    lines = "1 0 malloc(8) = 0x1000\n10+10 0 realloc(0x1000, 99) = 0x2000\n15 1 malloc(8) = 0x1000\n"
    result = succeed(CONVERT, "convert", import_text(tmp_path, lines), tmp_path / "o.mtrace")
    assert "1 reallocs written as free and malloc" in result.stderr
    assert check(tmp_path / "o.mtrace")["live_at_end"] == 2


def test_wl_of_many_calls_goes_through_its_temporary_file(tmp_path):
    events, threads = used_threads(legal(3, 4, 6000, 50))
    tape = import_text(tmp_path, text(events, threads))
    back, _ = round_trip(tape, "wl")
    assert calls_of("wl", ops(back), True) == calls_of("wl", ops(tape), True)
    assert info(back)["threads"] == threads


def test_full_disk_is_reported(tmp_path):
    tape = import_text(tmp_path, "".join(f"{i} 0 malloc(8) = {hex(4096 + 16 * i)}\n" for i in range(5000)))
    for name in THREADED + ORDERED:
        result = run(CONVERT, "convert", tape, "--to", name, "/dev/full")
        assert result.status == 1
        assert "/dev/full" in result.stderr
