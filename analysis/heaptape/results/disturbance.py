# SPDX-License-Identifier: MIT
"""How busy the machine was beside the runs (their "noise"), over all runs of some results."""

from collections.abc import Sequence

# A run is called disturbed above these, in percent of the whole machine's time.
STEAL_PERCENT, OTHER_PERCENT = 1.0, 10.0


def summarise(runs: Sequence[dict]) -> dict:
    """Over all runs that have noise figures: how many, how many disturbed, the worst, the range of frequencies seen."""
    noises = [run["noise"] for run in runs if isinstance(run.get("noise"), dict)]
    if not noises:
        return {"runs": 0}
    disturbed = [n for n in noises if n["steal_percent"] > STEAL_PERCENT or n["other_load_percent"] > OTHER_PERCENT]
    mhz = [n["cpu_mhz"] for n in noises if "cpu_mhz" in n]
    return {
        "runs": len(noises),
        "disturbed_runs": len(disturbed),
        "steal_percent_max": max(n["steal_percent"] for n in noises),
        "other_load_percent_max": max(n["other_load_percent"] for n in noises),
    } | ({"cpu_mhz_min": min(mhz), "cpu_mhz_max": max(mhz)} if mhz else {})


def sentence(noise: object) -> str:
    """The results' "noise" in words; empty if there is none."""
    if not isinstance(noise, dict) or not noise.get("runs"):
        return ""
    text = (
        f"{noise.get('disturbed_runs', 0)} of {noise['runs']} runs were disturbed (stolen time above {STEAL_PERCENT:g} "
        f"% or other load above {OTHER_PERCENT:g} % of the machine; worst {noise.get('steal_percent_max', 0):.1f} % "
        f"and {noise.get('other_load_percent_max', 0):.1f} %)"
    )
    if "cpu_mhz_min" in noise:
        text += f", processors at {noise['cpu_mhz_min']:,.0f} to {noise['cpu_mhz_max']:,.0f} MHz"
    return text + "."
