# SPDX-License-Identifier: MIT
"""What follows from a store's cells, on few machines and many; and asked in SQL. By hand: conclusions.examples."""

import math

import numpy as np
import pandas as pd
import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.features.fleet.conclusions import against_baseline, conclusions, effect
from heaptape.features.fleet.query import query, write_parquet
from heaptape.features.fleet.store import COLUMNS
from heaptape.results.comparing.intervals import log_ratio

# workload -> weight, and each allocator's figure
CELLS = {
    "a": (1.0, {"glibc": 100, "x": 50, "y": 80}),
    "b": (10.0, {"glibc": 100, "x": 70, "y": 100}),
    "c": (2.0, {"glibc": 100, "x": 130, "y": 105}),
}


def results(cells=CELLS, figure="peak_rss", unit="bytes", pass_="memory"):
    """Results as from a store."""
    rows = [
        (
            name * 64,
            name,
            "p",
            weight,
            label,
            "l",
            label,
            "",
            pass_,
            "recorded",
            0,
            "m",
            None,
            figure,
            unit,
            float(value),
        )
        for name, (weight, values) in cells.items()
        for label, value in values.items()
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def test_every_conclusion_is_a_table_to_be_queried():
    found = conclusions(results(), "glibc", 5)
    frames = {name for name, value in vars(found).items() if isinstance(value, pd.DataFrame)}
    assert set(found.tables()) == frames
    assert all(found.tables()[name] is getattr(found, name) for name in frames)


def rows(label, values, *, pass_="bare", machine="m", figure="bare_cpu", workload="w" * 64):
    """Results of one label, one per block; blocks are numbered."""
    fixed = {
        "workload": workload, "name": "w", "program": "p", "weight": 1.0, "allocator": label, "library": "l",
        "label": label,
        "environment": "", "pass_": pass_, "order": "window", "repetition": 0, "machine": machine, "figure": figure,
        "unit": "ns",
    }  # fmt: skip
    return pd.DataFrame([fixed | {"block": f"{machine}{n}", "value": value} for n, value in values.items()])[COLUMNS]


def two_machines(rng, saved=0.94, noise=0.01):
    """Baseline and candidate on a machine and on one slowed by half: three blocks of the fast machine, nine of the slow
    one, and two more of the fast one's baseline without a candidate.
    """
    parts = []
    for machine, speed, blocks in (("fast", 1.0, 3), ("slow", 2.0, 9)):
        for label, cost in (("glibc", 1.0), ("other", saved)):
            count = blocks + 2 * (machine == "fast" and label == "glibc")
            times = 1e9 * speed * cost * np.exp(rng.normal(0, noise, count))
            parts.append(rows(label, dict(enumerate(times)), machine=machine))
    return pd.concat(parts, ignore_index=True)


def test_two_machines_that_agree_predict_others_and_one_predicts_nothing():
    here = against_baseline(two_machines(np.random.default_rng(3), saved=0.8, noise=0.002), "glibc").iloc[0]
    assert here["low_elsewhere"] <= here["low"] < here["high"] <= here["high_elsewhere"] < 1
    one = pd.concat([rows("glibc", {0: 10.0, 1: 11.0}), rows("other", {0: 9.0, 1: 10.0})])
    alone = against_baseline(one, "glibc").iloc[0]
    assert alone["machines"] == 1
    assert not math.isnan(alone["low"])
    assert math.isnan(alone["low_elsewhere"])
    assert math.isnan(alone["between"])


@pytest.mark.parametrize(("counts", "between"), [([5, 5], 1.0), ([2, 5, 9], 0.0), ([2, 5, 9], 1.0), ([1] * 6, 2.0)])
def test_intervals_cover_as_often_as_they_say(counts, between):
    """95 %; 300 draws may show slightly less: within four standard deviations."""
    rng = np.random.default_rng(11)
    inside = 0
    for _ in range(300):
        found = effect([rng.normal(rng.normal(0, between * 0.02), 0.02, count) for count in counts])
        low, high = found.elsewhere.bounds()
        inside += low <= 0 <= high
    assert inside / 300 > 0.95 - 4 * math.sqrt(0.95 * 0.05 / 300)


def test_the_difference_between_machines_is_estimated():
    rng = np.random.default_rng(5)
    found = effect([rng.normal(own, 0.001, 20) for own in rng.normal(0, 0.05, 40)])
    assert 0.035 < found.between < 0.065
    assert found.elsewhere.half_width() > 5 * found.here.half_width()


def test_a_block_per_machine_keeps_the_verdict_that_pooling_loses():
    """Two machines, one of which takes twice as long: their difference is not the candidate's."""
    results = two_machines(np.random.default_rng(3))
    here = against_baseline(results, "glibc").iloc[0]
    assert (here["machines"], here["blocks"]) == (2, 12)
    assert 0.92 < here["low"] < 0.94 < here["high"] < 0.96
    values = {
        name: results.loc[results["label"] == name, "value"].reset_index(drop=True) for name in ("glibc", "other")
    }
    shifted = values["other"].set_axis(range(len(values["glibc"]), len(results)))
    low, high = log_ratio(values["glibc"], shifted).interval()
    assert low < 0.8 < 1.1 < high


TABLES = {"cells": results(), **conclusions(results(), "glibc", 5).tables()}


@pytest.mark.parametrize(
    "sql",
    ["SELECT * FROM '/etc/passwd'", "FROM read_csv('/etc/passwd')", "COPY cells TO '/tmp/x'", "CREATE TABLE x (a int)"]
    + ["DROP VIEW cells", "SET enable_external_access = true", "SELECT 1; SELECT 2", "SELECT nosuch FROM cells"]
    + ["INSTALL httpfs", "ATTACH '/tmp/x.db'", "FROM results", ""],
)
def test_a_query_reads_the_tables_and_nothing_else(sql):
    with pytest.raises(HeaptapeError) as error:
        query(TABLES, sql)
    assert "\n" not in str(error.value)


def test_a_query_sees_each_table_and_whole_numbers_stay_whole(tmp_path):
    for name, table in TABLES.items():
        assert query(TABLES, f"SELECT count(*) AS n FROM {name}")["n"].tolist() == [len(table)]
    assert query(TABLES, "SELECT sum(repetition) AS n, 1 AS m FROM cells").dtypes.astype(str).tolist()[0] == "int64"
    write_parquet(TABLES, tmp_path / "tables")
    for name, table in TABLES.items():
        pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / f"tables/{name}.parquet"), table)
