# SPDX-License-Identifier: MIT
"""Of a command behind wrappers, which settings are the allocator's, and what is left to run."""

import sys
from pathlib import Path

import pytest
from heaptape.advise.programs import (
    NOT_RECORDED,
    STOPPED,
    Line,
    Process,
    Wanted,
    chosen,
    line_of,
    others_than,
    record,
)
from heaptape.common.home import default_home

SET = {"LD_PRELOAD": "/no/libj.so", "MALLOC_CONF": "narenas:1"}
WORDS = tuple(f"{name}={value}" for name, value in SET.items())

# What only a shell can do, or sets no allocator.
UNCHANGED = ("prog", "A=1 prog", f"{WORDS[0]} a; b", f"{WORDS[0]} a | b", f"{WORDS[0]} prog *.c", f"{WORDS[0]} 'a b'")


@pytest.mark.parametrize(
    ("command", "left", "settings"),
    [
        (("env", *WORDS, "prog", "A=1"), ("prog", "A=1"), SET),
        (("/usr/bin/env", "A=1", *WORDS, "prog"), ("/usr/bin/env", "A=1", "prog"), SET),
        (("timeout", "9", "env", *WORDS, "prog"), ("timeout", "9", "prog"), SET),
        (("nice", "-n", "3", "env", "-u", "B", *WORDS, "prog"), ("nice", "-n", "3", "env", "-u", "B", "prog"), SET),
        (("env", "A=1", "prog"), ("env", "A=1", "prog"), {}),
        (("env", "-i", *WORDS, "prog"), ("env", "-i", *WORDS, "prog"), {}),
        (("prog", "env", *WORDS, "x"), ("prog", "env", *WORDS, "x"), {}),
        (("env", *WORDS), ("env", *WORDS), {}),
        (("prog",), ("prog",), {}),
        (("sh", "-c", " ".join((*WORDS, "prog A=1"))), ("prog", "A=1"), SET),
        (
            ("timeout", "9", "/bin/bash", "-c", " ".join(("B=1", *WORDS, "exec ./prog"))),
            ("timeout", "9", "env", "B=1", "./prog"),
            SET,
        ),
        *[
            ((shell, "-c", " ".join(("env", *WORDS, "prog"))), ("prog",), SET)
            for shell in ("sh", "bash", "dash", "ash", "ksh", "zsh")
        ],
        *[((*start, text), (*start, text), {}) for start in (("sh", "-c"), ("prog", "sh", "-c")) for text in UNCHANGED],
    ],
)
def test_settings_of_the_allocator_are_taken_out_of_env_behind_wrappers(command, left, settings):
    assert line_of(command) == Line(left, settings)


def python(code):
    return [sys.executable, "-S", "-c", code]


def test_a_program_that_does_not_end_in_its_time_is_advised_by_what_was_recorded(tmp_path):
    stays = python("import time; time.sleep(3600)")
    made = record(stays, tmp_path, default_home(), Wanted(within_s=8, recorded_s=2))
    assert (made.ended, made.whole, made.trace.end) == (True, False, STOPPED)
    assert made.trace.calls > 0
    assert made.others == "Recorded are its first 2 s."


def test_a_recording_that_ended_before_its_program_is_not_of_all_of_it(tmp_path):
    program = python("import time; time.sleep(3)")
    (tmp_path / "whole").mkdir()
    made = record(program, tmp_path, default_home(), Wanted(within_s=600, recorded_s=1))
    assert (made.ended, made.whole, made.status) == (False, False, 0)
    whole = record(program, tmp_path / "whole", default_home(), Wanted(within_s=600, recorded_s=600))
    assert (whole.ended, whole.whole, whole.others) == (False, True, "")


def test_what_the_recorder_missed_is_found_in_its_output():
    said = "prog: x\nheaptape: not recorded: p: started\n  without it\nheaptape: sh: 51 calls\n"
    assert NOT_RECORDED.findall(said) == ["not recorded: p: started\n  without it"]


def process(name, calls, cpu_ms):
    return Process(Path(f"{name}.tape"), name, calls, cpu_ms * 1e6)


@pytest.mark.parametrize(
    ("processes", "advised", "others"),
    [
        ([("script", 90_000, 300), ("work", 500_000, 2000)], "work", "script"),
        ([("script", 1_800_000, 60), ("work", 200_000, 90)], "work", "script (1,800,000 calls, 60 ms CPU)"),
        ([("script", 1_800_000, 60), ("sort", 900, 5000)], "script", "sort (900 calls, 5 s CPU)"),
        ([("make", 1000, 5), ("cc1", 90_000, 900), ("cc1", 80_000, 1000), ("as", 3000, 20)], "cc1", ""),
        ([("prog", 0, 0)], "prog", ""),
    ],
)
def test_of_several_processes_the_one_that_does_the_work_is_advised_and_others_are_named(processes, advised, others):
    made = [process(*one) for one in processes]
    found = chosen(made).program
    assert found == advised
    said = others_than(found, made)
    assert others in said
    assert bool(said) == bool(others)
