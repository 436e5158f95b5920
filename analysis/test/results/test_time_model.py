# SPDX-License-Identifier: MIT
"""The model of time: planted penalties and counts give exactly the change that was planted. The model of time for
recordings in bursts: its results are about the bursts, and include the uncertainty at their beginnings.
"""

import itertools
import json
import math
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.common.tables import render_text
from heaptape.results.model.counts import bursts_in_words, counts
from heaptape.results.model.penalties import Geometry, Penalty, kept, penalties, plan
from heaptape.results.model.time_model import (
    CACHE_EFFECTS,
    CACHE_EFFECTS_FLOOR,
    COUNT_ERROR_PERCENT,
    IN_LIFE,
    TIMED_EFFECTS,
    TIMED_FLOOR,
    estimate,
    in_words,
    prediction,
    ratio_bounds,
    sentences,
    time_sentences,
)
from heaptape.run import machine
from heaptape.show.tables import time_table
from heaptape.show.tables.kinds import KINDS, Question
from results.planted import measurement, measurement_with_near, misses, of_bursts, quantiles, results

from tests.support import call_heaptape
from tests.test_hostile_names import JUDGES, NAME, USUAL, of_json

# The middles of planted.measurement, in ns: geometric means. For levels: of the step from a hit to the next level.
PROGRAM, ALLOCATOR = math.sqrt(0.1 * 0.4), math.sqrt(0.2 * 0.4)
LEVELS = (math.sqrt(1 * 4), math.sqrt(9 * 36), math.sqrt(10 * 140))
TLBS = (math.sqrt(2 * 8), math.sqrt(3 * 12))
FAULT = math.sqrt(1000 * 1200)


def row(frame, allocator, part="all"):
    return frame[(frame["allocator"] == allocator) & (frame["part"] == part)].iloc[0]


def change(base, other, part="all"):
    """The predicted change from the misses of `base` to those of `other`."""
    return row(prediction([results({"glibc": [base], "other": [other]})], "glibc"), "other", part)


def sentence_of(base, other, name="other"):
    """The same in words."""
    return time_sentences([results({"glibc": [base], name: [other]})], "glibc")[0]


def total_ns(program, allocator, caches, tlbs, faults):
    return (
        program * PROGRAM
        + allocator * ALLOCATOR
        + sum(n * ns for n, ns in zip(caches, LEVELS))
        + sum(n * ns for n, ns in zip(tlbs, TLBS))
        + faults * FAULT
    )


def test_the_whole_change_is_the_sum_of_counts_times_penalties():
    # Page faults are counted separately: fresh lines of the last level are in another test.
    base = (1_000_000, 100_000, (3000, 2000, 1000), (400, 300), 0)
    other = (1_000_000, 90_000, (3300, 1500, 700), (380, 310), 0)
    frame = prediction([results({"glibc": [misses(*base)], "other": [misses(*other)]})], "glibc")
    before, after = total_ns(*base), total_ns(*other)
    assert row(frame, "other")["percent"] == pytest.approx(100 * (after - before) / before)
    assert row(frame, "other")["ns"] == pytest.approx(after - before)
    parts = frame[(frame["allocator"] == "other") & (frame["part"] != "all")]
    assert parts["ns"].sum() == pytest.approx(after - before)
    assert row(frame, "other", "instructions")["ns"] == pytest.approx(-10_000 * ALLOCATOR)


def test_string_instructions_cost_by_execution_and_by_byte():
    """8 to 10 ns each, and 0.02 to 0.04 ns for each byte; 100 callocs of 100,000 bytes are 0.28 ms, not 3 ms."""
    strings = {"string_instructions": 100, "string_bytes": 100 * 100_000}
    base, other = misses() | {"string_instructions": 0, "string_bytes": 0}, misses() | strings
    found = change(base, other, "instructions")
    assert found["ns"] == pytest.approx(100 * math.sqrt(8 * 10) + 1e7 * math.sqrt(0.02 * 0.04))
    assert (found["ns_low"], found["ns_high"]) == pytest.approx((800 + 2e5, 1000 + 4e5))


