# SPDX-License-Identifier: MIT
"""The profile's plots draw the frames, and accept empty ones."""

import json

import numpy as np
import pandas as pd
import pytest
from heaptape.features.profile import profile_plots
from heaptape.features.profile.data import Profile
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from tests.support import HEAPTAPE_HERE, succeed

EMPTY = Profile({})


def axes():
    return Figure().subplots()


def window(position, time_ns, ops, acquires, releases):
    return [position, time_ns, ops, acquires, releases, 0, 0, 0]


@pytest.mark.parametrize("draw", [
    lambda a: profile_plots.sizes(a, EMPTY.sizes),
    lambda a: profile_plots.lifetimes(a, EMPTY.lifetimes_bytes, 0),
    lambda a: profile_plots.size_and_age(a, EMPTY.lifetimes_ns, "ns"),
    lambda a: profile_plots.rates(a, EMPTY.windows),
    lambda a: profile_plots.live(a, EMPTY.windows),
    lambda a: profile_plots.threads(a, profile_plots.thread_matrix(EMPTY.pairs)),
    lambda a: profile_plots.chains(a, EMPTY.chains),
])  # fmt: skip
def test_empty_data_are_reported_in_words(draw):
    drawn = axes()
    draw(drawn)
    assert drawn.texts[0].get_text()


def test_sizes_are_stacked_by_call_and_sum_to_all():
    found = Profile({"sizes": {"malloc": [[8, 3, 24], [16, 1, 16]], "calloc": [[16, 4, 64]]}})
    drawn = axes()
    profile_plots.sizes(drawn, found.sizes)
    bars = [bar for container in drawn.containers for bar in container]
    assert sum(bar.get_height() for bar in bars) == pytest.approx(100)
    assert max(bar.get_y() + bar.get_height() for bar in bars) == pytest.approx(62.5)
    assert {round(bar.get_x() + bar.get_width()) for bar in bars} == {10, 20}


def test_lifetimes_sum_to_the_share_that_was_freed():
    found = Profile({"lifetimes_bytes": [[8, 0, 1, 8], [8, 4, 2, 16], [64, 4, 1, 64]]})
    drawn = axes()
    profile_plots.lifetimes(drawn, found.lifetimes_bytes, acquired=8)
    assert [bar.get_height() for bar in drawn.containers[0]] == [12.5, 37.5]
    assert list(drawn.get_lines()[0].get_ydata()) == [0, 12.5, 50]


def test_thread_matrix_keeps_those_that_free_each_others():
    pairs = Profile({"thread_pairs": [[0, 0, 1000, 0], [1, 2, 5, 0], [2, 1, 3, 0], [3, 3, 900, 0]]}).pairs
    matrix = profile_plots.thread_matrix(pairs, threads=2)
    assert list(matrix.index) == list(matrix.columns) == [1, 2]
    assert matrix.to_numpy().tolist() == [[0, 5], [3, 0]]
    whole = profile_plots.thread_matrix(pairs)
    assert int(whole.to_numpy().sum()) == 1908


def test_rates_by_hand():
    """10 acquires in the first second, none in the second, 20 at once at its end."""
    rows = [window(0, 0, 10, 10, 0), window(10, 1_000_000_000, 2, 0, 2), window(12, 2_000_000_000, 20, 20, 0)]
    frame = Profile({"windows": rows}).windows
    found = profile_plots.rates_frame(frame, 2e9, bins=2)
    assert found["begin"].tolist() == [0, 1]
    assert found["acquires"].tolist() == [10, 20]
    assert found["releases"].tolist() == [0, 2]


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30
    ),
    last=st.integers(1, 10),
    bins=st.integers(1, 50),
    timed=st.booleans(),
)  # fmt: skip
def test_no_call_is_lost_in_the_rates(steps, last, bins, timed):
    times = np.cumsum([0] + [step[0] for step in steps[1:]])
    rows, position = [], 0
    for time, (_, acquires, releases) in zip(times, steps):
        rows.append(window(position, int(time * 1e9), acquires + releases + 1, acquires, releases))
        position += acquires + releases + 1
    frame = Profile({"windows": rows}).windows
    found = profile_plots.rates_frame(frame, (float(times[-1]) + last) * 1e9 if timed else None, bins)
    width = ((times[-1] + last) if timed else position) / bins
    for column in ("acquires", "releases"):
        assert (found[column] * width).sum() == pytest.approx(frame[column].sum())
        assert (found[column] >= 0).all()


def test_all_plots_of_a_real_profile_can_be_drawn(tmp_path, small_tape):
    found = Profile(json.loads(succeed(HEAPTAPE_HERE, "profile", small_tape, "--format", "json").stdout))
    figure = Figure(figsize=(8, 8))
    drawn = figure.subplots(3, 3).ravel()
    profile_plots.sizes(drawn[0], found.sizes)
    profile_plots.lifetimes(drawn[1], found.lifetimes_bytes, found.acquired)
    profile_plots.size_and_age(drawn[2], found.lifetimes_bytes)
    profile_plots.rates(drawn[3], found.windows, found.data.get("duration_ns"))
    profile_plots.live(drawn[4], found.windows)
    profile_plots.threads(drawn[5], profile_plots.thread_matrix(found.pairs))
    profile_plots.chains(drawn[6], found.chains)
    figure.savefig(tmp_path / "all.png")
    assert pd.notna(drawn[3].get_lines()[0].get_ydata()).all()
