# SPDX-License-Identifier: MIT
"""Sweeps and verdicts as tables: each cell by hand."""

from heaptape.results.comparing.compare import as_shown
from heaptape.results.comparing.variants import sweep
from heaptape.results.comparing.verdicts import verdicts
from heaptape.show.tables.views import sweep_tables, verdict_tables
from planted_runs import cycles_and_rss, file_of

MIB = 1 << 20


def swept(name, **rss):
    runs = cycles_and_rss({"n=4": [1e6, 1e6], "default": [3e6, 3e6], "n=0": [2e6, 2e6]}, rss).data["runs"]
    return file_of([run | {"allocator": "r", "variant": run["allocator"]} for run in runs], name)


def texts(table):
    return [[cell.text for cell in row] for row in table.rows]


def test_a_sweep_is_a_table_for_each_workload_with_a_row_for_each_value():
    files = [swept("x", **{"n=0": [MIB, MIB], "n=4": [3 * MIB, 3 * MIB]}), swept("y")]
    first, second = sweep_tables(as_shown(sweep(files, "n")))
    assert (first.title, second.title) == ("r: n — x", "r: n — y")
    assert first.columns == ["value", "Total, M cycles", "%", "peak memory, MiB", "%"]
    assert texts(first) == [
        ["default", "3.00", "150.0", "–", "–"],
        ["0", "2.00", "100", "1.00", "100"],
        ["4", "1.00", "50.0", "3.00", "300.0"],
    ]
    assert texts(second) == [row[:3] for row in texts(first)]
    assert not first.notes
    assert second.notes[0].startswith("%: of the figure at the lowest value.")
    assert sweep_tables(sweep([swept("x")], "n"))[0].title == "r: n"


def test_verdicts_are_sentences_and_the_figures_behind_them():
    file = cycles_and_rss(
        {"a": [100, 101, 102, 103], "b": [200, 202, 204, 206.5]}, {"a": [1000] * 4, "b": [1121] * 4}
    )  # fmt: skip
    said, behind = verdict_tables(verdicts(file, "a"))
    assert said.notes[0].startswith("w: b uses 12.1 % more peak memory (exact) and spends 100")
    rows = {row[2]: row for row in texts(behind)}
    assert [row[:2] for row in rows.values()] == [["w", "b / a"]] * 2
    memory, cycles = rows["peak memory"], rows["cycles"]
    assert memory[3:] == ["+12.1", "exact", "–", "1.00", "–", "more"]
    assert cycles[3].startswith("+100.")
    assert cycles[4].startswith("+99.")
    assert cycles[6:] == ["1.00", "<0.0001", "more"]
