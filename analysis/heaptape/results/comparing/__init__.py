# SPDX-License-Identifier: MIT
"""Compares one allocator with another by results: ratios, intervals, verdicts, proposals. DataFrames, no text."""
