# SPDX-License-Identifier: MIT
"""What is asked for: the cells that follow, what they need in the store, and how many of them are left."""
