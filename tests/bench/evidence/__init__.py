# SPDX-License-Identifier: MIT
"""heaptape's figures beside those that others published."""
