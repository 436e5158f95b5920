# SPDX-License-Identifier: MIT
"""The fleet's pictures, by their texts and colours."""

import pandas as pd
from heaptape.features.fleet import plots as fleet_plots
from matplotlib.figure import Figure


def test_a_heat_map_has_each_ratio_with_its_interval_and_a_dash_for_none():
    rows = [
        ("s1", "one", "a", 0.9, False, 0.88, 0.92),  # supported
        ("s1", "one", "b", 1.02, False, 0.99, 1.05),  # its interval includes 1
        ("s2", "two", "a", 1.25, True, 1.25, 1.25),
        ("s2", "two", "b", 1.5, False, float("nan"), float("nan")),
    ]
    ratios = pd.DataFrame(rows, columns=["workload", "name", "label", "ratio", "exact", "low", "high"])
    axes = Figure().subplots()
    fleet_plots.heat_map(axes, ratios, ["s2", "s1"], ["a", "b", "c"])
    shown = {text.get_position(): text.get_text() for text in axes.texts}
    assert shown == {
        (0.5, 0.5): "+25.0", (1.5, 0.5): "+50.0 ?", (2.5, 0.5): "–",
        (0.5, 1.5): "-10.0 ± 2.0", (1.5, 1.5): "(+2.0 ± 3.0)", (2.5, 1.5): "–",
    }  # fmt: skip
    (mesh,) = axes.collections
    assert mesh.get_array().filled(-1).round(6).tolist() == [[25, 50, -1], [-10, 2, -1]]
    assert mesh.norm.vmin == -mesh.norm.vmax == -50
    assert [label.get_text() for label in axes.get_yticklabels()] == ["two", "one"]
    assert (list(axes.get_xticks()), list(axes.get_yticks())) == ([0.5, 1.5, 2.5], [0.5, 1.5])
    assert {text.get_text(): text.get_color() for text in axes.texts}["+50.0 ?"] == "#ffffff"
    many = pd.concat([ratios[:1].assign(workload=f"{number}") for number in range(fleet_plots.MOST_WITH_TEXT + 1)])
    axes = Figure().subplots()
    fleet_plots.heat_map(axes, many.assign(ratio=1.0), [f"{number}" for number in range(len(many))], ["a"])
    assert not list(axes.texts)
    assert axes.collections[0].norm.vmax == fleet_plots.LEAST_RANGE_PERCENT
    assert len(axes.get_yticks()) == 21
