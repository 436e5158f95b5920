# SPDX-License-Identifier: MIT
"""Results and profiles for people: tables, reports, pages."""