def test_the_interval_of_one_level_is_its_penalty_range_over_the_range_of_the_rest():
    # Only last-level misses change: 1,000 fewer, of 20 to 180 ns each, of 1,000,000 x (0.1 to 0.4) ns and 2,000 misses.
    nothing = {"allocator": 0, "tlbs": (0, 0), "faults": 0}
    pair = [misses(caches=(number, number, number), **nothing) for number in (2000, 1000)]
    found = change(*pair)
    assert found["low"] == pytest.approx(-100 * 1000 * 180 / (1e6 * 0.1 + 2000 * 180) - COUNT_ERROR_PERCENT)
    assert found["high"] == pytest.approx(-100 * 1000 * 20 / (1e6 * 0.4 + 2000 * 20) + COUNT_ERROR_PERCENT)
    caches = change(*pair, "caches")
    assert (caches["ns_low"], caches["ns_high"]) == pytest.approx((-180_000, -20_000))


counts_of_terms = st.lists(
    st.tuples(st.integers(-1000, 1000), st.integers(1, 5000), st.floats(0.1, 10), st.floats(1, 20)),
    min_size=1,
    max_size=7,
)


@hypothesis.given(counts_of_terms)
def test_bounds_of_the_ratio_are_the_best_and_worst_corner_of_the_box(terms):
    delta, base, low, factor = (np.array(column, float) for column in zip(*terms))
    box = np.stack([low, low * np.sqrt(factor), low * factor], axis=1)
    corners = [np.array(corner) for corner in itertools.product(*box[:, [0, 2]])]
    ratios = [100 * (corner @ delta) / (corner @ base) for corner in corners]
    assert ratio_bounds(delta, base, box) == pytest.approx((min(ratios), max(ratios)))
    # Tied two and two: only corners where both are at the same end; and the middle, which need not lie between them.
    ties = np.arange(len(delta)) // 2
    ends = itertools.product((0, 2), repeat=ties[-1] + 1)
    tied = [box[np.arange(len(delta)), np.array(end)[ties]] for end in ends]
    ratios = [100 * (corner @ delta) / (corner @ base) for corner in [*tied, box[:, 1]]]
    assert ratio_bounds(delta, base, box, ties) == pytest.approx((min(ratios), max(ratios)))


def test_repetitions_widen_the_interval_to_that_of_all():
    base, near, far = misses(), misses(caches=(3000, 2000, 900)), misses(caches=(3000, 2000, 500))
    one, two = change(base, near), change(base, far)
    both = row(prediction([results({"glibc": [base, base], "other": [near, far]})], "glibc"), "other")
    assert both["percent"] == pytest.approx((one["percent"] + two["percent"]) / 2)
    assert (both["low"], both["high"]) == (two["low"], one["high"])
    assert both["repetitions"] == 2


def test_misses_of_fresh_os_pages_may_cost_nothing():
    # 10 more faults bring 640 cold lines, which the kernel has just zeroed.
    one, two = misses(faults=0), misses(caches=(3640, 2640, 1640), faults=10)
    found = change(one, two, "caches")
    assert change(one, two, "page faults")["ns"] == pytest.approx(10 * FAULT)
    inner_low, whole_high = 640 * 10, 640 * 180
    assert (found["ns_low"], found["ns_high"]) == pytest.approx((inner_low, whole_high), rel=1e-3)


def test_system_calls_cost_by_their_kind_where_the_memory_pass_has_them():
    memory = [
        {"allocator": name, "repeat": 0, "pass": "memory", "syscalls": {"mmap": calls, "munmap": 1, "brk": 0}}
        for name, calls in (("glibc", 10), ("other", 14))
    ]
    frame = prediction([results({"glibc": [misses()], "other": [misses()]}, tuple(memory))], "glibc")
    assert row(frame, "other")["ns"] == pytest.approx(4 * 500)
    assert row(frame, "other", "system calls")["ns"] == pytest.approx(4 * 500)


def test_without_a_memory_pass_the_allocators_memory_calls_are_those_that_the_pass_misses_counted():
    def run(calls):
        kinds = {"mmap": calls, "munmap": 1, "futex": 1000 * calls}  # a call that waits is not a memory call
        return misses() | {"syscalls": 50 * calls, "allocator": {"syscalls_by_kind": kinds}}

    frame = prediction([results({"glibc": [run(10)], "other": [run(14)]})], "glibc")
    assert row(frame, "other", "system calls")["ns"] == pytest.approx(4 * 500)


def instructions_runs():
    runs = []
    for name, total, faults in (("glibc", 5_000_000, 100), ("other", 4_000_000, 90)):
        runs.append({"allocator": name, "repeat": 0, "pass": "instructions", "instructions_total": total})
        runs.append({"allocator": name, "repeat": 0, "pass": "memory", "page_faults": faults})
    return tuple(runs)


