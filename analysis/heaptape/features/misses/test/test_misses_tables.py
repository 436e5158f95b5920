# SPDX-License-Identifier: MIT
"""The tables of simulated misses, of recordings in bursts."""

from heaptape.passes import usual
from results.planted import of_bursts, results


def test_the_tables_say_of_which_part_of_the_program_they_are():
    file = results({"glibc": [of_bursts()], "other": [of_bursts()]})
    counted, _ = usual([file], "glibc", counted=True)
    assert "Only of 2 bursts, 10 % of the program's instructions" in counted.notes[1]


def test_misses_at_a_bursts_first_access_to_a_line_are_in_no_table():
    base = of_bursts(first_misses=(0, 0, 900), first_lines=900, caches=(3000, 2000, 1000))
    file = results({"glibc": [base], "other": [of_bursts(first_lines=900, caches=(3000, 2000, 100))]})
    counted, _ = usual([file], "glibc", counted=True)
    assert [row[3].text for row in counted.rows] == ["0.10", "0.10"]
