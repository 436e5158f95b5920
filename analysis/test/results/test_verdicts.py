# SPDX-License-Identifier: MIT
"""Verdicts: the words follow from the numbers, worked out by hand."""

import math

import numpy as np
import pytest
from heaptape.results.comparing.verdicts import holm, paragraphs, verdicts
from hypothesis import given
from hypothesis import strategies as st
from planted_runs import cycles_and_rss

from tests.examples import examples


def only(frame):
    assert len(frame) == 1
    return frame.iloc[0]


def test_memory_that_never_varies_gets_an_exact_verdict():
    row = only(verdicts(cycles_and_rss(rss={"jemalloc": [1000, 1000], "glibc": [1121, 1121]}), "jemalloc"))
    assert row["verdict"] == "more"
    assert row["exact"]
    assert row["percent"] == pytest.approx(12.1)
    assert math.isnan(row["low"])
    assert math.isnan(row["p_value"])
    assert row["comparisons"] == 0
    expected = "glibc uses 12.1 % more peak memory than jemalloc (exact: the same in every repetition)."
    assert row["sentence"] == expected


def test_equal_memory_is_said_to_be_the_same():
    row = only(verdicts(cycles_and_rss(rss={"a": [5, 5], "b": [5, 5]})))
    assert row["verdict"] == "same"
    assert row["sentence"] == "Peak memory: b and a are the same in every repetition."


def test_a_supported_difference_comes_with_its_interval():
    """Log ratios of 10 pairs: mean ln 1.121, standard deviation 0.01, half an interval: 2.262 * 0.01 / sqrt(10)."""
    noise = np.tile([-1.0, 1.0], 5) * 0.01 * math.sqrt(9 / 10)
    base = np.linspace(90, 110, 10)
    row = only(verdicts(cycles_and_rss({"jemalloc": base, "glibc": base * 1.121 * np.exp(noise)}), "jemalloc"))
    half = 2.262157 * 0.01 / math.sqrt(10)
    assert row["percent"] == pytest.approx(12.1)
    assert (row["low"], row["high"]) == pytest.approx(
        (112.1 * math.exp(-half) - 100, 112.1 * math.exp(half) - 100), rel=1e-6
    )
    assert row["sentence"] == "glibc spends 12.1 ± 0.8 % more cycles in allocator calls than jemalloc."
    assert row["cliffs_delta"] == pytest.approx(np.sign(base * 1.121 * np.exp(noise) - base[:, None]).mean())
    # d_z = ln(1.121) / 0.01; J of 9 degrees of freedom is 0.9139 (Hedges 1981, table).
    assert row["effect"] == pytest.approx(math.log(1.121) / 0.01 * 0.9139, rel=1e-3)


def test_fewer_is_said_of_less():
    row = only(verdicts(cycles_and_rss({"a": [100, 110, 120], "b": [50.1, 55, 59.9]}), "a"))
    assert row["verdict"] == "less"
    assert row["sentence"].startswith("b spends 50.0 ± 0.2 % fewer cycles in allocator calls than a")


def test_a_wide_interval_is_given_by_its_ends():
    """Logarithms 0.6931, 0.8755, 0.7419, 0.9555: mean 0.8165, deviation 0.1205, half an interval 3.182 * 0.1205 / 2."""
    row = only(verdicts(cycles_and_rss({"a": [100] * 4, "b": [200, 240, 210, 260]}), "a"))
    assert row["sentence"] == ("b spends 126 % (95 % interval 86.8 to 174 %) more cycles in allocator calls than a.")


def test_no_difference_is_said_to_be_none_shown():
    row = only(verdicts(cycles_and_rss({"a": [100, 101, 102, 100], "b": [101, 100, 101, 102]}), "a"))
    assert row["verdict"] == "not shown"
    assert row["sentence"].startswith("Cycles: no difference shown with 4 repetitions (+")


def test_one_repetition_gives_no_verdict():
    row = only(verdicts(cycles_and_rss({"a": [100], "b": [50]}), "a"))
    assert row["verdict"] == "single repetition"
    assert row["sentence"] == "Cycles: only one repetition of b and a, so there is no verdict."


def test_what_is_significant_alone_may_not_be_among_many():
    """One pair of p = 0.02; beside it eleven that differ by chance: after Holm p is 0.24."""
    random = np.random.default_rng(5)
    base = 100 + random.normal(0, 1, 6)
    shifted = {"a": base, "b": base * np.exp([0.010, 0.030, 0.002, 0.018, 0.024, 0.007])}
    alone = only(verdicts(cycles_and_rss(shifted), "a"))
    assert alone["verdict"] == "more"
    assert 0.005 < alone["p_value"] < 0.03
    chance = {f"c{i}": base * np.exp(random.normal(0, 0.05, 6)) for i in range(11)}
    frame = verdicts(cycles_and_rss(shifted | chance), "a")
    row = frame[frame["a"] == "b"].iloc[0]
    assert row["p_value"] == pytest.approx(alone["p_value"])
    assert row["p_adjusted"] == pytest.approx(min(1, 12 * row["p_value"]))
    assert row["verdict"] == "not shown"
    assert "no difference shown with 6 repetitions as one of 12 comparisons" in row["sentence"]
    assert "12 comparisons were made at once" in paragraphs(frame)[-1]


