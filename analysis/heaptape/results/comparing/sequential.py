# SPDX-License-Identifier: MIT
"""When there are enough live runs: the rule by which a pair of allocators is decided and the rounds end.

A round runs the baseline and each allocator that is not decided yet once, in random order. A pair's figure is the mean
of the logarithms of the ratios within rounds. The fifth at each end is left out, as some rounds of a busy machine are
far off; Student's interval is by the winsorised variance (Yuen, *Biometrika* 61, 1974).

Testing repeatedly until an interval is narrow enough makes the interval too narrow. So a pair is tested LOOKS times at
most: after FIRST_LOOK rounds, after twice as many as at the last look, and where the budget ends. Each interval has the
level 1 - 0.05 / LOOKS. By Bonferroni's inequality all intervals of a pair together hold its true ratio with 95 %,
whenever the rounds stop. A pair is

- DIFFERENT if its interval is narrower than the change that it surrounds, and that is EFFECT_PERCENT or more;
- SAME if its interval leaves out every change of EFFECT_PERCENT;
- UNDECIDED else.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from heaptape.results.comparing.intervals import LEVEL, LogRatio

LOOKS = 8
FIRST_LOOK = 8
EFFECT_PERCENT = 2.0
LEFT_OUT = 0.2  # of the rounds, at each end
LEVEL_OF_ONE = 1 - (1 - LEVEL) / LOOKS
DIFFERENT, SAME, UNDECIDED = "different", f"no difference of {EFFECT_PERCENT:g} %", "undecided"


@dataclass(frozen=True)
class Decision:
    """The change in percent of the baseline, with its interval, after `rounds` rounds; NaN where these are too few."""

    percent: float
    low: float
    high: float
    rounds: int

    @property
    def verdict(self) -> str:
        """DIFFERENT, SAME or UNDECIDED."""
        if self.low > -EFFECT_PERCENT and self.high < EFFECT_PERCENT:
            return SAME
        clear = self.high - self.low < abs(self.percent) and abs(self.percent) >= EFFECT_PERCENT
        return DIFFERENT if clear else UNDECIDED


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


def logs_of(rounds: Sequence[Mapping[str, float]], label: str, baseline: str) -> list[float | None]:
    """One for each round; None: one of the two did not run in it."""
    return [math.log(one[label] / one[baseline]) if {label, baseline} <= one.keys() else None for one in rounds]


def trimmed(logs: np.ndarray) -> LogRatio:
    """Their mean without the fifth at each end, with the winsorised variance (Yuen)."""
    count = len(logs)
    if count < 2:
        return LogRatio(float(logs.mean()) if count else math.nan, math.nan, math.nan, count)
    ordered, cut = np.sort(logs), int(LEFT_OUT * count)
    kept = ordered[cut : count - cut]
    winsorised = np.clip(ordered, kept[0], kept[-1])
    variance = float(winsorised.var(ddof=1)) * count / len(kept) ** 2
    return LogRatio(float(kept.mean()), variance, len(kept) - 1, count)
