# SPDX-License-Identifier: MIT
"""Replays and what they need: allocators, the machine; `blame` and `whatif`; how far replays are from live runs."""
