# SPDX-License-Identifier: MIT
"""check and compile agree with the model of history_model.py on random histories, and dump returns the input."""

import json
import random
import re
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from convert.test.models.history_maker import damage, jitter, legal
from convert.test.models.history_model import ACQUIRES, COUNTED, Event, Op, judge, text
from convert.test.models.tape_maker import INFO, Tape
from convert.test.models.workload_ops import NO_SLOT, ops_of
from tests.examples import examples
from tests.support import CONVERT, OUT, REPOSITORY, import_text, run, succeed

PROPERTY = examples(60)
SHAPES = {
    "seed": st.integers(0, 1 << 32),
    "threads": st.integers(1, 6),
    "steps": st.integers(1, 120),
    "addresses": st.integers(1, 12),
}


def call_ids() -> dict[str, int]:
    table = (REPOSITORY / "core" / "trace" / "calls.def").read_text()
    return {ident: int(number) for number, ident in re.findall(r"^CALL\((\d+), (\w+),", table, re.M)}


CALL_IDS = call_ids()


def used_threads(events: list[Event]) -> tuple[list[Event], int]:
    """Dense thread numbers, as in a trace, and their count."""
    used = sorted({e.thread for e in events})
    return [Event(**{**vars(e), "thread": used.index(e.thread)}) for e in events], len(used)


def check(tape: Path, horizon_ns: int) -> dict[str, int]:
    result = run(CONVERT, "check", tape, "--json", "--horizon", str(horizon_ns))
    witness = json.loads(result.stdout)
    assert result.status == (0 if witness["ok"] else 1)
    return witness


def as_compiled(ops: list[Op]) -> list[tuple]:
    """Ops as in a workload: threads and objects numbered in the order of their first appearance; a release that states
    a size states its object's.
    """
    threads: dict[int, int] = {}
    objects: dict[int, int] = {}
    sizes: dict[int, int] = {}
    rows = []
    for op in ops:
        call = CALL_IDS[op.call] | (0x40 if op.null_in else 0) | (0x80 if op.null_out else 0)
        thread = threads.setdefault(op.thread, len(threads))
        obj = None if op.obj is None else objects.setdefault(op.obj, len(objects))
        param = op.param if op.call in COUNTED or op.call == "posix_memalign" else None
        size = op.size
        if "sized" in op.call:
            size = sizes.get(obj, size) if obj is not None else size
        elif obj is not None and op.call in ACQUIRES and not op.null_out:
            sizes[obj] = size * (op.param if op.call in COUNTED and op.param is not None else 1)
        rows.append((thread, call, obj, size, param))
    return rows


def compiled(work: Path) -> list[tuple]:
    objects_in: dict[int, int] = {}
    born = 0
    with_param = {CALL_IDS[name] for name in [*COUNTED, "posix_memalign", "memalign"]}
    rows = []
    for op in ops_of(work):
        call = op.call & 0x3F
        releases = call in {CALL_IDS[n] for n in ("free", "free_sized", "delete_sized")} or (op.call & 0x80)
        param = (1 if op.param is None else op.param) if call in with_param else None
        obj = None
        if op.slot != NO_SLOT:
            if op.slot not in objects_in:
                objects_in[op.slot], born = born, born + 1
            obj = objects_in[op.slot]
            if releases:
                del objects_in[op.slot]
        rows.append((op.thread, op.call, obj, op.size, param))
    return rows


def compare_with_model(folder: Path, events: list[Event], threads: int, horizon_ns: int) -> dict[str, int]:
    events, threads = used_threads(events)
    tape = import_text(folder, text(events, threads))
    expected, ops = judge(events, threads, horizon_ns)
    witness = check(tape, horizon_ns)
    assert {key: witness[key] for key in expected} == expected
    work = folder / "history.work"
    succeed(CONVERT, "compile", tape, "-o", work, "--horizon", str(horizon_ns))
    assert compiled(work) == as_compiled(ops)
    succeed(CONVERT, "check", work)
    return expected