def test_without_accesses_the_change_is_in_milliseconds_and_missing_counts_are_named():
    file = results({}, instructions_runs())
    found = row(prediction([file], "glibc"), "other")
    assert math.isnan(found["percent"])
    assert found["repetitions"] == 0
    assert found["ns"] == pytest.approx(-1_000_000 * ALLOCATOR - 10 * FAULT)
    assert (found["ns_low"], found["ns_high"]) == pytest.approx((-412_000, -210_000))
    first, second = time_sentences([file], "glibc")
    fewer = "20 % fewer instructions in malloc and free, 10 % fewer page faults"
    assert f"0.3 ms (0.2 to 0.4) less CPU time: {fewer}" in first
    assert "cache and TLB misses" in second
    assert "record --accesses" in second


def test_the_start_up_counts_whole_and_in_no_ratio():
    """Instructions, with those over strings, page faults and system calls of loading the allocator are one part."""
    runs = [dict(run) for run in instructions_runs()]
    plain = time_sentences([results({}, tuple(runs))], "glibc")[0]
    for run, instructions, calls in ((runs[0], 1_000_000, 10), (runs[2], 3_000_000, 25)):
        run |= {"startup_process_instructions": instructions, "startup_instructions": 7}
        run |= {"startup_process_string_instructions": calls, "startup_process_string_bytes": 1000 * calls}
        run["startup_syscalls"] = {"mmap": calls, "munmap": 1, "other": 3}
    runs[1]["startup_page_faults"], runs[3]["startup_page_faults"] = 129, 1127
    frame = prediction([results({}, tuple(runs))], "glibc")
    strings = 15 * math.sqrt(8 * 10) + 15_000 * math.sqrt(0.02 * 0.04)
    start_up = 2_000_000 * ALLOCATOR + strings + (1127 - 129) * FAULT + 15 * 500
    assert row(frame, "other", "start-up")["ns"] == pytest.approx(start_up)
    assert row(frame, "other", "instructions")["ns"] == pytest.approx(-1_000_000 * ALLOCATOR)
    assert row(frame, "other", "page faults")["ns"] == pytest.approx(-10 * FAULT)
    assert row(frame, "other")["ns"] == pytest.approx(start_up - 1_000_000 * ALLOCATOR - 10 * FAULT)
    told = time_sentences([results({}, tuple(runs))], "glibc")[0]
    for ratio in ("20 % fewer instructions in malloc and free", "10 % fewer page faults"):
        assert ratio in plain
        assert ratio in told
    assert "774 % more page faults of the start-up" in told


def test_a_huge_page_has_its_own_price_in_start_up_and_replay():
    """As planted: 300 to 500 us each, where another fault costs about 1. Simulated page faults, of which none is huge,
    give way to the kernel's.
    """
    known = measurement()
    known["kernel"]["huge_touch_ns"] = quantiles(400_000) | {"quarter": 300_000, "three_quarters": 500_000}
    price = math.sqrt(300_000 * 500_000)
    runs = [dict(run) for run in instructions_runs()]
    runs[1] |= {"huge_pages": 0, "startup_page_faults": 100, "startup_huge_pages": 0}
    runs[3] |= {"huge_pages": 6, "startup_page_faults": 100, "startup_huge_pages": 1}
    frame = prediction([results({}, tuple(runs))], "glibc", penalties(known))
    assert row(frame, "other", "page faults")["ns"] == pytest.approx(6 * price - 16 * FAULT)
    assert row(frame, "other", "start-up")["ns"] == pytest.approx(price - FAULT)
    assert "6 more huge pages" in sentences(frame, [results({}, tuple(runs))], "glibc")[0]
    simulated = {"glibc": [misses(faults=100)], "other": [misses(faults=5000)]}
    frame = prediction([results(simulated, (runs[1], runs[3]))], "glibc", penalties(known))
    assert row(frame, "other", "page faults")["ns"] == pytest.approx(6 * price - 16 * FAULT)


