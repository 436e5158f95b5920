# SPDX-License-Identifier: MIT
"""Cache lines that threads share, in a replay and in the recorded layout."""

TABLE = "cache lines that threads share (replay --passes sharing)"
