# SPDX-License-Identifier: MIT
"""The profile in words and tables agrees with the counts, and lacks sentences for what is not there."""

import pytest
from heaptape.profile.data import Profile, large_share, remote_share, sizes_for_share, swing, young_share
from heaptape.profile.text import hardness, tables


def made_up(**keys) -> Profile:
    data = {
        "program": "p", "ops": 20, "sizes": {}, "lifetimes_bytes": [], "lifetimes_ns": [], "windows": [],
        "thread_pairs": [], "pairs_left_out": 0,
        "reallocs": {"calls": 0, "in_place": 0, "grew": 0, "shrank": 0, "copied_bytes": 0, "chains": []},
    }  # fmt: skip
    return Profile(data | keys)


def window(position: int, live_bytes: int) -> list[int]:
    return [position, 0, 10, 5, 5, 100, live_bytes, 1]


def test_remote_share_by_hand():
    pairs = {"thread_pairs": [[0, 0, 6, 60], [0, 1, 3, 30]], "pairs_left_out": 1, "lifetimes_bytes": [[8, 0, 10, 100]]}
    assert remote_share(made_up(**pairs)) == pytest.approx(0.4)


def test_variety_is_how_many_sizes_hold_the_share():
    found = made_up(sizes={"malloc": [[8, 90, 720], [16, 6, 96]], "calloc": [[16, 4, 64]]})
    assert sizes_for_share(found, 0.9) == 1
    assert sizes_for_share(found, 0.91) == 2
    assert sizes_for_share(made_up(), 0.9) == 0


def test_shares_by_hand():
    found = made_up(
        sizes={"malloc": [[8, 8, 64], [1 << 20, 2, 2 << 20]]}, lifetimes_bytes=[[8, 16, 4, 32], [8, 1 << 16, 2, 16]]
    )
    assert young_share(found, 1 << 16) == pytest.approx(0.4)
    assert large_share(found, 1 << 17) == pytest.approx((2 << 20) / (64 + (2 << 20)))


def test_swing_is_the_deepest_fall_after_a_peak():
    live = [10, 100, 60, 80, 200, 150]
    found = made_up(windows=[window(number, bytes_) for number, bytes_ in enumerate(live)])
    assert swing(found) == (pytest.approx(0.25), 200)
    assert swing(made_up()) == (0.0, 0)


def test_nothing_is_said_of_what_is_not_there():
    assert hardness(made_up()) == []
    assert tables(made_up()) == []


def test_sites_are_named_and_ranked():
    sites = [
        [1, 5, 1 << 20, 0, 0, 1 << 20, 90 << 20, 4, 0, 0],
        [2, 6, 2 << 20, 1, 4096, 1 << 20, 50 << 20, 0, 4096, 1],
        [0, 1, 8, 0, 0, 8, 0, 0, 0, 0],
    ]
    names = {1: ["parse", "main"], 2: []}
    by_bytes, by_objects, by_lifetime, leaks = tables(made_up(sites=sites), lambda node: names.get(node, []))
    assert [row[0].text for row in by_bytes.rows] == ["stack 2", "parse < main", "no stack known"]
    assert by_bytes.rows[1][-1].text == "80.0 %"
    assert [row[0].text for row in by_objects.rows] == ["stack 2", "parse < main", "no stack known"]
    assert [(row[0].text, row[-2].text) for row in by_lifetime.rows] == [("parse < main", "18.0"), ("stack 2", "10.0")]
    assert [row[0].text for row in leaks.rows] == ["stack 2"]


def test_threads_that_share_cache_lines_are_reported():
    level = {"end": 0, "peak": 9, "peak_position": 3}
    counts = {
        "objects": 100, "shared_objects": 40, "pairs": 50, "used_pairs": 25, "ops": 200,
        "shared_lines": level | {"mean": 5.0}, "object_pairs": level | {"mean": 6.0},
        "live_lines": level | {"mean": 50.0},
        "sizes": [[8, 60, 40, 100], [None, 40, 0, 0]], "threads": [[0, 1, 50, 6.0]], "progress": [[200, 0, 0, 50, 9]],
    }  # fmt: skip
    found = made_up(line_sharing=counts)
    assert any("10.0 % of the cache lines" in sentence for sentence in hardness(found))
    table = tables(found)[-1]
    assert [[cell.text for cell in row] for row in table.rows] == [["8", "60", "40", "66.67", "100"]]


def test_a_hard_workload_comes_with_its_reasons():
    found = made_up(
        sizes={"malloc": [[64, 10, 640]], "realloc": [[128, 4, 512]]},
        lifetimes_bytes=[[64, 1 << 20, 8, 512]],
        thread_pairs=[[0, 1, 8, 512]],
        reallocs={"calls": 4, "in_place": 1, "grew": 4, "shrank": 0, "copied_bytes": 1 << 20, "chains": [[1, 4, 4, 8]]},
    )
    text = " ".join(hardness(found))
    assert "100.0 % of its releases are remote" in text
    assert "Only 0.0 % of its objects are released before 64 KiB more are allocated" in text
    assert "75.0 % of which moved" in text
    assert "2 of 10 objects are never freed" in text
    assert [table.title for table in tables(found)][-1] == "Reallocs of one object"
