# SPDX-License-Identifier: MIT
"""How far the predicted change of a program's CPU time is from the live change, for pairs that live runs decided."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from heaptape.results.comparing.race import DIFFERENT, EFFECT_PERCENT, SAME, UNDECIDED, Decision

from tests.bench.fidelity import live_rounds
from tests.bench.fidelity.certificate import sizes_of_errors
from tests.bench.fidelity.counted_certificate import GROUPS, about_of, of_group
from tests.bench.fidelity.looks import decision

# If other programs and the hypervisor took more of all processors' time (median of rounds), the machine was not quiet.
QUIET_PERCENT = 5.0
NOT_RUN = "not run live"


def pairs(results: Sequence[dict]) -> pd.DataFrame:
    """One row per app and allocator that is predicted. Columns: app, set, threads, alone (as in counted_certificate),
    allocator; percent, low, high (predicted change of CPU time, in percent of the baseline's); live, live_low,
    live_high, rounds, verdict (looks.py, or NOT_RUN); outright (the predicted interval leaves out 0), right (the
    sign) and error (of the size, in percent of the live change) of DIFFERENT pairs, else False and NaN; holds (pairs of
    either verdict whose live change is in the predicted interval); contradicted (SAME live, predicted EFFECT_PERCENT
    or more outright).
    """
    rows = []
    for data in results:
        about = about_of(data["app"])
        lived = live_rounds.found(data)
        for label, predicted in data["predicted"].items():
            one = lived.get(label, decision(()))
            verdict = one.verdict if one.rounds else NOT_RUN
            live = {"live": one.percent, "live_low": one.low, "live_high": one.high, "rounds": one.rounds}
            live |= {"verdict": verdict} | _judged(one, predicted)
            rows.append(about | {"allocator": label} | predicted | live)
    return pd.DataFrame(rows)


def _judged(live: Decision, predicted: dict) -> dict:
    percent, low, high = (predicted[key] for key in ("percent", "low", "high"))
    different = live.verdict == DIFFERENT
    return {
        "outright": low * high > 0,
        "right": different and percent * live.percent > 0,
        "error": 100 * (percent - live.percent) / abs(live.percent) if different else np.nan,
        "holds": live.verdict in (DIFFERENT, SAME) and low <= live.percent <= high,
        "contradicted": live.verdict == SAME and (low >= EFFECT_PERCENT or high <= -EFFECT_PERCENT),
    }


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Per group (GROUPS) of `pairs` that ran live: apps, pairs, different, same, undecided; for different pairs right,
    right_percent, outright and outright_right, median, p90 and worst of the absolute errors in percent, worst_at; for
    different and same pairs holds; for same pairs contradicted.
    """
    ran = table[table["verdict"] != NOT_RUN] if len(table) else table
    found = [(group, of_group(ran, group)) for group in GROUPS if len(ran)]
    return pd.DataFrame([{"group": group} | _of_part(part) for group, part in found if len(part)])


def _of_part(part: pd.DataFrame) -> dict:
    different = part[part["verdict"] == DIFFERENT]
    sure = different[different["outright"]]
    return {
        "apps": part["app"].nunique(),
        "pairs": len(part),
        "different": len(different),
        "same": int((part["verdict"] == SAME).sum()),
        "undecided": int((part["verdict"] == UNDECIDED).sum()),
        "right": int(different["right"].sum()),
        "right_percent": 100 * float(different["right"].mean()) if len(different) else np.nan,
        "outright": len(sure),
        "outright_right": int(sure["right"].sum()),
        **sizes_of_errors(different),
        "holds": int(different["holds"].sum()),
        "contradicted": int(part["contradicted"].sum()),
    }


def disturbance(data: dict) -> float:
    """Share of all processors' time that other programs and the hypervisor took, median of the rounds, in percent;
    NaN where it was not measured.
    """
    noises = [one["noise"] for one in data["live"] if one["noise"]]
    shares = [noise["other_load_percent"] + noise["steal_percent"] for noise in noises]
    return float(np.median(shares)) if shares else np.nan
