# SPDX-License-Identifier: MIT
"""The model of time: bounds, and ranges that were learned. What planted penalties and counts give is in
time_model.examples.
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
from heaptape.results.model.time_model import (
    CACHE_EFFECTS,
    CACHE_EFFECTS_FLOOR,
    IN_LIFE,
    TIMED_EFFECTS,
    TIMED_FLOOR,
    estimate,
    prediction,
    ratio_bounds,
)
from heaptape.run import machine
from results.planted import measurement, results

from tests.support import call_heaptape
from tests.test_hostile_names import JUDGES, NAME, USUAL, of_json

ALLOCATOR = math.sqrt(0.2 * 0.4)  # the middle of planted.measurement, in ns: a geometric mean


def row(frame, allocator, part="all"):
    return frame[(frame["allocator"] == allocator) & (frame["part"] == part)].iloc[0]


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


def instructions_runs():
    runs = []
    for name, total, faults in (("glibc", 5_000_000, 100), ("other", 4_000_000, 90)):
        runs.append({"allocator": name, "repeat": 0, "pass": "instructions", "instructions_total": total})
        runs.append({"allocator": name, "repeat": 0, "pass": "memory", "page_faults": faults})
    return tuple(runs)


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
