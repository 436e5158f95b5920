# SPDX-License-Identifier: MIT
"""Makes results: chooses allocators, workloads and runs, and carries the runs out."""
