# SPDX-License-Identifier: MIT
"""The version, for results and pages that name it."""

__version__ = "0.1.0"
