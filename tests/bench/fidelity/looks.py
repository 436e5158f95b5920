# SPDX-License-Identifier: MIT
"""When there are enough live runs: the rule by which a pair of allocators is decided and the rounds end.

Testing repeatedly until an interval is narrow enough makes the interval too narrow. So a pair is tested LOOKS times at
most: after FIRST_LOOK rounds, after twice as many as at the last look, and where the budget ends. Each interval has the
level 1 - 0.05 / LOOKS. By Bonferroni's inequality all intervals of a pair together hold its true ratio with 95 %,
whenever the rounds stop. What an interval says is `Decision.verdict` (results/comparing/race.py).
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from heaptape.results.comparing.intervals import LEVEL
from heaptape.results.comparing.race import UNDECIDED, Decision, logs_of, trimmed

LOOKS = 8
FIRST_LOOK = 8
LEVEL_OF_ONE = 1 - (1 - LEVEL) / LOOKS


def decision(logs: Sequence[float], level: float = LEVEL_OF_ONE) -> Decision:
    """The decision from the logarithms of one pair's ratios, one for each round."""
    ratio = trimmed(np.asarray(logs, float))
    low, high = ratio.interval(level)
    return Decision(100 * math.expm1(ratio.mean), 100 * (low - 1), 100 * (high - 1), len(logs))


def decisions(rounds: Sequence[Mapping[str, float]], looks: Sequence[int], baseline: str) -> dict[str, Decision]:
    """label -> the decision at the first look that decided the pair, else at the last. `rounds`: for each, label -> CPU
    time; `looks`: after how many rounds.
    """
    labels = dict.fromkeys(label for one in rounds for label in one if label != baseline)
    return {label: _at_looks(logs_of(rounds, label, baseline), looks) for label in labels}


def next_look(looks: Sequence[int]) -> int | None:
    """After how many rounds to look next; None: no further look."""
    if len(looks) >= LOOKS:
        return None
    return 2 * looks[-1] if looks else FIRST_LOOK


def _at_looks(logs: Sequence[float | None], looks: Sequence[int]) -> Decision:
    found = decision(())
    for rounds in looks:
        found = decision([value for value in logs[:rounds] if value is not None])
        if found.verdict != UNDECIDED:
            break
    return found
