# SPDX-License-Identifier: MIT
"""What to record: synthetic programs, recipes of real ones, suites of both; and a first look at a program."""
