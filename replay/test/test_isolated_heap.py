# SPDX-License-Identifier: MIT
"""Objects of a workload in the isolated heap: who serves them, what counts, and what is refused."""

import struct
import zlib
from pathlib import Path

from tests.support import CONVERT, succeed

from .test_engine import engine, one_error, replay


def workload(folder: Path, lines: list[str], *groups: str) -> Path:
    source, work = folder / "history.txt", folder / f"history-{len(groups)}.work"
    source.write_text("# heaptape-text 1\n" + "\n".join(lines) + "\n")
    succeed(CONVERT, "compile", source, "-o", work, *[part for group in groups for part in ("--group", group)])
    return work


def many(count: int, size: int) -> list[str]:
    """`count` objects, all released again."""
    lines = [f"{i} 0 malloc({size}) = {hex(0x100000 + 0x10000 * i)}" for i in range(count)]
    return lines + [f"{count + i} 0 free({hex(0x100000 + 0x10000 * i)})" for i in range(count)]


def every_call() -> list[str]:
    lines = ["0 0 malloc(100) = 0x1000", "1 0 calloc(3, 700) = 0x2000", "2 0 posix_memalign(4096, 10) = 0x3000"]
    lines += ["3 0 realloc(NULL, 30) = 0x5000", "4 0 realloc(0x5000, 3000000) = 0x6000", "5 0 valloc(5) = 0x8000"]
    lines += ["6 0 malloc_usable_size(0x1000)", "7 0 aligned_alloc(256, 512) = 0x9000", "8 0 realloc(0x6000, 0) = NULL"]
    return lines + ["9 1 free(0x1000)", "10 1 free(0x2000)", "11 0 new(24) = 0xa000", "12 1 delete(0xa000)"]


def test_the_isolated_heap_keeps_the_rules_of_malloc_in_every_call(tmp_path):
    work = workload(tmp_path, every_call(), "size=0..=segregate")
    found = replay("--pass", "verify", work)
    assert found["verified"]["live_objects_at_end"] == 3
    assert found["failed_calls"] == 0


def test_the_allocator_sees_no_call_for_what_is_isolated(tmp_path):
    isolated = replay("--pass", "instructions", workload(tmp_path, many(2000, 100), "size=100=segregate"))
    assert isolated["ops"] == 4000
    assert isolated["calls"]["malloc"]["count"] == 2000
    failing = replay("--pass", "bare", "--null", workload(tmp_path, many(2000, 100), "size=100=segregate"))
    assert failing["failed_calls"] == 0


def test_the_isolated_heap_counts_as_resident_and_goes_when_it_is_freed(tmp_path):
    count, size = 4000, 4000
    lines = many(count, size)
    found = replay("--pass", "memory", workload(tmp_path, lines, f"size={size}=segregate"))
    # 65 to a run of 256 KiB.
    whole = count * size
    assert whole <= found["rss_anon_peak_bytes"] <= 1.02 * whole
    assert found["held"]["rss_anon_bytes"] < 0.02 * whole


def test_what_is_live_at_the_end_is_freed_where_it_is(tmp_path):
    lines = [line for line in many(3000, 90) if "free" not in line]
    found = replay("--pass", "memory", workload(tmp_path, lines, "size=90=segregate"))
    assert found["held"]["rss_anon_bytes"] < 256 << 10


def test_an_isolated_op_in_a_file_without_regions_is_refused(tmp_path):
    work = workload(tmp_path, many(10, 100), "size=100=segregate")
    data = bytearray(work.read_bytes())
    struct.pack_into("<I", data, 128, 0)
    struct.pack_into("<I", data, 252, zlib.crc32(bytes(data[:252])))
    work.write_bytes(data)
    error = one_error(engine("--pass", "bare", work))
    assert "REGION of a number that the" in error
    assert "offset" in error
