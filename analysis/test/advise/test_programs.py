# SPDX-License-Identifier: MIT
"""Of a command behind wrappers, which settings are the allocator's, and what is left to run."""

import pytest
from heaptape.advise.programs import Line, line_of

SET = {"LD_PRELOAD": "/no/libj.so", "MALLOC_CONF": "narenas:1"}
WORDS = tuple(f"{name}={value}" for name, value in SET.items())


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
    ],
)
def test_settings_of_the_allocator_are_taken_out_of_env_behind_wrappers(command, left, settings):
    assert line_of(command) == Line(left, settings)
