# SPDX-License-Identifier: MIT
"""The "blame" of planted runs."""

from heaptape.features.blame import data as blame
from planted_runs import typed


def decoded(run: dict) -> blame.Blame | None:
    """The run's "blame", decoded."""
    return blame.decode(typed(run))