def test_what_happens_while_a_process_starts_has_its_own_prices():
    """As planted: 0.1 to 0.4 ns an instruction, 1,000 to 1,700 a page fault; 10 calls and 5 faults in 25 to 45 us."""
    known = measurement()
    known["kernel"]["copied_page_ns"] = quantiles(1500)
    known["loading"] = {"warm_ns": quantiles(0.1), "cold_ns": quantiles(0.4), "calls": 10, "faults": 5}
    known["loading"] |= {"mapping_warm_ns": quantiles(25_000), "mapping_cold_ns": quantiles(45_000)}
    runs = [dict(run) for run in instructions_runs()]
    for run, instructions, calls in ((runs[0], 1_000_000, 10), (runs[2], 3_000_000, 25)):
        run |= {"startup_process_instructions": instructions, "startup_syscalls": {"mmap": calls, "other": 3}}
    runs[1]["startup_page_faults"], runs[3]["startup_page_faults"] = 129, 1127
    found = row(prediction([results({}, tuple(runs))], "glibc", penalties(known)), "other", "start-up")
    assert found["ns_low"] == pytest.approx(2_000_000 * 0.1 + 998 * 1000 + 15 * 2000)
    assert found["ns_high"] == pytest.approx(2_000_000 * 0.4 + 998 * 1700 + 15 * 4000)
    del known["loading"]
    assert penalties(known).start_up is None


def test_string_instructions_without_accesses_are_those_of_the_calls():
    """They stand for all ops."""
    runs = [dict(run) for run in instructions_runs()]
    for run, calls in ((runs[0], 10), (runs[2], 30)):
        run |= {"op_limit": 250, "string_instructions": calls, "string_bytes": 1000 * calls}
        run["instructions_total"] = 0
    found = row(prediction([results({}, tuple(runs))], "glibc"), "other", "instructions")
    assert found["ns"] == pytest.approx(80 * math.sqrt(8 * 10) + 80_000 * math.sqrt(0.02 * 0.04))


def test_instructions_of_the_first_ops_stand_for_all_ops():
    runs = [run | ({"op_limit": 250} if run["pass"] == "instructions" else {}) for run in instructions_runs()]
    found = row(prediction([results({}, tuple(runs))], "glibc"), "other", "instructions")
    assert found["ns"] == pytest.approx(-4_000_000 * ALLOCATOR)


def test_a_difference_beyond_the_interval_is_a_sentence_with_its_reasons():
    base = misses(caches=(300_000, 200_000, 100_000), faults=50)
    fewer = misses(allocator=101_100, caches=(300_000, 200_000, 10_000), faults=52)
    found = sentence_of(base, fewer, "jemalloc")
    assert found.startswith("jemalloc would make this program")
    counts = (
        "0.1 % more instructions of the program, 90 % fewer last-level misses, 4.0 % more page faults of the program"
    )
    assert f"faster than glibc: {counts}" in found


def test_of_the_levels_the_one_that_matters_is_named():
    base, other = misses(caches=(90_000, 80_000, 1000)), misses(caches=(50_000, 40_000, 990))
    assert "50 % fewer misses of 1 MiB" in sentence_of(base, other)


def test_an_interval_with_zero_in_it_claims_nothing():
    mixed = misses(allocator=110_000, caches=(3000, 2000, 980))
    found = sentence_of(misses(), mixed)
    assert "no difference can be predicted, -" in found
    assert "to +" in found
    assert "faster" not in found
    assert "slower" not in found


def test_without_penalties_nothing_is_predicted_and_the_reason_is_given():
    file = results({"glibc": [misses()], "other": [misses()]}, with_penalties=False)
    assert prediction([file], "glibc").empty
    assert "heaptape machine" in time_sentences([file], "glibc")[0]


def test_results_without_counts_say_nothing_of_time():
    runs = tuple({"allocator": name, "pass": "time", "cycles_total": 5, "repeat": 0} for name in ("glibc", "other"))
    file = results({}, runs)
    assert time_sentences([file], "glibc") == []
    assert time_table.usual(prediction([file], "glibc"), "glibc", []) == []


def test_misses_of_other_sizes_are_not_compared():
    other = misses()
    other["caches"] = [{"bytes": 48 << 10, "ways": 12, "misses": 9}]
    found = change(misses(), other)
    assert found["ns"] == 0
    assert found["missing"] == "caches"


