# SPDX-License-Identifier: MIT
"""The CSV that the judge of the model of time keeps gives the same predictions as the results it was made from."""

import pandas as pd
from heaptape.results.model.time_model import ALL, prediction
from heaptape.results.schema import Results
from results.planted import measurement_with_near

from tests.bench.time import counts as time_counts

SIZES, ENTRIES = (32 << 10, 1 << 20, 32 << 20), (64, 1536)


def part(scale, kinds=None):
    """One part's counts; those of `kinds` are the allocator's."""
    caches = [
        {"bytes": size, "misses": scale * count, "sequential_misses": scale * count // 3}
        for size, count in zip(SIZES, (3000, 2000, 1000))
    ]
    tlbs = [{"entries": size, "misses": scale * count} for size, count in zip(ENTRIES, (900, 300))]
    found = {"instructions": 1_000_000 * scale, "page_faults": scale, "syscalls": 7, "caches": caches, "tlbs": tlbs}
    return found | ({"syscalls_by_kind": kinds} if kinds else {})


def whole(program, allocator):
    """ "misses" of a run with these two parts."""
    summed = {name: program[name] + allocator[name] for name in ("page_faults", "syscalls")}
    caches = [
        {name: one[name] if name == "bytes" else one[name] + other[name] for name in one}
        for one, other in zip(program["caches"], allocator["caches"])
    ]
    tlbs = [one | {"misses": one["misses"] + other["misses"]} for one, other in zip(program["tlbs"], allocator["tlbs"])]
    summed |= {"caches": caches, "tlbs": tlbs, "program": program, "allocator": allocator}
    return summed | {f"{name}_instructions": summed[name]["instructions"] for name in ("program", "allocator")}


def judged():
    """Two programs under two allocators."""
    parts = {"glibc": (part(9), part(3, {"mmap": 2, "brk": 5})), "other": (part(7), part(1, {"mmap": 4, "brk": 1}))}
    runs = [{"allocator": name, "repeat": 0, "pass": "misses", "misses": whole(*both)} for name, both in parts.items()]
    swapped = [run | {"allocator": other["allocator"]} for run, other in zip(runs, reversed(runs))]
    return [
        Results(name, {"schema": 1, "workload": {"name": name}, "runs": of, "penalties": measurement_with_near()})
        for name, of in (("one", runs), ("two", swapped))
    ]


def test_kept_counts_give_the_same_predictions(tmp_path):
    files, place = judged(), tmp_path / "judge.csv"
    time_counts.write(files, measurement_with_near(), place)
    expected = prediction(files, time_counts.BASELINE)
    expected = expected[expected["part"] == ALL].reset_index(drop=True)
    found = time_counts.predicted(place, time_counts.BASELINE)
    assert list(found["program"]) == ["one", "two"]
    assert (found["percent"] != 0).all()
    pd.testing.assert_frame_equal(found[time_counts.PREDICTED], expected[time_counts.PREDICTED])


def test_live_runs_that_were_kept_are_judged_by_the_new_predictions(tmp_path):
    place = tmp_path / "judge.csv"
    time_counts.write(judged(), measurement_with_near(), place)
    lived = {"program": ["one", "two"], "allocator": "other", "percent": 99.0, "low": 98.0, "high": 99.5}
    pd.DataFrame(lived | {"live": [-9.0, 4.0], "live_low": [-9.5, 3.0], "live_high": [-8.5, 5.0]}).to_csv(place)
    found = time_counts.again(place, ["two"])
    assert list(found["live"]) == [4.0]
    assert 0 < found["percent"].item() < 98
