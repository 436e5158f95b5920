# SPDX-License-Identifier: MIT
"""Many recordings, many machines: cells, the store that keeps them, and the workers that run them (docs/use/FLEET.md).

`heaptape.fleet.frames(STORE)`: the tables of a store as DataFrames.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def frames(store: str, baseline: str = "glibc", worst_percent: float = 5.0) -> "dict[str, pd.DataFrame]":
    """The tables of the store at a path or URL, by name (docs/use/FLEET.md). Raises HeaptapeError where there is no
    store.

    >>> import heaptape
    >>> heaptape.fleet.frames("fleet")["workloads"][["name", "ops"]]  # doctest: +SKIP
    """
    from heaptape.features.fleet.query import tables
    from heaptape.features.fleet.store import open_store

    return tables(open_store(store), baseline, worst_percent)
