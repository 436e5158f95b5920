# SPDX-License-Identifier: MIT
"""The misses pass on recordings in bursts: only bursts are counted, and what is unknown is reported."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.test.passes.test_misses import STACK, compiled, levels, mallocs, misses_pass, pytestmark  # noqa: F401
from tests import support
from tests.access_streams import LINE, OS_PAGE, Model, file
from tests.examples import examples
from tests.support import HEAPTAPE_HERE, OUT, REPLAY, REPOSITORY, compile_c, run, succeed

CACHES, TLBS = [(4096, 4), (16384, 8)], [(8, 8), (64, 4)]
SIZES = ("--caches", "4096:4,16384:8", "--tlbs", "8:8,64:4")
NO_BURST, BEGINS, ENDS = ("burst", 0), ("burst", 1), ("burst", 0)


def bursts_pass(work, *bursts):
    """Each a list of granules of other memory, accessed in one burst."""
    items = [NO_BURST]
    for burst in bursts:
        items += [BEGINS, *[("other", granule) for granule in burst], ENDS]
    return misses_pass(work, [*items, ("event", STACK)], *SIZES)["misses"]


@examples(10)
@given(st.lists(st.lists(st.integers(0, 3000), max_size=300), min_size=1, max_size=3))
def test_misses_of_bursts_are_bounded_by_their_first_accesses(tmp_path, bursts):
    """Whatever the caches hold where a burst begins: misses that are not a first access to a line are the same."""
    work, _ = compiled(tmp_path, mallocs([64]))
    granules = [[granule * 7 for granule in burst] for burst in bursts]
    found = bursts_pass(work, *granules)
    cold = [0, 0]
    first_lines = first_pages = 0
    for burst in granules:
        model = Model(CACHES[:1], TLBS[:1])
        for granule in burst:
            model.access("other", granule * 16)
        (lines,), (pages,), _ = model.counted()
        distinct = len({granule * 16 // LINE for granule in burst})
        distinct_pages = len({granule * 16 // OS_PAGE for granule in burst})
        first_lines, first_pages = first_lines + distinct, first_pages + distinct_pages
        cold = [cold[0] + lines - distinct, cold[1] + pages - distinct_pages]
    assert (found["bursts"]["first_lines"], found["bursts"]["first_pages"]) == (first_lines, first_pages)
    known = [level["misses"] - level["first_misses"] for level in (found["caches"][0], found["tlbs"][0])]
    assert known == cold
    assert found["bursts"]["count"] == len(bursts)
    assert found["data_accesses"] is None  # the recording doesn't say how many there were before the filter


def test_what_is_between_bursts_is_counted_separately(tmp_path):
    """Calls outside of bursts, and the start-up, are only in the figure for what is outside."""
    work, _ = compiled(tmp_path, mallocs([64, 64, 64, 1 << 20]))
    items = [NO_BURST, ("event", STACK), BEGINS, ("event", STACK), ENDS, ("event", STACK), ("event", STACK)]
    plain = [item for item in items if item[0] != "burst"]
    inside = misses_pass(work, items)["misses"]
    whole = misses_pass(work, plain)["misses"]
    outside = inside["bursts"]["outside_allocator_instructions"]
    assert inside["allocator_instructions"] + outside == whole["allocator_instructions"]
    assert 0 < inside["allocator_instructions"] < 1000 < outside
    assert inside["allocator"]["syscalls"] == 0 < whole["allocator"]["syscalls"]
    assert levels(inside["program"]) == ([0] * 4, [0] * 2, 0)
    assert "bursts" not in whole


def test_caches_keep_what_a_burst_left_there(tmp_path):
    work, _ = compiled(tmp_path, mallocs([64]))
    found = bursts_pass(work, [4, 8], [4, 8])
    assert (found["caches"][0]["misses"], found["caches"][0]["first_misses"]) == (2, 2)
    assert found["bursts"]["first_lines"] == 4


def test_page_faults_are_sure_only_of_os_pages_that_the_burst_got(tmp_path):
    work, slots = compiled(tmp_path, mallocs([1 << 20, 1 << 20]))
    touches = [("object", slots[0], 256 * page) for page in range(10, 20)]
    late = [("object", slots[1], 256 * page) for page in range(10, 20)]
    items = [NO_BURST, ("event", STACK), BEGINS, *touches, ("event", STACK), *late, ENDS]
    found = misses_pass(work, items)["misses"]
    assert found["program"]["page_faults"] == 20
    assert found["bursts"]["unsure_page_faults"] == 10


@pytest.mark.parametrize(
    ("items", "says"),
    [
        ([NO_BURST, ("event", STACK)], "none began"),
        ([NO_BURST, ("other", 4), ("event", STACK)], "an access outside of a burst"),
        ([NO_BURST, BEGINS, BEGINS, ("event", STACK)], "begins or ends twice"),
        ([("event", STACK), BEGINS], "begins or ends twice"),
        ([BEGINS, ("event", STACK)], "begins or ends twice"),
        ([NO_BURST, ("burst", 2), ("event", STACK)], "begins or ends twice"),
    ],
)
def test_a_stream_of_bursts_that_can_not_be_is_one_error(tmp_path, items, says):
    work, _ = compiled(tmp_path, mallocs([64]))
    work.with_suffix(".accesses").write_bytes(file(items))
    refused = run(REPLAY, "--pass", "misses", "--accesses", work.with_suffix(".accesses"), work)
    assert refused.status == 1
    assert says in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_misses_of_a_burst_are_those_that_its_part_adds_to_the_live_program(tmp_path):
    """The list is walked 6 times more; the first of these walks finds what the previous walk left in the caches, which
    the recording doesn't have: what that may change is reported as first accesses.
    """
    program = compile_c(tmp_path / "bursts", REPOSITORY / "capture/accesses/test/bursts.c", "-O1", f"-I{REPOSITORY}")
    live = [_simulated(tmp_path, program, rounds) for rounds in (0, 6)]
    support.record(tmp_path / "a.tape", program, "walk", "6", options=["--accesses", "--burst", "begin..end"])
    results = tmp_path / "r.json"
    options = ("--caches", "32768:8,262144:8,1048576:16,33554432:16", "--tlbs", "64:64,1536:12", "-o", results)
    succeed(HEAPTAPE_HERE, "replay", tmp_path / "a.tape", "-a", "glibc", "--passes", "misses", *options)
    (found,) = [one["misses"] for one in json.loads(results.read_text())["runs"]]
    before, after = live
    first = found["bursts"]["first_lines"]
    for level, (one, two) in zip(found["caches"], zip(before["caches"], after["caches"], strict=True), strict=True):
        added = two["misses"] - one["misses"]
        least = level["misses"] - level["first_misses"]
        assert 0.99 * least - 50 <= added <= 1.01 * (least + first) + 50
    assert found["caches"][1]["misses"] > 6 * 16384 * 0.9  # 256 KiB hold a quarter of the list
    assert found["caches"][3]["misses"] == found["caches"][3]["first_misses"] > 0  # 32 MiB hold it all
    instructions = after["program"]["instructions"] - before["program"]["instructions"]
    assert abs(found["program_instructions"] - instructions) < 0.01 * instructions


def _simulated(folder: Path, program: Path, rounds: int) -> dict:
    result = folder / f"live{rounds}.json"
    command = [OUT / "libexec/heaptape-observe", "--simulate", "--data-only", "-o", result]
    succeed(*command, "--", program, "walk", str(rounds))
    return json.loads(result.read_text())