def test_each_level_costs_the_step_to_the_next_so_that_all_steps_are_the_way_to_memory():
    known = penalties(measurement())
    terms = {term.name: term for term in counts(results({"glibc": [misses()]}), known)["glibc"][0].terms}
    steps = [terms[f"caches {size}"].penalty for size in (32 << 10, 1 << 20, 32 << 20)]
    assert sum(step.low for step in steps) == pytest.approx(known.cache_miss(32 << 20, None).low)
    assert sum(step.high for step in steps) == pytest.approx(known.cache_miss(32 << 20, None).high)
    assert [terms[f"TLB {entries}"].count for entries in (64, 1536)] == [400, 300]


def test_chains_over_more_memory_than_a_program_touches_are_not_used_for_its_misses():
    measured = measurement()
    [large] = [one for one in measured["working_sets"] if one["bytes"] == 16 << 20]
    large["dependent_ns"] = quantiles(101)
    highs = []
    for touched_bytes in (4 << 20, 16 << 20):
        file = results({"glibc": [misses(faults=touched_bytes >> 12)]})
        terms = {term.name: term for term in counts(file, penalties(measured))["glibc"][0].terms}
        highs.append(terms[f"caches {1 << 20}"].penalty.high)
    # Less a load that hits the first level, 1 ns, and the step to 1 MiB, 4.
    assert highs == [pytest.approx(41 - 5), pytest.approx(101 - 5)]


def test_a_miss_that_becomes_a_hit_of_the_level_before_never_costs_more():
    fewer = misses(caches=(3000, 2000, 500))
    assert change(misses(), fewer)["high"] < COUNT_ERROR_PERCENT


# Steps in order of address of planted.measurement, in ns: 0.5 to 1, 4.5 to 9, 5 to 10.
SEQUENTIAL = (math.sqrt(0.5 * 1), math.sqrt(4.5 * 9), math.sqrt(5 * 10))


def of_sequential(base, other):
    return change(misses(sequential=base), misses(sequential=other), "caches")


def test_a_sequential_miss_costs_from_a_walk_in_order_to_the_least_at_random():
    known = penalties(measurement())
    assert known.sequential_miss(32 << 20, None) == Penalty(10, pytest.approx(math.sqrt(200)), 20)
    assert known.sequential_miss(32 << 10, 1 << 20) == Penalty(0.5, pytest.approx(math.sqrt(0.5)), 1)


def test_misses_that_become_sequential_cost_the_difference_of_the_two():
    found = of_sequential((0, 0, 0), (3000, 1500, 200))
    expected = sum(n * (easy - full) for n, easy, full in zip((3000, 1500, 200), SEQUENTIAL, LEVELS))
    assert found["ns"] == pytest.approx(expected)
    lows, highs = zip((0.5, 4.5, 5), (1, 9, 10)), zip((1, 9, 10), (4, 36, 140))
    most = sum(n * (easy[0] - full[1]) for n, easy, full in zip((3000, 1500, 200), lows, highs))
    assert found["ns_low"] == pytest.approx(most)


def test_a_miss_that_becomes_sequential_never_costs_more():
    found = of_sequential((0, 0, 0), (3000, 2000, 1000))
    assert found["ns_high"] == pytest.approx(0)
    assert found["high"] == pytest.approx(0)


def test_fresh_lines_are_sequential_in_the_share_that_all_misses_are():
    # 10 fresh OS pages: 640 lines of 1,000 misses, of which 250 are sequential.
    known = penalties(measurement())
    file = results({"glibc": [misses(tlbs=(3000, 0), faults=10, sequential=(0, 0, 250))]})
    terms = {term.name: term for term in counts(file, known)["glibc"][0].terms}
    fresh = terms["fresh lines in sequence"]
    assert (terms["fresh lines at random"].count, fresh.count) == (480, 160)
    assert (fresh.penalty.high, terms["fresh lines at random"].penalty.high) == (10, 140)
    last = 32 << 20
    assert (terms[f"caches {last} at random"].count, terms[f"caches {last} in sequence"].count) == (270, 90)


def test_sequential_misses_that_only_one_has_are_not_compared():
    found = change(misses(), misses(sequential=(1, 1, 1)))
    assert found["ns"] == 0
    assert found["missing"] == "caches"


def near_terms(**given):
    """Name of the term -> (count, least and greatest ns), of the caches."""
    file = results({"glibc": [misses(**given)]})
    terms = counts(file, penalties(measurement_with_near()))["glibc"][0].terms
    return {term.name: (term.count, term.penalty.low, term.penalty.high) for term in terms if term.part == "caches"}


