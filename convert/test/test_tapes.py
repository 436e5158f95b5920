# SPDX-License-Identifier: MIT
"""Traces made from traces: copies and archives lose nothing, slices are legal histories, merged processes stay
separate, and anonymised traces replay the same and reveal nothing else.

Long: copies of more traces.
"""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from convert.test.models.history_maker import damage, in_turn, jitter, legal
from convert.test.models.history_model import ACQUIRES, RELEASES, Event, text
from convert.test.models.workload_ops import streams_of
from convert.test.test_history import SHAPES, compiled, used_threads
from tests.examples import examples
from tests.oracle.blocks import EVENTS, GAP, TOUCHED
from tests.oracle.reader import Trace, open_trace
from tests.support import CONVERT, OUT, check, convert, import_text, info, proved, record, refused, succeed

PROPERTY = examples(40)
MUST_BE_ZERO = ("unseen_frees", "double_frees", "unseen_touches", "overlapping_acquires")
FORMS = [[], ["--archive"]]


def random_trace(path: Path, seed: int, events: int = 3000, clock_hz: int = 10**9) -> Path:
    """Arbitrary events, with gaps, samples, marks, names, and for every third seed latency, slack and stacks."""
    succeed(OUT / "test-programs" / "write_random_trace", str(seed), str(events), path, str(clock_hz))
    return path


def events_of(trace: Trace, thread: int) -> pd.DataFrame:
    batches = list(trace.events(thread))
    nullable = {pa.uint64(): pd.UInt64Dtype(), pa.uint32(): pd.UInt32Dtype()}
    return pa.Table.from_batches(batches).to_pandas(types_mapper=nullable.get) if batches else pd.DataFrame()


def touched_of(trace: Trace) -> list[dict[int, bytes]]:
    """Large objects that were alive at the end, as they are stored."""
    return [trace.raw_columns(block) for block in trace.blocks if block.type == TOUCHED]


def gaps_of(trace: Trace) -> list[tuple[int, int, object]]:
    """Thread, its events before, the text of the gap."""
    before: dict[int, int] = {}
    found = []
    for block in trace.blocks:
        if block.type == GAP:
            found.append((block.thread, before.get(block.thread, 0), trace.json_value(block)))
        if block.type == EVENTS:
            before[block.thread] = before.get(block.thread, 0) + block.rows
    return sorted(found, key=lambda gap: gap[:2])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 6))])
def test_copy_has_all_that_the_trace_has(tmp_path, seed, form):
    source = random_trace(tmp_path / "a.tape", seed, 3000 if seed else 1100)  # with seed 0 each is a separate block
    copy = tmp_path / "b.tape"
    convert(*form, source, copy)
    with open_trace(source) as one, open_trace(copy) as other:
        assert (other.threads, other.event_count, other.info) == (one.threads, one.event_count, one.info)
        assert other.footer == one.footer
        assert not other.differences
        for thread in range(one.threads):
            pd.testing.assert_frame_equal(events_of(other, thread), events_of(one, thread))
        assert gaps_of(other) == gaps_of(one)
        for part in ("samples", "stacks", "modules", "marks"):
            pd.testing.assert_frame_equal(getattr(other, part)(), getattr(one, part)(), check_like=True)
        assert other.thread_names() == one.thread_names()
        assert touched_of(other) == touched_of(one)


@PROPERTY
@given(**SHAPES, most_ns=st.integers(0, 30), archive=st.booleans())
def test_copy_dumps_the_same(tmp_path, seed, threads, steps, addresses, most_ns, archive):
    events, threads = used_threads(jitter(seed, legal(seed, threads, steps, addresses), most_ns))
    tape, copy = import_text(tmp_path, text(events, threads)), tmp_path / "copy.tape"
    convert(*(["--archive"] if archive else []), tape, copy)
    assert succeed(CONVERT, "dump", copy).stdout == succeed(CONVERT, "dump", tape).stdout


def test_copy_keeps_the_contents_of_the_footer(tmp_path):
    """Of a real recording: exit status, faults, calls in flight."""
    tape, copy = tmp_path / "a.tape", tmp_path / "b.tape"
    record(tape, "/bin/echo", "hello")
    convert("--archive", tape, copy)
    with open_trace(tape) as one, open_trace(copy) as other:
        assert "exit_status" in one.footer
        assert other.footer == one.footer


def test_copy_of_truncated_trace_says_so(tmp_path):
    source = random_trace(tmp_path / "a.tape", 2)
    cut, copy = tmp_path / "cut.tape", tmp_path / "copy.tape"
    cut.write_bytes(source.read_bytes()[:-100])
    convert(cut, copy)
    with open_trace(copy) as trace:
        assert trace.info["truncated_source"] is True
        assert not trace.truncated


