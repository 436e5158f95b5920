# SPDX-License-Identifier: MIT
"""Is the new allocator worse than the old one, in which workload, and what is the smallest workload that shows it."""
