# SPDX-License-Identifier: MIT
"""Evaluation of a store: candidates against the baseline, the best of them, recordings that stand for all."""
