# SPDX-License-Identifier: MIT
"""What commands have in common: how each ends, and what is said of replays under way."""
