# SPDX-License-Identifier: MIT
"""Cells run in this process: their files fetched, the replays run, and the results put into the store."""
