# SPDX-License-Identifier: MIT
"""A recording as it would be if groups of objects were treated differently, replayed (docs/use/BLAME.md)."""
