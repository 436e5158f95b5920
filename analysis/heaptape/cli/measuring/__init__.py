# SPDX-License-Identifier: MIT
"""Replays and what they need: allocators, the machine, who holds the memory and what if, and how true replays are."""
