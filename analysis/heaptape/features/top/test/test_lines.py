# SPDX-License-Identifier: MIT
"""A sample as text: in any size of terminal, with figures in words that fit, and faults reported first."""

import pytest
from heaptape.features.top.recording import Memory, Reading, sample
from heaptape.features.top.screen import History, View, lines


def counts(time_s: float, scale: int, **more: object) -> dict:
    """A reading of one process whose counts are multiples of scale."""
    process = {
        "pid": 7, "name": "server", "trace": "t.tape", "forked": False, "calls": {"malloc": 3 * scale, "free": scale},
        "events": 4 * scale, "request_bytes": 300 * scale, "threads_recorded": 2, "dropped": 0, "skipped": 0, "lost": 0,
        "file_bytes": 5, "live_bytes": 1000.0, "live_objects": 10.0, "live_bytes_variance": 100.0,
        "live_objects_variance": 4.0, "live_share": 0.5, "given_up": None, "paused": False, "stacks": True,
        "threads": [
            {"thread": thread, "tid": 100 + thread, "events": (thread + 1) * scale, "request_bytes": 0}
            for thread in range(20)
        ],
        "sites": [
            {
                "node": node, "frames": [node], "calls": node * scale, "bytes": 50.0 * node * scale,
                "calls_variance": float(node * scale), "bytes_variance": float(scale), "live_bytes": 5.0 * node,
                "live_objects": 1.0, "live_bytes_variance": 0.0, "live_objects_variance": 0.0,
            }
            for node in range(1, 30)
        ],
    } | more  # fmt: skip
    return {
        "recorder": 6, "time_ns": time_s * 1e9, "recorded": 1, "running": 1, "ended": False, "processes": [process]
    }  # fmt: skip


def made(before: dict, after: dict, rss: int | None = 4000) -> dict:
    """A sample from one reading to the other."""
    first, second = (Reading(one, one, Memory(rss, 0), 1.0) for one in (before, after))
    return sample(first, second, {node: f"site_{node}" for node in range(1, 30)}, {100: "main"})


SAMPLE = made(counts(1, 100), counts(3, 200))


def text(found: dict, width: int = 120, height: int = 40) -> str:
    """The text shown."""
    history = History()
    history.add(found)
    return "\n".join(line.plain for line in lines(found, history, View(width, height, keys=True)))


@pytest.mark.parametrize("width", [1, 7, 40, 60, 80, 99, 100, 200])
@pytest.mark.parametrize("height", [1, 2, 5, 9, 14, 24, 60])
def test_lines_fit_into_any_terminal(width: int, height: int) -> None:
    for found in (SAMPLE, SAMPLE | {"process": None}, made(counts(1, 100), counts(3, 200, sites=[], stacks=False))):
        drawn = lines(found, History(), View(width, height, keys=True))
        assert len(drawn) <= height
        assert max(line.cell_len for line in drawn) <= width
