# SPDX-License-Identifier: MIT
"""What a search's results say: the front, what each tunable contributes, what further replays and live runs showed."""

from heaptape.features.tune.tables import conclusion, effects_table, live_lines, tune_answer, tune_tables
from heaptape.features.tune.trials import Effect

MIB = 1 << 20


def point(label, settings, ratio, **more):
    about = {"label": label, "variants": [], "settings": settings, "figures": {"w": {"rss-peak": 100 * MIB * ratio}}}
    about |= {"ratios": {"rss-peak": ratio}, "front": False, "refuted": False, "limits_kept": True, "again": []}
    return about | {"environment": {f"T_{name}": value for name, value in settings.items()}} | more


def search():
    points = [
        point("default", {}, 1.0, variants=["default"], again=[{"figures": {"w": {"rss-peak": 105 * MIB}}}, {}]),
        point("g:a=1", {"a": "1"}, 0.8, front=True),
        point("g:a=2", {"a": "2"}, 0.9, front=True, limits_kept=False, refuted=True, variants=["lean"]),
        point("g:b=3", {"b": "3"}, 1.5),
        {"label": "g:b=9", "variants": ["odd"], "settings": {"b": "9"}, "error": "killed", "front": False},
    ]
    again = {"rss-peak": {"ratio": 0.82, "least": 0.8, "most": 0.84}}
    contributions = [
        {"name": "b", "winner": None, "importance": 0.04, "alone": None, "winner_without": None},
        {"name": "a", "winner": "1", "importance": 0.9, "alone": {"value": "1", "ratios": {"rss-peak": 0.85}},
         "winner_without": {"ratios": {"rss-peak": 1.0}}},
    ]  # fmt: skip
    names = {"allocator": {"name": "g"}, "workloads": {"w": "0"}, "objectives": ["rss-peak"], "figures": ["rss-peak"]}
    return {
        "search": names, "points": points, "winner": points[1] | {"standing": "kept", "ratios_again": again},
        "tunables": contributions, "error_percent": {"rss-peak": 3.0}, "variants_left_out": ["checks"],
    }  # fmt: skip


def texts(table):
    return [[cell.text for cell in row] for row in table.rows]


def test_the_answer_has_the_winner_the_front_and_the_default_the_best_first():
    table = tune_answer(search())
    assert table.title == "g on w: 5 settings tried, for least peak memory."
    assert table.columns == ["", "peak memory", "change", ""]
    assert texts(table) == [
        ["g:a=1", "80.0 MiB", "-20 %", "best"],
        ["lean: g:a=2", "90.0 MiB", "-10 %", "breaks a limit, varies"],
        ["default", "100 MiB", "", "default"],
    ]


def test_the_front_and_the_variants_are_rows_with_their_marks_the_least_first():
    front, _ = tune_tables(search())
    assert front.title == "g — w, 5 settings tried"
    assert front.columns == ["", "settings", "peak memory, MiB", "% of default"]
    assert texts(front) == [
        ["wf", "g:a=1", "80.0", "80.0"],
        ["fxv", "lean: g:a=2", "90.0", "90.0"],
        ["", "default", "100", "100.0"],
        ["failed", "odd: g:b=9", "–", "–"],
    ]
    assert front.notes[1:] == [
        "1 setting failed, the first with: killed",
        "1 of 5 settings break a limit.",
        "Variants left out, as they are for diagnosis or not exact: checks.",
    ]


def test_contributions_are_of_the_winner_first_and_of_each_tunable_alone_and_left_out():
    _, table = tune_tables(search())
    assert texts(table) == [["a", "1", "90.0", "1", "-15.0", "+25.0"], ["b", "–", "4.00", "–", "–", "–"]]


def test_what_is_concluded_has_the_replays_again_the_errors_and_what_varies():
    assert conclusion(search()) == [
        "Set:", "  T_a=1",
        "Against the default: peak memory -18 % (-20.0 to -16.0) (error against live programs: peak memory 3.00 %).",
        "Replayed again, the default's own figures vary: peak memory by 5.00 %.",
        "Of the settings that seemed better, 1 did not hold each time they were replayed again.",
        "What makes the differences: a 90 %.",
    ]  # fmt: skip
    data = search()
    data["winner"]["standing"] = "open"
    assert "Not confirmed" in conclusion(data)[3]
    assert conclusion(data | {"winner": None}) == ["No settings keep all limits."]
    data["winner"] |= {"settings": {}}
    assert conclusion(data)[0] == "No reason to change: nothing tried is better than the default."


def test_live_runs_are_a_line_for_each_figure():
    figure = {
        "figure": "rss-peak",
        "live": "RSS",
        "ratio": 0.8,
        "low": 0.75,
        "high": 0.85,
        "most": 1.1,
        "verdict": "holds",
    }
    lived = {"runs": 3, "command": ["p", "x"], "figures": [figure, figure | {"most": 1, "verdict": ""}]}
    lines = [
        "Live, 3 runs of each, alternately: p x",
        "  peak memory -20 % (-25 to -15), limit +10.0 %: holds",
        "  peak memory -20 % (-25 to -15)",
    ]
    assert live_lines({"live": lived}) == lines
    cpu = {"figure": "instructions", "live": "cpu_ns", "ratio": 1.02, "low": 0.9, "high": 1.1, "most": 1,
           "verdict": "undecided"}  # fmt: skip
    lived["figures"].append(cpu)
    to_know_it = "To know it: --live-runs 12, on a machine that does nothing else."
    assert live_lines({"live": lived}) == [*lines, "  CPU time not known: -10 to +10 %", to_know_it]
    assert live_lines({}) == []


def test_effects_are_a_row_for_each_value_with_where_they_are_largest():
    found = [
        Effect("a", "64", {"x": (-3.0, "v"), "y": (25.0, "w")}),
        Effect("b", "1", {}, "killed"),
        Effect("c", "2", {}),
    ]
    table = effects_table("g", found, ["x", "y"], ["v", "w"], ["c"])
    assert texts(table) == [
        ["a", "64", "-3.00", "+25.0", "w"], ["b", "1", "failed", "failed", "–"], ["c", "2", "–", "–", "–"],
    ]  # fmt: skip
    assert table.notes[1:] == ["b=1 failed: killed", "Change nothing in any of these workloads: c."]
