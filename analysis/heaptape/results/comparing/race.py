# SPDX-License-Identifier: MIT
"""A race: which of several allocators makes a program take least CPU time, by as few live runs as that needs.

A round runs the baseline and each racer that is still in the race once, in random order, so what disturbs a round
cancels within it. After LOOKS rounds each racer is compared with the leader. It leaves the race if its interval has no
gain of EFFECT_PERCENT or more: BEATEN where the interval is above 0, EQUAL where it has no loss of as much either, else
NEAR; what that misses is at most EFFECT_PERCENT. Otherwise it is OPEN, and stays. Sequential elimination with a fixed
error is Maron and Moore's Hoeffding race (NIPS 1993), here with Student's intervals.

Three rounds give one pair two degrees of freedom, which decide nothing. All racers run on one machine, so the noise of
a pair is estimated from its own rounds and, with the weight of at most PRIOR degrees of freedom, from all others' (the
moderated variance of Smyth, *Stat. Appl. Genet. Mol. Biol.* 3, 2004). A pair's figure is the mean of the logarithms of
the ratios within rounds, without the fifth at each end, as some rounds of a busy machine are far off; its variance is
the winsorised one (Yuen, *Biometrika* 61, 1974). Each interval has the level
1 - 0.05 / (looks * racers): all together hold the true ratios in 95 % of races.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from heaptape.results.comparing.intervals import LEVEL, LogRatio

LOOKS = (3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
EFFECT_PERCENT = 2.0
LEFT_OUT = 0.2  # of the rounds, at each end
PRIOR = 4.0
DISTURBED, EXACT = 4.0, 1e-12
DIFFERENT, SAME, UNDECIDED = "different", f"no difference of {EFFECT_PERCENT:g} %", "undecided"
LEADS, BEATEN, EQUAL, NEAR, OPEN = "leads", "beaten", "equal", "near", "open"

Rounds = Sequence[Mapping[str, float]]  # label -> CPU time


@dataclass(frozen=True)
class Decision:
    """The change in percent of the baseline, with its interval, after `rounds` rounds; NaN where these are too few.
    `deviation`, `freedom`: of its logarithm.
    """

    percent: float
    low: float
    high: float
    rounds: int
    deviation: float = math.nan
    freedom: float = math.nan

    @property
    def verdict(self) -> str:
        """DIFFERENT where the interval is narrower than the change that it surrounds, and that is EFFECT_PERCENT or
        more; SAME where it leaves out every change of EFFECT_PERCENT; else UNDECIDED.
        """
        if self.low > -EFFECT_PERCENT and self.high < EFFECT_PERCENT:
            return SAME
        clear = self.high - self.low < abs(self.percent) and abs(self.percent) >= EFFECT_PERCENT
        return DIFFERENT if clear else UNDECIDED


def compared(rounds: Rounds, label: str, than: str, racers: int) -> Decision:
    """The change from `than` to `label` by the rounds in which both ran, undisturbed."""
    return changes(rounds, [label], than, racers)[label]


def changes(rounds: Rounds, labels: Sequence[str], than: str, racers: int) -> dict[str, Decision]:
    """label -> `compared`."""
    rounds = undisturbed(rounds)
    noise = _noise(rounds)
    return {label: _compared(logs_of(rounds, label, than), noise, racers) for label in labels}


def _compared(logs: Sequence[float | None], noise: tuple[float, float], racers: int) -> Decision:
    known = [value for value in logs if value is not None]
    variance, freedom = noise
    others = freedom - max(len(known) - 1, 0)  # of what the other pairs say
    ratio = _moderated(trimmed(np.asarray(known, float)), 2 * variance, min(others, PRIOR), len(known))
    low, high = ratio.interval(1 - (1 - LEVEL) / (len(LOOKS) * racers))
    percent, deviation = 100 * math.expm1(ratio.mean), math.sqrt(ratio.variance)
    return Decision(percent, 100 * (low - 1), 100 * (high - 1), len(known), deviation, ratio.freedom)


def standings(rounds: Rounds, racers: Sequence[str], baseline: str) -> dict[str, str]:
    """racer -> LEADS, BEATEN, EQUAL, NEAR or OPEN, the leader first."""
    found = changes(rounds, racers, baseline, len(racers))
    leader, *others = sorted(racers, key=lambda one: found[one].percent)
    against = changes(rounds, others, leader, len(racers))
    return {leader: LEADS} | {label: _standing(change) for label, change in against.items()}


def _standing(change: Decision) -> str:
    if change.verdict == SAME:
        return EQUAL
    if change.low > -EFFECT_PERCENT:
        return BEATEN if change.low > 0 else NEAR
    return OPEN


def goes_on(rounds: Rounds, racers: Sequence[str], baseline: str) -> list[str]:
    """The racers of the next round; none: the race is decided, or has no further look."""
    if len(rounds) >= LOOKS[-1]:
        return []
    if len(rounds) not in LOOKS:
        return [label for label in rounds[-1] if label != baseline] if rounds else list(racers)
    found = standings(rounds, racers, baseline)
    still = [label for label, standing in found.items() if standing in (LEADS, OPEN)]
    leader = compared(rounds, still[0], baseline, len(racers))
    decided = leader.verdict != UNDECIDED or leader.low > -EFFECT_PERCENT
    return still if len(still) > 1 or not decided else []


def undisturbed(rounds: Rounds) -> list[dict[str, float]]:
    """The rounds without the runs that something else slowed down: those whose logarithm is more than DISTURBED robust
    deviations above what its round and its label have in common.
    """
    labels, rest = _residuals(rounds, np.nanmedian)
    known = rest[~np.isnan(rest)]
    freedom = len(known) - len(rounds) - len(labels) + 1
    if freedom < 1:
        return [dict(one) for one in rounds]
    apart = np.abs(known)[np.abs(known) > EXACT]  # medians of few rounds leave many residuals 0, which say nothing
    most = DISTURBED * 1.4826 * float(np.median(apart)) * math.sqrt(len(known) / freedom) if len(apart) else math.inf
    slow = [{label for label, value in zip(labels, row) if value > most} for row in rest]
    return [{label: one[label] for label in one if label not in left_out} for one, left_out in zip(rounds, slow)]


def _noise(rounds: Rounds) -> tuple[float, float]:
    """Variance of the logarithm of one run's time, and its degrees of freedom: what remains of all runs after the
    effects of rounds and labels.
    """
    labels, rest = _residuals(rounds, np.nanmean)
    known = rest[~np.isnan(rest)]
    freedom = len(known) - sum(map(bool, rounds)) - len(labels) + 1
    return (float((known**2).sum()) / freedom, float(freedom)) if freedom >= 1 else (math.nan, 0.0)


def _residuals(rounds: Rounds, middle: Callable[..., np.ndarray]) -> tuple[list[str], np.ndarray]:
    """Labels, and the logarithms less the effects of rounds and labels, by median polish or means (Tukey 1977)."""
    labels = list(dict.fromkeys(label for one in rounds for label in one))
    logs = np.array([[math.log(one[label]) if label in one else math.nan for label in labels] for one in rounds])
    logs = logs.reshape(len(rounds), len(labels))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a round of which nothing is left
        for _ in range(8):
            logs = logs - middle(logs, axis=0, keepdims=True)
            logs = logs - middle(logs, axis=1, keepdims=True)
    return labels, logs


def _moderated(own: LogRatio, variance: float, freedom: float, count: int) -> LogRatio:
    """`variance`: of one pair's logarithm, by all runs."""
    if freedom < 1 or count == 0:
        return own
    mean_of = variance / count
    if math.isnan(own.variance):
        return replace(own, variance=mean_of, freedom=freedom)
    both = own.freedom + freedom
    return replace(own, variance=(own.freedom * own.variance + freedom * mean_of) / both, freedom=both)


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
