# SPDX-License-Identifier: MIT
"""Making results: which allocators, workloads and runs, and making them."""
