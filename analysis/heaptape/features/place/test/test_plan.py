# SPDX-License-Identifier: MIT
"""A plan that was made for one recording, on the sites of another."""

from heaptape.features.place.plan import PlacedSite, Site, regions_in


def test_sites_are_in_the_region_whose_frames_their_stacks_begin_with() -> None:
    stacks = [("a",), ("a", "b"), ("x", "a"), ("y", "b"), ("y",)]
    sites = {number: Site(number, "", 0, "", 1, frames) for number, frames in enumerate(stacks)}
    plan = [PlacedSite(2, ("a",)), PlacedSite(1, ("y", "b")), PlacedSite(3, ("z",))]
    assert regions_in(sites, plan) == [[3], [0, 1]]
