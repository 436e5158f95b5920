# SPDX-License-Identifier: MIT
"""Simulated caches and TLBs: the pass `misses`, for recordings with data accesses."""

TABLE = "simulated cache and TLB misses, page faults and instructions (replay --passes misses)"
TABLE_TURN = 0  # before those of other features
