# SPDX-License-Identifier: MIT
"""The four-corner matrix is true for any figures. By hand: tables_by_hand.examples, sweeps.examples."""

import pytest
from heaptape.results.comparing.variants import Corners, four_corners
from heaptape.results.schema import Results, figures
from hypothesis import given
from hypothesis import strategies as st
from planted_runs import file_of, runs_of

NAMES = Corners("n", "fast", "tc", "both")
CYCLES = {"n": (200, 220), "fast": (180, 198), "tc": (160, 176), "both": (150, 165)}


def results_of(cycles: dict[str, tuple[int, ...]], name: str = "w", rss: dict[str, int] | None = None) -> Results:
    peaks = {allocator: [value] for allocator, value in (rss or {}).items()}
    runs = runs_of("time", "cycles_total", cycles) + runs_of("memory", "rss_anon_peak_bytes", peaks)
    return file_of(runs, name, ideal_rss_bytes=1000)


def matrix(*files: Results) -> dict[tuple[str, str], float]:
    frame = four_corners(figures(files), "total_cycles", NAMES)
    return frame.set_index(["workload", "column"])["value"].to_dict()


positive = st.tuples(*[st.floats(1, 1e12)] * 3)


@given(st.fixed_dictionaries(dict.fromkeys(("n", "fast", "tc", "both"), positive)))
def test_the_ways_round_the_square_agree(cycles):
    cells = matrix(results_of(cycles))
    over_a = cells["w", "A+"] * cells["w", "A:B+"]
    over_b = cells["w", "B+"] * cells["w", "B:A+"]
    assert over_a == pytest.approx(over_b)
    assert cells["w", "B/A"] * cells["w", "A+"] == pytest.approx(100 * cells["w", "B+"])
