# SPDX-License-Identifier: MIT
"""The misses pass: streams made by hand miss exactly what they must, wherever an allocator puts the objects.
Long: the same twice.
"""

import json
import shutil
from functools import cache

import heaptape
import pytest
from heaptape.common.engine import DEFAULT_PASSES
from heaptape.results.structs import json_schema
from heaptape.run.live import c_library
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.access_streams import GRANULE, LINE, OS_PAGE, STACK, UNFIT_FOR_TWO_CALLS, Model, compiled, file, mallocs
from tests.examples import examples
from tests.line_sharing_model import Step, history
from tests.support import CONVERT, HEAPTAPE_HERE, OUT, REPLAY, refused, run, succeed

from ..engine import COUNTED, TOOL, install

PLANTED, PLACING = OUT / "test-programs/libplanted.so", OUT / "test-programs/libplacing.so"

pytestmark = [
    pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed"),
    pytest.mark.skipif(not TOOL.exists(), reason="the Valgrind tool was not built: no headers of Valgrind's"),
]


def misses_pass(work, items, *arguments, filter_bytes=0):
    """items: of the stream; or the file's bytes."""
    accesses = work.with_suffix(".accesses")
    accesses.write_bytes(items if isinstance(items, bytes) else file(items, filter_bytes))
    output = succeed(REPLAY, "--pass", "misses", "--accesses", accesses, *arguments, work).stdout
    return json.loads(output)


def levels(side):
    """Misses of caches, of TLBs, page faults."""
    return [c["misses"] for c in side["caches"]], [t["misses"] for t in side["tlbs"]], side["page_faults"]


@cache
def program_without_accesses(work, content, events, arguments):
    """content: of the workload; files of one name differ from example to example."""
    return misses_pass(work, events, *arguments)["misses"]["program"]


def added_and_sequential(work, items, *arguments):
    """What the accesses added to the program's misses of caches, of TLBs and page faults, and to its sequential misses:
    the misses minus those of a recording in which it accessed nothing, since the start-up of the process comes first,
    and earlier lines take no room from newer ones. Two runs, for both figures.
    """
    events = tuple(item for item in items if item[0] == "event")
    without = program_without_accesses(work, work.read_bytes(), events, arguments)
    found = misses_pass(work, items, *arguments)["misses"]["program"]
    caches, tlbs = ([a - b for a, b in zip(now, before)] for now, before in zip(levels(found)[:2], levels(without)[:2]))
    sequential = [
        now["sequential_misses"] - before["sequential_misses"]
        for now, before in zip(found["caches"], without["caches"])
    ]
    return (caches, tlbs, found["page_faults"] - without["page_faults"]), sequential


def added(work, items, *arguments):
    return added_and_sequential(work, items, *arguments)[0]


def added_in_sequence(work, items, *arguments):
    return added_and_sequential(work, items, *arguments)[1]


def test_objects_that_an_allocator_puts_into_one_set_evict_each_other(tmp_path):
    """Nine objects of an OS page each, their first bytes accessed in turn: too many for 8 ways, not for 9."""
    work, slots = compiled(tmp_path, mallocs([4096] * 9))
    calls = [("event", STACK)] * 9
    rounds = [("object", slot, 0) for slot in slots] * 10
    caches = ["--null", "--caches", "32768:8,36864:9,1048576:16", "--tlbs", "8:8,16:16"]
    assert added(work, calls + rounds, *caches) == ([90, 9, 9], [90, 9], 9)
    spread = [("object", slot, 4 * place) for place, slot in enumerate(slots)] * 10
    assert added(work, calls + spread, *caches)[0] == [9, 9, 9]