def test_misses_beyond_those_of_the_first_tlb_are_in_os_pages_just_used():
    found = near_terms(caches=(3000, 2000, 300), tlbs=(400, 300))
    assert found[f"caches {1 << 20}"] == (400, 9, 36)
    assert found[f"caches {1 << 20} near"] == (1600, 4.5, 18)
    assert (found[f"caches {32 << 20}"][0], found[f"caches {32 << 20} near"][0]) == (300, 0)


def test_sequential_misses_are_not_among_those_in_os_pages_just_used():
    found = near_terms(caches=(3000, 2000, 1000), tlbs=(400, 300), sequential=(0, 1500, 800))
    kinds = [found[f"caches {1 << 20}{kind}"][0] for kind in (" at random", " at random near", " in sequence")]
    assert kinds == [400, 100, 1500]
    assert found[f"caches {32 << 20} at random near"][0] == 0


def test_a_miss_near_the_last_ones_never_costs_more_than_elsewhere():
    measured = measurement_with_near()
    for row in measured["working_sets"]:
        if row["bytes"] > 16 << 10:  # the first is a hit
            row["near_dependent_ns"] = row["near_independent_ns"] = quantiles(1000)
    known = penalties(measured)
    assert known.near_miss(32 << 20, None) == known.cache_miss(32 << 20, None)


def test_a_miss_that_becomes_near_never_costs_more():
    files = [results({"glibc": [misses(tlbs=(2000, 0))], "other": [misses(tlbs=(100, 0))]})]
    found = row(prediction(files, "glibc", penalties(measurement_with_near())), "other", "caches")
    assert found["ns_low"] < found["ns_high"] < 0


def test_penalties_are_what_a_load_takes_beyond_a_hit():
    known = penalties(measurement())
    assert known.cache_miss(32 << 10, 1 << 20) == Penalty(1, 2, 4)
    assert known.cache_miss(32 << 20, None) == Penalty(20, pytest.approx(60), 180)
    assert known.tlb_miss(64, 1536) == Penalty(2, 4, 8)
    assert known.program_instruction == Penalty(0.1, pytest.approx(0.2), 0.4)


def test_a_measurement_without_a_figure_is_one_error():
    lacking = measurement()
    del lacking["kernel"]["munmap_ns"]
    with pytest.raises(HeaptapeError, match="munmap_ns"):
        penalties(lacking)


def test_instructions_that_could_not_be_stepped_through_are_an_error():
    lacking = measurement()
    lacking["code"]["allocator"] = {"instructions_per_iteration": None, "instruction_ns": None}
    with pytest.raises(HeaptapeError, match="lack a figure"):
        penalties(lacking)


def test_a_kept_measurement_is_of_the_same_processor_or_none(tmp_path):
    place = tmp_path / "machine.json"
    assert kept("made up", place) is None
    place.write_text(json.dumps(measurement()))
    assert kept("made up", place) == measurement()
    assert kept("another", place) is None
    assert kept(None, place) is None
    place.write_text("{")
    assert kept("made up", place) is None


def test_what_is_measured_has_a_set_for_every_level():
    sets, pages = plan([Geometry()])
    assert sets == [16 << 10, 128 << 10, 512 << 10, 4 << 20, 16 << 20, 128 << 20]
    assert pages == [314, 3072]


def test_the_table_time_has_the_parts_and_the_counts():
    file = results({"glibc": [misses()], "other": [misses(caches=(3000, 2000, 500))]})
    question = Question([file], "glibc")
    frame = KINDS["time"].frame(question)
    counted = frame[frame["part"] == "count of last-level misses"].iloc[0]
    assert (counted["counted_before"], counted["counted_after"], counted["percent"]) == (1000, 500, -50)
    text = render_text(KINDS["time"].view(frame, question), 200)
    assert "predicted change, % of glibc's" in text
    assert "fewer last-level misses" in text


def test_the_usual_tables_begin_with_it_and_say_that_cycles_are_of_the_calls():
    file = results({"glibc": [misses()], "other": [misses(caches=(3000, 2000, 500))]})
    found = time_table.usual(prediction([file], "glibc"), "glibc", time_sentences([file], "glibc"))
    assert found[0].title.startswith("CPU time of the program")
    assert "measured without the program" in found[-1].notes[-1]


def test_in_words_begins_with_time():
    file = results({"glibc": [misses()], "other": [misses(caches=(3000, 2000, 0))]})
    assert in_words(file)[0].startswith("other would make this program")


