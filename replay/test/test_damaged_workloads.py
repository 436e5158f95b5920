# SPDX-License-Identifier: MIT
"""The engine checks everything in a workload: any damage causes one error, or a replay of what is left.

Long: 60 more workloads with random damage.
"""

import json
import random
import struct
from pathlib import Path

import pytest

from .engine import stamp
from .test_engine import PLANTED, engine, make, one_error
from .test_isolated_heap import many
from .test_isolated_heap import workload as isolated


@pytest.fixture(scope="module")
def workload(tmp_path_factory):
    path = tmp_path_factory.mktemp("damaged") / "whole.work"
    make(path, ops=400, threads=3, live_objects=40, remote_percent=30, run_ops=4)
    return path.read_bytes()


def bare(path: Path, data: bytes, pass_: str = "bare", order: str = "window", *more: str):
    path.write_bytes(data)
    return engine("--pass", pass_, "--order", order, "--null", "--engine-cycles-per-op", "0", *more, path)


def words_of(data: bytes) -> list[int]:
    """The words of all streams, which are directly behind the header."""
    return list(struct.unpack_from(f"<{struct.unpack_from('<Q', data, 32)[0]}Q", data, 256))


def with_words(data: bytes, words: list[int]) -> bytes:
    return data[:256] + struct.pack(f"<{len(words)}Q", *words) + data[256 + 8 * len(words) :]


def damaged(words: list[int], code: int, change, skip: int = 5) -> list[int]:
    """The words, of which the one of this code after `skip` others is changed."""
    at = [index for index, word in enumerate(words) if word & 0xFF == code][skip]
    return [*words[:at], change(words[at]), *words[at + 1 :]]


MALLOC, FREE, WAIT = 0, 1, 0xF3
ILLEGAL = {
    "slot taken": (MALLOC, lambda word: word & 0xFFFFFFFF),
    "slot too high": (MALLOC, lambda word: word & 0xFFFFFFFF | 0x7FFFFFFF << 32),
    "slot empty": (FREE, lambda word: word & 0xFFFFFFFF | 39 << 32),
    "no call": (FREE, lambda word: word | 0x3F),
    "no such region": (WAIT, lambda word: 0xEF | 7 << 8),
    "no such thread to wait for": (WAIT, lambda word: 0xF3 | 0xFFFFF << 8 | 1 << 28),
    "wait for a later op": (WAIT, lambda word: word | 0xFFFFFFFFF << 28),
    "wait left out": (WAIT, lambda word: 0xF4),
    "not sized as the object": (FREE, lambda word: word & ~0xFFFFFF00 & ~0xFF | 28 | 0xFFFFFF << 8),
    "no such thread to start": (WAIT, lambda word: 0xF5 | 0xFFFFF << 8),
}


@pytest.mark.parametrize("kind", ILLEGAL)
def test_illegal_words_are_the_files_fault_and_never_the_allocators(tmp_path, workload, kind):
    path = tmp_path / "illegal.work"
    path.write_bytes(with_words(workload, damaged(words_of(workload), *ILLEGAL[kind])))
    error = one_error(engine("--pass", "bare", "--engine-cycles-per-op", "0", "--preload", PLANTED, path))
    assert error.startswith(f"heaptape-replay: {path}: offset ")


def test_a_file_that_was_proved_legal_is_proved_again_once_it_is_changed(tmp_path, workload):
    path = tmp_path / "changed.work"
    path.write_bytes(workload)
    checked = json.loads(engine("--baseline", path).stdout)["checked"]
    assert checked == stamp(path)
    damage = damaged(words_of(workload), *ILLEGAL["slot taken"])
    assert "is taken" in one_error(bare(path, with_words(workload, damage), "bare", "window", "--checked", checked))


def test_a_workload_with_isolated_objects_is_proved_whatever_its_caller_says(tmp_path):
    """The isolated heap checks nothing: an object of the allocator that it is given would be read as its own."""
    path = tmp_path / "isolated.work"
    data = isolated(tmp_path, many(300, 100), "size=100=segregate").read_bytes()
    words = words_of(data)
    region = next(index for index, word in enumerate(words) if word & 0xFF == 0xEF)
    path.write_bytes(with_words(data, [*words[:region], words[region] & 0xFF | 9 << 8, *words[region + 1 :]]))
    found = engine("--pass", "bare", "--engine-cycles-per-op", "0", "--checked", stamp(path), path)
    assert "REGION" in one_error(found)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "text.work"
    assert "not a heaptape workload" in one_error(bare(path, b"malloc(10) = 0x1000\n" * 100))
    assert one_error(engine("--pass", "bare", tmp_path))
    assert one_error(engine("--pass", "bare", tmp_path / "missing.work"))


@pytest.mark.parametrize(("seed", "mutants"), [(3, 15), pytest.param(7, 60, marks=pytest.mark.long)])
def test_random_damage_never_crashes_the_engine(tmp_path, workload, seed, mutants):
    """Also where nothing proved the workload. With the null allocator only the engine can crash. It must succeed, or
    end with one error.
    """
    random_ = random.Random(seed)
    path = tmp_path / "random.work"
    for _ in range(mutants):
        data = bytearray(workload)
        for _ in range(random_.choice([1, 1, 2, 8])):
            data[random_.randrange(256, len(data))] = random_.randrange(256)
        pass_, order = random_.choice(["time", "memory", "bare"]), random_.choice(["recorded", "causal", "window"])
        path.write_bytes(data)
        more = ["--checked", stamp(path)] if random_.random() < 0.8 else []
        result = engine("--pass", pass_, "--order", order, "--null", "--engine-cycles-per-op", "0", *more, path)
        if result.returncode != 0:
            error = one_error(result)
            assert "signal" not in error
            assert str(path) in error


def test_threads_that_wait_for_one_another_are_reported(tmp_path, workload):
    """A WAIT turned forward: the thread waits for an op that comes after its own."""
    words, changed = words_of(workload), 0
    counts = struct.unpack_from("<3Q", workload, struct.unpack_from("<Q", workload, 120)[0])
    for index, word in enumerate(words):
        if word & 0xFF == 0xF3 and (word >> 8 & 0xFFFFF) < 3:
            words[index] = word & 0xFFFFFFF | counts[word >> 8 & 0xFFFFF] << 28
            changed += 1
    assert changed > 2
    path = tmp_path / "cycle.work"
    path.write_bytes(with_words(workload, words))
    arguments = ["--engine-cycles-per-op", "0", "--preload", PLANTED, "--checked", stamp(path)]
    error = one_error(engine("--pass", "bare", *arguments, path))
    assert "threads all wait for one another" in error