@PROPERTY
@given(**SHAPES)
def test_legal_history_is_proven_legal(tmp_path, seed, threads, steps, addresses):
    events = legal(seed, threads, steps, addresses)
    expected = compare_with_model(tmp_path, events, threads, 10_000_000)
    for key in ("unseen_frees", "double_frees", "unseen_touches", "overlapping_acquires", "inversions_repaired"):
        assert expected[key] == 0, key


@PROPERTY
@given(**SHAPES, most_ns=st.integers(1, 60), horizon_ns=st.sampled_from([0, 3, 20, 1000]))
def test_inversions_are_repaired_as_the_model_does(tmp_path, seed, threads, steps, addresses, most_ns, horizon_ns):
    events = jitter(seed, legal(seed, threads, steps, addresses), most_ns)
    compare_with_model(tmp_path, events, threads, horizon_ns)


@PROPERTY
@given(
    **SHAPES,
    most_ns=st.integers(0, 20),
    horizon_ns=st.sampled_from([0, 5, 1000]),
    lost=st.floats(0, 0.4),
    repeated=st.floats(0, 0.3),
)
def test_lost_and_repeated_events_are_counted_as_the_model_does(
    tmp_path, seed, threads, steps, addresses, most_ns, horizon_ns, lost, repeated
):
    events = jitter(seed + 1, damage(seed, legal(seed, threads, steps, addresses), lost, repeated), most_ns)
    compare_with_model(tmp_path, events, threads, horizon_ns)


PRINTED = {
    "frees of objects never seen": "unseen_frees",
    "double frees": "double_frees",
    "other calls on objects that were not live": "unseen_touches",
    "objects handed out at an address where another lived": "overlapping_acquires",
    "steps recorded in the wrong order, corrected": "inversions_repaired",
    "steps moved before one of them, at most": "max_inversion_depth",
    "failed calls": "failed_calls",
    "the file is truncated": "truncated",
    "the file ends before its first call": "truncated",
    "the recording began after the program did": "lacks_start",
    "the recorder did not see all calls": "lacks_calls",
}


@example(seed=1, threads=1, steps=1, addresses=1, most_ns=0, lost=0.25, repeated=0.0, lacks=set(), cut=True)
@PROPERTY
@given(
    **SHAPES,
    most_ns=st.integers(0, 20),
    lost=st.floats(0, 0.4),
    repeated=st.floats(0, 0.3),
    lacks=st.sets(st.sampled_from(["start", "calls"])),
    cut=st.booleans(),
)
def test_what_check_prints_is_what_its_json_counts(
    tmp_path, seed, threads, steps, addresses, most_ns, lost, repeated, lacks, cut
):
    events, threads = used_threads(
        jitter(seed, damage(seed, legal(seed, threads, steps, addresses), lost, repeated), most_ns)
    )
    tape = import_text(tmp_path, text(events, threads))
    parts = Tape.read(tape)
    about = parts.first(INFO).columns[0]
    about.raw = json.dumps(json.loads(about.raw) | {"lacks": sorted(lacks)}).encode()
    parts.write(tape)
    tape.write_bytes(tape.read_bytes()[: -20 if cut else None])
    printed = run(CONVERT, "check", tape).stdout.replace(": there is nothing to prove", "")
    witness = json.loads(run(CONVERT, "check", tape, "--json").stdout)
    lines = dict(re.findall(r"^  ([^:\n]*?)(?:: ([0-9,]+))?$", printed, re.M))
    found = {PRINTED[line]: int(number.replace(",", "") or 1) for line, number in lines.items() if line in PRINTED}
    assert found == {key: int(witness[key]) for key in PRINTED.values() if witness[key]}
    assert {witness["lacks_start"], witness["lacks_calls"]} == {"start" in lacks, "calls" in lacks}
    assert ("NOT a legal history" in printed) == (not witness["ok"])


