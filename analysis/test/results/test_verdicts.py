# SPDX-License-Identifier: MIT
"""Verdicts: the words follow from the numbers, worked out by hand."""

import numpy as np
from heaptape.results.comparing.verdicts import holm, paragraphs, verdicts
from hypothesis import given
from hypothesis import strategies as st
from planted_runs import cycles_and_rss

from tests.examples import examples


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
