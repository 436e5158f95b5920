# SPDX-License-Identifier: MIT
"""Advice: which allocator a program should use, from exact replays; and live runs that confirm it."""