@PROPERTY
@given(**SHAPES)
def test_dump_gives_back_the_text(tmp_path, seed, threads, steps, addresses):
    events, threads = used_threads(legal(seed, threads, steps, addresses))
    tape = import_text(tmp_path, text(events, threads))
    for thread in range(threads):
        lines = succeed(CONVERT, "dump", tape, "--thread", str(thread)).stdout.splitlines()
        assert lines[1:] == [e.line() for e in events if e.thread == thread]
    merged = succeed(CONVERT, "dump", tape).stdout.splitlines()[1:]
    assert sorted(merged) == sorted(e.line() for e in events)


@pytest.mark.parametrize("depth", [1, 2, 5, 50])
def test_inversion_of_any_depth_is_repaired(tmp_path, depth):
    """A free stamped after `depth` reuses of its address by other threads, each of which was freed in time."""
    lines = ["10 0 malloc(8) = 0x1000", "1000 0 free(0x1000)"]
    lines += [f"{20 + i} {i + 1} malloc(8) = 0x1000\n{500 + i} {i + 1} free(0x1000)" for i in range(depth)]
    witness = check(import_text(tmp_path, "\n".join(lines) + "\n"), 10_000_000)
    assert witness["ok"]
    assert witness["inversions_repaired"] >= depth
    assert witness["max_inversion_depth"] >= depth


def test_free_of_unseen_pointer_is_counted(tmp_path):
    witness = check(import_text(tmp_path, "1 0 free(0x1000)\n"), 0)
    assert (witness["unseen_frees"], witness["double_frees"], witness["ok"]) == (1, 0, False)


def test_free_of_unseen_pointer_is_explained_by_a_late_start(tmp_path):
    witness = check(import_text(tmp_path, "1 0 free(0x1000)\n", "clock=nanoseconds start=unseen"), 0)
    assert (witness["unseen_frees"], witness["ok"]) == (1, True)


def test_double_free_is_distinguished_from_an_unseen_one(tmp_path):
    witness = check(import_text(tmp_path, "1 0 malloc(8) = 0x1000\n2 0 free(0x1000)\n3 0 free(0x1000)\n"), 0)
    assert (witness["unseen_frees"], witness["double_frees"], witness["ok"]) == (0, 1, False)


def test_release_and_acquire_of_a_realloc_are_two_steps(tmp_path):
    """Another thread gets the old address while the realloc is still under way."""
    lines = "1 0 malloc(8) = 0x1000\n10+10 0 realloc(0x1000, 99) = 0x2000\n30 0 free(0x2000)\n"
    lines += "15 1 malloc(8) = 0x1000\n16 1 free(0x1000)\n"
    witness = check(import_text(tmp_path, lines), 0)
    assert witness["ok"]
    assert (witness["inversions_repaired"], witness["live_at_end"], witness["peak_live_objects"]) == (0, 0, 2)


