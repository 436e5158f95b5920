# SPDX-License-Identifier: MIT
"""The counted certificate's arithmetic, on planted raw results whose figures are all known by hand."""

import numpy as np
import pytest

from tests.bench.fidelity import counted_certificate

PADDINGS = (0, 1360, 2720)


def side(instructions, faults, cache, brk=10):
    return {
        "instructions": instructions,
        "data_accesses": instructions // 3,
        "page_faults": faults,
        "syscalls": brk + 5,
        "syscalls_by_kind": {"brk": brk, "other": 5},
        "caches": [{"bytes": 1048576, "ways": 16, "misses": cache}],
        "tlbs": [{"entries": 1536, "ways": 12, "misses": 100}],
    }


def live(allocator, instructions, own, faults, caches):
    """caches: misses by layout."""
    return [
        {
            "allocator": allocator,
            "padding_bytes": padding,
            "counts": side(instructions, faults, cache)
            | {"allocator": side(own, faults // 2, 0), "program": side(instructions - own, faults // 2, cache)},
        }
        for padding, cache in zip(PADDINGS, caches, strict=True)
    ]


def replays(allocator, total, start, process, faults, misses=None):
    rows = [
        {
            "allocator": allocator, "pass": "instructions", "order": "recorded", "instructions_total": total,
            "startup_instructions": start, "startup_process_instructions": process,
        },
        {
            "allocator": allocator, "pass": "memory", "order": "recorded", "page_faults": faults,
            "startup_page_faults": 100, "syscalls": {"brk": 8},
        },
    ]  # fmt: skip
    if misses is not None:
        rows.append({"allocator": allocator, "pass": "misses", "order": "recorded", "misses": misses})
    return rows


def planted(name="planted", half="tuned", threads=1, accesses=False):
    """On glibc 1,000,000 instructions, 400,000 of them the allocator's, 1,000 faults and 2,000 misses of 1 MiB.

    a: 5 % more instructions, predicted 5.1; 10 % fewer faults, predicted 8; misses 10 % fewer, in one layout 8.
    100 faults and 500 misses of each replay are from its loading.
    b: 0.2 % fewer instructions, predicted 0.1 more; 30 % more faults, predicted 33; misses 3 % more, but fewer in one
    layout.
    """
    counts = {"glibc": 2000, "a": 1780, "b": 2100}
    misses = {
        label: side(0, {"glibc": 900, "a": 800, "b": 1230}[label], counts[label] - 500)
        | {"loading": side(0, 100, 500), "allocator": side(0, 0, 0)}
        for label in counts
    }
    runs = [
        *live("glibc", 1000000, 400000, 1000, (2000, 2000, 2000)),
        *live("a", 1050000, 450000, 900, (1800, 1800, 1840)),
        *live("b", 998000, 398000, 1300, (2060, 2060, 1990)),
    ]
    made = [
        *replays("glibc", 400000, 0, 1000, 700, misses["glibc"] if accesses else None),
        *replays("a", 450000, 500, 2000, 620, misses["a"] if accesses else None),
        *replays("b", 399000, 0, 3000, 1030, misses["b"] if accesses else None),
    ]
    return {
        "schema": 1, "kind": "counted", "created_unix_s": 1700000000, "elapsed_s": 60, "machine": {},
        "app": {"name": name, "set": half, "threads": threads, "ops": 1000, "summary": "a plant"},
        "settings": {"paddings_bytes": list(PADDINGS), "accesses": accesses},
        "allocators": [], "live": runs, "replays": made, "failures": {},
    }  # fmt: skip


def row(table, metric, **wanted):
    part = table[table["metric"] == metric]
    for key, value in wanted.items():
        part = part[part[key] == value]
    (found,) = part.to_dict("records")
    return found


def test_changes_of_instructions_are_in_percent_of_the_program_and_with_the_start_up():
    table = counted_certificate.changes([planted()])
    found = row(table, "instructions", allocator="a")
    assert found["live"] == pytest.approx(5.0)
    assert found["predicted"] == pytest.approx(5.1)  # 50,000 of the calls, 1,000 of the start-up
    assert found["error"] == pytest.approx(0.1)
    own = row(table, "allocator_instructions", allocator="a")
    assert (own["live"], own["predicted"]) == (pytest.approx(5.0), pytest.approx(5.05))
    assert row(table, "instructions", allocator="b")["error"] == pytest.approx(0.1 - -0.2)


def test_errors_of_other_counts_are_in_percent_of_the_live_change():
    table = counted_certificate.changes([planted()])
    a, b = (row(table, "page_faults", allocator=label) for label in "ab")
    assert (a["live"], a["predicted"], a["error"]) == (pytest.approx(-10), pytest.approx(-8), pytest.approx(20))
    assert (b["live"], b["predicted"], b["error"]) == (pytest.approx(30), pytest.approx(33), pytest.approx(10))


def test_a_change_below_the_threshold_has_no_relative_error():
    table = counted_certificate.changes([planted(accesses=True)])
    assert np.isnan(row(table, "memory_syscalls", allocator="a")["error"])


def test_memory_system_calls_are_the_allocators_by_the_pass_misses_and_of_memory_alone():
    data = planted(accesses=True)
    for run in data["live"]:
        if run["allocator"] == "a":
            run["counts"]["allocator"]["syscalls_by_kind"] = {"brk": 6, "mmap": 9, "futex": 1000}
    for run in data["replays"]:
        if run["pass"] == "misses" and run["allocator"] == "a":
            run["misses"]["allocator"]["syscalls_by_kind"] = {"brk": 4, "munmap": 8, "other": 1000}
    found = row(counted_certificate.changes([data]), "memory_syscalls", allocator="a")
    assert (found["live"], found["predicted"]) == (pytest.approx(50), pytest.approx(20))  # 10 on glibc, 15 and 12 on a
    assert "memory_syscalls" not in set(counted_certificate.changes([planted()])["metric"])


def test_misses_are_judged_only_where_accesses_were_replayed_and_then_faults_are_simulated_too():
    without, replayed = (counted_certificate.changes([planted(accesses=accesses)]) for accesses in (False, True))
    assert "cache_1048576" not in set(without["metric"])
    found = row(replayed, "cache_1048576", allocator="a")
    assert (found["live"], found["low"], found["high"]) == (pytest.approx(-10), pytest.approx(-10), pytest.approx(-8))
    assert found["predicted"] == pytest.approx(-11)
    assert found["error"] == pytest.approx(-10)
    assert row(replayed, "page_faults", allocator="a")["predicted"] == pytest.approx(-10)


def test_a_change_whose_sign_depends_on_the_layout_has_no_relative_error():
    found = row(counted_certificate.changes([planted(accesses=True)]), "cache_1048576", allocator="b")
    assert found["live"] == pytest.approx(3)
    assert found["low"] < 0
    assert np.isnan(found["error"])


def test_pairs_that_differ_too_little_or_by_layout_are_not_ranked():
    table = counted_certificate.pairs([planted(accesses=True)])
    instructions = table[table["metric"] == "instructions"].set_index(["a", "b"])
    assert instructions["beyond"].to_dict() == {("glibc", "a"): True, ("glibc", "b"): False, ("a", "b"): True}
    assert instructions["right"].to_dict() == {("glibc", "a"): True, ("glibc", "b"): False, ("a", "b"): True}
    misses = table[table["metric"] == "cache_1048576"].set_index(["a", "b"])
    assert misses["decided"].to_dict() == {("glibc", "a"): True, ("glibc", "b"): False, ("a", "b"): True}
    assert misses["beyond"].all()


def test_a_difference_that_does_not_exceed_its_spread_over_layouts_is_neither_ranked_nor_judged_for_size():
    """The same sign in each layout is not enough: with 4, 10 and 15 %, layouts alone do more than the allocator."""
    data, caches = planted(accesses=True), iter((1920, 1800, 1700))
    for run in data["live"]:
        if run["allocator"] == "a":
            run["counts"]["caches"][0]["misses"] = next(caches)
    change = row(counted_certificate.changes([data]), "cache_1048576", allocator="a")
    assert (change["live"], change["low"], change["high"]) == tuple(map(pytest.approx, (-10, -15, -4)))
    assert np.isnan(change["error"])
    table = counted_certificate.pairs([data])
    pair = row(table, "cache_1048576", a="glibc", b="a")
    assert (pair["beyond"], pair["decided"], pair["right"]) == (True, False, True)


def test_the_summary_counts_right_signs_of_decided_pairs_by_group():
    held = planted("other", "held-out", threads=4)
    for run in held["replays"]:
        if run["pass"] == "instructions" and run["allocator"] == "a":
            run["instructions_total"] = 100000  # so a seems to have fewer instructions than each other
    table = counted_certificate.summary([planted(), held])
    judged = {group: row(table, "instructions", group=group) for group in counted_certificate.GROUPS}
    assert {group: one["apps"] for group, one in judged.items()} == {
        "all": 2, "tuned": 1, "held-out": 1, "one thread": 1, "servers, threads": 1,
    }  # fmt: skip
    assert (judged["all"]["pairs"], judged["all"]["decided"], judged["all"]["right_percent"]) == (4, 4, 50)
    assert judged["tuned"]["right_percent"] == 100
    assert judged["servers, threads"]["right_percent"] == 0
    assert judged["tuned"]["median"] == pytest.approx(0.2)  # of 0.1 and 0.3
    assert judged["tuned"]["p90"] == pytest.approx(0.28)
    assert judged["tuned"]["worst_at"] == "planted on b"
