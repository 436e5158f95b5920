# SPDX-License-Identifier: MIT
"""Each synthetic pattern has the property that it claims, measured from its recording: sizes, lifetimes, freeing
threads, live bytes over time, growth, alignment.
"""

from collections import Counter

import pytest
from heaptape.features.profile.data import Profile

from tests.support import info
from workloads.test.synthetic import ops, profile, recorded_ops, tape, written

# The C library's own calls: a few dozen bytes for each thread, by calloc.
SMALL_SHARE = 0.02


def sizes(name: str) -> Counter:
    """Requests by exact size in bytes, without the C library's callocs."""
    return Counter(op["size_bytes"] for op in recorded_ops(name) if "size_bytes" in op and op["call"] != "calloc")


def remote_share(of: Profile) -> float:
    """The share of freed objects that another thread than the acquiring one freed."""
    pairs = of.data["thread_pairs"]
    return sum(row[2] for row in pairs if row[0] != row[1]) / sum(row[2] for row in pairs)


def partners(of: Profile, at_least: int) -> dict[int, set[int]]:
    """For each thread, the threads that free its objects."""
    found: dict[int, set[int]] = {}
    for acquirer, releaser, objects, _ in of.data["thread_pairs"]:
        if objects >= at_least:
            found.setdefault(acquirer, set()).add(releaser)
    return found


def median_age_bytes(of: Profile) -> int:
    """Bytes allocated during the life of the median object, to within a power of two."""
    rows = of.lifetimes_bytes.sort_values("age")
    return int(rows.loc[rows.objects.cumsum() >= rows.objects.sum() / 2, "age"].iloc[0])


def mean(counts: Counter) -> float:
    """The mean of the keys."""
    return sum(size * count for size, count in counts.items()) / counts.total()


def test_cfrac_s_objects_are_tiny_and_die_young():
    assert max(sizes("cfrac")) <= 54
    assert median_age_bytes(profile("cfrac")) <= 128
    assert info(tape("cfrac"))["peak_live_objects"] < 80


def test_larson_s_tables_outlive_their_threads():
    found = profile("larson")
    # 100 slots, 1,000 replacements: each thread but the first two inherits (nearly) 100 objects.
    assert remote_share(found) == pytest.approx(0.1, abs=0.02)
    assert info(tape("larson"))["threads"] >= 12
    counts = sizes("larson")
    assert 8 <= min(counts) <= 12
    assert 990 <= max(counts) <= 1000
    assert mean(counts) == pytest.approx(504, rel=0.03)


def test_many_threads_come_and_go_and_free_their_neighbours_objects():
    assert info(tape("many_threads"))["threads"] in (48, 49)
    assert remote_share(profile("many_threads")) > 1 - SMALL_SHARE


def test_phases_leave_every_nth_block_behind_and_sizes_grow():
    windows = profile("phases").windows
    valleys = [windows[windows.position.between(low, low + 60)].live_objects.min() for low in range(1950, 15_000, 1950)]
    assert valleys == sorted(valleys)
    assert windows.live_objects.iloc[-8:].max() <= 8 * 50
    acquiring = windows[windows.acquires > 0]
    grown = acquiring.acquired_bytes / acquiring.acquires
    assert grown.iloc[-1] > 10 * grown.iloc[0]  # 1.5 to the 7th is 17


