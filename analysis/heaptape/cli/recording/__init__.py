# SPDX-License-Identifier: MIT
"""A program while it runs: its recording controlled and watched, its figures live. A C program does the recording."""
