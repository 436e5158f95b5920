# SPDX-License-Identifier: MIT
"""Candidates: versions of allocators from package registries or checkouts: fetched, built, checked and recorded."""
