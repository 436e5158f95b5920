# SPDX-License-Identifier: MIT
"""Who holds the memory: figures add up to RSS less live bytes to the byte; a malformed blame is refused; a planted
leak, retention and fragmentation are distinguished.
"""

import base64
import contextlib
import copy
import zlib

import pandas as pd
import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.features.blame import data as blame
from heaptape.features.blame import holders
from heaptape.features.blame.test.blames import decoded
from heaptape.results.schema import Results
from hypothesis import given
from hypothesis import strategies as st
from synthetic_blame import OS_PAGE, Layout, Thing, encode_rows, make_run, planted, shares

from tests.examples import examples

PAGES = 6
# Each example builds about a hundred small frames.
FEW = examples(25)


@st.composite
def layouts(draw):
    """Some positions of a heap of six OS pages: objects that don't overlap; any of the OS pages may be resident."""
    out, position = [], 0
    for _ in range(draw(st.integers(1, 4))):
        position += draw(st.integers(1, 5000))
        things, address = [], draw(st.integers(0, OS_PAGE))
        for _ in range(draw(st.integers(0, 12))):
            size, rounding = draw(st.integers(0, 6000)), draw(st.integers(0, 300))
            if address + size + rounding > PAGES * OS_PAGE:
                break
            who = {"site": draw(st.integers(0, 3)), "thread": draw(st.integers(0, 2)), "phase": draw(st.integers(0, 1))}
            things.append(Thing(address, size, rounding, birth=draw(st.integers(0, position - 1)), **who))
            address += size + rounding + draw(st.integers(0, 5000))
        sets = st.frozensets(st.integers(0, PAGES - 1))
        out.append(Layout(position, things, draw(sets), draw(sets), draw(st.integers(-9000, 9000))))
    return out


def file_of(layouts, allocators=("glibc",), **options):
    runs = [make_run(name, layouts, **options) for name in allocators]
    return Results("x.json", {"workload": {"name": "w"}, "runs": runs})


@FEW
@given(layouts())
def test_tidy_frames_add_up_to_rss_less_live_bytes_to_the_byte(drawn):
    file = file_of(drawn)
    frame = blame.holding(file)
    assert tuple(frame.columns) == blame.COLUMNS
    rss = {where["position"]: where["rss_anon_bytes"] for where in file.data["runs"][0]["blame"]["positions"]}
    live = {where["position"]: where["live_resident_bytes"] for where in file.data["runs"][0]["blame"]["positions"]}
    for (_, position, _), rows in frame.groupby(["allocator", "position", "grouping"]):
        assert rows["live_bytes"].sum() == live[position]
        assert (rows["rounding_bytes"] + rows["empty_bytes"]).sum() == rss[position] - live[position]
    grouped = frame.groupby(["allocator", "position"])["grouping"].nunique()
    there = {layout.position for layout in drawn}
    assert set(grouped.index) == {("glibc", position) for position in there}
    assert (grouped == len(blame.GROUPINGS)).all()


@FEW
@given(layouts())
def test_states_and_groups_of_a_position_add_up_to_the_same(drawn):
    found = decoded(make_run("glibc", drawn))
    for layout in drawn:
        sums, _ = shares(layout)
        excess = sum(sums.values()) - sums["live_resident_bytes"]
        assert holders.states(found, layout.position)["bytes"].sum() == excess
        for grouping in blame.GROUPINGS:
            rows = holders.at_position(found, "glibc", layout.position, grouping)
            assert rows["held_bytes"].sum() == excess
            assert rows["held_bytes"].is_monotonic_decreasing


@FEW
@given(layouts(), layouts())
def test_a_difference_adds_up_to_the_difference_of_rss(one, other):
    found = [decoded(make_run("glibc", drawn)) for drawn in (one, other)]
    frames = [holders.at_position(each, "", drawn[0].position, "site") for each, drawn in zip(found, (one, other))]
    change = holders.difference(*frames)
    rss = [sum(shares(drawn[0])[0].values()) for drawn in (one, other)]
    assert change["change_bytes"].sum() == rss[1] - rss[0]


