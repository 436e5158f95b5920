# SPDX-License-Identifier: MIT
"""The accesses pass: it accesses what was recorded, where the allocator put it, and measures the engine's own share.

On the planted clock (planted_clock.h) an access takes ACCESS cycles and to another line LINE_CHANGE more, so figures
are exact; that engine also logs the addresses.
"""

import itertools
import json
import shutil
import struct

import pytest
from heaptape.results.structs import json_schema
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.access_streams import GRANULE, STACK, UNFIT_FOR_TWO_CALLS, compiled, file, mallocs
from tests.examples import examples
from tests.line_sharing_model import history
from tests.support import CONVERT, HEAPTAPE_HERE, OUT, REPLAY, refused, run, succeed

TOOL = OUT / "libexec/valgrind/heaptape-amd64-linux"
OBSERVE = OUT / "libexec/heaptape-observe"
ON_PLANTED_CLOCK = OUT / "test-programs/heaptape-replay-planted-clock"
PLANTED, PLACING = OUT / "test-programs/libplanted.so", OUT / "test-programs/libplacing.so"
ACCESS, LINE_CHANGE, PIECE_ITEMS = 3, 200, 64
MIB = 1 << 20

needs_tool = pytest.mark.skipif(
    not shutil.which("valgrind") or not TOOL.exists(), reason="the Valgrind tool was not built"
)


def accesses_pass(work, items, *arguments, program=REPLAY, log=None):
    """items: of the stream."""
    accesses = work.with_suffix(".accesses")
    accesses.write_bytes(file(items, 4096))
    env = {"PLANTED_ACCESS_LOG": str(log)} if log else None
    return json.loads(succeed(program, "--pass", "accesses", "--accesses", accesses, *arguments, work, env=env).stdout)


def accessed(work, items, *arguments, lost=0):
    """The run, and the accessed addresses: for the engine's own share, independent, dependent."""
    log = work.with_suffix(".log")
    log.unlink(missing_ok=True)
    found = accesses_pass(work, items, *arguments, program=ON_PLANTED_CLOCK, log=log)
    count = sum(item[0] in ("object", "other") for item in items)
    content = log.read_bytes() if log.exists() else b""
    addresses = struct.unpack(f"<{len(content) // 8}Q", content)
    assert len(addresses) == 3 * count - 2 * lost
    middle = 2 * count - lost
    return found, addresses[:count], addresses[count:middle], addresses[middle:]