LINES_OF_PAGE = range(64)
# lines of one OS page of other memory, and how many of them are sequential: the first three of a stream are not
STREAMS = {
    "upwards": (LINES_OF_PAGE, 61),
    "downwards": (LINES_OF_PAGE[::-1], 61),
    "one_of_each_pair": (LINES_OF_PAGE[::2], 29),
    "two_down": (LINES_OF_PAGE[::-2], 0),
    "one_of_three": (LINES_OF_PAGE[::3], 0),
    "three_at_a_time": ([start + step for start in (0, 10, 20, 30) for step in range(3)], 0),
    "four_at_a_time": ([start + step for start in (0, 10, 20, 30) for step in range(4)], 4),
    "turning_back": ([10, 11, 12, 9, 8, 7, 6], 1),  # 9 begins a stream that 8, 7 and 6 continue
    "across_os_pages": (range(62, 66), 0),
    "two_os_pages": (range(128), 122),
    "16_in_turns": ([64 * row + step for step in range(5) for row in range(16)], 32),
    "17_in_turns": ([64 * row + step for step in range(5) for row in range(17)], 0),
}


@pytest.fixture(scope="module")
def one_object(tmp_path_factory):
    """A workload of one malloc."""
    return compiled(tmp_path_factory.mktemp("one"), mallocs([64]))[0]


