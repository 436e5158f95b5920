# SPDX-License-Identifier: MIT
"""What commands have in common: how each ends, and how replays in progress are reported."""
