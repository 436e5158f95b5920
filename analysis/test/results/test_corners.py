# SPDX-License-Identifier: MIT
"""The four-corner matrix: worked out by hand, and true for any figures."""

import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.results.comparing.variants import Corners, four_corners, parse_corners
from heaptape.results.schema import Results, figures
from heaptape.show.tables.corner_tables import corner_tables
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


def test_a_missing_corner_leaves_out_what_needs_it():
    cells = matrix(results_of({name: values for name, values in CYCLES.items() if name != "both"}))
    assert {column for _, column in cells} == {"Neither", "A", "B", "A+", "B+", "B/A"}


def test_tables_leave_out_what_was_not_measured():
    titles = [table.title.split(",")[0] for table in corner_tables([results_of(CYCLES)], NAMES)]
    assert titles == ["Total cycles"]


@pytest.mark.parametrize("text", ["n,fast,tc", "n,fast,tc,tc", "n,fast,tc,unheard of", ""])
def test_invalid_corners_are_refused(text):
    with pytest.raises(HeaptapeError):
        parse_corners(text, ["n", "fast", "tc", "both"])


positive = st.tuples(*[st.floats(1, 1e12)] * 3)


@given(st.fixed_dictionaries(dict.fromkeys(("n", "fast", "tc", "both"), positive)))
def test_the_ways_round_the_square_agree(cycles):
    cells = matrix(results_of(cycles))
    over_a = cells["w", "A+"] * cells["w", "A:B+"]
    over_b = cells["w", "B+"] * cells["w", "B:A+"]
    assert over_a == pytest.approx(over_b)
    assert cells["w", "B/A"] * cells["w", "A+"] == pytest.approx(100 * cells["w", "B+"])