@PROPERTY
@given(seed=st.integers(0, 1 << 32), steps=st.integers(1, 150), room=st.sampled_from([256, 4096, 1 << 18]))
def test_overlapping_bytes_are_counted(tmp_path, seed, steps, room):
    """Against a list of intervals; an object that overlaps is counted and then ignored."""
    source = random.Random(seed)
    live: dict[int, int] = {}  # address: size
    disjoint: set[int] = set()
    overlaps, lines = 0, []
    for time_ns in range(steps):
        address = source.randrange(1, room // 8) * 8
        if live and (address in live or source.random() < 0.4):
            address = source.choice(sorted(live))
            del live[address]
            disjoint.discard(address)
            lines.append(f"{time_ns} 0 free({hex(address)})")
            continue
        size = source.choice([0, 1, 8, 9, 64, 100, 3000, 32 << 10, 70000, 1 << 40])
        if any(a < address + max(size, 1) and address < a + max(live[a], 1) for a in disjoint):
            overlaps += 1
        else:
            disjoint.add(address)
        live[address] = size
        lines.append(f"{time_ns} 0 malloc({size}) = {hex(address)}")
    tape = import_text(tmp_path, "\n".join(lines) + "\n")
    witness = json.loads(run(CONVERT, "check", tape, "--json", "--ranges").stdout)
    assert witness["overlapping_ranges"] == overlaps
    assert witness["ok"] == (overlaps == 0)


def threads_in_turns(threads: int, rounds: int) -> str:
    """All threads take turns, free each other's objects, reuse each other's addresses, and end with live objects."""
    lines = ["# heaptape-text 1"]
    for turn in range(rounds):
        for thread in range(threads):
            now, slot = 10 + (turn * threads + thread) * 20, (thread + turn) % threads
            if turn % 2 == 0:
                lines.append(f"{now} {thread} malloc({16 + turn}) = {hex(0x10000 + slot * 64)}")
            else:
                lines.append(f"{now} {thread} free({hex(0x10000 + (thread + turn - 1) % threads * 64)})")
    lines += [f"{10**9 + i} {i} malloc(8) = {hex(0x10000000 + 64 * i)}" for i in range(threads)]
    return "\n".join(lines) + "\n"


def test_compiling_takes_as_many_instructions_per_event_of_many_threads_as_of_few(tmp_path):
    """Except for the logarithm. Valgrind counts them, so that no clock matters."""
    library = OUT / "libexec" / "valgrind"
    if not library.exists():
        pytest.skip("the Valgrind tool was not built: no headers of Valgrind's")
    instructions = {}
    for threads in (500, 2000):
        source, tape, counted = tmp_path / "h.txt", tmp_path / "h.tape", tmp_path / "counted"
        source.write_text(threads_in_turns(threads, 12))
        succeed(CONVERT, "convert", source, tape)
        valgrind = ["valgrind", "--tool=heaptape", "--mode=count", f"--out-file={counted}"]
        compile_it = (CONVERT, "compile", tape, "-o", tmp_path / "h.work")
        succeed(*valgrind, *compile_it, env={"VALGRIND_LIB": str(library)})
        instructions[threads] = json.loads(counted.read_text())["instructions"]
    assert 0 < instructions[2000] / instructions[500] < 1.5 * 4


def test_ten_thousand_threads_compile_in_bounded_memory(tmp_path):
    threads, rounds = 10_000, 4
    source, tape, work = tmp_path / "h.txt", tmp_path / "h.tape", tmp_path / "h.work"
    source.write_text(threads_in_turns(threads, rounds))
    succeed(CONVERT, "convert", source, tape)
    # In a separate interpreter: the peak of a process is at least that of the process that started it.
    peak = (
        "import resource, subprocess, sys; subprocess.check_call(sys.argv[1:]); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    peak_kib = int(succeed(sys.executable, "-c", peak, CONVERT, "compile", tape, "-o", work).stdout)
    assert peak_kib < 1 << 20
    witness = check(tape, 10_000_000)
    assert witness["ok"]
    assert (witness["threads"], witness["live_at_end"]) == (threads, threads)


@pytest.mark.parametrize("under_way", [0, 1])
def test_a_resize_under_way_at_the_end_explains_one_object_in_the_place_of_another(tmp_path, under_way):
    """Its release is before the end, and its event is not in the trace."""
    tape = import_text(tmp_path, "1 0 malloc(8) = 0x1000\n2 1 malloc(8) = 0x1000\n3 1 free(0x1000)\n")
    parts = Tape.read(tape)
    footer = parts.blocks[-1].columns[0]
    footer.raw = json.dumps(json.loads(footer.raw) | {"in_flight": under_way}).encode()
    parts.write(tape)
    witness = check(tape, 0)
    assert witness["overlapping_acquires"] == 1
    assert witness["ok"] == (under_way == 1)
