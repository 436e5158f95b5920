# SPDX-License-Identifier: MIT
"""A recording judges the replay on its own allocator: one that needs more memory than the program had is not that
program's, and nothing is advised from it.
"""

import numpy as np
import pytest
from heaptape.common.tables import MIB
from heaptape.decide.answer import answer
from heaptape.results.fits import smallest_limit, smallest_limits, spread_notes
from heaptape.results.judged import Memory, disproof, disproof_of, filled_later, noise_of, unjudged
from heaptape.results.schema import Results
from heaptape.results.structs import SLEEPS_TO_TIMES, UNDER_QUOTA, Machine, Workload
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


def test_a_peak_may_be_lower_unless_the_recording_says_that_small_objects_are_touched():
    file = results(40, 30)
    file.measured[1].least_peak_bytes = 8 * MIB
    assert "4 to 8 KiB; the second is used: lean 8.00 MiB to 15.0 MiB" in spread_notes(file)[0]
    file.measured[1].rss_anon_peak_bytes = 31 * MIB
    assert "none is known to need less memory" in str(answer([file], "glibc:MALLOC_ARENA_MAX=2"))
    file.measured[0].least_peak_bytes = 20 * MIB
    assert spread_notes(file) == []


def test_means_by_other_clocks_are_told_with_the_quota():
    file = results(40, 30)
    file.workload.quota_processors, file.workload.throttled_ns = 0.2, 954e6
    file.measured[0].other_means = {UNDER_QUOTA: 43 * MIB, SLEEPS_TO_TIMES: 6.5 * MIB}
    quota, timer = spread_notes(file)
    assert "a quota of 0.2 processors held it back for 954 ms" in quota
    assert "without waits for a processor: glibc:MALLOC_ARENA_MAX=2 30.0 MiB to 43.0 MiB." in quota
    assert "takes sleeps as recorded: glibc:MALLOC_ARENA_MAX=2 6.50 MiB to 30.0 MiB." in timer


@given(st.lists(st.floats(0, 50), min_size=3, max_size=40), st.floats(-9, 9))
def test_what_differs_by_a_constant_is_no_noise_and_one_sample_of_many_is_little(levels, apart):
    spans = np.ones(len(levels))
    assert noise_of(np.full(len(levels), apart), spans) == pytest.approx(0, abs=1e-6)
    assert noise_of(np.array(levels), spans) <= 2 * 50 / 2 / len(levels) ** 0.5 + 1e-6


def test_an_object_that_the_program_was_still_filling_disproves_nothing():
    """16 and 36 MiB by turns; each sample was taken while the program grew to 36 MiB, which a replay has at once."""
    file = results(30, 30)
    file.workload.recorded = [[at, 36 * MIB if at == 5 else 16 * MIB, 0] for at in range(0, 100)]
    for run in file.measured:
        run.timeline = [[at, (36 if at % 2 else 16) * MIB, 0, 0] for at in range(0, 101)]
        run.rss_anon_peak_bytes = 36 * MIB
    assert disproof_of(file) == ""
    for run in file.measured:
        run.timeline = [[at, 26 * MIB, 0, 0] for at in range(0, 101)]
    assert disproof_of(file)


def test_a_buffer_that_the_program_takes_its_whole_life_to_fill_disproves_nothing_unless_others_replace_it():
    """A replay touches it at once. Of buffers of 10 ops each, none may be filled by what is recorded later."""
    file = results(46, 46)
    file.workload.recorded = [[at, at * MIB / 2, 0] for at in range(1, 101)]
    for run in file.measured:
        run.rss_anon_peak_bytes = 50 * MIB
        run.timeline = [[at, 50 * MIB, 0, 289 * MIB] for at in range(0, 101)]
    assert disproof_of(file) == ""
    for run in file.measured:
        run.timeline = [[at, 50 * MIB, 0, (289 if at % 10 else 0) * MIB] for at in range(0, 101)]
    assert "has at least 50.0 MiB on average, where the program had 50.0 MiB and 25.0 MiB" in disproof_of(file)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=30))
def test_the_most_is_of_samples_until_live_bytes_fall(rows):
    live, rss = np.array(rows, dtype=float).T * MIB
    for at, most in enumerate(filled_later(rss, live)):
        fall = next((later for later in range(at, len(rows)) if live[later] < live[at]), len(rows))
        assert most == rss[at:fall].max()


def test_what_the_program_gives_back_between_two_rows_before_it_sleeps_disproves_nothing():
    """It sleeps with 2 MiB after op 50 of each hundred; the replay's rows around are of ops 45, with 30 MiB, and 55."""
    file = results(30, 30)
    turns = range(0, 4000, 100)
    file.workload.recorded = [[begin + at, mib * MIB, 0] for begin in turns for at, mib in ((0, 30), (50, 2))]
    for run in file.measured:
        run.timeline = [[at, (30 if at % 100 < 50 else 2) * MIB, 0, 0] for at in range(5, 4005, 10)]
    assert disproof_of(file) == ""


def test_what_a_command_found_of_a_replay_is_in_its_results():
    assert disproof_of(results(30, 30, disproof="It is another program.")) == "It is another program."


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


def test_a_replay_that_the_recording_has_not_judged_is_said_to_be_so():
    file = results(30, 20)
    assert unjudged(file) == ""
    file.workload.recorded_on, file.workload.allocator = None, "libown.so"
    assert "recorded on libown.so, which was not replayed" in unjudged(file)
    assert unjudged(file) in answer([file], "lean").caveats
    file.workload.judged_on = "own"
    assert unjudged(file) == ""
    assert unjudged(results(30, 20, recorded_on=None, recorded=[])) == ""


MODES = ("always", "madvise", "never", None)


@pytest.mark.parametrize("recorded", MODES)
@pytest.mark.parametrize("here", MODES)
def test_a_machine_that_gives_huge_pages_otherwise_than_the_recordings_is_said(recorded, here):
    file = results(40, 30, transparent_huge_pages=recorded)
    file.parsed.machine = Machine(transparent_huge_pages=here)
    said = [text for text in answer([file], "glibc:MALLOC_ARENA_MAX=2").caveats if "huge pages" in text]
    assert len(said) == (recorded != here and None not in (recorded, here))
    assert all("those of this machine" in text for text in said)