@FEW
@given(st.lists(st.integers(0, 10**6), min_size=40, max_size=40), st.sets(st.integers(0, 3), max_size=3))
def test_live_memory_grows_where_its_least_does_in_each_quarter_whatever_is_above(above, level):
    """`level`: quarters that begin no higher than the one before."""
    positions, floors = pd.Series(range(0, 4000, 100)), [1000]
    for quarter in range(1, 4):
        floors.append(floors[-1] + 1000 * (quarter not in level))
    spikes = [0 if number % 10 in (4, 9) else spike + 5000 * number for number, spike in enumerate(above)]
    live = pd.Series([floors[number // 10] + spike for number, spike in enumerate(spikes)])
    assert holders.grows(positions, live) == (not level & {1, 2, 3})
    assert not holders.grows(positions[:30], live[:30] * 0 + 5)


def broken(change):
    """A valid run whose "blame" is damaged by `change`."""
    run = copy.deepcopy(make_run("glibc", planted("fragmentation")))
    change(run["blame"])
    return run


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.pop("values"),
        lambda table: table.update(values="%"),
        lambda table: table.update(values=table["values"][:40]),
        lambda table: table.update(rows=1),
        lambda table: table.update(rows=-1),
        lambda table: table.update(encoding="none"),
        lambda table: table.update(columns=table["columns"][:-1]),
        lambda table: table.update(groupings=["site"] * 6),
        lambda table: table.update(groupings=[]),
        lambda table: table.update(os_page_bytes=0),
        lambda table: table["positions"].pop(),
        lambda table: table["positions"].reverse(),
        lambda table: table["positions"][3].update(rss_anon_bytes=7),
        lambda table: table["positions"][3].update(rss_anon_bytes=1.5),
        lambda table: table["positions"][3].update(live_bytes=-1),
        lambda table: table["positions"][3].update(live_objects=2**70),
        lambda table: table["positions"][3].pop("never_used_bytes"),
        lambda table: table["sites"].update({"x": {"name": "y"}}),
        lambda table: table["sites"].update({"9": {"frames": []}}),
        lambda table: table["sites"]["1"]["frames"].append(5),
        lambda table: table["sites"]["1"]["frames"].append(-1),
        lambda table: table["frames"][0].update(offset="here"),
        lambda table: table["frames"][0].update(function=7),
        lambda table: table["marks"].append({"position": 3}),
        lambda table: table.update(encode_rows([[0, 0, 1, 1, 1, 0, 0, 0, 0, 0]] * 2)),
        lambda table: table.update(encode_rows([[0, 0, -3, 1, 1, 0, 0, 0, 0, 0]])),
        lambda table: table.update(encode_rows([[0, 0, 1, 1, -1, 0, 0, 0, 0, 0]])),
        lambda table: table.update(encode_rows([[99, 0, 1, 1, 1, 0, 0, 0, 0, 0]])),
        lambda table: table.update(encode_rows([[0, 9, 1, 1, 1, 0, 0, 0, 0, 0]])),
        lambda table: table.update(encode_rows([[4, 0, 1, 1, 1, 5, 0, 0, 0, 0]])),
    ],
)
def test_a_malformed_blame_is_refused(change):
    with pytest.raises(HeaptapeError, match=r"the blame of glibc can't be read: .|blame\..*: Expected ."):
        decoded(broken(change))


@pytest.mark.parametrize("value", [3, [], "x", {}, {"positions": 7}])
def test_another_value_is_refused(value):
    with pytest.raises(HeaptapeError, match="can't be read|blame.*: Expected"):
        decoded({"allocator": "x", "blame": value})


@given(st.binary(max_size=400), st.integers(0, 6))
def test_any_values_are_read_or_refused(raw, rows):
    run = make_run("glibc", planted("none", positions=2, pages=1))
    run["blame"] |= {"values": base64.b64encode(zlib.compress(raw)).decode(), "rows": rows}
    with contextlib.suppress(HeaptapeError):
        decoded(run)


def test_groups_that_do_not_add_up_are_refused():
    run = make_run("glibc", planted("none"))
    rows = [list(row) for row in rows_of(run["blame"])]
    rows[5][7] += 1
    run["blame"] |= encode_rows(rows)
    with pytest.raises(HeaptapeError, match="groups don't add up to what is held"):
        decoded(run)


def rows_of(table):
    import numpy as np

    raw = zlib.decompress(base64.b64decode(table["values"]))
    return np.frombuffer(raw, "<i8").reshape(len(table["columns"]), -1).T.tolist()
