# SPDX-License-Identifier: MIT
"""The caches and TLBs of a machine, fitted to the simulator: a power of two of sets, whatever the machine has."""

import hypothesis
import hypothesis.strategies as st
from heaptape.results.model.penalties import LINE_BYTES, Level, fitted


@hypothesis.given(st.integers(1, 1 << 24), st.integers(0, 64))
def test_every_size_fits_the_simulator(blocks, ways):
    found = fitted(Level(blocks * LINE_BYTES, ways), LINE_BYTES)
    sets, rest = divmod(found.capacity // LINE_BYTES, found.ways)
    assert rest == 0
    assert sets & (sets - 1) == 0
    assert sets > 0
    assert blocks * LINE_BYTES / 2 < found.capacity <= blocks * LINE_BYTES
