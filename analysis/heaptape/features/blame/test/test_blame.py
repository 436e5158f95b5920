# SPDX-License-Identifier: MIT
"""Who holds the memory: figures add up to RSS less live bytes to the byte; a malformed blame is refused; a planted
leak, retention and fragmentation are distinguished.
"""

import base64
import contextlib
import copy
import dataclasses
import zlib

import pandas as pd
import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.features.blame import data as blame
from heaptape.features.blame import holders, proposals, settings
from heaptape.features.blame import screen as holding
from heaptape.features.blame.settings import Setting
from heaptape.features.blame.test.blames import decoded
from heaptape.results.schema import Results
from hypothesis import given
from hypothesis import strategies as st
from synthetic_blame import OS_PAGE, Layout, Thing, encode_rows, make_run, planted, shares

from tests.examples import examples

PAGES = 6
# Each example builds about a hundred small frames.
FEW = examples(25)
KINDS = ("leak", "retention", "fragmentation", "none")


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


@pytest.mark.parametrize("kind", KINDS)
def test_a_planted_cause_is_found(kind):
    found = decoded(make_run("glibc", planted(kind)))
    verdict = holders.verdict(found, blame.widest(found))
    assert verdict.kind == kind
    if kind == "fragmentation":
        assert verdict.sentence == (
            "fragmentation: 240 KiB are empty space on pages that live objects fill to 6 %; 100 % of it is kept by "
            "make_survivor < fill < main"
        )
    if kind == "retention":
        assert verdict.sentence == (
            "retention: 252 KiB (98 % of resident memory) are empty pages that the allocator has not returned"
        )
    if kind == "leak":
        assert "from 120 KiB in its middle to 240 KiB at its end" in verdict.sentence


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


@pytest.mark.parametrize("empty_pages", [0, 8, 30, 200])
def test_the_largest_share_is_named_and_the_other_beside_it(empty_pages):
    """Live memory grows by 30 OS pages in the second half; as if so since the start, 60 of them have leaked."""
    grown = planted("leak")
    left = frozenset(range(1000, 1000 + empty_pages))
    layouts = [dataclasses.replace(one, resident=one.resident | left, used=one.used | left) for one in grown]
    found = decoded(make_run("glibc", layouts))
    verdict = holders.verdict(found, layouts[-1].position)
    assert verdict.kind == ("retention" if empty_pages == 200 else "leak")
    assert "live memory grows in every quarter of the run, from 120 KiB" in verdict.sentence
    assert ("empty pages that the allocator has not returned" in verdict.sentence) == (empty_pages > 0)
    removals = proposals.estimates(found, "glibc", layouts[-1].position)["action"] == "remove"
    assert removals.any() == (verdict.kind == "leak")
    promised = proposals.promising(proposals.estimates(found, "glibc", layouts[-1].position))
    about, where = ("w", "glibc", "8,000 calls"), ("end", layouts[-1].position)
    made = holding.screen(found, about, where, "site", holding.Remedies(promised), "w.tape")
    settings = ("Settings", "heaptape advise --objective memory w.tape")
    assert (settings == made.more[0]) == (verdict.kind == "retention")


@pytest.mark.parametrize("left_kib", [20, 40, 200, 240])
def test_a_setting_comes_before_a_change_of_the_code_unless_that_promises_clearly_more(left_kib):
    """Removal promises 240 KiB of 257."""
    found, place = decoded(make_run("glibc", planted("leak"))), planted("leak")[-1].position
    promised = proposals.promising(proposals.estimates(found, "glibc", place))
    code = float(promised.iloc[0]["saving_bytes"])
    before = float(promised.iloc[0]["rss_bytes"])
    setting = Setting("glibc:one-arena", {"MALLOC_ARENA_MAX": "1"}, before, left_kib * 1024.0)
    about = ("w", "glibc", "8,000 calls"), ("end", place), "site"
    said = holding.screen(found, *about, holding.Remedies(promised, setting), "w.tape").sentences[1:]
    tried = [line for line in said if line.startswith("To try:")]
    ahead = proposals.BETTER * setting.saving_bytes >= code
    assert tried[0].startswith("To try: the setting glibc:one-arena (MALLOC_ARENA_MAX=1) leaves") == ahead
    assert len(tried) == 1 + (ahead and setting.saving_bytes < code)
    assert len(said) <= 2
    disproved = holding.screen(found, *about, holding.Remedies(promised, setting, "The recording disproves."), "w.tape")
    assert disproved.about.startswith("The recording disproves.")
    assert len(disproved.sentences) == 1
    assert not [command for _, command, *_ in disproved.more if "--try" in command or "advise" in command]


def test_the_setting_that_leaves_least_at_the_position_is_named():
    def run(variant, kib):
        rows = [[0, 0, 0, 0], [50, kib * 1024, 0, 0], [90, 0, 0, 0]]
        about = {"allocator": "glibc", "variant": variant, "repeat": 0, "pass": "memory", "timeline": rows}
        return about | {"rss_anon_peak_bytes": kib * 1024}

    runs = [run("default", 90_000), run("one-arena", 10_000), run("trim-at-once", 89_000)]
    columns = [{"name": "glibc", "variant": "one-arena", "environment": {"A": "1"}}]
    data = {"schema": 1, "workload": {"name": "w"}, "runs": runs, "allocators": columns}
    found = settings.best(Results("r.json", data), "glibc", 60)
    assert (found.label, found.environment, found.saving_bytes) == ("glibc:one-arena", {"A": "1"}, 80_000 * 1024)
    assert settings.best(Results("r.json", data), "glibc", 95) is None  # nothing is resident there
    assert settings.best(Results("r.json", data), "jemalloc", 60) is None


