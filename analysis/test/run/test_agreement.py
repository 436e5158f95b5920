# SPDX-License-Identifier: MIT
"""Agreement of bare and time passes, on made-up runs."""

from heaptape.run.across_passes import agreement


def run(allocator, pass_, **figures):
    return {"allocator": allocator, "variant": "", "pass": pass_} | figures


def test_difference_is_that_of_the_medians():
    runs = [run("a", "time", stream_cycles_predicted=value) for value in (100, 1000, 90)]
    runs += [run("a", "bare", cycles_total=value) for value in (105, 105, 7)]
    (entry,) = agreement(runs)
    assert entry == {
        "allocator": "a", "variant": "", "bare_cycles": 105, "predicted_cycles": 100, "difference_percent": 5.0
    }  # fmt: skip


def test_allocator_without_one_of_the_passes_has_no_entry():
    assert agreement([run("a", "time", stream_cycles_predicted=1), run("b", "bare", cycles_total=1)]) == []
    assert agreement([run("a", "time", error="died"), run("a", "bare", cycles_total=1)]) == []
