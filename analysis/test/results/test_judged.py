# SPDX-License-Identifier: MIT
"""A recording judges the replay on its own allocator: one that needs more memory than the program had is not that
program's, and nothing is advised from it.
"""

import numpy as np
import pytest
from heaptape.common.tables import MIB
from heaptape.results.judged import Memory, disproof, filled_later, noise_of
from heaptape.results.schema import Results
from heaptape.results.structs import Workload
from hypothesis import given
from hypothesis import strategies as st


def results(recorded_mib, replayed_mib, label="glibc:MALLOC_ARENA_MAX=2", **about):
    """Of a program whose memory was constant, on its own allocator and on one that needs half."""
    base, _, variant = label.partition(":")

    def run(allocator, variant, mib):
        peak = mib * MIB
        line = [[0, peak, peak, 0], [100, peak, peak, 0]]
        figures = {"rss_anon_peak_bytes": peak, "rss_anon_mean_bytes": peak, "timeline": line}
        return {"allocator": allocator, "variant": variant, "repeat": 0, "pass": "memory", **figures}

    recorded = [[at, recorded_mib * MIB, recorded_mib * MIB] for at in (0, 50, 100)]
    workload = {"name": "w", "ops": 100, "recorded": recorded, "recorded_on": label, "settings": {}} | about
    runs = [run(base, variant or "default", replayed_mib), run("lean", "default", replayed_mib / 2)]
    return Results("w.json", {"schema": 1, "heaptape": {"version": "0"}, "workload": workload, "runs": runs})


@given(st.floats(1, 1000), st.floats(1, 1000))
def test_only_a_replay_that_needs_more_than_the_program_had_is_disproved(recorded, replayed):
    text = disproof(Workload(), "glibc", Memory(replayed * MIB, 0), Memory(recorded * MIB, 0))
    assert not text or replayed > recorded + 1
    assert text or replayed <= max(recorded + 1, recorded * 1.1)
    of_means = disproof(Workload(), "glibc", Memory(0, replayed * MIB), Memory(0, recorded * MIB))
    assert not of_means or replayed > recorded + 1


@given(st.lists(st.floats(0, 50), min_size=3, max_size=40), st.floats(-9, 9))
def test_what_differs_by_a_constant_is_no_noise_and_one_sample_of_many_is_little(levels, apart):
    spans = np.ones(len(levels))
    assert noise_of(np.full(len(levels), apart), spans) == pytest.approx(0, abs=1e-6)
    assert noise_of(np.array(levels), spans) <= 2 * 50 / 2 / len(levels) ** 0.5 + 1e-6


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=30))
def test_the_most_is_of_samples_until_live_bytes_fall(rows):
    live, rss = np.array(rows, dtype=float).T * MIB
    for at, most in enumerate(filled_later(rss, live)):
        fall = next((later for later in range(at, len(rows)) if live[later] < live[at]), len(rows))
        assert most == rss[at:fall].max()
