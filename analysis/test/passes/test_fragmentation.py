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
