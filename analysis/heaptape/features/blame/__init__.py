# SPDX-License-Identifier: MIT
"""Who holds the memory: leak, retention or fragmentation (docs/use/BLAME.md).

heaptape.blame.holding(heaptape.results("R.json"))            # rows for each allocator, position and group
heaptape.blame.figure_holders(results, "jemalloc")            # a figure of them
"""

from importlib import import_module
from typing import Any

TABLE = "who holds the memory where RSS is largest, beside the baseline or another file (replay --passes blame)"


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """What is in `data`, and `figure_holders`: the command must not wait for pandas."""
    if name.startswith("_"):
        raise AttributeError(name)
    return getattr(import_module(f"{__name__}.{'figures' if name.startswith('figure_') else 'data'}"), name)
