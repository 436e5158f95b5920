# SPDX-License-Identifier: MIT
"""The report's bars: rows, order, texts and lengths are those of the figures."""

import math

import pandas as pd
import pytest
from heaptape.passes.fragmentation import FILLS, MEASURED
from heaptape.passes.fragmentation import PARTS as OF_RSS
from heaptape.results.model.counts import PARTS
from heaptape.results.model.time_model import ALL
from heaptape.show.pages import charts
from hypothesis import given
from hypothesis import strategies as st
from planted_runs import file_of, runs_of
from synthetic_results import encode_fragmentation

from tests.examples import examples

detail = st.tuples(st.integers(1, 10**7), st.lists(st.integers(1, 10**6), min_size=3, max_size=3).map(sorted))
per_call = st.dictionaries(st.sampled_from(["malloc", "free", "calloc", "realloc"]), detail, min_size=1)


@examples(30)
@given(st.dictionaries(st.sampled_from("abc"), per_call, min_size=1), st.permutations("abc"))
def test_latencies_are_by_call_the_busiest_first_and_lie_on_one_scale(drawn, labels):
    calls = {
        label: {
            call: {"count": count, "mean": float(ends[0]), "p50": ends[0], "p99": ends[1], "p999": ends[2], "max": 7}
            for call, (count, ends) in of.items()
        }
        for label, of in drawn.items()
    }
    often, rare = charts.latencies(
        file_of(runs_of("time", "calls", {label: [one] for label, one in calls.items()})), labels
    )
    counts = {call: sum(of[call][0] for of in drawn.values() if call in of) for of in drawn.values() for call in of}
    assert set(often) | set(rare) == set(counts)
    assert set(rare) == {call for call, count in counts.items() if 100 * count < sum(counts.values())}
    for part in (often, rare):
        assert [counts[call] for call in part] == sorted((counts[call] for call in part), reverse=True)
    ends = []
    for call, rows in (often | rare).items():
        assert [row.label for row in rows] == [label for label in labels if call in drawn.get(label, {})]
        for row in rows:
            count, (p50, p99, p999) = drawn[row.label][call]
            missing = [count < 100, count < 1000]
            texts = ["–" if lacks else f"{value:,}" for value, lacks in zip((p99, p999), missing, strict=True)]
            assert row.figures == [f"{p50:,}", f"{p50:,}", *texts, "7"]
            assert (row.begin, row.end) == (0, 0) if missing[1] else 0 <= row.begin <= row.begin + row.end <= 100 + 1e-6
            ends += [] if missing[1] else [(math.log(p50), row.begin), (math.log(p999), row.begin + row.end)]
    for (one, at), (other, there) in zip(ends, ends[1:]):
        assert (at - there) * (one - other) >= -1e-6


def test_a_bar_of_memory_is_as_long_as_its_bytes_beside_the_largest():
    rows = {
        label: dict.fromkeys([*MEASURED, *FILLS], 0) | {"rss_anon_bytes": rss << 20, "live_resident_bytes": 4 << 20}
        | {"rounding_bytes": 1 << 20, "beside_live_bytes": 2 << 20, "empty_bytes": 1 << 19}
        for label, rss in (("a", 16), ("b", 8))
    }  # fmt: skip
    tables = {label: [encode_fragmentation([0], [row])] for label, row in rows.items()}
    first, second = charts.peak_parts(file_of(runs_of("memory", "fragmentation", tables)), ["b", "a"])
    assert [(bar.label, bar.total) for bar in (first, second)] == [("a", "16.0 MiB"), ("b", "8.0 MiB")]
    for bar, rest in ((first, 8.5), (second, 0.5)):
        assert [name for name, *_ in bar.parts] == list(OF_RSS.values())
        assert [share for _, _, share, _ in bar.parts] == [100 * mib / 16 for mib in (4, 1, 2, 0.5, rest)]
        assert [text for *_, text in bar.parts] == [f"{mib:.1f} MiB" for mib in (4, 1, 2, 0.5, rest)]
        assert len({colour for _, colour, *_ in bar.parts}) == len(OF_RSS)


@pytest.mark.parametrize(("known", "unit"), [(True, "%"), (False, "ms")])
def test_bars_of_time_are_parts_of_the_change_beside_the_longest(known, unit):
    changes = {"a": {PARTS[0]: -4.0, PARTS[3]: 1.0, ALL: -3.0}, "b": {PARTS[0]: 2.0, ALL: 2.0}, "c": {ALL: 9.0}}
    rows = [
        (label, part, 1e6 * value, value if known else math.nan)
        for label, parts in changes.items() for part, value in parts.items()
    ]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["allocator", "part", "ns", "percent"])
    found, (first, second) = charts.time_parts(frame, ["a", "b"])
    assert (found, first.label, first.total, second.label, second.total) == (unit, "a", "-3.0", "b", "+2.0")
    assert [(name, share, text) for name, _, share, text in first.parts] == [
        (PARTS[0], -100, "-4.0"), (PARTS[3], 25, "+1.0")
    ]  # fmt: skip
    assert [(name, share) for name, _, share, _ in second.parts] == [(PARTS[0], 50)]
    assert charts.time_parts(frame, []) == ("", [])