def test_the_range_of_cache_effects_is_that_of_the_measured_programs():
    """For each percent of CPU time in malloc and free, and CACHE_EFFECTS_FLOOR: 95 % of all pairs. For programs that it
    was not learned on it has 9 of 10 live changes, of those that live runs decided.
    """
    rows = pd.read_csv(Path(__file__).parents[3] / "docs" / "measurements" / "data" / "cache_effects.csv")
    moved = (rows["live"] - rows["percent"]) / (rows["share"] + CACHE_EFFECTS_FLOOR)
    assert (len(rows), *CACHE_EFFECTS) == (124, *moved.quantile([0.025, 0.975]).round(2))
    inside = []
    for program in rows["program"].unique():
        low, high = moved[rows["program"] != program].quantile([0.025, 0.975])
        inside += list(moved[(rows["program"] == program) & rows["decided"]].between(low, high))
    assert len(inside) == 69
    assert sum(inside) >= 0.9 * len(inside)


def test_the_range_by_bare_passes_is_that_of_the_measured_programs():
    rows = pd.read_csv(Path(__file__).parents[3] / "docs" / "measurements" / "data" / "bare_effects.csv")
    moved = (rows["live"] - IN_LIFE * rows["bare"] - rows["start_up"]) / (rows["share"] + TIMED_FLOOR)
    assert (len(rows), *TIMED_EFFECTS) == (60, *moved.quantile([0.025, 0.975]).round(2))


@hypothesis.given(st.floats(1e6, 1e9), st.floats(0.3, 2), st.floats(0, 0.2), st.integers(1, 10**8))
def test_what_bare_passes_measured_replaces_what_instructions_would_cost(before_ns, ratio, error, instructions):
    """Whatever the instructions: processors run those of one allocator three times as fast as those of another."""
    runs = list(instructions_runs())
    runs[2] = runs[2] | {"instructions_total": instructions}
    for label, ns in (("glibc", before_ns), ("other", ratio * before_ns)):
        took = [ns, (1 + error) * ns, 2 * ns]
        about = {"allocator": label, "pass": "bare", "engine_cycles_per_op": 100, "cycles_hz": 1e9}
        runs += [about | {"repeat": at, "cpu_ns": one} for at, one in enumerate(took)]
    found = row(prediction([results({}, tuple(runs))], "glibc"), "other")
    counted = row(prediction([results({}, tuple(runs[:4]))], "glibc"), "other")
    if 2 * IN_LIFE * error * before_ns * math.hypot(1, ratio) > counted["ns_high"] - counted["ns_low"]:
        assert not found["timed"]
        assert [found[key] for key in ("ns", "calls_ns")] == [counted[key] for key in ("ns", "calls_ns")]
        return
    saved, error_ns = IN_LIFE * (ratio - 1) * before_ns, IN_LIFE * error * before_ns * math.hypot(1, ratio)
    ends = [found[key] for key in ("ns", "ns_low", "ns_high")]
    assert ends == pytest.approx([saved, saved - error_ns, saved + error_ns], abs=1)
    assert found["calls_ns"] == pytest.approx(before_ns - 1000 * 100)
    percent, low, high = estimate(found, 10 * before_ns)
    off = TIMED_EFFECTS[1] * (10 * found["calls_ns"] / before_ns + TIMED_FLOOR)
    most = max(10 * ends[2] / before_ns, percent + off)
    assert (percent, high) == pytest.approx((10 * saved / before_ns, most), abs=1e-4)
    assert low < percent


def test_an_estimate_includes_what_cache_effects_did_to_other_programs():
    """A fifth of the CPU time in malloc and free: between -0.54 and 0.25 x 30 points around the estimate."""
    file = results({}, instructions_runs())
    found = row(prediction([file], "glibc"), "other")
    percent, low, high = estimate(found, 5 * found["calls_ns"])
    assert found["calls_ns"] == pytest.approx(5_000_000 * ALLOCATOR)
    assert percent == pytest.approx(100 * found["ns"] / (25_000_000 * ALLOCATOR))
    assert (low - percent, high - percent) == pytest.approx((-0.54 * 30, 0.25 * 30))
    assert all(map(math.isnan, estimate(found, None)))


FASTER = {"allocator": 50_000, "caches": (1000, 500, 100)}