def test_random_mix_makes_every_call_on_a_constant_number_of_objects():
    calls = {op["call"] for op in recorded_ops("random_mix")}
    assert calls == {
        "malloc", "free", "calloc", "realloc", "reallocarray", "posix_memalign", "aligned_alloc", "memalign", "valloc",
        "pvalloc", "malloc_usable_size",
    }  # fmt: skip
    windows = profile("random_mix").windows
    middle = windows.live_objects.iloc[len(windows) // 4 : len(windows) * 3 // 4]
    assert set(middle) <= {499, 500}


def test_random_mix_live_rises_and_falls_in_waves():
    live = profile("random_mix_live").windows.live_objects
    crossings, high = 0, False
    for objects in live:
        if objects > 700 and not high:
            crossings, high = crossings + 1, True
        elif objects < 450:
            high = False
    assert crossings == 4


def test_mt_one_alloc_has_one_block_per_thread():
    about = info(tape("mt_one_alloc"))
    assert about["threads"] in (8, 9)
    assert about["peak_live_objects"] <= 8 + 2 * 8  # and the C library's own
    assert remote_share(profile("mt_one_alloc")) < SMALL_SHARE


def test_malloc_pairs_are_of_one_size_and_local():
    assert set(sizes("malloc_pairs")) == {512}
    assert remote_share(profile("malloc_pairs")) < SMALL_SHARE


def test_heirs_free_what_the_dead_allocated():
    assert set(sizes("heirs")) == {40}
    # 500 draws among 500 objects hit 63 % of them, each of these first as an inheritance.
    assert remote_share(profile("heirs")) == pytest.approx(1 - 1 / 2.718, abs=0.06)


def test_false_sharing_s_objects_are_small_and_the_first_come_from_one_thread():
    counts = sizes("false_sharing")
    assert set(counts) == set(range(3, 53))
    found = profile("false_sharing")
    remote = [row for row in found.data["thread_pairs"] if row[0] != row[1]]
    assert len({row[0] for row in remote}) == 1
    assert sum(row[2] for row in remote) == 4


def test_groups_are_small_sizes_held_for_a_while():
    found, counts = profile("groups"), sizes("groups")
    assert sum(count for size, count in counts.items() if size < 128) > 0.5 * counts.total()
    assert max(counts) > 500
    # On average 20 other groups are replaced before a group; each has 50 objects.
    assert median_age_bytes(found) > 200 * mean(counts)
    assert remote_share(found) < SMALL_SHARE


def test_mtmalloc_has_one_freeing_thread_for_each_allocating_one():
    counts = sizes("mtmalloc")
    assert 8 <= min(counts) <= 20
    assert 1516 <= max(counts) <= 1536
    assert mean(counts) == pytest.approx((8 + 1536) / 2, rel=0.03)
    found = partners(profile("mtmalloc"), at_least=100)
    assert len(found) == 2
    assert all(len(who) == 1 for who in found.values())
    freeing = set.union(*found.values())
    assert len(freeing) == 2
    assert freeing.isdisjoint(found)
    assert info(tape("mtmalloc"))["peak_live_objects"] <= 2 * 512 + 10


def test_xmalloc_frees_are_all_remote():
    assert remote_share(profile("xmalloc")) > 1 - SMALL_SHARE


def test_remote_storm_passes_objects_between_all_threads():
    """In the file, where the threads take turns; in a short run they may run one after the other."""
    pairs: Counter = Counter()
    acquirers: dict[int, int] = {}
    for op in ops(written("remote_storm")):
        if op.get("slot") is None:
            continue
        acquirer = acquirers.setdefault(op["slot"], op["thread"])
        if op["call"] == "free":
            pairs[acquirer, op["thread"]] += 1
            del acquirers[op["slot"]]
    assert sum(count for pair, count in pairs.items() if pair[0] != pair[1]) > 0.6 * pairs.total()
    assert len([pair for pair, count in pairs.items() if count >= 100]) == 16


def test_ring_s_objects_are_freed_hops_further_on():
    found = partners(profile("ring"), at_least=100)
    assert len(found) == 4
    assert all(len(who) == 1 for who in found.values())
    freed_by = {thread: next(iter(who)) for thread, who in found.items()}
    assert sorted(freed_by.values()) == sorted(freed_by)
    # Three hops in a ring of four is one to the left: four such steps lead back, fewer don't.
    at, steps = freed_by[min(freed_by)], 1
    while at != min(freed_by):
        at, steps = freed_by[at], steps + 1
    assert steps == 4


def test_pipeline_flows_one_way():
    found = partners(profile("pipeline"), at_least=100)
    (reader,) = {thread for thread, freeing in found.items() if thread not in freeing}
    workers = set(found) - {reader}
    assert len(workers) == 3
    assert found[reader] == workers
    (writer,) = set.union(*found.values()) - set(found)
    assert all(found[worker] == {worker, writer} for worker in workers)


def test_growing_reallocs_grow_by_half():
    found = profile("growing_reallocs").data["reallocs"]
    assert found["calls"] > 1000
    assert found["grew"] == found["calls"]
    chains = [row for row in found["chains"] if row[0] >= 8]
    assert chains
    for reallocs, objects, first_bytes, last_bytes in chains:
        if reallocs < 16:  # from 16 on, chains of several lengths share a row
            assert last_bytes / objects > 1.4**reallocs * first_bytes / objects


def test_string_building_grows_by_a_word():
    ops = [op for op in recorded_ops("string_building") if "size_bytes" in op]
    found = profile("string_building").data["reallocs"]
    first = sum(row[2] for row in found["chains"])
    last = sum(row[3] for row in found["chains"])
    assert found["grew"] == found["calls"] > 5000
    assert 5 < (last - first) / found["calls"] < 12  # words of 1 to 14 letters, and a space
    assert max(op["size_bytes"] for op in ops) <= 12 * 15 + 1


def test_lru_cache_stays_at_its_limit_while_values_grow():
    windows = profile("lru_cache").windows
    warm = windows.iloc[len(windows) // 3 : -len(windows) // 8]
    assert info(tape("lru_cache"))["peak_live_bytes"] <= 1_000_000 + 2000
    assert warm.live_bytes.min() > 970_000
    values = [op["size_bytes"] for op in recorded_ops("lru_cache") if op.get("size_bytes", 56) != 56]
    tenth = len(values) // 10
    assert sum(values[-tenth:]) > 2 * sum(values[:tenth])


def test_thread_per_request_keeps_a_part_for_the_session():
    about = info(tape("thread_per_request"))
    assert about["threads"] == 41
    assert remote_share(profile("thread_per_request")) == pytest.approx(10 / 210, rel=0.1)


def test_arenas_die_scope_by_scope():
    calls = recorded_ops("arenas")
    births: dict[int, int] = {}
    last_in_first_out = frees = 0
    stack: list[int] = []
    for position, op in enumerate(calls):
        if op["call"] == "malloc":
            births[op["slot"]] = position
            stack.append(position)
        else:
            frees += 1
            last_in_first_out += stack[-1] == births[op["slot"]]
            stack.remove(births[op["slot"]])
    assert last_in_first_out > 0.99 * frees - 20
    turns = sum(a["call"] != b["call"] for a, b in zip(calls, calls[1:]))
    assert turns < len(calls) / 50  # births and deaths come in bursts


def test_huge_objects_are_huge_few_and_resized_now_and_then():
    counts = sizes("huge_objects")
    assert min(counts) >= 1 << 20
    assert max(counts) <= 16 << 20
    assert info(tape("huge_objects"))["peak_live_objects"] <= 8 + 2
    calls = Counter(op["call"] for op in recorded_ops("huge_objects"))
    assert calls["realloc"] / (calls["realloc"] + calls["malloc"]) == pytest.approx(0.2, abs=0.08)


def test_alignment_storm_asks_for_every_alignment():
    calls = recorded_ops("alignment_storm")
    asked = Counter(op["align_bytes"] for op in calls if "align_bytes" in op)
    assert sorted(asked) == [1 << bits for bits in range(4, 16)]
    acquires = sum(op["call"] != "free" for op in calls)
    plain = sum(op["call"] == "malloc" for op in calls)
    assert plain / acquires == pytest.approx(0.25, abs=0.03)
    assert {"posix_memalign", "memalign", "aligned_alloc", "valloc", "pvalloc"} <= {op["call"] for op in calls}