def anonymise(tape: Path, *options: str) -> Path:
    out = tape.with_suffix(".anonymous.tape")
    convert("--anonymise", *options, tape, out)
    return out


def words(tape: Path) -> tuple[list[list[int]], bytes]:
    """A workload's streams and schedule, and its header's totals; not its time line, which has times."""
    work = tape.with_suffix(".work")
    succeed(CONVERT, "compile", tape, "-o", work)
    streams, header = streams_of(work)
    return streams[:-1], header[24:88]


@PROPERTY
@given(**SHAPES, most_ns=st.sampled_from([0, 0, 5, 60]), archive=st.booleans())
def test_anonymised_trace_replays_the_same(tmp_path, seed, threads, steps, addresses, most_ns, archive):
    """Word for word and wait for wait, also where inversions had to be repaired."""
    events, threads = used_threads(jitter(seed, legal(seed, threads, steps, addresses), most_ns))
    tape = import_text(tmp_path, text(events, threads))
    if any(check(tape)[key] for key in MUST_BE_ZERO):
        return
    other = anonymise(tape, *(["--archive"] if archive else []))
    assert words(other) == words(tape)
    assert proved(other, "inversions_repaired")["failed_calls"] == check(tape)["failed_calls"]


@PROPERTY
@given(**SHAPES, lost=st.floats(0, 0.4), repeated=st.floats(0, 0.3))
def test_anonymised_damaged_trace_has_the_ops_that_compile_makes(
    tmp_path, seed, threads, steps, addresses, lost, repeated
):
    events, threads = used_threads(damage(seed, legal(seed, threads, steps, addresses), lost, repeated))
    tape = import_text(tmp_path, text(events, threads))
    other = anonymise(tape)
    ops = []
    for path in (tape, other):
        succeed(CONVERT, "compile", path, "-o", path.with_suffix(".work"))
        ops.append(compiled(path.with_suffix(".work")))
    assert ops[1] == ops[0]
    witness = check(other)
    assert all(witness[key] == 0 for key in MUST_BE_ZERO)


def test_a_trace_that_begins_with_free_of_null_can_be_anonymised(tmp_path):
    tape = import_text(tmp_path, "1 0 free(NULL)\n2 0 malloc(8) = 0x1000\n")
    assert info(anonymise(tape))["calls"] == {"free": 1, "malloc": 1}


def test_anonymised_trace_has_no_real_address_name_or_time(tmp_path):
    source = random_trace(tmp_path / "a.tape", 3)
    secret = tmp_path / "secret.tape"
    succeed(CONVERT, "convert", source, secret)
    anonymous = anonymise(secret)
    with open_trace(source) as one, open_trace(anonymous) as other:
        assert set(other.info) <= {"clock", "order", "source", "os_page_bytes", "lacks", "anonymised", "allocator"}
        assert other.info["clock"] == {"kind": "ordinal", "hz": 0, "origin_stamp": 1}
        assert other.info["source"] == "heaptape, anonymised"
        assert set(other.footer) <= set(one.footer) - {"clock_hz"}
        assert other.footer["nested"] == other.footer["in_flight"] == 0
        for part in ("stacks", "modules", "marks"):
            assert getattr(other, part)().empty
        assert other.thread_names() == {}
        for thread in range(other.threads):
            frame = events_of(other, thread)
            assert frame["stack"].isna().all()
            assert frame["latency"].isna().all()
            acquired = frame.acquired_address.dropna()
            assert not acquired.duplicated().any()
            assert acquired.is_monotonic_increasing
        samples = other.samples()
        assert set(samples.columns) <= {"stamp", "rss_anon_bytes", "vm_size_bytes"}


def make_slice(tape: Path, *specs: str) -> Path:
    out = tape.with_suffix(".slice.tape")
    convert(*[word for spec in specs for word in ("--slice", spec)], tape, out)
    return out


def assert_legal_and_compiles(tape: Path) -> dict:
    witness = proved(tape, *MUST_BE_ZERO, "inversions_repaired")
    work = tape.with_suffix(".work")
    succeed(CONVERT, "compile", tape, "-o", work)
    succeed(CONVERT, "check", work)
    return witness


WINDOWS = st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted)


LONG = {"seed": 11, "threads": 6, "steps": 4000, "addresses": 60, "kind": "percent", "most_ns": 0}


