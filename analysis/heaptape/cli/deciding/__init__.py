# SPDX-License-Identifier: MIT
"""Answers from many replays: which allocator, which settings, whether and since when one is worse."""
