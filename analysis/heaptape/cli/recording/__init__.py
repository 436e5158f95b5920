# SPDX-License-Identifier: MIT
"""A program while it runs: its recording controlled and watched, its figures live. What records is a C program."""
