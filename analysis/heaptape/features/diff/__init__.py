# SPDX-License-Identifier: MIT
"""What a change of the program did to its allocations: two versions' recordings, compared by call site."""
