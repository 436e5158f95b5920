# SPDX-License-Identifier: MIT
"""Many recordings, many machines: cells, the store that keeps them, and the workers that run them (docs/use/FLEET.md).

`heaptape.fleet.frames(STORE)`: the tables of a store as DataFrames.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from heaptape.features.fleet.dataset import Frames


def frames(store: str) -> "Frames":
    """The tables of the store at a path or URL, each read on first use. Raises HeaptapeError where there is no store,
    or packages are missing.

    >>> import heaptape
    >>> heaptape.fleet.frames("fleet").traces[["name", "ops"]]  # doctest: +SKIP
    """
    from heaptape.features.fleet.dataset import Frames
    from heaptape.features.fleet.store import open_store

    return Frames(open_store(store))
