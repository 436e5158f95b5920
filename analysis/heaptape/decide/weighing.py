# SPDX-License-Identifier: MIT
"""What live runs and the prediction say together of a change of CPU time.

Rounds of a busy machine leave intervals of 20 points, and the prediction a range of as much: together they say more
than each. The prediction is the prior of a normal mean, with the half of its 95 % range on the side of what was
measured; where nothing is predicted, the prior is what allocators usually do to a program (USUAL). Both weigh by the
inverse of their variances. Where they contradict one another (farther apart than CONTRADICTS deviations), what was
measured stands alone.

The allocator with the least weighed time is the one with the least expected regret, so it is named although its
interval may hold 0: to stay with today's until a gain is significant costs more than a wrong change of a point or two
(docs/measurements/advice.md). What is asked of it is the gain that is a reason to change (worth.py), and LIKELY.
"""

import math
from dataclasses import dataclass, replace

import scipy

from heaptape.decide.cpu import LIVE, MILLISECONDS, Cpu

NORMAL_95, CONTRADICTS = 1.96, 2.0
LEAST_DEVIATION, LEAST_LOG = 1e-4, math.log(0.05)
LIKELY = 0.65  # chance from which a gain is named
USUAL = 0.1  # deviation of the logarithm of the ratio, where nothing is predicted


@dataclass(frozen=True)
class Live:
    """Live runs against the allocator `than`, which took `cpu_ns` (median): the change in percent, and its ends, which
    hold for all of a race together. `standing`: in the race of all that ran (results/comparing/race.py); empty: there
    was none. `deviation`, `freedom`: of the logarithm of the ratio; NaN: as the ends tell. `replayed`: the runs are of
    the process that was replayed, nearly alone. `counted`: by the processor's cycles, not by time.
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
    counted: bool = False

    @property
    def cpu(self) -> Cpu:
        """The change by them alone."""
        return _of(self.cpu_ns, self.percent, self.low, self.high)


def weighed(live: Live, predicted: Cpu | None) -> Cpu:
    """The change by both, its 95 % interval, and the chance that there is a gain. NaN ends: nothing is known."""
    mean, deviation, freedom = _log(live.percent), live.deviation, live.freedom
    if math.isnan(deviation):
        deviation, freedom = (_log(live.high) - _log(live.low)) / 2 / NORMAL_95, math.inf
    deviation = max(deviation, LEAST_DEVIATION)
    centre, prior = _prior(predicted if live.replayed else None, mean)
    if abs(mean - centre) <= CONTRADICTS * math.hypot(deviation, prior):
        share = prior**2 / (prior**2 + deviation**2)  # of what was measured
        mean, deviation = centre + share * (mean - centre), deviation * math.sqrt(share)
        freedom /= share**2
    freedom = min(freedom, 1e6)
    half = float(scipy.special.stdtrit(freedom, 0.975)) * deviation
    percent, low, high = (100 * math.expm1(log) for log in (mean, mean - half, mean + half))
    chance = float(scipy.special.stdtr(freedom, -mean / deviation))
    because = predicted.because if predicted else ()
    return replace(_of(live.cpu_ns, percent, low, high), because=because, chance=chance, named=chance >= LIKELY)


def _prior(predicted: Cpu | None, measured: float) -> tuple[float, float]:
    """The centre and the deviation of the logarithm of the ratio, before it was measured."""
    if not predicted or predicted.kind == MILLISECONDS:
        return 0.0, USUAL
    centre = _log(predicted.percent)
    end = _log(predicted.high) if measured > centre else _log(predicted.low)
    return centre, max(abs(end - centre) / NORMAL_95, LEAST_DEVIATION)


def _of(cpu_ns: float, percent: float, low: float, high: float) -> Cpu:
    per_cent = cpu_ns / 1e8  # ms
    return Cpu(LIVE, percent, low, high, per_cent * percent, per_cent * low, per_cent * high)


def _log(percent: float) -> float:
    """Of the ratio. A prediction may be of more than the program takes."""
    return max(math.log1p(percent / 100), LEAST_LOG) if percent > -100 else LEAST_LOG
