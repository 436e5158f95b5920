# SPDX-License-Identifier: MIT
"""Waits inside calls, as figures, tables and sentences: means over repetitions, names of locks, nothing made up."""

import json

from heaptape.features.contention import pass_table as contention
from heaptape.results.schema import Results
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


def test_sums_by_lock_by_call_and_by_size_are_the_whole():
    frame = contention.frame([results(glibc=[waits(10, 2, 100), waits(3, 40, 10)], mimalloc=[waits(1, 1, 2)])])
    for _, here in frame.groupby("allocator"):
        for key in ("waits", "slept", "wait_ns"):
            assert here.groupby("by")[key].sum().nunique() == 1, key


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


def test_without_restartable_sequences_switches_are_said_to_be_missing(small_tape):
    """As on a glibc before 2.35."""
    allocator = "reference:GLIBC_TUNABLES=glibc.pthread.rseq=0"
    done = call_heaptape("replay", small_tape, "-n", "1", "--passes", "contention", "-a", allocator, "--json")
    (run,) = json.loads(done.stdout)["runs"]
    assert "restartable sequences" in run["contention"]["switches_missing_because"]
