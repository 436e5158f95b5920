# SPDX-License-Identifier: MIT
"""Searches for an allocator's best settings on given workloads, by exact figures of replays."""
