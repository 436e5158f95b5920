# SPDX-License-Identifier: MIT
"""A recording judges the replay on its own allocator: one that needs more memory than the program had is not that
program's, and nothing is advised from it.
"""

import pytest
from heaptape.common.tables import MIB
from heaptape.decide.answer import answer
from heaptape.results.fits import smallest_limit, smallest_limits, spread_notes
from heaptape.results.judged import Memory, disproof, disproof_of
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


def test_a_mean_as_far_off_as_one_program_in_ten_has_it_disproves_nothing():
    """A recording that was made beside other work: its samples are late by some calls."""
    assert not disproof(Workload(), "glibc", Memory(55.1 * MIB, 39.2 * MIB), Memory(55.3 * MIB, 37.6 * MIB))


def test_a_disproved_replay_gives_no_advice_and_no_limit_and_is_said_first():
    file = results(30, 150)
    found = answer([file], "glibc:MALLOC_ARENA_MAX=2")
    assert found.about.startswith("The recording disproves its replay: on glibc:MALLOC_ARENA_MAX=2")
    assert not found.use
    assert not found.sentences
    assert smallest_limits(file, {"glibc:MALLOC_ARENA_MAX=2": 150.0 * MIB}) == {}


def test_a_replay_that_the_recording_bears_out_is_advised_from():
    file = results(40, 30)
    found = answer([file], "glibc:MALLOC_ARENA_MAX=2")
    assert found.use == {"memory": "lean"}
    peaks = {"glibc:MALLOC_ARENA_MAX=2": 30.0 * MIB, "lean": 15.0 * MIB}
    assert smallest_limits(file, peaks)["lean"] == smallest_limit(25 * MIB)


def test_the_upper_end_of_a_peak_that_is_a_range_counts_for_the_limit():
    file = results(40, 30)
    file.measured[1].spread_peak_bytes = 99 * MIB
    peaks = {"glibc:MALLOC_ARENA_MAX=2": 30.0 * MIB, "lean": 15.0 * MIB}
    assert smallest_limits(file, peaks)["lean"] == smallest_limit(109 * MIB)
    assert "lean 15.0 MiB to 99.0 MiB" in spread_notes(file)[0]


def test_a_replay_within_the_error_makes_no_memory_vanish():
    """The program's own memory is then less than nothing, and the whole is still what was recorded."""
    file = results(40, 40.5)
    peaks = {"glibc:MALLOC_ARENA_MAX=2": 40.5 * MIB}
    assert smallest_limits(file, peaks)["glibc:MALLOC_ARENA_MAX=2"] == smallest_limit(40 * MIB)


@pytest.mark.parametrize(
    ("about", "reason"),
    [
        ({"lacks": ["settings_by_calls"]}, "set its allocator up by calls (mallopt, malloc_trim) before"),
        ({"settings": None}, "this recording does not have them"),
    ],
)
def test_the_likely_reason_is_said(about, reason):
    assert reason in disproof_of(results(30, 150, **about))


def test_without_samples_or_the_recorded_allocator_nothing_is_judged():
    assert disproof_of(results(30, 150, recorded=[])) == ""
    assert disproof_of(results(30, 150, recorded_on=None)) == ""