def with_accesses(steps, slots, draw):
    """A stream with `draw()` accesses before each call, and the place of each: ("object", steps before, offset) or
    ("other", address). An object's place is where its last acquire put it.
    """
    items, places, live = [], [], {}
    for number, (step, slot) in enumerate(zip(steps, slots)):
        for wanted, value in draw():
            if wanted and live:
                at = sorted(live)[value % len(live)]
                made, size = live[at]
                granule = value % max(1, -(-size // GRANULE))
                items.append(("object", at, granule))
                places.append(("object", made, granule * GRANULE))
            else:
                address = value * 997 * GRANULE
                items.append(("other", address // GRANULE))
                places.append(("other", address))
        items.append(("event", STACK))
        if step.kind != "malloc":
            live.pop(slot, None)
        if step.kind != "free" and step.size > 0:
            live[slot] = (number, step.size)
    return items, places


def placed(steps, round_bytes):
    """The offset of each step's object from the placing allocator."""
    offsets, used = {}, 0
    for number, step in enumerate(steps):
        if step.kind != "free":
            offsets[number] = used
            used += max(1, -(-step.size // round_bytes)) * round_bytes
    return offsets


@examples(20)
@given(seed=st.integers(0, 1 << 32), count=st.integers(1, 40), threads=st.integers(1, 3), data=st.data())
def test_the_addresses_are_the_recorded_ones_where_the_allocator_put_the_objects(tmp_path, seed, count, threads, data):
    """Objects at the places of their last acquire; other memory at a separate place for each MiB, with its colour."""
    steps = history(seed, threads, count)
    work, slots = compiled(tmp_path, steps)
    wanted = st.lists(st.tuples(st.booleans(), st.integers(0, 1 << 20)), max_size=12)
    items, places = with_accesses(steps, slots, lambda: data.draw(wanted))
    offsets = placed(steps, 64)
    _, own, independent, dependent = accessed(work, items, "--preload", PLACING, "--env=PLACE_ROUND_BYTES=64")
    assert independent == dependent
    assert len({address // 64 for address in own}) <= 1
    base = {
        address - offsets[place[1]] - place[2] for address, place in zip(independent, places) if place[0] == "object"
    }
    assert len(base) <= 1
    others = [(address, place[1]) for address, place in zip(independent, places) if place[0] == "other"]
    assert all(address % MIB == recorded % MIB for address, recorded in others)
    pairs = {(address // MIB, recorded // MIB) for address, recorded in others}
    assert len(pairs) == len({here for here, _ in pairs}) == len({recorded for _, recorded in pairs})


def test_the_engines_own_share_is_what_the_same_stream_costs_on_one_line(tmp_path):
    """Exact to the cycle; the difference is the calls, and the accesses' lines."""
    work, slots = compiled(tmp_path, mallocs([4096] * 50))
    events = [("event", STACK)] * 50
    items = events + [("object", slot, n % 256) for n, slot in enumerate(slots * 40)] + [("other", 7)] * 5
    spin = 1000
    run_, own, independent, _ = accessed(work, items, "--preload", PLANTED, f"--env=PLANT_SPIN_CYCLES={spin}")
    found = run_["accesses"]
    assert found["recorded_accesses"] == len(own) == len(independent) == 2005
    assert found["object_accesses"] == 2000
    assert found["own_cpu_ns"] == ACCESS * 2005 + LINE_CHANGE
    changes = 1 + sum(a // 64 != b // 64 for a, b in itertools.pairwise(independent))
    above = found["independent_cpu_ns"] - found["own_cpu_ns"]
    assert above == LINE_CHANGE * (changes - 1) + spin * 50
    assert found["dependent_cpu_ns"] == found["independent_cpu_ns"]
    assert found["filter_bytes"] == 4096
    assert found["own_bytes"] == 8 * (len(items) + len(items) // PIECE_ITEMS + 1)


@pytest.mark.parametrize("items", [0, 1, PIECE_ITEMS - 1, PIECE_ITEMS, PIECE_ITEMS + 1, 3 * PIECE_ITEMS])
def test_pieces_of_the_stream_lose_nothing_where_they_meet(tmp_path, items):
    work, slots = compiled(tmp_path, mallocs([4096]))
    stream = [("event", STACK)] + [("object", slots[0], n % 256) for n in range(items)]
    _, _, independent, _ = accessed(work, stream, "--preload", PLACING)
    assert [address - independent[0] for address in independent] == [GRANULE * (n % 256) for n in range(items)]


def test_an_access_to_an_object_that_its_allocator_refused_is_counted_as_lost(tmp_path):
    """Also one to an object without bytes; all other accesses are performed."""
    work, slots = compiled(tmp_path, mallocs([64, 4096, 0]))
    items = [("event", STACK)] * 3 + [("object", slots[0], 0)] + [("object", slots[1], n) for n in range(5)]
    refusing = ("--preload", PLANTED, "--env=PLANT_REFUSE_FROM=4096")
    found, *_ = accessed(work, items, *refusing, lost=5)
    assert found["failed_calls"] == 1
    assert found["accesses"]["lost_accesses"] == 5
    empty = accesses_pass(work, [*items, ("object", slots[2], 0)], *refusing)
    assert empty["accesses"]["lost_accesses"] == 6


def test_an_access_outside_its_object_is_to_the_nearest_byte_of_it(tmp_path):
    """Memory beside an object may be unmapped."""
    work, slots = compiled(tmp_path, mallocs([100]))
    items = [("event", STACK)] + [("object", slots[0], granule) for granule in (0, 6, 7, 1 << 20, -1, -(1 << 30))]
    found, _, independent, _ = accessed(work, items, "--preload", PLACING)
    assert [address - independent[0] for address in independent] == [0, 96, 99, 99, 0, 0]
    assert found["accesses"]["outside_accesses"] == 4
    assert found["accesses"]["lost_accesses"] == 0


def test_threads_that_take_turns_have_one_stream(tmp_path):
    work, slots = compiled(tmp_path, mallocs([64] * 200, threads=4))
    items = []
    for number in range(len(slots)):
        items.append(("event", STACK))
        items += [("object", slots[before], 1) for before in range(max(0, number - 6), number + 1)]
    found, _, independent, _ = accessed(work, items, "--preload", PLACING)
    wanted = [64 * before for number in range(200) for before in range(max(0, number - 6), number + 1)]
    assert [address - independent[0] for address in independent] == wanted
    assert (found["threads"], found["ops"], found["accesses"]["recorded_accesses"]) == (4, 200, len(wanted))


LEVELS = ("--caches", "32768:8,262144:8")


def simulated_misses(work, items, *arguments):
    """The program's misses by level, when the engine runs under the simulation of live programs: own share,
    independent, dependent.
    """
    out, accesses = work.with_name("simulated.json"), work.with_suffix(".accesses")
    for old in work.parent.glob("simulated.json*"):
        old.unlink()
    accesses.write_bytes(file(items))
    engine = (REPLAY, "--pass", "accesses", "--accesses", accesses, *arguments, work)
    succeed(OBSERVE, "--simulate", "--data-only", *LEVELS, "-o", out, "--", *engine)
    # F.json.PID is an engine; F.json.PID.1 is the process before it became one.
    engines = [path for path in work.parent.glob("simulated.json.*") if path.name.count(".") == 2]
    counts = [json.loads(path.read_text()) for path in sorted(engines, key=lambda path: path.stat().st_mtime_ns)]
    return [[level["misses"] for level in each["program"]["caches"]] for each in counts]


def misses_pass(work, items, *arguments):
    """The program's misses by level, as the misses pass simulates them."""
    accesses = work.with_suffix(".accesses")
    accesses.write_bytes(file(items))
    output = succeed(REPLAY, "--pass", "misses", "--accesses", accesses, *LEVELS, *arguments, work).stdout
    return [level["misses"] for level in json.loads(output)["misses"]["program"]["caches"]]


@needs_tool
def test_the_accesses_miss_what_the_misses_pass_predicts(tmp_path):
    """The engine itself under the simulation: the misses that accesses add to its runs on an allocator, minus those
    that they add to its own share, compared with those that they add in the misses pass. Up to a quarter more where, as
    here, each access is to another line: one of the engine's own lines for 8 accesses, and one for 8 objects' places,
    which take room in the cache.
    """
    count, rounds = 3000, 20
    work, slots = compiled(tmp_path, mallocs([208] * count))
    events = [("event", STACK)] * count
    visits = [("object", slots[n % count], n % 13) for n in range(count * rounds)]
    placing = ("--preload", PLACING, "--env=PLACE_ROUND_BYTES=208")
    misses = [misses_pass(work, items, *placing) for items in (events, events + visits)]
    without, found = (simulated_misses(work, items, *placing) for items in (events, events + visits))
    for level in range(2):
        own, independent, dependent = (found[n][level] - without[n][level] for n in range(3))
        predicted = misses[1][level] - misses[0][level]
        for performed in (independent, dependent):
            assert 0.97 * predicted - 500 < performed - own < 1.25 * predicted + 500, level


@pytest.mark.parametrize("pass_", ["accesses", pytest.param("misses", marks=needs_tool)])
@pytest.mark.parametrize(("content", "message"), UNFIT_FOR_TWO_CALLS)
def test_a_stream_that_does_not_fit_is_one_clear_error(tmp_path, content, message, pass_):
    work, _ = compiled(tmp_path, mallocs([64, 64]))
    accesses = tmp_path / "h.accesses"
    if content is not None:
        accesses.write_bytes(content)
    refused(REPLAY, "--pass", pass_, "--accesses", accesses, work, says=message)


def test_an_offset_that_no_object_has_is_one_clear_error(tmp_path):
    work, slots = compiled(tmp_path, mallocs([64]))
    accesses = tmp_path / "h.accesses"
    accesses.write_bytes(file([("event", STACK), ("object", slots[0], 1 << 40)]))
    refused(REPLAY, "--pass", "accesses", "--accesses", accesses, work, says="32 GiB or more from its object's start")


def test_a_recording_in_bursts_is_refused_in_one_clear_line(tmp_path):
    work, slots = compiled(tmp_path, mallocs([64]))
    accesses = tmp_path / "h.accesses"
    accesses.write_bytes(file([("burst", 0), ("burst", 1), ("event", STACK), ("object", slots[0], 1), ("burst", 0)]))
    refused(REPLAY, "--pass", "accesses", "--accesses", accesses, work, says="needs a whole recording")


@pytest.mark.parametrize(
    "wrong",
    ["--order=window", "--as-malloc", "--null", "--touch=none", "--touch=recorded", "--caches=32768:8", "--tlbs=64:64"],
)
def test_what_the_pass_can_not_do_is_refused_before_it_starts(tmp_path, wrong):
    assert run(REPLAY, "--pass", "accesses", "--accesses", tmp_path / "x", wrong, CONVERT).status == 2


def test_the_pass_needs_accesses(tmp_path):
    assert run(REPLAY, "--pass", "accesses", CONVERT).status == 2
    assert run(REPLAY, "--pass", "time", "--accesses", tmp_path / "x", CONVERT).status == 2


def test_heaptape_replay_has_the_pass_in_results_and_tables(tmp_path):
    work, slots = compiled(tmp_path, mallocs([4096] * 20))
    items = [("event", STACK)] * 20 + [("object", slot, n % 256) for n in range(500) for slot in slots]
    work.with_suffix(".accesses").write_bytes(file(items, 4096))
    result = tmp_path / "r"
    allocators = ("-a", "glibc", "-a", PLACING)
    done = succeed(HEAPTAPE_HERE, "replay", work, *allocators, "--passes", "accesses", "-n", "3", "-o", result)
    data = json.loads(result.read_text())
    Draft202012Validator(json_schema()).validate(data)
    assert [run_["repeat"] for run_ in data["runs"]] == [0, 0, 1, 1, 2, 2]
    assert {run_["order"] for run_ in data["runs"]} == {"recorded"}
    for run_ in data["runs"]:
        assert run_["touch"] == "none"
        assert run_["accesses"]["recorded_accesses"] == run_["accesses"]["object_accesses"] == 10_000
        assert run_["counters"] or run_["counters_missing_because"]
    assert "CPU time of calls and recorded accesses" in done.stdout
    table = succeed(HEAPTAPE_HERE, "compare", result, "--table", "accesses", "--format", "csv").stdout
    assert table.splitlines()[0].startswith("workload,allocator,kind,ms,low,high,repetitions,difference_ms")
    assert len(table.splitlines()) == 7


def test_a_recording_without_accesses_is_one_clear_line(tmp_path):
    work, _ = compiled(tmp_path, mallocs([64]))
    refused(
        *(HEAPTAPE_HERE, "replay", work, "-a", "glibc", "--passes", "accesses", "-o", tmp_path / "r"),
        says="no data accesses; the accesses pass needs all of them: record with --accesses",
    )
