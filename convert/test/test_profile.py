# SPDX-License-Identifier: MIT
"""The profile agrees with counting the model's ops one by one, and its parts agree with one another."""

import json
from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from convert.test.models.history_maker import legal
from convert.test.models.history_model import Op, judge, text
from convert.test.test_history import used_threads
from tests.examples import examples
from tests.support import CONVERT, import_text, refused, succeed

PROPERTY = examples(40)
COUNTED = ("calloc", "reallocarray")


def profile(tape: Path) -> dict:
    return json.loads(succeed(CONVERT, "profile", tape).stdout)


def request(op: Op) -> int:
    return op.size * op.param if op.call in COUNTED else op.size


def count_one_by_one(ops: list[Op]) -> dict:
    """The expected profile, computed slowly: birth thread, allocation clock and reallocs of each live object."""
    live: dict[int, dict] = {}
    counted = {"allocated": 0, "births": 0, "pairs": Counter(), "ages": [], "chains": Counter(), "reallocs": 0}
    for op in ops:
        if op.obj is None or op.call == "malloc_usable_size":
            continue
        dies = op.obj in live and (op.null_out or op.call not in ("realloc", "reallocarray"))
        if dies:
            dead = live.pop(op.obj)
            counted["pairs"][dead["thread"], op.thread] += 1
            counted["ages"].append((dead["size"], counted["allocated"] - dead["clock"]))
            counted["chains"][dead["reallocs"]] += dead["reallocs"] > 0
        elif op.obj in live:
            live[op.obj]["size"] = request(op)
            live[op.obj]["reallocs"] += 1
            counted["reallocs"] += 1
            counted["allocated"] += request(op)
        else:
            live[op.obj] = {"thread": op.thread, "clock": counted["allocated"], "size": request(op), "reallocs": 0}
            counted["births"] += 1
            counted["allocated"] += request(op)
    return counted


@PROPERTY
@given(seed=st.integers(0, 1 << 32), threads=st.integers(1, 5), steps=st.integers(1, 150), addresses=st.integers(1, 12))
def test_profile_agrees_with_counting_one_by_one(tmp_path, seed, threads, steps, addresses):
    events, threads = used_threads(legal(seed, threads, steps, addresses))
    _, ops = judge(events, threads, 10_000_000)
    counted, found = count_one_by_one(ops), profile(import_text(tmp_path, text(events, threads)))
    assert found["allocated_bytes"] == counted["allocated"]
    assert {(a, b): n for a, b, n, _ in found["thread_pairs"]} == counted["pairs"]
    assert sum(n for *_, n, _ in found["lifetimes_bytes"]) == len(counted["ages"])
    assert sum(size for *_, size in found["lifetimes_bytes"]) == sum(size for size, _ in counted["ages"])
    expected_ages = Counter(1 << (age.bit_length() - 1) if age else 0 for _, age in counted["ages"])
    found_ages = Counter()
    for _, age, objects, _ in found["lifetimes_bytes"]:
        found_ages[age] += objects
    assert found_ages == expected_ages
    assert found["reallocs"]["calls"] == counted["reallocs"]
    chains = {length: objects for length, objects, _, _ in found["reallocs"]["chains"]}
    assert chains == {min(length, 64): n for length, n in counted["chains"].items() if n}
    requests = sum(n for rows in found["sizes"].values() for _, n, _ in rows)
    assert requests == counted["births"] + counted["reallocs"]


@PROPERTY
@given(seed=st.integers(0, 1 << 32), threads=st.integers(1, 5), steps=st.integers(1, 150), addresses=st.integers(1, 12))
def test_windows_add_up_to_the_whole(tmp_path, seed, threads, steps, addresses):
    events, threads = used_threads(legal(seed, threads, steps, addresses))
    found = profile(import_text(tmp_path, text(events, threads)))
    windows = found["windows"]
    assert sum(row[2] for row in windows) == found["ops"] == found["witness"]["ops"]
    assert sum(row[5] for row in windows) == found["allocated_bytes"]
    assert [row[0] for row in windows] == sorted({row[0] for row in windows})


def test_thread_pairs_beyond_the_limit_are_counted(tmp_path):
    threads = 400
    lines, now = [], 0
    for acquirer in range(threads):
        for step in range(1, 40):
            now += 2
            lines.append(f"{now} {acquirer} malloc(8) = 0x1000")
            lines.append(f"{now + 1} {(acquirer + step) % threads} free(0x1000)")
    found = profile(import_text(tmp_path, "\n".join(lines) + "\n"))
    in_pairs = sum(objects for _, _, objects, _ in found["thread_pairs"])
    assert found["pairs_left_out"] > 0
    assert in_pairs + found["pairs_left_out"] == threads * 39


def test_profile_of_a_file_that_is_not_a_trace_is_one_error(tmp_path):
    file = tmp_path / "no.tape"
    file.write_bytes(b"\x00" * 100)
    refused(CONVERT, "profile", file, says=str(file))
