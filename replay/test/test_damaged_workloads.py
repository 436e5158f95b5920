# SPDX-License-Identifier: MIT
"""The engine checks everything in a workload: any damage causes one error, or a replay of what is left.

Long: 60 more workloads with random damage.
"""

import random
import struct
import zlib
from pathlib import Path

import pytest

from .test_engine import PLANTED, engine, make, one_error


@pytest.fixture(scope="module")
def workload(tmp_path_factory):
    path = tmp_path_factory.mktemp("damaged") / "whole.work"
    make(path, ops=400, threads=3, live_objects=40, remote_percent=30, run_ops=4)
    return path.read_bytes()


def with_header(data: bytes, offset: int, form: str, value: int) -> bytes:
    """The file with one field of the header replaced and the checksum corrected."""
    out = bytearray(data)
    struct.pack_into(form, out, offset, value)
    struct.pack_into("<I", out, 252, zlib.crc32(bytes(out[:252])))
    return bytes(out)


def bare(path: Path, data: bytes, pass_: str = "bare", order: str = "window"):
    path.write_bytes(data)
    return engine("--pass", pass_, "--order", order, "--null", "--engine-cycles-per-op", "0", path)


@pytest.mark.parametrize(
    ("offset", "form", "value"),
    [(8, "<I", 0), (8, "<I", 3), (16, "<Q", 5), (24, "<Q", 401), (32, "<Q", 1), (40, "<I", 2), (40, "<I", 1 << 21),
     (40, "<I", 4), (44, "<I", 2**32 - 1), (44, "<I", 3), (88, "<Q", 2**63), (96, "<Q", 2**61), (96, "<Q", 1),
     (120, "<Q", 2**64 - 8)],
)  # fmt: skip
def test_wrong_header_field_gives_one_error_with_its_place(tmp_path, workload, offset, form, value):
    path = tmp_path / "wrong.work"
    error = one_error(bare(path, with_header(workload, offset, form, value)))
    assert f"{path}: offset " in error


def test_every_cut_gives_one_error(tmp_path, workload):
    for length in [*range(0, 260, 52), *range(300, len(workload), len(workload) // 12)]:
        one_error(bare(tmp_path / "cut.work", workload[:length]))


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "text.work"
    assert "not a heaptape workload" in one_error(bare(path, b"malloc(10) = 0x1000\n" * 100))
    assert one_error(engine("--pass", "bare", tmp_path))
    assert one_error(engine("--pass", "bare", tmp_path / "missing.work"))


@pytest.mark.parametrize(("seed", "mutants"), [(3, 15), pytest.param(7, 60, marks=pytest.mark.long)])
def test_random_damage_never_crashes_the_engine(tmp_path, workload, seed, mutants):
    """With the null allocator only the engine can crash. It must succeed, or end with one error."""
    random_ = random.Random(seed)
    path = tmp_path / "random.work"
    for _ in range(mutants):
        data = bytearray(workload)
        for _ in range(random_.choice([1, 1, 2, 8])):
            data[random_.randrange(256, len(data))] = random_.randrange(256)
        pass_, order = random_.choice(["time", "memory", "bare"]), random_.choice(["recorded", "causal", "window"])
        result = bare(path, bytes(data), pass_, order)
        if result.returncode != 0:
            error = one_error(result)
            assert "signal" not in error
            assert str(path) in error


def test_threads_that_wait_for_one_another_are_reported(tmp_path, workload):
    """A WAIT turned forward: the thread waits for an op that comes after its own."""
    words = list(struct.unpack(f"<{(len(workload) - 256) // 8}Q", workload[256 : 256 + (len(workload) - 256) // 8 * 8]))
    counts_offset = struct.unpack_from("<Q", workload, 120)[0]
    counts = struct.unpack_from("<3Q", workload, counts_offset)
    changed = 0
    for index, word in enumerate(words[: counts_offset // 8]):
        if word & 0xFF == 0xF3 and (word >> 8 & 0xFFFFF) < 3:
            words[index] = word & 0xFFFFFFF | counts[word >> 8 & 0xFFFFF] << 28
            changed += 1
    assert changed > 2
    data = workload[:256] + struct.pack(f"<{len(words)}Q", *words) + workload[256 + 8 * len(words) :]
    path = tmp_path / "cycle.work"
    path.write_bytes(data)
    error = one_error(engine("--pass", "bare", "--engine-cycles-per-op", "0", "--preload", PLANTED, path))
    assert "threads all wait for one another" in error
