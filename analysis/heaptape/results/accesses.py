# SPDX-License-Identifier: MIT
"""Figures of the pass `accesses`: what a run's "accesses" object says, as metrics.

"accesses/independent" and "accesses/dependent": ns of CPU time of the calls and the accesses, the engine's own share
taken off; "accesses/own": that share.
"""

from collections.abc import Iterator

KINDS = ("independent", "dependent")
OWN = "accesses/own"


def figures(accesses: dict) -> Iterator[tuple[str, float]]:
    """Metric and ns of all that the "accesses" object of a run has; what it lacks is left out."""
    own = accesses.get("own_cpu_ns")
    if own is None:
        return
    yield OWN, float(own)
    for kind in KINDS:
        whole = accesses.get(f"{kind}_cpu_ns")
        if whole is not None:
            yield f"accesses/{kind}", float(whole - own)
