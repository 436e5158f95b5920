# SPDX-License-Identifier: MIT
"""Reasons to doubt results: how busy the machine was beside the runs (their "noise"), and what the recording lost."""

from collections.abc import Mapping, Sequence

from heaptape.common.phrases import counted
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


# Of the witness: what one and several of them are, and what became of them.
_DOUBTS = {
    "dropped": ("event", "events", "dropped in recording"),
    "unseen_frees": ("free of an object never seen", "frees of objects never seen", "left out"),
    "double_frees": ("double free", "double frees", "left out"),
    "overlapping_acquires": ("address", "addresses", "handed out while an object was live there"),
    "inversions_repaired": ("event recorded in the wrong order", "events recorded in the wrong order", "reordered"),
    "arguments_changed": ("call", "calls", "given an alignment or a stated size that is legal"),
    "failed_calls": ("failed call", "failed calls", "left out"),
}


def doubts(witness: Mapping | None) -> list[str]:
    """What was lost, repaired or illegal in the recording, by its witness, in words."""
    witness = witness or {}
    found = ["the trace is truncated: its end is missing"] if witness.get("truncated") is True else []
    for key, (one, several, what) in _DOUBTS.items():
        value = witness.get(key)
        if isinstance(value, int) and value > 0:
            found.append(f"{counted(value, one, several)} {'was' if value == 1 else 'were'} {what}")
    return found
