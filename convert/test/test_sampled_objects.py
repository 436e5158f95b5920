# SPDX-License-Identifier: MIT
"""The objects in which the profile finds samples of data accesses, compared with a model; damaged blocks of samples."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
from heaptape.common.errors import FormatError
from heaptape.tape.tape_access_samples import LEVELS
from heaptape.tape.tape_format import open_trace
from hypothesis import given
from hypothesis import strategies as st

from convert.test.models.history_maker import legal
from convert.test.models.history_model import Event, text
from convert.test.models.tape_maker import Block, Column, Tape
from tests.examples import examples
from tests.leb import leb, zigzag
from tests.support import CONVERT, import_text, refused, run, succeed

ACCESS_SAMPLES, LOAD, STORE, TLB_MISS = 11, 16, 32, 64
PROPERTY = examples(40)
ORIGIN = 1  # the stamp of time 0 in a trace made from text
EVENTS = [{"event": "cpu/mem-loads,ldlat=30/", "period": 1009}, {"event": "cpu/mem-stores/", "period": 64576}]


class Sample(NamedTuple):
    stamp: int
    address: int
    what: int
    latency: int


def block_of(samples: list[Sample]) -> Block:
    columns = dict.fromkeys((1, 2, 3, 4), b"")
    last = Sample(0, 0, 0, 0)
    for sample in samples:
        columns[1] += leb(zigzag(sample.stamp - last.stamp))
        columns[2] += leb(zigzag(sample.address - last.address))
        columns[3] += bytes([sample.what])
        columns[4] += leb(sample.latency)
        last = sample
    return Block(ACCESS_SAMPLES, [Column(number, raw) for number, raw in columns.items()], rows=len(samples))


def add_samples(tape: Path, *blocks: Block, rows: int | None = None) -> None:
    changed = Tape.read(tape)
    changed.before_footer(*blocks)
    info, footer = changed.blocks[0].columns[0], changed.blocks[-1].columns[0]
    counts = {"rows": sum(block.rows for block in blocks) if rows is None else rows, "lost": 3}
    info.raw = json.dumps(
        json.loads(info.raw) | {"access_samples": {"events": [*EVENTS, 7, {"event": "x", "period": "y"}]}}
    ).encode()
    footer.raw = json.dumps(json.loads(footer.raw) | {"access_samples": counts}).encode()
    changed.blocks[-1].columns[1:] = []  # the index
    changed.write(tape)


def apart(events: list[Event]) -> list[Event]:
    """Gives every step its own time, and separates objects so that none overlap."""
    steps = [(e.first_ns, i, e, False) for i, e in enumerate(events)]
    steps += [(e.second_ns, i, e, True) for i, e in enumerate(events) if e.releases and e.hands_out]
    for number, (_, _, event, second) in enumerate(sorted(steps, key=lambda step: (step[0], step[1], step[3]))):
        event.second_ns = 100 * number + 100
        if not second:
            event.first_ns = 100 * number + 100
    for event in events:
        event.released, event.acquired = far(event.released), far(event.acquired)
    return events


def far(address: int) -> int:
    """Spreads the addresses of history_maker, 64 bytes apart, farther than the largest request."""
    return (address - 0x1000 + 64) << 36 if address else 0


def bucket(size: int) -> int:
    """The smallest size of its bucket: four buckets per power of two."""
    shift = max(size.bit_length() - 3, 0)
    return size >> shift << shift


def sizes_of(samples: list[Sample], events: list[Event]) -> Counter:
    """Samples by bucket of the object that lives at their address when they are taken, and by kind."""
    steps = [(e.first_ns, "release", e) for e in events if e.releases]
    steps += [(e.second_ns if e.releases else e.first_ns, "acquire", e) for e in events if e.hands_out]
    steps.sort(key=lambda step: step[0])
    found: Counter = Counter()
    for sample in samples:
        live: dict[int, int] = {}
        for time, kind, event in steps:
            if ORIGIN + time > sample.stamp:
                break
            if kind == "release":
                del live[event.released]
            else:
                live[event.acquired] = event.request
        inside = [size for address, size in live.items() if address <= sample.address < address + size]
        if inside:
            found[bucket(inside[0]), sample.what] += 1
    return found


def row_what(row: list) -> int:
    _, operation, level, tlb_missed, *_ = row
    return LEVELS.index(level) | {"load": LOAD, "store": STORE, "unknown": 0}[operation] | tlb_missed * TLB_MISS


@PROPERTY
@given(seed=st.integers(0, 1 << 32), threads=st.integers(1, 4), steps=st.integers(1, 120), count=st.integers(0, 60))
def test_samples_are_in_the_object_that_lives_at_their_address_at_their_time(tmp_path, seed, threads, steps, count):
    source = random.Random(seed)
    events = apart(legal(seed, threads, steps, 6))
    tape = import_text(tmp_path, text(events, threads))
    addresses = [e.acquired for e in events if e.hands_out] or [1 << 40]
    samples = [
        Sample(
            ORIGIN + 100 * source.randrange(2 * steps + 2) + 50,
            source.choice(addresses) + source.choice([0, 1, 23, 99, 4999, (1 << 24) + 2, (1 << 24) + 3, -1]),
            source.choice([LOAD | 3, LOAD | 5 | TLB_MISS, STORE | 8, 9]),
            source.randrange(1000),
        )
        for _ in range(count)
    ]
    half = count // 2
    add_samples(tape, *[block_of(part) for part in (samples[:half], samples[half:]) if part])
    found = json.loads(succeed(CONVERT, "profile", tape).stdout)["access_samples"]
    expected = sizes_of(samples, events)
    assert {(row[0], row_what(row)): row[4] for row in found["by_size"]} == expected
    assert found["in_objects"] == expected.total() == sum(row[4] for row in found["by_site"])
    assert found["elsewhere"] == count - expected.total()
    assert found["events"] == EVENTS
    with open_trace(tape) as trace:
        read = trace.access_samples()
        assert not trace.differences
    assert list(zip(read["stamp"], read["address"], read["latency_cycles"], strict=True)) == [
        (s.stamp, s.address, s.latency) for s in samples
    ]


GOOD = [Sample(10, 0x5000, LOAD | 5, 300), Sample(20, 0x5010, STORE | 1, 0)]


def changed_column(number: int, raw: bytes) -> Block:
    block = block_of(GOOD)
    block.columns[number - 1].raw = raw
    return block


@pytest.mark.parametrize(
    ("block", "says"),
    [
        (changed_column(1, b"\x02"), "too short or has a bad number"),
        (changed_column(2, b"\x02\xff"), "too short or has a bad number"),
        (changed_column(3, b"\x11"), "too short or has a bad number"),
        (changed_column(3, bytes([LOAD | 10, 0])), "too short or has a bad number"),
        (changed_column(3, b"\x80\x00"), "too short or has a bad number"),
        (changed_column(4, b"\x01\x01\x01"), "too long"),
    ],
)
def test_damaged_block_is_refused_by_both_readers(tmp_path, block, says):
    tape = import_text(tmp_path, "100 0 malloc(24) = 0x5000\n")
    add_samples(tape, block)
    refused(CONVERT, "profile", tape, says=says)
    with open_trace(tape) as trace, pytest.raises(FormatError):
        trace.access_samples()


def test_footer_that_counts_other_samples_is_reported(tmp_path):
    tape = import_text(tmp_path, "100 0 malloc(24) = 0x5000\n")
    add_samples(tape, block_of(GOOD), rows=7)
    says = "footer counts 7 samples of data accesses, blocks hold 2"
    assert says in run(CONVERT, "profile", tape).stderr
    with open_trace(tape) as trace:
        assert trace.differences == ["access_samples: the footer says 7 rows, the blocks have 2"]
