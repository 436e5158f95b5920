# SPDX-License-Identifier: MIT
"""The processors that this process may use."""

import os


def processors() -> int:
    return len(os.sched_getaffinity(0))
