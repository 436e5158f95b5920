# SPDX-License-Identifier: MIT
"""Sites of a recording with call stacks, against counting each event with the other reader."""

import heaptape as library
import pytest
from heaptape.profile.data import Profile

from tests.support import call_heaptape, published


@pytest.fixture(scope="module")
def tape(tmp_path_factory, heaptape, out):
    path = tmp_path_factory.mktemp("sites") / "mix.tape"
    done = heaptape(
        "record",
        "--stacks",
        "-o",
        path,
        "--",
        out / "workloads/random_mix",
        "--rounds=3000",
        "--slots=100",
        "--quiet=1",
    )
    assert done.returncode == 0, done.stderr
    return path


def count_one_by_one(path) -> dict[int, dict]:
    """By stack of birth: the columns of Profile.sites, for a recording of one thread."""
    sites: dict[int, dict] = {}
    live: dict[int, list] = {}  # address: site, bytes, allocated bytes before it
    allocated = peak = 0
    with library.open(path) as trace:
        events = [row for frame in trace.frames() for row in frame.to_dict("records")]
    for event in events:
        acquired, moved = event["acquired_address"], None
        acquires = acquired == acquired and acquired is not None and isinstance(acquired, int)
        if event["releases"]:
            moved = live.pop(event["released_address"])
            if not acquires:
                site = sites[moved[0]]
                site["live_objects"] -= 1
                site["live_bytes"] -= moved[1]
                site["lifetime_bytes"] += allocated - moved[2]
        if acquires:
            request = event["request_bytes"]
            if moved:
                site = sites[moved[0]]
                site["bytes"] += max(request - moved[1], 0)
                site["live_bytes"] += request - moved[1]
                live[acquired] = [moved[0], request, moved[2]]
            else:
                site = sites.setdefault(int(event["stack"]), dict.fromkeys(
                    ("objects", "bytes", "live_objects", "live_bytes", "peak_live_bytes", "lifetime_bytes"), 0
                ) | {"bytes_at_peak": 0, "objects_at_peak": 0})  # fmt: skip
                site["objects"] += 1
                site["bytes"] += request
                site["live_objects"] += 1
                site["live_bytes"] += request
                live[acquired] = [int(event["stack"]), request, allocated]
            site["peak_live_bytes"] = max(site["peak_live_bytes"], site["live_bytes"])
            allocated += request
        total = sum(site["live_bytes"] for site in sites.values())
        if total > peak:
            peak = total
            for site in sites.values():
                site["bytes_at_peak"], site["objects_at_peak"] = site["live_bytes"], site["live_objects"]
    return sites


def test_sites_are_what_counting_each_event_gives(tape):
    found = Profile(published("profile", call_heaptape("profile", tape, "--format", "json").stdout))
    counted = count_one_by_one(tape)
    assert len(counted) > 5
    rows = {row["node"]: row for row in found.sites.to_dict("records")}
    assert set(rows) == set(counted)
    for node, site in counted.items():
        assert {key: rows[node][key] for key in site} == site, node
    assert found.sites["bytes_at_peak"].sum() == found.data["witness"]["peak_live_bytes"]


def test_profile_draws_the_flame_graph(tape, tmp_path):
    path = tmp_path / "flame.svg"
    done = call_heaptape("profile", tape, "--format", "svg", "--weight", "peak", "-o", path)
    assert done.status == 0, done.stderr
    assert done.stdout == ""
    text = path.read_text()
    assert text.startswith("<svg")
    assert "main — " in text
    assert 'aria-pressed="true" data-weight="2"' in text


def test_without_stacks_there_is_no_flame_graph(small_tape):
    done = call_heaptape("profile", small_tape, "--format", "svg")
    assert done.status == 1
    assert "--stacks" in done.stderr
    assert done.stderr.count("\n") == 1
