# SPDX-License-Identifier: MIT
"""Waits inside calls, as figures, tables and sentences: means over repetitions, names of locks, nothing made up."""

import json
import math

import msgspec
import pytest
from heaptape.allocators.registry import Tunables
from heaptape.common.tables import render_text
from heaptape.features.contention import pass_table as contention
from heaptape.results.schema import Results
from heaptape.results.structs import LockWaits
from planted_runs import file_of, runs_of

from tests.support import HEAPTAPE_HERE, call_heaptape, succeed

MS = 1_000_000


def sums(count: int, ms: float, at_once: int = 0) -> dict:
    return {"count": count, "at_once": at_once, "time_ns": int(ms * MS), "max_ns": int(ms * MS) // max(count, 1)}


def waits(malloc: int, free: int, ms: float, thread_ms: float = 1000) -> dict:
    """Waits in malloc for one lock and in free for another, which take a tenth of the time."""
    first, second = sums(malloc, 0.9 * ms, malloc // 2), sums(free, 0.1 * ms)
    arena = {"wait": "futex", "address": "0x7000", "object": "libc.so.6", "offset": 64, "symbol": "main_arena"}
    return sums(malloc + free, ms, malloc // 2) | {
        "thread_ns": int(thread_ms * MS), "voluntary_switches": 7, "outside": 3, "trap_ns": 1000,
        "calls": {
            "malloc": first | {"sizes": [first | {"up_to_bytes": 64}]},
            "free": second | {"sizes": [second | {"up_to_bytes": None}]},
            "calloc": sums(0, 0) | {"voluntary_switches": 1, "sizes": []},
        },
        "locks": [
            first | arena | {"symbol_offset": 0, "calls": {"malloc": malloc}},
            second | {"wait": "futex", "address": "0x8000", "calls": {"free": free}},
        ],
    }  # fmt: skip


def results(name: str = "w", **runs: list[dict]) -> Results:
    return file_of(
        [*runs_of("contention", "contention", runs), {"allocator": "x", "pass": "time"}], name, ideal_rss_bytes=100
    )


def rows_of(frame, by: str, allocator: str = "glibc") -> dict:
    here = frame[(frame["by"] == by) & (frame["allocator"] == allocator)]
    return {row["name"]: row for row in here.to_dict("records")}


def test_figures_are_means_over_the_repetitions():
    """Also for a lock that only one repetition waited for."""
    once = waits(30, 0, 50)
    once["locks"].append(sums(4, 2) | {"wait": "yield", "address": "0x9", "object": "a.so", "offset": 9, "calls": {}})
    frame = contention.frame([results(glibc=[waits(10, 2, 100), once])])
    (whole,) = rows_of(frame, "all").values()
    assert (whole["waits"], whole["slept"], whole["wait_ns"]) == (21, 11, 75 * MS)
    assert (whole["percent"], whole["percent_low"], whole["percent_high"]) == (7.5, 5, 10)
    assert (whole["voluntary_switches"], whole["repetitions"], whole["max_ns"]) == (7, 2, int(100 / 12 * MS))
    assert whole["seeing_percent"] == pytest.approx(100 * 21 * 1000 / (1000 * MS))
    locks = rows_of(frame, "lock")
    assert {name: row["waits"] for name, row in locks.items()} == {
        "main_arena": 20,
        "heap 0x8000": 1,
        "sched_yield in a.so+0x9": 2,
    }
    assert math.isnan(locks["main_arena"]["percent_low"])
    assert {name: row["waits"] for name, row in rows_of(frame, "call").items()} == {"malloc": 20, "free": 1}
    sizes = frame[frame["by"] == "size"].set_index(["call", "name"])["waits"]
    assert sizes.to_dict() == {("malloc", "64"): 20, ("free", "more"): 1}


def test_sums_by_lock_by_call_and_by_size_are_the_whole():
    frame = contention.frame([results(glibc=[waits(10, 2, 100), waits(3, 40, 10)], mimalloc=[waits(1, 1, 2)])])
    for _, here in frame.groupby("allocator"):
        for key in ("waits", "slept", "wait_ns"):
            assert here.groupby("by")[key].sum().nunique() == 1, key


def test_lock_counters_of_our_own_and_the_time_of_calls_stand_beside():
    file = results(reference=[waits(1, 1, 2)])
    file.data["runs"][0]["reference_stats"] = {"locks": 500, "locks_contended": 20, "chunks": 3}
    file.data["runs"].append(
        {"allocator": "reference", "variant": "default", "pass": "time", "repeat": 0, "cycles_hz": 2e9,
         "cycles_total": 4000, "calls": {"malloc": {"count": 8, "mean": 1}, "free": {"count": 2, "mean": 1}}}
    )  # fmt: skip
    (whole,) = rows_of(contention.frame([file]), "all", "reference").values()
    assert (whole["locks_taken"], whole["locks_contended"], whole["call_ns"]) == (500, 20, 200)
    text = render_text(contention.usual([file]))
    assert "contended" in text
    assert "ns per call" in text
    assert "contended" not in render_text(contention.usual([results(glibc=[waits(1, 1, 2)])])).split("\n")[1]


@pytest.mark.parametrize(
    ("lock", "name"),
    [
        ({"wait": "futex", "address": "0x10", "symbol": "main_arena", "object": "libc.so.6"}, "main_arena"),
        ({"wait": "futex", "address": "0x10", "symbol": "table", "symbol_offset": 8, "object": "a.so"}, "table+0x8"),
        ({"wait": "futex", "address": "0x10", "object": "a.so", "offset": 255}, "a.so+0xff"),
        ({"wait": "futex", "address": "0x10"}, "heap 0x10"),
        ({"wait": "futex", "address": "0x10", "symbol": "arena", "symbol_offset": 0}, "arena 0x10"),
        (
            {"wait": "yield", "address": "0x10", "symbol": "tbb::lock()", "symbol_offset": 8, "object": "a.so"},
            "sched_yield in tbb::lock()",
        ),
        ({"wait": "sleep", "address": "0x10", "symbol": "pause", "object": "a.so"}, "sleep in pause"),
        ({"wait": "futex", "address": None}, "other locks"),
    ],
)
def test_locks_are_named_by_symbol_place_or_address(lock, name):
    assert contention.name_of(msgspec.convert(lock, LockWaits)) == name


def test_sentences_name_where_threads_wait_and_for_what():
    files = [results(glibc=[waits(10, 2, 100), waits(10, 2, 60)], mimalloc=[waits(0, 0, 0)])]
    assert contention.sentences(files) == [
        "Under glibc, 8.0 % of thread time, 6.0 to 10.0 in 2 repetitions, is spent in waits inside calls, most of it "
        "in malloc; 90 % of it for one lock of 2: main_arena."
    ]
    quiet = results("v", glibc=[waits(10, 2, 1), waits(10, 2, 25)], mimalloc=[waits(0, 0, 0)])
    assert contention.sentences([quiet]) == [
        "Under no allocator do threads wait inside calls for 1 % of their time in every repetition "
        "(most under glibc: 1.30 %, 0.10 to 2.50 in 2 repetitions)."
    ]
    still = results("u", glibc=[waits(0, 0, 0)], mimalloc=[waits(0, 0, 0)])
    assert contention.sentences([still]) == ["No thread waits inside calls, under any allocator."]
    assert [text.partition(":")[0] for text in contention.sentences([*files, quiet])] == ["w", "v"]


def test_results_without_the_pass_or_without_figures_give_none():
    assert contention.frame([results()]).empty
    assert contention.tables(contention.frame([results()])) == []
    assert contention.sentences([results()]) == []
    hollow = results(glibc=[{}])
    assert contention.sentences([hollow]) == []
    assert "–" in render_text(contention.usual([hollow]))


def test_compare_and_report_have_the_table_and_the_sentence(tmp_path):
    path = tmp_path / "r.json"
    path.write_text(json.dumps(results(glibc=[waits(10, 2, 100)]).data))
    for arguments in ([], ["--table", "contention"]):
        said = call_heaptape("compare", path, *arguments)
        assert said.status == 0, said.stderr
        assert "main_arena" in said.stdout
    assert "main_arena" in call_heaptape("compare", path, "--verdict").stdout
    rows = json.loads(succeed(HEAPTAPE_HERE, "compare", path, "--table", "contention", "--format", "json").stdout)
    assert {row["by"] for row in rows["tables"]["contention"]} == {"all", "lock", "call", "size"}
    page = tmp_path / "r.html"
    assert call_heaptape("report", path, "-o", page).status == 0
    assert "Waits inside calls" in page.read_text()
    assert "10.0 % of thread time is spent" in page.read_text()


def test_a_malformed_contention_is_one_error(tmp_path):
    path = tmp_path / "r.json"
    data = results(glibc=[waits(10, 2, 100)]).data
    data["runs"][0]["contention"]["locks"] = 7
    path.write_text(json.dumps(data))
    said = call_heaptape("compare", path)
    assert said.status == 1
    assert said.stderr.count("\n") == 1
    assert "contention.locks" in said.stderr


def test_settings_that_make_an_allocator_count_join_those_that_are_there():
    tunables = Tunables("T", ("a", "stats"), "{name}={value}", ":", {"stats": "1"})
    assert tunables.with_counting({}) == {"T": "stats=1"}
    assert tunables.with_counting({"T": "a=2", "U": "3"}) == {"T": "a=2:stats=1", "U": "3"}


def test_without_restartable_sequences_switches_are_said_to_be_missing(small_tape):
    """As on a glibc before 2.35."""
    allocator = "reference:GLIBC_TUNABLES=glibc.pthread.rseq=0"
    done = call_heaptape("replay", small_tape, "-n", "1", "--passes", "contention", "-a", allocator, "--json")
    (run,) = json.loads(done.stdout)["runs"]
    assert "restartable sequences" in run["contention"]["switches_missing_because"]
