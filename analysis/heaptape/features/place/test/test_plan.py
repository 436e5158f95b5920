# SPDX-License-Identifier: MIT
"""A plan that was made for one recording, on the sites of another; and as a file."""

import string
from pathlib import Path

from heaptape.features.place.plan import MOST_REGIONS, PlacedSite, Plan, Site, read, regions_in, write
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples


def test_sites_are_in_the_region_whose_frames_their_stacks_begin_with() -> None:
    stacks = [("a",), ("a", "b"), ("x", "a"), ("y", "b"), ("y",)]
    sites = {number: Site(number, "", 0, "", 1, frames) for number, frames in enumerate(stacks)}
    plan = [PlacedSite(2, ("a",)), PlacedSite(1, ("y", "b")), PlacedSite(3, ("z",))]
    assert regions_in(sites, plan) == [[3], [0, 1]]


frames = st.from_regex(r"[0-9a-f]{40}\+0x[1-9a-f][0-9a-f]{0,8}", fullmatch=True)
texts = st.text(string.ascii_letters + " _-<>.=#'é", max_size=9)
sites = st.builds(PlacedSite, st.integers(1, MOST_REGIONS), st.lists(frames, min_size=1, max_size=3).map(tuple), texts)
figures = st.dictionaries(st.sampled_from(["peak_rss_bytes", "command"]), st.integers(0, 1 << 60) | texts)


@examples(60)
@given(st.lists(sites, min_size=1, max_size=4).map(tuple), texts, figures)
def test_a_plan_that_is_written_is_the_plan_that_is_read(tmp_path: Path, placed, program, predicted) -> None:
    plan = Plan(placed, program, predicted)
    (tmp_path / "plan.toml").write_text(write(plan))
    assert read(tmp_path / "plan.toml") == plan
