# SPDX-License-Identifier: MIT
"""Advice: which allocator a program should use, from exact replays, and what live runs say of it."""
