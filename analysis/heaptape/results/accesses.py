# SPDX-License-Identifier: MIT
"""Figures of the pass `accesses`: a run's "accesses" object as metrics.

"accesses/independent" and "accesses/dependent": ns of CPU time of the calls and the accesses, less the engine's own
share; "accesses/own": that share.
"""

from collections.abc import Iterator

KINDS = ("independent", "dependent")
OWN = "accesses/own"


def figures(accesses: dict) -> Iterator[tuple[str, float]]:
    """Metric and ns for each figure that the "accesses" object of a run has."""
    own = accesses.get("own_cpu_ns")
    if own is None:
        return
    yield OWN, float(own)
    for kind in KINDS:
        whole = accesses.get(f"{kind}_cpu_ns")
        if whole is not None:
            yield f"accesses/{kind}", float(whole - own)
