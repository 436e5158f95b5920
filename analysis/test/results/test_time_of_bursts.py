# SPDX-License-Identifier: MIT
"""The model of time for recordings in bursts: its results are about the bursts, and include the uncertainty at their
beginnings.
"""

import pytest
from heaptape.passes import usual
from heaptape.passes.misses import bursts_in_words
from heaptape.results.model.time_model import prediction, sentences, time_sentences
from heaptape.show.tables import time_table
from results.planted import misses, results


def of_bursts(
    first_lines=0, first_pages=0, unsure=0, first_misses=(0, 0, 0), first_tlb=(0, 0), outside=9_000_000, **how
):
    """Misses of two bursts, a tenth of the program's instructions."""
    made = misses(**how)
    for level, first in zip((*made["caches"], *made["tlbs"]), (*first_misses, *first_tlb), strict=True):
        level["first_misses"] = first
    counts = {"first_lines": first_lines, "first_pages": first_pages, "unsure_page_faults": unsure}
    more = {"outside_program_instructions": outside, "outside_allocator_instructions": 5}
    return made | {"bursts": {"count": 2} | counts | more}


def change(base, other):
    frame = prediction([results({"glibc": [base], "other": [other]})], "glibc")
    return frame[frame["part"] == "all"].iloc[0]


FASTER = {"allocator": 50_000, "caches": (1000, 500, 100)}


def test_sentences_and_tables_speak_of_the_bursts():
    file = results({"glibc": [of_bursts()], "other": [of_bursts(**FASTER)]})
    found = prediction([file], "glibc")
    lines = sentences(found, [file], "glibc")
    assert lines[0].startswith("other would make the recorded bursts of this program ")
    assert "recorded in 2 bursts, 10 % of the program's instructions" in lines[1]
    assert "nothing is predicted for the rest of the program" in lines[1]
    (table, *_) = time_table.tables(time_table.frame(found), "glibc")
    assert table.title.startswith("CPU time of the recorded bursts:")
    assert table.columns[1] == "bursts"
    assert "not of the program's" in table.notes[0]
    counted, _ = usual([file], "glibc", counted=True)
    assert "Only of 2 bursts, 10 % of the program's instructions" in counted.notes[1]


def test_first_misses_are_neither_a_reason_nor_in_a_table():
    base = of_bursts(first_misses=(0, 0, 900), first_lines=900, caches=(3000, 2000, 1000))
    file = results({"glibc": [base], "other": [of_bursts(first_lines=900, caches=(3000, 2000, 100))]})
    (first, *_) = time_sentences([file], "glibc")
    assert (
        first == "other against glibc: no difference can be predicted, -0.5 to +0.5 % of the recorded bursts' CPU time."
    )
    counted, shares = usual([file], "glibc", counted=True)
    assert [row[3].text for row in counted.rows] == ["0.10", "0.10"]


def test_an_unknown_share_is_reported_as_unknown():
    file = results({"glibc": [of_bursts(outside=None)], "other": [of_bursts(outside=None)]})
    assert list(bursts_in_words([file]).values()) == ["2 bursts, an unknown share of the program's instructions"]
    assert "2 bursts, an unknown share" in time_sentences([file], "glibc")[1]
    assert "of the recorded bursts' CPU time" in time_sentences([file], "glibc")[0]


def test_without_first_accesses_the_change_is_that_of_a_whole_recording():
    burst, whole = (change(make(), make(**FASTER)) for make in (of_bursts, misses))
    for key in ("percent", "low", "high", "ns"):
        assert burst[key] == pytest.approx(whole[key])
    assert burst["of_bursts"]
    assert not whole["of_bursts"]


@pytest.mark.parametrize(
    "first",
    [
        {"first_lines": 900, "first_misses": (900, 900, 900)},
        {"first_pages": 250, "first_tlb": (250, 250)},
        {"unsure": 20, "faults": 20},
    ],
)
def test_what_first_accesses_cost_is_between_nothing_and_the_whole(first):
    """The other allocator has none of them: it saves at most their cost, at least nothing."""
    without = {key: value for key, value in first.items() if key == "faults"}
    base = of_bursts(**first)
    other = of_bursts(**without | {"faults": 0} if without else {})
    for level, one in zip((*other["caches"], *other["tlbs"]), (*base["caches"], *base["tlbs"])):
        level["misses"] -= one["first_misses"]
    found = change(base, other)
    assert found["low"] < found["percent"] < 0
    assert found["high"] == pytest.approx(0.5, abs=0.05)  # the largest error of counts, on both sides


def test_other_passes_of_the_whole_program_are_left_out():
    memory = [
        {"allocator": name, "pass": "memory", "repeat": 0, "page_faults": faults, "syscalls": {"mmap": faults}}
        for name, faults in (("glibc", 10), ("other", 10_000))
    ]
    runs = {"glibc": [of_bursts()], "other": [of_bursts()]}
    for one in runs.values():
        one[0]["page_faults"] = None
    frame = prediction([results(runs, tuple(memory))], "glibc")
    found = frame[frame["part"] == "all"].iloc[0]
    assert found["percent"] == 0
    assert "page faults" in found["missing"]


def test_bursts_are_not_compared_with_a_whole_program():
    assert prediction([results({"glibc": [misses()], "other": [of_bursts()]})], "glibc").empty
