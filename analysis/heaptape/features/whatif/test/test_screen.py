# SPDX-License-Identifier: MIT
"""What an experiment saves, in words: at both ends of a range, and nothing where the recording disproves its replay."""

import pytest
from heaptape.common.tables import MIB
from heaptape.features.whatif.screen import screen
from heaptape.results.schema import Results
from heaptape.results.structs import SLEEPS_TO_TIMES


def results(upper_mib, **about):
    """A group in memory of its own: 60 MiB instead of 100; `upper_mib`: the upper end of that."""

    def run(variant, peak, upper):
        memory = {"rss_anon_peak_bytes": peak * MIB, "rss_anon_mean_bytes": peak * MIB, "timeline": [[0, 0, 0, 0]]}
        ends = {"spread_peak_bytes": upper * MIB} if upper else {}
        return {"allocator": "glibc", "variant": variant, "repeat": 0, "pass": "memory"} | memory | ends

    made = [{"name": "a=segregate", "groups": [], "labels": {"glibc": "glibc:a=segregate"}, "positions": []}]
    workload = {"name": "w", "ops": 100} | about
    runs = [run("default", 100, 0), run("a=segregate", 60, upper_mib)]
    return Results(
        "w.json", {"schema": 1, "heaptape": {"version": "0"}, "workload": workload, "runs": runs, "whatif": made}
    )


@pytest.mark.parametrize(
    ("upper_mib", "said"),
    [(0, "saves 40.0 MiB of peak memory (-40 %)"), (90, "saves 10.0 MiB of peak memory (-10 %)"), (120, "no reason")],
)
def test_a_saving_holds_at_both_ends_of_a_range(upper_mib, said):
    made = screen(results(upper_mib), "heaptape whatif")
    assert said in made.sentences[0]
    assert any("60.0 MiB to" in line for line in made.caveats) == bool(upper_mib)


def test_means_by_other_clocks_are_told():
    file = results(0)
    file.measured[1].other_means = {SLEEPS_TO_TIMES: 90 * MIB}
    assert any("Means are ranges" in line and "60.0 MiB to 90.0 MiB" in line for line in screen(file, "").caveats)


def test_a_disproved_replay_is_said_first_and_nothing_is_advised():
    made = screen(results(0, disproof="The recording disproves its replay."), "heaptape whatif")
    assert made.about.startswith("The recording disproves its replay.")
    assert not made.sentences