@pytest.mark.parametrize("name", STREAMS)
def test_misses_that_continue_a_stream_are_sequential(one_object, name):
    lines, sequential = STREAMS[name]
    page = 1 << 20
    items = [("event", STACK)] + [("other", (page * OS_PAGE + line * LINE) // GRANULE) for line in lines]
    caches = ["--null", "--caches", "65536:16,131072:16"]
    misses, in_sequence = added_and_sequential(one_object, items, *caches)
    assert misses[0] == [len(lines), len(lines)]
    assert in_sequence == [sequential, sequential]


def test_only_what_a_level_misses_is_sequential_there(one_object):
    """A walk over more than the first level holds, twice: the second walk hits the outer one."""
    walk = [("other", line * LINE // GRANULE) for line in range(1 << 20, (1 << 20) + 128)]
    items = [("event", STACK), *walk, *walk]
    caches = ["--null", "--caches", "4096:1,65536:16"]
    misses, in_sequence = added_and_sequential(one_object, items, *caches)
    assert misses[0] == [256, 128]
    assert in_sequence == [4 * 61, 2 * 61]


def test_objects_side_by_side_are_a_stream_and_objects_apart_are_none(tmp_path):
    """The same accesses, if an allocator puts objects of a line side by side, and in an OS page each."""
    work, slots = compiled(tmp_path, mallocs([64] * 64))
    items = [("event", STACK)] * 64 + [("object", slot, 0) for slot in slots]
    assert added_in_sequence(work, items, "--null", "--caches", "65536:1024") == [61]
    apart = ["--preload", PLACING, "--env=PLACE_ROUND_BYTES=4096", "--caches", "65536:1024"]
    assert added_in_sequence(work, items, *apart) == [0]


def test_an_object_is_accessed_where_it_is_at_that_time(tmp_path):
    """A reused slot, and an object that realloc moves, are at new addresses from their call on."""
    steps = [
        Step("malloc", 0, 0, 64, 1 << 20),
        Step("free", 0, 0, 0, 0, 1 << 20),
        Step("malloc", 0, 1, 64, 1 << 20),
        Step("realloc", 0, 1, 128, 1 << 21, 1 << 20),
    ]
    work, slots = compiled(tmp_path, steps)
    assert len(set(slots)) == 1
    access = ("object", slots[0], 0)
    items = []
    for _ in steps:
        items += [("event", STACK), access, access]
    items[3:6] = [("event", STACK)]  # nothing is there after the free
    assert added(work, items, "--null")[0] == [3, 3, 3, 3]


def test_an_access_to_an_object_that_its_allocator_refused_is_counted_as_lost(tmp_path):
    work, slots = compiled(tmp_path, mallocs([64, 4096]))
    items = [("event", STACK)] * 2 + [("object", slots[0], 0)] + [("object", slots[1], n) for n in range(5)]
    run = misses_pass(work, items, "--preload", PLANTED, "--env=PLANT_REFUSE_FROM=4096")
    assert run["failed_calls"] == 1
    assert run["misses"]["lost_accesses"] == 5


def test_offsets_outside_an_object_are_its_owners(tmp_path):
    """Vector reads: granules before and behind."""
    work, slots = compiled(tmp_path, mallocs([64, 64]))
    items = [("event", STACK)] * 2 + [("object", slots[0], 4), ("object", slots[1], 0), ("object", slots[1], -4)]
    assert added(work, items, "--null")[0] == [2, 2, 2, 2]


def test_the_stack_of_a_call_is_where_it_was_recorded(tmp_path):
    """The call's return address is read at its end, so its line is in the cache then; a line further up is not."""
    work, _ = compiled(tmp_path, mallocs([64]))
    behind = [[("event", STACK), ("other", address // GRANULE)] for address in (STACK, STACK + (1 << 20))]
    assert added(work, behind[0], "--preload", PLACING)[0] == [0, 0, 0, 0]
    assert added(work, behind[1], "--preload", PLACING)[0] == [1, 1, 1, 1]
    at = misses_pass(work, behind[0], "--preload", PLACING)["misses"]
    before = misses_pass(work, [("other", STACK // GRANULE), ("event", STACK)], "--preload", PLACING)["misses"]
    assert before["allocator"]["caches"][0]["misses"] == at["allocator"]["caches"][0]["misses"] - 1


def test_the_allocators_start_up_counts(tmp_path):
    """From its constructor on it holds a MiB, and writes a byte of each of its OS pages."""
    work, _ = compiled(tmp_path, mallocs([64]))
    without, held = (
        misses_pass(work, [("event", STACK)], "--preload", PLANTED, f"--env=PLANT_HOLD_BYTES={size}")["misses"]
        for size in (0, 1 << 20)
    )
    assert held["allocator"]["page_faults"] - without["allocator"]["page_faults"] >= 256
    assert held["allocator"]["caches"][0]["misses"] - without["allocator"]["caches"][0]["misses"] >= 256


def test_nothing_of_the_engine_is_simulated(tmp_path):
    work, _ = compiled(tmp_path, mallocs([64] * 1000, threads=3))
    found = misses_pass(work, [("event", STACK)] * 1000, "--null")["misses"]
    assert found["allocator_instructions"] < 10_000  # the C library's, at a thread's start
    one, _ = compiled(tmp_path, mallocs([64]))
    assert levels(found["program"]) == levels(misses_pass(one, [("event", STACK)], "--null")["misses"]["program"])


def test_what_the_recording_counted_is_reported(tmp_path):
    work, _ = compiled(tmp_path, mallocs([64]))
    totals = [("total", number, 1000 + number) for number in (0, 1, 2, 3, 7, 8)]
    found = misses_pass(work, [("event", STACK), *totals], "--preload", PLACING, filter_bytes=4096)["misses"]
    assert found["program_instructions"] == found["program"]["instructions"] == 1000 + found["startup_instructions"]
    assert found["program"]["data_accesses"] == 1002 + found["startup_accesses"]
    assert found["startup_instructions"] > found["startup_accesses"] > 1000
    assert found["data_accesses"] == found["program"]["data_accesses"] + found["allocator"]["data_accesses"]
    for total, key in ((1007, "string_instructions"), (1008, "string_bytes")):
        assert found["program"][key] >= total  # and those of the start-up
        assert found[key] == found["program"][key] + found["allocator"][key]
    assert found["syscalls"] == 1003 + found["allocator"]["syscalls"]
    assert found["allocator_instructions"] == found["allocator"]["instructions"] > 10
    assert found["filter_bytes"] == 4096
    without = misses_pass(work, [("event", STACK)], "--preload", PLACING)["misses"]
    assert without["program_instructions"] is without["program"]["data_accesses"] is without["syscalls"] is None


def test_threads_that_take_turns_have_one_stream(tmp_path):
    """Each thread's objects of a line are in its own region; the thread with the next call accesses them."""
    work, slots = compiled(tmp_path, mallocs([64] * 200, threads=4))
    items = []
    for number in range(len(slots)):
        items.append(("event", STACK))
        items += [("object", slots[before], 1) for before in range(max(0, number - 6), number + 1)]
    caches, _, faults = added(work, items, "--null", "--caches", "65536:1024")
    assert (caches, faults) == ([200], 4)


# Each example starts Valgrind, so examples are not shrunk.
@settings(examples(15), phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(seed=st.integers(0, 1 << 32), count=st.integers(1, 60), data=st.data())
def test_any_stream_misses_what_the_model_misses(tmp_path, seed, count, data):
    """On the null allocator, which puts objects one behind the other, beginning at the start of an OS page."""
    caches, tlbs = [(512, 1), (2048, 4), (8192, 2), (16384, 256)], [(2, 2), (8, 8)]
    steps = history(seed, 1, count, bump_step=16)
    work, slots = compiled(tmp_path, steps)
    model, bump, places, items = Model(caches, tlbs), 0, {}, []
    for step, slot in zip(steps, slots):
        for wanted in data.draw(st.lists(st.tuples(st.booleans(), st.integers(0, 1 << 20)), max_size=12)):
            if wanted[0] and places:
                at = sorted(places)[wanted[1] % len(places)]
                address, size = places[at]
                granule = wanted[1] % (size // GRANULE + 1)
                items.append(("object", at, granule))
                model.access("objects", address + granule * GRANULE)
            else:
                granule = 1 << 30 | wanted[1] % 1024
                items.append(("other", granule))
                model.access("other", granule * GRANULE)
        items.append(("event", STACK - 64 * data.draw(st.integers(0, 5))))
        if step.kind == "free":
            del places[slot]
        else:
            places[slot] = (bump, step.size)
            bump += -(-step.size // GRANULE) * GRANULE
    levels_of = {"--caches": caches, "--tlbs": tlbs}
    sizes = [f"{name}={','.join(f'{size}:{ways}' for size, ways in all_)}" for name, all_ in levels_of.items()]
    assert added_and_sequential(work, items, "--null", *sizes) == (model.counted(), model.sequential)


@pytest.mark.parametrize(
    "wrong", ["--caches=1000:8", "--caches=32768", "--tlbs=64:0", "--tlbs=64:64,", "--order=window", "--as-malloc"]
)
def test_what_the_pass_can_not_do_is_refused_before_it_starts(tmp_path, wrong):
    result = run(REPLAY, "--pass", "misses", "--accesses", tmp_path / "x", wrong, CONVERT)
    assert result.status == 2


@pytest.mark.parametrize(("content", "says"), UNFIT_FOR_TWO_CALLS)
def test_accesses_that_do_not_fit_the_workload_are_one_error_that_names_their_file(tmp_path, content, says):
    work, _ = compiled(tmp_path, mallocs([64, 64]))
    accesses = tmp_path / "h.accesses"
    if content is not None:
        accesses.write_bytes(content)
    done = refused(REPLAY, "--pass", "misses", "--null", "--accesses", accesses, work, says=says)
    assert str(accesses) in done.stderr


@pytest.mark.parametrize("left", ["no tool", "a tool that counts nothing"])
def test_a_pass_that_can_count_nothing_is_one_clear_error(tmp_path, left):
    work, _ = compiled(tmp_path, mallocs([64]))
    (tmp_path / "h.accesses").write_bytes(file([("event", STACK)]))
    program = install(tmp_path)
    message = "misses can't be counted here: heaptape's Valgrind tool was not built"
    if left != "no tool":
        nothing = {"events": 1, "caches": [{"snapshots": []}], "allocator": {"instructions": 0}}
        program = install(tmp_path, COUNTED.format(result=json.dumps(nothing)))
        message = "0 instructions of the allocator counted for 1 ops: the pass has no figure"
    refused(program, "--pass", "misses", "--accesses", tmp_path / "h.accesses", work, says=message)


def test_heaptape_replay_has_the_pass_where_accesses_are_beside_the_workload(tmp_path):
    """It makes the pass by default; its tables, results and figures agree with the engine's."""
    work, slots = compiled(tmp_path, mallocs([4096] * 9))
    items = [("event", STACK)] * 9 + [("object", slot, 0) for slot in slots] * 10 + [("total", 0, 5000)]
    engine = misses_pass(work, items, "--preload", PLACING, "--env=PLACE_ROUND_BYTES=4096", "--caches", "32768:8")
    placing = f"{PLACING}:PLACE_ROUND_BYTES=4096"
    result = tmp_path / "r"
    done = succeed(
        HEAPTAPE_HERE, "replay", work, "-a", "glibc", "-a", placing, "-n", "1", "--caches", "32768:8", "-o", result,
        "--table", "misses",
    )  # fmt: skip
    data = json.loads(result.read_text())
    Draft202012Validator(json_schema()).validate(data)
    assert data["settings"]["passes"] == [*DEFAULT_PASSES, "misses"]
    found = next(run for run in data["runs"] if run["pass"] == "misses" and run["allocator"] != "glibc")
    # The start-up reads the environment, which differs between the two runs.
    for mine, other in zip(found["misses"]["program"]["caches"], engine["misses"]["program"]["caches"], strict=True):
        assert mine["misses"] == pytest.approx(other["misses"], abs=32)
    frame = heaptape.results(result).figures().set_index(["allocator", "metric"])["value"]
    assert (frame.xs("misses/program/instructions", level=1) > 5000).all()
    misses = frame.xs("misses/program/cache_32768", level=1)
    # glibc's headers move each object on by 16 bytes, some into other sets.
    assert misses.drop("glibc").item() - misses["glibc"] > 50
    assert "Simulated misses, % of glibc" in done.stdout


def test_the_pass_needs_accesses_and_reports_that(tmp_path):
    work, _ = compiled(tmp_path, mallocs([64]))
    command = [HEAPTAPE_HERE, "replay", work, "-a", "glibc", "--passes", "misses", "-o", tmp_path / "r"]
    refused(*command, says="no data accesses")


def test_the_allocators_system_calls_are_reported_by_kind_with_its_start_ups(tmp_path):
    work, _ = compiled(tmp_path, mallocs([1 << 20] * 5))
    items = [("event", STACK)] * 5
    allocator = misses_pass(work, items)["misses"]["allocator"]
    assert sum(allocator["syscalls_by_kind"].values()) == allocator["syscalls"]
    assert allocator["syscalls_by_kind"]["mmap"] == 5  # above glibc's threshold: one each
    assert "syscalls_by_kind" not in misses_pass(work, items)["misses"]["program"]


def test_libraries_may_be_loaded_behind_the_c_librarys_allocator(tmp_path):
    """The C library by name, then what the program has, even an allocator: that one would refuse the call."""
    work, _ = compiled(tmp_path, mallocs([4096]))
    items = [("event", STACK)]
    refusing = ("--preload", PLANTED, "--env=PLANT_REFUSE_FROM=4096")
    assert misses_pass(work, items, *refusing)["failed_calls"] == 1
    assert misses_pass(work, items, "--preload", c_library(), *refusing)["failed_calls"] == 0
    refused = run(
        REPLAY, "--pass", "misses", "--accesses", work.with_suffix(".accesses"), "--preload", "libm.so.6", work
    )
    assert refused.status == 1
    assert "defines no malloc" in refused.stderr


@pytest.mark.long
def test_the_same_twice(tmp_path):
    steps = history(7, 3, 400)
    work, slots = compiled(tmp_path, steps)
    items = []
    for slot in slots:
        items += [("other", slot * 3), ("event", STACK)]
    first, second = (misses_pass(work, items)["misses"] for _ in range(2))
    assert first == second
