# SPDX-License-Identifier: MIT
"""Traces in the formats of other tools."""
