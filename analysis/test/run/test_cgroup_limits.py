# SPDX-License-Identifier: MIT
"""Memory that a process's cgroups leave to it."""

from heaptape.run import machine


def test_memory_left_is_that_under_each_limit_with_cached_files_counted_as_left(tmp_path):
    for folder, most, used, cached in (("a/b", "max", 40, 0), ("a", 1000, 300, 100), ("memory/c", 500, 600, 0)):
        group = tmp_path / folder
        group.mkdir(parents=True, exist_ok=True)
        old = folder.startswith("memory")
        (group / ("memory.limit_in_bytes" if old else "memory.max")).write_text(f"{most}\n")
        (group / ("memory.usage_in_bytes" if old else "memory.current")).write_text(f"{used}\n")
        (group / "memory.stat").write_text(f"anon 5\ninactive_file {cached}\n")
    assert list(machine._left_in_cgroups("1:cpu:/a\n0::/a/b\n", tmp_path)) == [800]
    assert list(machine._left_in_cgroups("4:memory:/c/deeper\n", tmp_path)) == [0]
