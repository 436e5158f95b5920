# SPDX-License-Identifier: MIT
"""Reasons to doubt results: how busy the machine was beside the runs (their "noise"), and what the recording lost."""

from collections.abc import Mapping, Sequence

from heaptape.results.structs import AllNoise

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


def sentence(noise: AllNoise | None) -> str:
    """The results' "noise" in words; empty if there is none."""
    if noise is None or not noise.runs:
        return ""
    text = (
        f"{noise.disturbed_runs or 0} of {noise.runs} runs were disturbed (stolen time above {STEAL_PERCENT:g} "
        f"% or other load above {OTHER_PERCENT:g} % of the machine; worst {noise.steal_percent_max or 0:.1f} % "
        f"and {noise.other_load_percent_max or 0:.1f} %)"
    )
    if noise.cpu_mhz_min is not None and noise.cpu_mhz_max is not None:
        text += f", processors at {noise.cpu_mhz_min:,.0f} to {noise.cpu_mhz_max:,.0f} MHz"
    return text + "."


def doubts(witness: Mapping | None) -> list[str]:
    """What was lost, repaired or illegal in the recording, by its witness, in words."""
    words = {
        "truncated": "the trace is truncated: its end is missing",
        "dropped": "events were dropped in recording",
        "unseen_frees": "frees of objects never seen were left out",
        "double_frees": "double frees were left out",
        "overlapping_acquires": "addresses were handed out while an object was live there",
        "inversions_repaired": "events recorded in the wrong order were reordered",
        "arguments_changed": "calls got an alignment or a stated size that is legal",
        "failed_calls": "failed calls were left out",
    }
    found = []
    for key, text in words.items():
        value = (witness or {}).get(key)
        if value is True:
            found.append(text)
        elif isinstance(value, int) and value > 0:
            found.append(f"{value:,} {text}")
    return found
