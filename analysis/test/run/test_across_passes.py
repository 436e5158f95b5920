# SPDX-License-Identifier: MIT
"""Agreement of bare and time passes, on made-up runs. Slow calls meet the system calls of the same position."""

import msgspec
from heaptape.results.structs import Run
from heaptape.run.across_passes import agreement, attach_syscalls


def run(allocator, pass_, **figures):
    return Run(allocator, variant="", pass_=pass_, **figures)


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
    assert agreement([run("a", "time", stream_cycles_predicted=0), run("a", "bare", cycles_total=1)]) == []


def runs(lost=0):
    about = {"allocator": "a", "variant": ""}
    rows = [[0, "brk", 0], [7, "mmap", 4096], [7, "madvise", 4096], [7, "mmap", 1], [90, "munmap", 1]]
    slowest = [{"call": "malloc", "position": position} for position in (7, 8, 90, 200)]
    return [
        about | {"pass": "time", "slowest": slowest},
        about | {"pass": "memory", "syscall_rows": rows, "syscall_rows_lost": lost},
        {"allocator": "b", "variant": "", "pass": "time", "slowest": [{"call": "free", "position": 7}]},
    ]


def test_slow_call_has_the_system_calls_of_its_position():
    made = runs()
    attach_syscalls(made, msgspec.convert(made, list[Run]))
    assert [call["syscalls"] for call in made[0]["slowest"]] == [{"mmap": 2, "madvise": 1}, {}, {"munmap": 1}, {}]


def test_unknown_system_calls_are_left_out():
    made = runs(lost=3)
    attach_syscalls(made, msgspec.convert(made, list[Run]))
    assert ["syscalls" in call for call in made[0]["slowest"]] == [True, True, False, False]
    assert "syscalls" not in made[2]["slowest"][0]
