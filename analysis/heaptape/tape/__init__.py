# SPDX-License-Identifier: MIT
"""Readers of traces, workloads, memory maps and of results inside reports. No figures are computed here."""