def test_names_of_groups_are_readable():
    found = decoded(make_run("glibc", planted("leak"), marks=[(0, "load"), (500, "serve")]))
    assert found.name("site", 1) == "make_survivor < fill < main"
    assert found.name("function", 2) == "make_temporary"
    assert [found.name("phase", number) for number in (0, 1, 2)] == ["start", "load", "serve"]
    assert [found.name("size", size) for size in (0, 3, 7, 8, 10, 224)] == [
        "0 bytes", "3 bytes", "7 bytes", "8 to 9 bytes", "10 to 11 bytes", "224 to 255 bytes"
    ]  # fmt: skip
    assert [found.name("age", age) for age in (0, 1, 4)] == ["0 ops", "1 ops", "4 to 7 ops"]
    assert found.name("site", -1) == "others"


@pytest.mark.parametrize(
    ("where", "position"), [("peak", 7000), ("end", 8000), ("widest", 4000), ("2000", 2000), ("drop", 3000)]
)
def test_a_place_is_found(where, position):
    found = decoded(make_run("glibc", planted("retention"), marks=[(1000, "fill"), (3000, "drop")]))
    assert blame.position_at(found, where) == position


def test_what_a_program_releases_at_its_exit_is_not_the_widest_place():
    *laid, last = planted("none")
    laid.append(dataclasses.replace(last, why=["even"]))
    gone = [Layout(9000, laid[-1].things[:500], laid[-1].resident, laid[-1].resident, why=["even"])]
    gone.append(Layout(10000, laid[-1].things[:3], laid[-1].resident, laid[-1].resident, why=["even", "end"]))
    found = decoded(make_run("glibc", [*laid, *gone]))
    assert blame.exit_begins(found) == 8000
    assert blame.widest(found) == 2000
    quick, slow = ([0, 4000, *[8000] * 20, *[10000] * times] for times in (2, 3))
    assert blame.exit_begins(dataclasses.replace(found, sampled=tuple(quick))) == 8000
    stays = dataclasses.replace(found, sampled=tuple(slow))  # idle with what it kept of a burst
    assert (blame.exit_begins(stays), blame.widest(stays)) == (None, 10000)
    assert blame.position_at(found, "end") == 10000
    assert blame.exit_begins(decoded(make_run("glibc", planted("retention")))) is None
    assert blame.exit_begins(decoded(make_run("glibc", [*laid, *gone[:1]]))) is None


@pytest.mark.parametrize(
    ("where", "line"),
    [
        ("2001", "nothing was attributed at 2001: replay with --at 2001"),
        ("99999999", "nothing was attributed at 99999999: replay with --at 99999999"),
        ("live-peak", "nothing was attributed at live-peak: replay with --at live-peak"),
        ("later", "no mark 'later': there are fill"),
    ],
)
def test_a_place_that_is_not_there_is_one_line(where, line):
    found = decoded(make_run("glibc", planted("none"), marks=[(1000, "fill")]))
    with pytest.raises(HeaptapeError) as caught:
        blame.position_at(found, where)
    assert str(caught.value) == line


def test_what_a_recording_lacks_is_no_grouping():
    found = decoded(make_run("glibc", planted("none"), stacks=False))
    assert holders.usual_groupings(found) == ("thread", "size", "age")
    for grouping, lack in (("site", "no call stacks"), ("function", "no call stacks"), ("phase", "no marks")):
        with pytest.raises(HeaptapeError, match=lack):
            holders.require(found, grouping)
    holders.require(found, "thread")


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


def test_a_file_without_it_gives_an_empty_frame_of_the_same_columns():
    frame = blame.holding(Results("x.json", {"runs": [{"allocator": "a", "pass": "memory"}]}))
    assert frame.empty
    assert tuple(frame.columns) == blame.COLUMNS


def test_sites_of_one_name_are_told_apart_by_the_nearest_caller_that_differs_else_by_number():
    found = decoded(make_run("glibc", planted("leak")))
    names = [found.name("site", number).partition(" < ")[0] + " < …" for number in (1, 2, 3)]
    assert holders.told_apart(found, [1, 2, 3], names) == [
        "make_survivor < …", "make_temporary < … < fill", "make_temporary < … < go_on"
    ]  # fmt: skip
    assert holders.told_apart(found, [2, 9], ["make_temporary"] * 2)[1] == "#9 make_temporary"


def test_sites_that_only_two_callers_together_tell_apart_are_named_by_both():
    found = decoded(make_run("glibc", planted("leak")))
    frame = found.sites[1].frames[0]
    sites = {
        number: dataclasses.replace(
            found.sites[1], frames=tuple(dataclasses.replace(frame, function=name) for name in ("take", *callers))
        )
        for number, callers in enumerate((("one", "load"), ("one", "save"), ("two", "load")))
    }
    assert holders.told_apart(dataclasses.replace(found, sites=sites), [0, 1, 2], ["take"] * 3) == [
        "take < … < one < … < load", "take < … < save", "take < … < two"
    ]  # fmt: skip
