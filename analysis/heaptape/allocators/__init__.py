# SPDX-License-Identifier: MIT
"""Which allocators there are here, in which versions, what can be set, whose malloc a program uses. Runs nothing."""
