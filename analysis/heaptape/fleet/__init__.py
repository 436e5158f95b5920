# SPDX-License-Identifier: MIT
"""Many recordings, many machines: cells, the store that keeps them, and what runs them (docs/FLEET.md)."""
