# SPDX-License-Identifier: MIT
"""What people and programs read: tables, figures, pages, and the shapes of JSON."""
