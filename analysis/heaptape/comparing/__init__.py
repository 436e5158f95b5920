# SPDX-License-Identifier: MIT
"""What results say of one allocator against another: ratios, intervals, verdicts, proposals. DataFrames, no text."""
