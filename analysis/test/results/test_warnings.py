# SPDX-License-Identifier: MIT
"""Why to doubt results: each reason is said, the worst first."""

import pytest
from heaptape.results.comparing.summary import warnings
from heaptape.results.disturbance import doubts
from planted_runs import file_of


def results(machine=None, runs=({"allocator": "a"}, {"allocator": "b"}), made="time", **workload):
    file = file_of([{"pass": made, "repeat": 0} | run for run in runs], **workload)
    return type(file)(file.path, file.data | {"machine": machine or {}})


@pytest.mark.parametrize(
    ("file", "says"),
    [
        (results(), []),
        (results({"load_before": [1.0, 0, 0], "cores": 2, "governor": "performance"}), []),
        (
            results({"load_before": [1.25, 0, 0], "cores": 2}),
            ["w: the machine was busy before the replay (load 1.2 on 2 cores)."],
        ),
        (
            results({"governor": "powersave"}),
            ["w: the processor's frequency was governed by 'powersave'."],
        ),
        (results({"load_before": [1.25, 0, 0], "cores": 2, "governor": "powersave"}, made="memory"), []),
        (results(runs=[{"allocator": "a"}] * 2), ["w: one allocator only, so there is nothing to compare."]),
        (
            results({"governor": "x"}, [{"allocator": "a", "stderr": " oh\nno"}, {"allocator": "b"}],
                    witness={"dropped": 3}),
            ["w: 3 events were dropped in recording.", "w: a wrote to standard error: oh",
             "w: the processor's frequency was governed by 'x'."],
        ),
    ],
)  # fmt: skip
def test_each_reason_to_doubt_results_is_said_the_recordings_first(file, says):
    assert warnings([file, file]) == says


def test_a_reason_that_several_workloads_share_is_one_with_their_names_and_the_highest_load():
    names = {"a": 1.5, "b": 4.0, "c": 2.0, "d": 0.5}
    machines = [{"load_before": [load, 0, 0], "cores": 2, "governor": "x"} for load in names.values()]
    files = [results(machine, name=name) for name, machine in zip(names, machines)]
    assert warnings(files) == [
        "a, b, c: the machine was busy before the replay (load up to 4.0 on 2 cores).",
        "a, b and 2 other workloads: the processor's frequency was governed by 'x'.",
    ]


def test_what_the_witness_counts_is_said_in_its_number():
    kinds = ("dropped", "unseen_frees", "double_frees", "overlapping_acquires", "inversions_repaired")
    kinds += ("arguments_changed", "failed_calls")
    assert doubts(None) == doubts(dict.fromkeys(kinds, 0)) == []
    assert doubts({"truncated": True} | dict.fromkeys(kinds, 1)) == [
        "the trace is truncated: its end is missing",
        "1 event was dropped in recording",
        "1 free of an object never seen was left out",
        "1 double free was left out",
        "1 address was handed out while an object was live there",
        "1 event recorded in the wrong order was reordered",
        "1 call was given an alignment or a stated size that is legal",
        "1 failed call was left out",
    ]
    assert doubts({"double_frees": 2000, "failed_calls": True}) == [
        "2,000 double frees were left out", "1 failed call was left out"
    ]  # fmt: skip
