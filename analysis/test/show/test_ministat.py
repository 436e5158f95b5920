# SPDX-License-Identifier: MIT
"""ministat: its figures are scipy's, its sketch shows every value."""

import math
import warnings

import numpy as np
import pytest
import scipy
from heaptape.results.schema import Results
from heaptape.show.tables.ministat import SYMBOLS, distributions, ministat
from hypothesis import given
from hypothesis import strategies as st

values = st.lists(st.floats(1, 1e9), min_size=2, max_size=12)


def sketch(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("|")]


@given(values, values)
def test_every_value_is_drawn(first, second):
    rows = sketch(ministat({"one": first, "two": second}))[:-2]
    drawn = "".join(rows)
    assert drawn.count("x") == len(first)
    assert drawn.count("+") == len(second)
    assert len({len(row) for row in rows}) == 1


@given(values, values)
def test_a_difference_is_proven_where_the_t_test_says_so(first, second):
    if np.ptp(first) == 0 and np.ptp(second) == 0:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy warns of nearly equal values
        test = scipy.stats.ttest_ind(second, first)
    if not math.isclose(test.pvalue, 0.05, rel_tol=1e-6):
        assert ("Difference at 95.0%" in ministat({"one": first, "two": second})) == (test.pvalue < 0.05)


def test_half_width_is_that_of_scipys_interval():
    first, second = [10.0, 11, 12, 10.5], [20.0, 22, 21, 20.5]
    half = 10 * scipy.stats.t.ppf(0.975, 6) / scipy.stats.ttest_ind(second, first).statistic
    assert f"\t10 +/- {half:.6g}" in ministat({"one": first, "two": second})


def test_a_difference_whose_interval_spans_a_factor_of_two_has_no_number():
    text = ministat({"one": [1.0, 1.1, 0.9], "two": [3.0, 9.0, 6.0]})
    assert "Difference at 95.0%" in text
    assert "too noisy" in text
    assert "+/-" not in text


def test_equal_values_and_one_value_are_drawn_too():
    assert "No difference proven" in ministat({"one": [5.0, 5.0], "two": [5.0, 5.0]})
    assert "No comparison" in ministat({"one": [5.0], "two": [6.0, 7.0]})


@pytest.mark.parametrize("samples", [{}, {"one": []}, {str(n): [1.0] for n in range(len(SYMBOLS) + 1)}])
def test_an_invalid_sample_is_refused(samples):
    with pytest.raises(ValueError, match="samples of one value"):
        ministat(samples)


def test_each_workload_and_metric_has_its_own_sketch():
    runs = [
        {"allocator": name, "repeat": repeat, "pass": "time", "cycles_total": cycles + repeat}
        for name, cycles in (("glibc", 100), ("other", 50))
        for repeat in range(3)
    ]
    files = [Results(f"{name}.json", {"workload": {"name": name}, "runs": runs}) for name in ("one", "two")]
    text = distributions(files, "other")
    assert [line for line in text.splitlines() if "total_cycles" in line] == [
        "one: total_cycles (cycles)",
        "two: total_cycles (cycles)",
    ]
    assert text.index("x other") < text.index("+ glibc")
    assert text.count("Difference at 95.0% confidence") == 2