def of_figure(**errors):
    return lambda figure, a, b: errors.get(figure, 0.0)


def test_a_difference_within_the_error_of_replaying_is_withheld():
    file = cycles_and_rss({"a": [100, 100.1, 99.9], "b": [103, 103.2, 103.1]}, {"a": [1000, 1000], "b": [1030, 1030]})
    frame = verdicts(file, "a", error_of=of_figure(total_cycles=5.0, peak_rss=2.0))
    assert dict(zip(frame["figure"], frame["verdict"])) == {"peak_rss": "more", "total_cycles": "within error"}
    assert "no more than the error of replaying, 5 %" in frame["sentence"].iloc[1]
    assert list(verdicts(file, "a", error_of=of_figure(total_cycles=2.0))["verdict"]) == ["more", "more"]
    asked = []
    verdicts(file, "a", error_of=lambda *pair: asked.append(pair) or 0.0)
    assert asked == [("peak_rss", "b", "a"), ("total_cycles", "b", "a")]
    assert list(verdicts(file, "a", error_of=of_figure(total_cycles=3.09))["verdict"]) == ["more", "within error"]


def test_workloads_are_summed_up_by_their_geometric_mean():
    files = [
        cycles_and_rss({"a": [100, 100, 101], "b": [200, 202, 201]}, name="x"),
        cycles_and_rss({"a": [100, 101, 100], "b": [50, 51, 50]}, name="y"),
    ]
    frame = verdicts(files, "a")
    assert list(frame["workload"]) == ["x", "y", "geometric mean"]
    mean = frame.iloc[2]
    assert 1 + mean["percent"] / 100 == pytest.approx(
        math.sqrt((1 + frame["percent"][0] / 100) * (1 + frame["percent"][1] / 100))
    )
    assert mean["comparisons"] == 3
    assert paragraphs(frame)[2].startswith("Geometric mean of the 2 workloads: ")


def test_a_paragraph_names_both_allocators_once():
    file = cycles_and_rss(
        {"a": [100, 101, 100, 99], "b": [100, 100, 101, 99.5]}, {"a": [1000, 1000], "b": [1500, 1500]}
    )
    text = paragraphs(verdicts(file, "a"))[0]
    assert text.startswith("w: b uses 50.0 % more peak memory (exact) than a; cycles: no difference shown with 4")


def test_holm_by_hand():
    """Sorted 0.01, 0.02, 0.03, 0.04: times 4, 3, 2, 1 gives 0.04, 0.06, 0.06, 0.04, and none below the one before."""
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_keeps_order_and_lies_between_alone_and_bonferroni(p_values):
    adjusted = holm(p_values)
    assert all(p <= q <= min(1, p * len(p_values)) + 1e-12 for p, q in zip(p_values, adjusted))
    assert sorted(adjusted) == [q for _, q in sorted(zip(p_values, adjusted))]


def test_where_nothing_differs_hardly_ever_is_anything_claimed():
    """8 equal allocators, 40 times: about 5 % of tables claim something, not 30 %."""
    random = np.random.default_rng(42)
    tables = [{f"a{i}": np.exp(random.normal(5, 0.02, 5)) for i in range(8)} for _ in range(40)]
    claimed = [verdicts(cycles_and_rss(table), "a0")["verdict"].isin(["more", "less"]).any() for table in tables]
    assert sum(claimed) <= 5


@examples(60)
@given(
    st.dictionaries(st.sampled_from("abc"), st.lists(st.floats(1, 1e12), min_size=1, max_size=6), min_size=2),
    st.sampled_from(["t", "bootstrap"]),
)
def test_whatever_the_figures_a_sentence_comes_out_and_claims_agree_with_intervals(cycles, method):
    frame = verdicts(cycles_and_rss(cycles), method=method)
    for row in frame.itertuples():
        assert row.sentence.endswith(".")
        assert "nan" not in row.sentence
        if row.verdict in ("more", "less") and not row.exact:
            assert (row.low > 0) == (row.verdict == "more")
            assert row.low <= row.percent + 1e-6 * abs(row.percent)
            assert row.high >= row.percent - 1e-6 * abs(row.percent)
    paragraphs(frame)