@PROPERTY
@example(**LONG, window=[0.2, 0.7])  # many objects live at the cuts
@example(**LONG, window=[0.5, 0.9])
@given(**SHAPES, window=WINDOWS, kind=st.sampled_from(["progress", "percent", "time"]), most_ns=st.integers(0, 20))
def test_slice_by_window_is_a_legal_history(tmp_path, seed, threads, steps, addresses, window, kind, most_ns):
    events, threads = used_threads(jitter(seed, legal(seed, threads, steps, addresses), most_ns))
    tape = import_text(tmp_path, text(events, threads))
    if kind == "progress":
        spec = f"progress={int(window[0] * len(events))}..{int(window[1] * len(events))}"
    elif kind == "percent":
        spec = f"progress={100 * window[0]:.3f}%..{100 * window[1]:.3f}%"
    else:
        last = max((e.second_ns for e in events), default=0)
        spec = f"time={int(window[0] * last)}ns..{int(window[1] * last)}ns"
    assert_legal_and_compiles(make_slice(tape, spec))


@PROPERTY
@given(**SHAPES, lost=st.floats(0, 0.4), repeated=st.floats(0, 0.3), window=WINDOWS)
def test_slice_of_a_damaged_trace_is_a_legal_history(tmp_path, seed, threads, steps, addresses, lost, repeated, window):
    events, threads = used_threads(damage(seed, legal(seed, threads, steps, addresses), lost, repeated))
    tape = import_text(tmp_path, text(events, threads))
    assert_legal_and_compiles(make_slice(tape, f"progress={100 * window[0]:.3f}%..{100 * window[1]:.3f}%"))


@PROPERTY
@given(**SHAPES, size=st.sampled_from(["0..24", "25..", "..5000"]), chosen=st.sampled_from(["0", "1..3", "0,2"]))
def test_slice_by_size_and_thread_is_a_legal_history(tmp_path, seed, threads, steps, addresses, size, chosen):
    events, threads = used_threads(legal(seed, threads, steps, addresses))
    tape = import_text(tmp_path, text(events, threads))
    assert_legal_and_compiles(make_slice(tape, f"size={size}"))
    assert_legal_and_compiles(make_slice(tape, f"thread={chosen}"))
    assert_legal_and_compiles(make_slice(tape, f"thread={chosen}", f"size={size}", "progress=20%..80%"))


@dataclass
class Slice:
    """Which events a slice has, of a history in which each is one step, by the rules of convert/rewrite/slice.h."""

    threads: tuple[int, int]
    sizes: tuple[int, int] | None
    chosen: dict[int, bool] = field(default_factory=dict)  # by address of the live objects
    live: dict[int, Event] = field(default_factory=dict)  # what a prologue would have, in the order of acquisition

    def has_thread(self, event: Event) -> bool:
        return self.threads[0] <= event.thread <= self.threads[1]

    def has_size(self, event: Event) -> bool:
        return self.sizes is None or self.sizes[0] <= event.request <= self.sizes[1]

    def take(self, event: Event) -> bool:
        """Is the event in the slice, if in its window?"""
        nothing = not event.takes and event.call not in ACQUIRES
        has = self.sizes is None if nothing else self.has_size(event)
        has = self.chosen.get(event.released, False) if event.takes else has and self.has_thread(event)
        if event.releases and event.hands_out:  # keeps its place among the living
            moved = replace(event, call="malloc", size=event.request, param=0, released=0)
            self.live = {
                moved.acquired if address == event.released else address: moved if address == event.released else one
                for address, one in self.live.items()
            }
            self.chosen[moved.acquired] = self.chosen.pop(event.released)
        elif event.releases:
            self.live.pop(event.released)
            self.chosen.pop(event.released)
        elif event.hands_out:
            resized = replace(event, call="malloc", size=event.request, param=0)
            self.live[event.acquired] = resized if event.call in RELEASES else event
            self.chosen[event.acquired] = has
        return has


def numbered(lines: list[str]) -> list[str]:
    """Without times; threads by their first appearance."""
    threads: dict[str, str] = {}
    words = [line.split(" ", 2)[1:] for line in lines]
    return [f"{threads.setdefault(thread, str(len(threads)))} {rest}" for thread, rest in words]


