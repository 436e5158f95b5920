# SPDX-License-Identifier: MIT
"""The decomposition of RSS: parts add up exactly whatever is measured; a malformed fragmentation is refused."""

import base64
import contextlib
import zlib

import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.passes import fragmentation
from heaptape.results.schema import Results
from hypothesis import given
from hypothesis import strategies as st
from planted_runs import typed
from synthetic_results import encode_fragmentation

amounts = st.integers(0, 2**44)
STATES = ("used", "tcache", "top")
WALKED = [f"walk_{state}_{what}" for state in STATES for what in ("bytes", "beside_live_bytes", "empty_bytes")]


def rows(walk):
    names = [*fragmentation.MEASURED[1:], *fragmentation.FILLS, *(WALKED if walk else ())]
    row = st.fixed_dictionaries(dict.fromkeys(names, amounts) | {"other": amounts})
    return st.lists(row, min_size=1, max_size=6)


def file_of(table):
    run = {"allocator": "a", "pass": "memory", "fragmentation": table}
    return Results("x.json", {"workload": {"name": "w"}, "runs": [run]})


@given(st.booleans().flatmap(lambda walk: st.tuples(st.just(walk), rows(walk))))
def test_parts_add_up_to_rss_exactly(drawn):
    walk, rows = drawn
    for row in rows:
        free = [f"walk_{state}_{what}" for state in STATES[1:] for what in ("beside_live_bytes", "empty_bytes")]
        measured = [*free] if walk else ["beside_live_bytes", "empty_bytes"]
        row["rss_anon_bytes"] = row.pop("other") + sum(
            row[name] for name in [*measured, "live_resident_bytes", "rounding_bytes"]
        )
    table = encode_fragmentation(range(len(rows)), rows, STATES if walk else ())
    frame = fragmentation.decomposition(file_of(table))
    assert frame["rss_anon_bytes"].tolist() == [row["rss_anon_bytes"] for row in rows]
    assert (frame[list(fragmentation.PARTS)].sum(axis=1) == frame["rss_anon_bytes"]).all()
    assert (frame[list(fragmentation.PARTS)] >= 0).all(axis=None)
    assert frame["measured_by"].unique().tolist() == ["heap walk" if walk else "OS pages"]
    missing = [row["live_bytes"] - row["live_resident_bytes"] for row in rows]
    assert frame["live_not_resident_bytes"].tolist() == missing


def known_row(rss, **given):
    return dict.fromkeys([*fragmentation.MEASURED, *fragmentation.FILLS], 0) | {"rss_anon_bytes": rss} | given


def test_the_peaks_percentages_are_those_computed_by_hand():
    rows = [
        known_row(1000, live_resident_bytes=1000),
        known_row(8000, live_bytes=5000, live_resident_bytes=4000, rounding_bytes=400, beside_live_bytes=1600),
        known_row(8000, live_resident_bytes=8000),
    ]
    peak = fragmentation.at_peak(file_of(encode_fragmentation([0, 10, 20], rows)))
    assert len(peak) == 1
    found = peak.iloc[0]
    assert found["position"] == 10
    assert found["metadata_and_other_bytes"] == 2000
    percents = [found[part.replace("_bytes", "_percent")] for part in fragmentation.PARTS]
    assert percents == [50.0, 5.0, 20.0, 0.0, 25.0]
    assert found["live_not_resident_bytes"] == 1000


def test_unknown_rounding_is_marked():
    table = encode_fragmentation([0], [known_row(10)]) | {"usable_size": False}
    assert fragmentation.decomposition(file_of(table))["measured_by"].tolist() == ["OS pages, no usable size"]


def test_a_file_without_it_gives_empty_tables_of_the_same_columns():
    file = Results("x.json", {"runs": [{"allocator": "a", "pass": "memory"}]})
    assert fragmentation.decode(file.measured[0]) is None
    for function in (fragmentation.decomposition, fragmentation.at_peak):
        assert function(file).empty
    assert set(fragmentation.PARTS) < set(fragmentation.decomposition(file).columns)


@given(st.binary(max_size=300))
def test_any_values_are_read_or_refused(raw):
    table = encode_fragmentation([0], [known_row(10)]) | {"values": base64.b64encode(zlib.compress(raw)).decode()}
    with contextlib.suppress(HeaptapeError):
        assert len(fragmentation.decode(typed({"fragmentation": table})).frame) == 1


@pytest.mark.parametrize(
    "broken",
    [
        3,
        {},
        {"columns": ["rss_anon_bytes"]},
        {"positions": [0, 1]},
        {"positions": "x"},
        {"values": "%"},
        {"walk_states": ["used"]},
        {"encoding": "none"},
        {"os_page_bytes": None},
    ],
)
def test_a_malformed_fragmentation_is_refused(broken):
    table = encode_fragmentation([0], [known_row(10)]) | broken if broken and isinstance(broken, dict) else broken
    with pytest.raises(HeaptapeError, match="can't be read|fragmentation(.*): Expected"):
        fragmentation.decode(typed({"fragmentation": table}))


def test_the_table_for_people_has_each_part_with_its_share():
    rows = [
        known_row(
            8 << 20, live_bytes=4 << 20, live_resident_bytes=4 << 20, rounding_bytes=1 << 20, beside_live_bytes=2 << 20
        )
    ]
    table = fragmentation.tables(fragmentation.at_peak([file_of(encode_fragmentation([0], rows))]))[0]
    assert [cell.text for cell in table.rows[0]] == [
        "a", "8.00", "4.00 (50)", "1.00 (12)", "2.00 (25)", "0.00 (0)", "1.00 (12)", "0.00",
    ]  # fmt: skip
    assert len(table.columns) == len(table.rows[0])
