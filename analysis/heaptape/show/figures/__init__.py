# SPDX-License-Identifier: MIT
"""Plots of results and profiles. Each draws into an Axes that it is given."""

from heaptape.show.drawing import map_image, style, thinned
from heaptape.show.figures.axes import (
    against_baseline,
    latencies,
    memory_over_progress,
    request_sizes,
    time_against_memory,
)
from heaptape.show.figures.memory_plots import memory_map

__all__ = [
    "against_baseline", "latencies", "map_image", "memory_map", "memory_over_progress", "request_sizes", "style",
    "thinned", "time_against_memory",
]  # fmt: skip
