# SPDX-License-Identifier: MIT
"""Cells run in this process: what they need brought, replayed, and put into the store."""
