# SPDX-License-Identifier: MIT
"""Reasons to doubt a recording, from its results."""


def doubts(workload: dict) -> list[str]:
    """What was lost, repaired or illegal in the recording, by its witness, in words."""
    witness = workload.get("witness")
    if not isinstance(witness, dict):
        return []
    words = {
        "truncated": "the trace is truncated: its end is missing",
        "dropped": "events were dropped in recording",
        "unseen_frees": "frees of objects never seen were left out",
        "double_frees": "double frees were left out",
        "overlapping_acquires": "addresses were handed out while an object was live there",
        "inversions_repaired": "events recorded in the wrong order were reordered",
        "failed_calls": "failed calls were left out",
    }
    found = []
    for key, text in words.items():
        value = witness.get(key)
        if value is True:
            found.append(text)
        elif isinstance(value, int) and value > 0:
            found.append(f"{value:,} {text}")
    return found
