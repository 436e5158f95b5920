# SPDX-License-Identifier: MIT
"""Distillates: a small part of a trace, by which figures of the whole are estimated, with their errors."""
