# SPDX-License-Identifier: MIT
"""Bursts in a trace: both readers read them in the same way."""

import json
from pathlib import Path

import pandas as pd
import pytest

from convert.accesses.test.test_accesses import tape_of
from convert.test.models.access_maker import Row, add_accesses, block_of
from convert.test.models.history_maker import legal
from convert.test.models.tape_maker import BURSTS, Block, Tape
from convert.test.test_history import used_threads
from convert.test.test_refused_blocks import switches
from tests.access_streams import BURST
from tests.leb import Reader
from tests.oracle.reader import open_trace
from tests.support import CONVERT, info, run, succeed

OTHER = [Row("other", granule=4096 + number) for number in range(30)]


def tape_with(folder: Path, *blocks: Block, bursts: int) -> Path:
    """A trace with these BURSTS and ACCESSES blocks."""
    path = tape_of(folder, used_threads(legal(3, 1, 30, 10))[0], 1)
    add_accesses(path, [])
    tape = Tape.read(path)
    for block in blocks:
        tape.before_footer(block)
    column = tape.blocks[-1].columns[0]
    footer = json.loads(column.raw)
    footer["accesses"] |= {"other": sum(b.rows for b in blocks if b.type == 10), "bursts": bursts}
    column.raw = json.dumps(footer).encode()
    tape.write(path)
    return path


def bursts_by_both(path: Path) -> list[tuple[int, int | None]]:
    """First and end row of each burst, by `dump` and in Python; checks that they agree."""
    found: list[list[int | None]] = []
    row = 0
    for line in succeed(CONVERT, "dump", path, "--accesses", "--format", "csv").stdout.splitlines()[1:]:
        if line.startswith("burst begins"):
            found.append([row, None])
        elif line.startswith("burst ends"):
            found[-1][1] = row
        else:
            row += 1
    with open_trace(path) as trace:
        read = [(int(b), None if pd.isna(e) else int(e)) for b, e in trace.bursts().to_numpy()]
        assert sum(len(frame) for frame in trace.accesses()) == row
        assert trace.differences == []
    assert read == [tuple(one) for one in found]
    return read


SOUND = {
    "over two blocks": (
        [switches(0, 12), block_of(OTHER[:12], 0), switches(12, 20, first=2), block_of(OTHER[:8], 0)],
        2,
    ),
    "without an end": ([switches(0), block_of(OTHER, 0)], 1),
    "across a block's end": ([switches(0), block_of(OTHER, 0), switches(60, first=1), block_of(OTHER, 0)], 1),
    "empty ones": ([switches(0, 0, 0, 0, 0, 30, 30, 30), block_of(OTHER, 0)], 4),
    "none": ([], 0),
}


@pytest.mark.parametrize("what", SOUND)
def test_both_readers_read_valid_bursts_the_same(tmp_path, what):
    blocks, count = SOUND[what]
    path = tape_with(tmp_path, *blocks, bursts=count)
    assert len(bursts_by_both(path)) == count
    if blocks:
        assert info(path)["accesses"]["bursts"] == count
        work, accesses = tmp_path / "a.work", tmp_path / "a.accesses"
        succeed(CONVERT, "compile", path, "-o", work, "--accesses", accesses)
        assert compiled_bursts(accesses) == [0] + [1, 0] * count if what != "without an end" else [0, 1]


def compiled_bursts(path: Path) -> list[int]:
    """Values of the burst items; calls and accesses are skipped."""
    numbers, found = Reader(path.read_bytes(), 16), []
    while numbers.more:
        first = numbers.leb()
        second = numbers.leb() if first & 3 != 2 else 0
        if first == BURST << 2 | 3:
            found.append(second)
    return found


def test_a_footer_that_counts_other_bursts_is_refused(tmp_path):
    path = tape_with(tmp_path, switches(0, 30), block_of(OTHER, 0), bursts=2)
    done = run(CONVERT, "info", path)
    assert done.status == 1
    assert "footer counts 2 bursts, blocks hold 1" in done.stderr
    with open_trace(path) as trace:
        assert trace.differences == ["accesses: the footer says 2 bursts, the blocks have 1"]


def test_a_truncated_trace_keeps_its_bursts(tmp_path):
    blocks = SOUND["across a block's end"][0]
    path = tape_with(tmp_path, *blocks, bursts=1)
    with open_trace(path) as trace:
        last = next(b.offset for b in trace.blocks if b.type == BURSTS and b.first_stamp)
    path.write_bytes(path.read_bytes()[: last + 20])
    assert bursts_by_both(path) == [(0, None)]
