# SPDX-License-Identifier: MIT
"""Shared cache lines as tables and plots: means over repetitions, both directions in the matrix, nothing made up."""

import json

import msgspec
import pytest
from heaptape.features.sharing import pass_table as sharing
from heaptape.features.sharing import plots as line_sharing_plots
from heaptape.results.schema import Results
from heaptape.results.structs import LineSharing
from matplotlib.figure import Figure
from planted_runs import file_of, runs_of

from tests.support import call_heaptape

LEVEL = {"end": 0, "peak": 8, "peak_position": 3}


def counts(mean: float, pairs: int = 10, used: int = 5) -> dict:
    return {
        "ops": 200, "objects": 50, "shared_objects": 10, "pairs": pairs, "used_pairs": used,
        "shared_lines": LEVEL | {"mean": mean}, "object_pairs": LEVEL | {"mean": mean},
        "live_lines": LEVEL | {"mean": 40.0},
        "sizes": [[32, 50, 10, 20]],
        "threads": [[0, 2, 7, 1.5], [1, 2, 3, 0.5]], "threads_left_out": 0,
        "progress": [[100, 1, 1, 40, 2], [200, 0, 0, 0, 8]],
    }  # fmt: skip


def typed(mean: float) -> LineSharing:
    return msgspec.convert(counts(mean), LineSharing)


def results(**runs: list[dict]) -> Results:
    return file_of([*runs_of("sharing", "line_sharing", runs), {"allocator": "x", "pass": "time"}])


def test_plots_draw_what_the_frames_say():
    axes = Figure().subplots(1, 3)
    frame = sharing.progress(typed(1.0))
    line_sharing_plots.over_progress(axes[0], {"glibc": frame})
    assert list(axes[0].get_lines()[0].get_ydata()) == [1, 0]
    line_sharing_plots.over_progress(axes[1], {"glibc": frame}, percent=True)
    assert axes[1].get_lines()[0].get_ydata()[0] == pytest.approx(2.5)
    line_sharing_plots.matrix(axes[2], sharing.thread_matrix(typed(1.0)))
    assert len(axes[2].get_xticks()) == 3
    line_sharing_plots.matrix(Figure().subplots(), sharing.thread_matrix(LineSharing()))


def test_results_of_the_sharing_pass_alone_can_be_compared(tmp_path):
    path = tmp_path / "r.json"
    path.write_text(json.dumps(results(glibc=[counts(2.0)]).data))
    for arguments in ([], ["--table", "sharing"]):
        done = call_heaptape("compare", path, *arguments)
        assert done.status == 0, done.stderr
        assert "Cache lines that threads share" in done.stdout
