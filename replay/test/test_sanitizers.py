# SPDX-License-Identifier: MIT
"""The engine's own code under ThreadSanitizer, AddressSanitizer and UBSan: no report in any pass and order.

SANITIZE_ROUNDS=N runs N times as much (`make sanitize`).
Long: it needs two more builds of the engine. What the engine computes is tested without sanitizers.
"""

import os
import subprocess

import pytest

from .test_engine import OUT, make

ROUNDS = int(os.environ.get("SANITIZE_ROUNDS", "1"))
pytestmark = pytest.mark.long

ORDERS = ["recorded", "causal", "window=64", "paced=50", "random=7"]


@pytest.mark.parametrize("sanitizer", ["thread", "address"])
@pytest.mark.parametrize("order", ORDERS)
def test_engine_is_clean_under_sanitizers(tmp_path, sanitizer, order):
    """Generated workloads `delete` objects from malloc, hence the two options of ASan that allow it."""
    path = tmp_path / "shared.work"
    for seed in range(ROUNDS):
        make(path, ops=3000 * ROUNDS, threads=12, threads_live=6, live_objects=150, remote_percent=40, run_ops=4,
             gap_ns=1000, seed=seed + 1)  # fmt: skip
        passes = [("bare", "--null"), ("time", "")] + ([("memory", "")] if sanitizer == "address" else [])
        passes += [("blame", "")] if sanitizer == "address" and order == "recorded" else []
        for pass_, allocator in passes:
            command = [OUT / "sanitize" / sanitizer / "heaptape-replay", "--pass", pass_, "--order", order]
            command += [allocator] if allocator else []
            command += ["--engine-cycles-per-op", "0", "--baseline-rss-anon-bytes", "0", path]
            options = {
                "TSAN_OPTIONS": "exitcode=66",
                "ASAN_OPTIONS": "exitcode=66:detect_leaks=0:alloc_dealloc_mismatch=0:new_delete_type_mismatch=0",
            }
            result = subprocess.run(
                [str(word) for word in command], env=os.environ | options, capture_output=True, text=True, timeout=300
            )
            assert result.returncode == 0, result.stderr[:4000]
            assert "Sanitizer" not in result.stderr, result.stderr[:4000]
