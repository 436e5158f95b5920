# SPDX-License-Identifier: MIT
"""Who holds the memory: leak, retention or fragmentation (docs/use/BLAME.md)."""
