# SPDX-License-Identifier: MIT
"""Candidates: versions of allocators brought from package registries or checkouts, built, checked and recorded."""
