# SPDX-License-Identifier: MIT
"""Makes results: chooses workloads and runs, and carries the runs out."""
