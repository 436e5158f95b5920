# SPDX-License-Identifier: MIT
"""Which call sites to serve from memory of their own: plans, their search, and code."""