@PROPERTY
@given(
    seed=st.integers(0, 1 << 32),
    steps=st.integers(1, 120),
    addresses=st.integers(1, 12),
    window=WINDOWS,
    kind=st.sampled_from(["progress", "time"]),
    sizes=st.sampled_from([None, (0, 24), (25, 1 << 63), (24, 5000)]),
    threads=st.sampled_from([(0, 9), (0, 0), (1, 2)]),
)
def test_slice_has_the_chosen_objects_that_lived_at_the_cut_and_their_events(
    tmp_path, seed, steps, addresses, window, kind, sizes, threads
):
    events, count = in_turn(seed, steps, addresses)
    first, last = (int(share * len(events)) for share in window)
    cut = Slice(threads, sizes)
    for event in events[:first]:
        cut.take(event)
    live = [event for address, event in cut.live.items() if cut.chosen[address]]
    order = list(dict.fromkeys(event.thread for event in live))
    live.sort(key=lambda event: order.index(event.thread))
    inside = [event for event in events[first:last] if cut.take(event)]
    specs = [f"progress={first}..{last}" if kind == "progress" else f"time={10 * first + 10}ns..{10 * last + 10}ns"]
    specs += [f"thread={threads[0]}..{threads[1]}"] if threads != (0, 9) else []
    specs += [f"size={sizes[0]}..{sizes[1] if sizes[1] < 1 << 63 else ''}"] if sizes else []
    tape = import_text(tmp_path, text(events, count))
    lines = succeed(CONVERT, "dump", make_slice(tape, *specs)).stdout.splitlines()[1:]
    expected = [*live, *inside] if first < len(events) else []
    assert numbered(lines) == numbered([event.line() for event in expected])
    assert [line.partition(" ")[0] for line in lines[len(live) :]] == [str(event.first_ns) for event in inside]


def test_slice_says_what_it_is_a_slice_of(tmp_path):
    tape = import_text(tmp_path, "1 0 malloc(8) = 0x1000\n2 0 malloc(9) = 0x2000\n3 0 free(0x1000)\n")
    with open_trace(make_slice(tape, "time=2ns..", "size=..8")) as trace:
        assert trace.info["slice"] == {
            "of": ["time=2ns..", "size=..8"], "events": 3, "threads": 1, "truncated": False, "dropped": 0
        }  # fmt: skip
        assert trace.event_count == 2


MOVING = "1 0 malloc(8) = 0x1000\n10+20 0 realloc(0x1000, 99) = 0x2000\n40 0 free(0x2000)\n"
MOVING += "15 1 malloc(8) = 0x1000\n50 1 free(0x1000)\n"


def test_realloc_cut_by_the_beginning_only_acquires(tmp_path):
    """Its old address is another thread's by then."""
    sliced = make_slice(import_text(tmp_path, MOVING), "time=20ns..")
    assert_legal_and_compiles(sliced)
    dumped = succeed(CONVERT, "dump", sliced).stdout
    assert "realloc(NULL, 99) = 0x2000" in dumped
    assert check(sliced)["live_at_end"] == 0


def test_realloc_cut_by_the_end_only_frees(tmp_path):
    sliced = make_slice(import_text(tmp_path, MOVING), "time=..20ns")
    assert_legal_and_compiles(sliced)
    assert "10 0 free(0x1000)" in succeed(CONVERT, "dump", sliced).stdout
    assert check(sliced)["live_at_end"] == 1


def with_frames(trace: Trace) -> pd.DataFrame:
    """All events in order, each with the instructions of its call stack."""
    frames: dict[int, tuple] = {0: ()}
    for node in trace.stacks().itertuples():
        frames[node.Index] = (int(node.instruction), *frames[node.parent])
    events = pd.concat([events_of(trace, thread) for thread in range(trace.threads)])
    events["stack"] = [frames[0 if node is pd.NA else node] for node in events.pop("stack")]
    events["stamp"] = events.acquire_stamp.fillna(events.release_stamp)
    events["at"] = events.acquired_address.fillna(events.released_address)
    return events.drop(columns=["thread", "event"]).sort_values(["stamp", "at"], kind="stable")


def test_slice_has_the_stacks_samples_marks_and_names_of_its_window(tmp_path):
    """Of a history that is legal in each thread, whose objects are at addresses of their own."""
    source, out = random_trace(tmp_path / "a.tape", 3), tmp_path / "b.tape"
    with open_trace(source) as trace:
        whole, samples, names = with_frames(trace), trace.samples(), trace.thread_names()
        first, last, _ = trace.marks().stamp
    succeed(CONVERT, "convert", "--slice", "mark=mark 0..mark 1", source, out)
    with open_trace(out) as trace:
        events = with_frames(trace)
        threads = [events_of(trace, thread).acquired_address.dropna().iloc[0] >> 36 for thread in range(trace.threads)]
        assert [(mark.stamp, threads[mark.thread], mark.text) for mark in trace.marks().itertuples()] == [
            (first, 0, "mark 0")
        ]
        assert trace.thread_names() == {threads.index(1): names[1]}
    inside = whole[(whole.stamp >= first) & (whole.stamp < last)]
    uncut = ~(inside.release_stamp < first).fillna(False).to_numpy()
    expected, found = (
        part.reset_index(drop=True)[uncut] for part in (inside, events[events.stamp >= inside.stamp.min()])
    )
    assert len(expected) > 500
    pd.testing.assert_frame_equal(found, expected)
    with open_trace(make_slice(source, "time=2us..8us")) as trace:
        within = whole.stamp[(whole.stamp >= 2000) & (whole.stamp < 8000)]
        sampled = samples[samples.stamp.between(within.min(), within.max())].reset_index(drop=True)
        assert len(sampled) > 1
        pd.testing.assert_frame_equal(trace.samples(), sampled)
    refused(CONVERT, "convert", "--slice", "mark=no such..", source, out, says="has no mark 'no such'")


