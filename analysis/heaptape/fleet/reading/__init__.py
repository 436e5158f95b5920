# SPDX-License-Identifier: MIT
"""What follows from a store: candidates against the baseline, the best of them, which recordings stand for all."""
