# SPDX-License-Identifier: MIT
"""A module per pass: its figures as DataFrames, its tables, its plots, its sentences."""
