# SPDX-License-Identifier: MIT
"""What live runs and the prediction say together of a change of CPU time.

Rounds of a busy machine leave intervals of 20 points, and the prediction a range of as much: together they say more
than each. The prediction is the prior of a normal mean, with the half of its 95 % range on the side of what was
measured; both weigh by the inverse of their variances. Where they contradict one another (farther apart than
CONTRADICTS deviations), what was measured stands alone.
"""

import math
from dataclasses import dataclass, replace

import scipy

from heaptape.common.phrases import NOTHING
from heaptape.decide.cpu import LIVE, MILLISECONDS, Cpu

NORMAL_95, CONTRADICTS = 1.96, 2.0
LEAST_DEVIATION, LEAST_LOG = 1e-4, math.log(0.05)
LIKELY, ALONE = 0.85, 0.95  # chance from which a gain is named: where the prediction is a gain, too, and else
ROUNDS_ALONE = 3  # and the rounds that name one without a prediction


@dataclass(frozen=True)
class Live:
    """Live runs against the allocator `than`, which took `cpu_ns` (median): the change in percent, and its ends, which
    hold for all of a race together. `standing`: in the race of all that ran (results/comparing/race.py); empty: there
    was none. `deviation`, `freedom`: of the logarithm of the ratio; NaN: as the ends tell. `replayed`: the runs are of
    the process that was replayed, nearly alone.
    """

    than: str
    cpu_ns: float
    percent: float
    low: float
    high: float
    rounds: int
    standing: str = ""
    deviation: float = math.nan
    freedom: float = math.nan
    replayed: bool = True

    @property
    def cpu(self) -> Cpu:
        """The change by them alone."""
        return _of(self.cpu_ns, self.percent, self.low, self.high)


def weighed(live: Live, predicted: Cpu | None) -> Cpu:
    """The change by both, its 95 % interval, and the chance that there is a gain. NaN ends: nothing is known."""
    mean, deviation, freedom = _log(live.percent), live.deviation, live.freedom
    if math.isnan(deviation):
        deviation, freedom = (_log(live.high) - _log(live.low)) / 2 / NORMAL_95, math.inf
    deviation, agrees = max(deviation, LEAST_DEVIATION), False
    if predicted and live.replayed and predicted.kind != MILLISECONDS:
        centre = _log(predicted.percent)
        end = _log(predicted.high) if mean > centre else _log(predicted.low)
        prior = max(abs(end - centre) / NORMAL_95, LEAST_DEVIATION)
        agrees = predicted.gain > NOTHING
        if abs(mean - centre) <= CONTRADICTS * math.hypot(deviation, prior):
            share = prior**2 / (prior**2 + deviation**2)  # of what was measured
            mean, deviation = centre + share * (mean - centre), deviation * math.sqrt(share)
            freedom /= share**2
    freedom = min(freedom, 1e6)
    half = float(scipy.special.stdtrit(freedom, 0.975)) * deviation
    percent, low, high = (100 * math.expm1(log) for log in (mean, mean - half, mean + half))
    chance = float(scipy.special.stdtr(freedom, -mean / deviation))
    because = predicted.because if predicted else ()
    named = chance >= LIKELY if agrees else chance >= ALONE and live.rounds >= ROUNDS_ALONE
    return replace(_of(live.cpu_ns, percent, low, high), because=because, chance=chance, named=named)


def _of(cpu_ns: float, percent: float, low: float, high: float) -> Cpu:
    per_cent = cpu_ns / 1e8  # ms
    return Cpu(LIVE, percent, low, high, per_cent * percent, per_cent * low, per_cent * high)


def _log(percent: float) -> float:
    """Of the ratio. A prediction may be of more than the program takes."""
    return max(math.log1p(percent / 100), LEAST_LOG) if percent > -100 else LEAST_LOG
