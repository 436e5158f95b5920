# SPDX-License-Identifier: MIT
"""Waits of threads inside calls of the allocator."""

TABLE = "waits of threads inside calls, by lock and call (replay --passes contention)"
