# SPDX-License-Identifier: MIT
"""Workloads drawn from the profile of a program, where its trace can't be shared."""
