# SPDX-License-Identifier: MIT
"""The model of time: from counts of a replay and penalties of a machine to the change of the program's CPU time."""