@PROPERTY
@given(seeds=st.lists(st.integers(0, 1 << 32), min_size=1, max_size=4), steps=st.integers(1, 80))
def test_merged_processes_keep_apart(tmp_path, seeds, steps):
    """The same addresses in each, and still a legal history with the events of all."""
    tapes, sources = [], []
    for i, seed in enumerate(seeds):
        folder = tmp_path / str(i)
        folder.mkdir(exist_ok=True)
        events, threads = used_threads(legal(seed, 3, steps, 4))
        sources.append((events, threads))
        tapes.append(import_text(folder, text(events, threads)))
    merged = tmp_path / "merged.tape"
    succeed(CONVERT, "convert", "--merge", *tapes, merged)
    witness = check(merged)
    assert witness["ok"]
    assert witness["events"] == sum(len(events) for events, _ in sources)
    assert witness["live_at_end"] == sum(check(tape)["live_at_end"] for tape in tapes)
    assert info(merged)["threads"] == sum(threads for _, threads in sources)
    number = 0
    for i, (events, threads) in enumerate(sources):
        for thread in range(threads):
            lines = succeed(CONVERT, "dump", merged, "--thread", str(number)).stdout.splitlines()[1:]
            up = i << 48
            moved = [
                replace(
                    e, thread=number, released=e.released and e.released + up, acquired=e.acquired and e.acquired + up
                )
                for e in events
                if e.thread == thread
            ]
            assert lines == [e.line() for e in moved]
            number += 1


def times_ns(tape: Path, thread: int) -> list[int]:
    rows = succeed(CONVERT, "dump", "--format", "csv", "--thread", str(thread), tape).stdout.splitlines()[1:]
    return [int(row.partition(",")[0]) for row in rows]


@PROPERTY
@given(st.lists(st.tuples(st.integers(0, 1 << 32), st.integers(10**6, 10**10)), min_size=2, max_size=3))
def test_merged_events_keep_their_times_whatever_clocks_the_traces_have(tmp_path, traces):
    heaps = enumerate((6 * seed + 1, 100, hz) for seed, hz in traces)
    tapes = [random_trace(tmp_path / f"{i}.tape", *heap) for i, heap in heaps]
    succeed(CONVERT, "convert", "--merge", *tapes, tmp_path / "merged.tape")
    first = 0
    tick_ns = 1 + 1e9 / traces[0][1]
    for tape in tapes:
        for thread in range(threads := info(tape)["threads"]):
            merged = times_ns(tmp_path / "merged.tape", first + thread)
            assert merged == pytest.approx(times_ns(tape, thread), abs=tick_ns)
        first += threads


def test_merge_refuses_traces_without_times(tmp_path):
    tape = import_text(tmp_path, "1 0 malloc(8) = 0x1000\n", "clock=ordinal")
    refused(CONVERT, "convert", "--merge", tape, tape, tmp_path / "m.tape", says="has no times")


def test_steps_of_a_conversion_can_be_combined(tmp_path):
    """Merged, then sliced, then anonymised into an archive, and compiled on the way out."""
    events, threads = used_threads(legal(7, 4, 400, 9))
    tape = import_text(tmp_path, text(events, threads))
    steps = ["--merge", "--slice", "progress=30%..70%", "--anonymise"]
    out, work = tmp_path / "o.tape", tmp_path / "o.work"
    succeed(CONVERT, "convert", *steps, "--archive", tape, tape, out)
    assert_legal_and_compiles(out)
    succeed(CONVERT, "convert", *steps, tape, tape, work)
    succeed(CONVERT, "compile", out, "-o", tmp_path / "p.work")
    assert streams_of(work)[0][:-1] == streams_of(tmp_path / "p.work")[0][:-1]
    assert json.loads(succeed(CONVERT, "check", out, "--json").stdout)["threads"] <= 2 * threads