def test_sentences_and_tables_speak_of_the_bursts():
    file = results({"glibc": [of_bursts()], "other": [of_bursts(**FASTER)]})
    found = prediction([file], "glibc")
    lines = sentences(found, [file], "glibc")
    assert lines[0].startswith("other would make the recorded bursts of this program ")
    assert "recorded in 2 bursts, 10 % of the program's instructions" in lines[1]
    assert "nothing is predicted for the rest of the program" in lines[1]
    (table, *_) = time_table.tables(time_table.frame(found), "glibc")
    assert table.title.startswith("CPU time of the recorded bursts:")
    assert table.columns[1] == "bursts"
    assert "not of the program's" in table.notes[0]


def test_first_misses_are_no_reason():
    base = of_bursts(first_misses=(0, 0, 900), first_lines=900, caches=(3000, 2000, 1000))
    file = results({"glibc": [base], "other": [of_bursts(first_lines=900, caches=(3000, 2000, 100))]})
    (first, *_) = time_sentences([file], "glibc")
    assert (
        first == "other against glibc: no difference can be predicted, -0.5 to +0.5 % of the recorded bursts' CPU time."
    )


def test_an_unknown_share_is_reported_as_unknown():
    file = results({"glibc": [of_bursts(outside=None)], "other": [of_bursts(outside=None)]})
    assert list(bursts_in_words([file]).values()) == ["2 bursts, an unknown share of the program's instructions"]
    assert "2 bursts, an unknown share" in time_sentences([file], "glibc")[1]
    assert "of the recorded bursts' CPU time" in time_sentences([file], "glibc")[0]


def test_without_first_accesses_the_change_is_that_of_a_whole_recording():
    burst, whole = (change(make(), make(**FASTER)) for make in (of_bursts, misses))
    for key in ("percent", "low", "high", "ns"):
        assert burst[key] == pytest.approx(whole[key])
    assert burst["of_bursts"]
    assert not whole["of_bursts"]


@pytest.mark.parametrize(
    "first",
    [
        {"first_lines": 900, "first_misses": (900, 900, 900)},
        {"first_pages": 250, "first_tlb": (250, 250)},
        {"unsure": 20, "faults": 20},
    ],
)
def test_what_first_accesses_cost_is_between_nothing_and_the_whole(first):
    """The other allocator has none of them: it saves at most their cost, at least nothing."""
    without = {key: value for key, value in first.items() if key == "faults"}
    base = of_bursts(**first)
    other = of_bursts(**without | {"faults": 0} if without else {})
    for level, one in zip((*other["caches"], *other["tlbs"]), (*base["caches"], *base["tlbs"])):
        level["misses"] -= one["first_misses"]
    found = change(base, other)
    assert found["low"] < found["percent"] < 0
    assert found["high"] == pytest.approx(0.5, abs=0.05)  # the largest error of counts, on both sides


def test_other_passes_of_the_whole_program_are_left_out():
    memory = [
        {"allocator": name, "pass": "memory", "repeat": 0, "page_faults": faults, "syscalls": {"mmap": faults}}
        for name, faults in (("glibc", 10), ("other", 10_000))
    ]
    runs = {"glibc": [of_bursts()], "other": [of_bursts()]}
    for one in runs.values():
        one[0]["page_faults"] = None
    found = row(prediction([results(runs, tuple(memory))], "glibc"), "other")
    assert found["percent"] == 0
    assert "page faults" in found["missing"]


def test_bursts_are_not_compared_with_a_whole_program():
    assert prediction([results({"glibc": [misses()], "other": [of_bursts()]})], "glibc").empty


def test_no_name_of_a_processor_is_more_than_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(machine, "describe", lambda: {"cpu": NAME})
    (tmp_path / "heaptape").mkdir()
    whole = dict.fromkeys(("rounds", "independent_chains", "line_bytes", "cores", "created_unix_s"), 1)
    whole |= {"tlbs": [], "geometry": {}, "kernel_release": "6.1", "load_before": [], "cpu": NAME}
    (tmp_path / "heaptape" / "machine.json").write_text(json.dumps(measurement() | whole))
    for form in USUAL.split():
        result = call_heaptape("machine", "--format", form)
        assert (result.status, JUDGES[form](result.stdout), result.stderr) == (0, "", "")
        assert "31m" in result.stdout or form == "csv"
    assert of_json(call_heaptape("machine", "--json").stdout) == ""
