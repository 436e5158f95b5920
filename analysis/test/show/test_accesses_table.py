# SPDX-License-Identifier: MIT
"""The table of the pass accesses, from results made by hand: the own share is subtracted run by run."""

import math

import pytest
from heaptape.results.schema import Results, figures
from heaptape.show.tables import accesses_table

MS = 1_000_000


def results(**runs: list[tuple[float, float, float]]) -> Results:
    """Results by allocator: own share, independent and dependent run of each repetition, in ms."""
    made = [
        {
            "allocator": allocator,
            "pass": "accesses",
            "repeat": repeat,
            "accesses": {
                "own_cpu_ns": round(own * MS),
                "independent_cpu_ns": round(independent * MS),
                "dependent_cpu_ns": round(dependent * MS),
            },
        }
        for allocator, rows in runs.items()
        for repeat, (own, independent, dependent) in enumerate(rows)
    ]
    return Results("x.json", {"schema": 1, "workload": {"name": "w"}, "runs": made})


GLIBC = [(10, 30, 50), (12, 32, 52), (11, 31, 51)]


def test_each_runs_own_share_is_subtracted():
    frame = figures([results(glibc=GLIBC)]).set_index(["metric", "round"])["value"]
    assert (frame.xs("accesses/independent") == 20 * MS).all()
    assert (frame.xs("accesses/dependent") == 40 * MS).all()
    assert list(frame.xs("accesses/own")) == [10 * MS, 12 * MS, 11 * MS]


def test_a_difference_is_in_ms_of_the_baselines_mean():
    files = [results(glibc=GLIBC, other=[(10, 35, 70), (12, 37, 72), (11, 36, 71)])]
    frame = accesses_table.frame(files, "glibc").set_index(["allocator", "kind"])
    other = frame.loc[("other", "independent")]
    assert other["ms"] == pytest.approx(25)
    assert [other[f"difference_{end}"] for end in ("ms", "low", "high")] == pytest.approx([5, 5, 5])
    assert frame.loc[("other", "dependent"), "difference_ms"] == pytest.approx(20)
    assert math.isnan(frame.loc[("glibc", "independent"), "difference_ms"])
    assert math.isnan(frame.loc[("other", "own"), "difference_ms"])
    (table,) = accesses_table.tables(accesses_table.frame(files, "glibc"), "glibc")
    texts = [[cell.text for cell in row] for row in table.rows]
    assert texts[1][:3] == ["other", "25.0 (25.0 to 25.0)", "60.0 (60.0 to 60.0)"]
    assert texts[1][3:] == ["+5.00 (+5.00 to +5.00)", "+20.0 (+20.0 to +20.0)"]
    assert "own share: 11.0 to 11.0 ms" in table.notes[0]


def test_intervals_that_span_a_factor_of_two_are_not_shown_as_numbers():
    noisy = [(10, 20, 51), (10, 90, 50), (10, 30, 52)]
    frame = accesses_table.frame([results(glibc=GLIBC, other=noisy)], "glibc").set_index(["allocator", "kind"])
    assert "factor of" in frame.loc[("other", "independent"), "reason"]
    assert "factor of" in frame.loc[("other", "independent"), "difference_reason"]
    assert frame.loc[("other", "dependent"), "reason"] == frame.loc[("other", "dependent"), "difference_reason"] == ""
    (table,) = accesses_table.tables(accesses_table.frame([results(glibc=GLIBC, other=noisy)], "glibc"), "glibc")
    assert [cell.text for cell in table.rows[1]][1::2] == ["too noisy", "too noisy"]
    assert any(note.startswith("too noisy (2 figures)") for note in table.notes)


def test_a_run_not_above_the_own_share_has_no_number():
    (table,) = accesses_table.usual([results(glibc=[(10, 9, 30), (10, 11, 30)])], "glibc")
    assert [cell.text for cell in table.rows[0]] == ["glibc", "too noisy", "20.0 (20.0 to 20.0)"]


def test_one_repetition_has_no_interval():
    (table,) = accesses_table.usual([results(glibc=[(10, 30, 50)])], "glibc")
    assert [cell.text for cell in table.rows[0]] == ["glibc", "20.0 ?", "40.0 ?"]


def test_results_without_the_pass_have_no_table():
    assert accesses_table.usual([results()], "glibc") == []
