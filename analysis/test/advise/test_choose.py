# SPDX-License-Identifier: MIT
"""Which candidate is picked, by figures whose order is known. Which candidates are tried, and which allocator a
program is compared with. The printed advice: one screen, whatever was found.
"""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from advise.made_up import NOW, error_of, no_error, row
from heaptape.advise import confirm
from heaptape.advise import tried as candidates
from heaptape.advise.advise import _beyond_limits, _pick_json
from heaptape.advise.words import Advice, screen
from heaptape.allocators import registry
from heaptape.allocators.registry import Choice
from heaptape.common.home import default_home
from heaptape.common.tables import MIB
from heaptape.decide.cpu import ESTIMATED, Cpu, cpu_text
from heaptape.decide.verdict import BOTH, CPU, MEMORY, Judge, Pick, between, contenders, decide, finalists, racers
from heaptape.decide.weighing import LIKELY, USUAL, Live, weighed
from heaptape.results.comparing import race
from heaptape.results.model.counts import Timed
from heaptape.run import recorded
from heaptape.run.condition import parse
from heaptape.show.screen import render
from hypothesis import given
from hypothesis import strategies as st


def picks(rows, objective=BOTH, error=no_error, cpu_ns=1e9, kept=None):
    labels = [one.label for one in rows] if kept is None else kept
    return {pick.aim: pick for pick in decide(rows, NOW, objective, Judge(error, {"": cpu_ns}), labels)}


def test_each_aim_has_the_candidate_that_is_best_in_it():
    rows = [row(NOW, 100, 1000), row("lean", 60, 1500), row("fast", 150, 200), row("neither", 90, 900)]
    made = picks(rows)
    assert (made[MEMORY].label, made[CPU].label) == ("lean", "fast")
    assert made[MEMORY].ties == made[CPU].ties == ()


@pytest.mark.parametrize(("objective", "aims"), [(MEMORY, [MEMORY]), (CPU, [CPU]), (BOTH, [MEMORY, CPU])])
def test_only_what_is_asked_is_answered(objective, aims):
    assert list(picks([row(NOW, 100, 1000), row("b", 60, 500)], objective)) == aims


@pytest.mark.parametrize(
    ("peak", "error", "stays", "why"),
    [
        (97, 2.0, False, ""),
        (97, 4.0, True, "saves 3.0 % of peak memory, within the error of 4 %"),
        (99, 0.0, True, "saves 1.0 % of peak memory, less than 2 %"),
        (101, 0.0, True, "none needs less memory"),
    ],
)
def test_a_saving_counts_beyond_the_error_and_from_two_percent_on(peak, error, stays, why):
    pick = picks([row(NOW, 100), row("other", peak)], MEMORY, error_of(error))[MEMORY]
    assert (pick.label == NOW) == stays
    assert why in pick.why


@given(st.floats(1, 1000), st.floats(1, 1000), st.floats(1e-3, 99), st.floats(-0.999, 0.999))
def test_what_is_apart_is_so_live_whichever_of_the_two_was_replayed_with_the_error(exact, live, error, share):
    measured, replayed = row(NOW, exact), row("replayed", live * (1 + share * error / 100))
    for pair in ((measured, replayed), (replayed, measured)):
        apart = Judge(error_of(error)).memory_apart(*pair)
        assert not apart or (replayed.peak > measured.peak) == (live > exact)


def test_of_ties_in_memory_the_one_of_least_cpu_time_is_picked():
    rows = [row(NOW, 100, 1000), row("leanest", 60, 1500), row("tie", 61, 800), row("apart", 70, 100)]
    pick = picks(rows, MEMORY, error_of(3.0))[MEMORY]
    assert pick.label == "tie"
    assert pick.ties == ("leanest",)


def test_a_tie_at_the_peak_is_none_where_the_mean_is_apart():
    rows = [row(NOW, 100, 1000), row("a", 60, 1500, mean_mib=30), row("b", 61, 800, mean_mib=60)]
    assert picks(rows, MEMORY, error_of(3.0))[MEMORY].label == "a"


@pytest.mark.parametrize(
    ("peak", "mean", "picked"), [(98, 20, "other"), (103, 20, "other"), (110, 20, NOW), (98, 97, NOW), (98, 99.5, NOW)]
)
def test_of_a_program_that_idles_a_lower_mean_at_no_higher_peak_is_a_reason(peak, mean, picked):
    rows = [row(NOW, 100, mean_mib=100), row("other", peak, mean_mib=mean)]
    judge = Judge(error_of(4.0), by_mean=True)
    assert [one.label for one in decide(rows, NOW, MEMORY, judge, [NOW, "other"])] == [picked]
    assert picks(rows, MEMORY, error_of(4.0))[MEMORY].label == NOW


@pytest.mark.parametrize(
    ("peak", "mean", "picked"), [(60, 200, NOW), (60, 101, "other"), (60, 40, "other"), (99, 200, NOW)]
)
def test_of_a_program_that_idles_a_lower_peak_at_a_much_higher_mean_is_no_reason(peak, mean, picked):
    rows = [row(NOW, 100, mean_mib=100), row("other", peak, mean_mib=mean)]
    (pick,) = decide(rows, NOW, MEMORY, Judge(error_of(4.0), by_mean=True), [NOW, "other"])
    assert pick.label == picked
    assert ("but its mean is 100 % higher" in pick.why) == (peak == 60 and picked == NOW)


@pytest.mark.parametrize(("other", "picked"), [(30, "other"), (99, NOW)])
def test_of_a_program_that_idles_a_lower_mean_is_a_reason_only_by_each_clock(other, picked):
    lower = replace(row("other", 100, mean_mib=20), other_means={"under_quota": other * 2**20})
    rows = [row(NOW, 100, mean_mib=100), lower]
    (pick,) = decide(rows, NOW, MEMORY, Judge(error_of(4.0), by_mean=True), [NOW, "other"])
    assert pick.label == picked


def test_of_a_program_that_idles_a_mean_that_may_be_higher_is_none_for_a_lower_peak():
    lower = replace(row("other", 60, mean_mib=90), other_means={"under_quota": 200 * 2**20})
    rows = [row(NOW, 100, mean_mib=100), lower]
    (pick,) = decide(rows, NOW, MEMORY, Judge(error_of(4.0), by_mean=True), [NOW, "other"])
    assert (pick.label, "but its mean is 100 % higher" in pick.why) == (NOW, True)


def test_of_a_program_that_idles_the_one_that_saves_most_of_peak_and_mean_is_picked():
    rows = [row(NOW, 100, mean_mib=100), row("peak", 60, mean_mib=100), row("mean", 90, mean_mib=20)]
    rows.append(row("traded", 20, mean_mib=300))
    (pick,) = decide(rows, NOW, MEMORY, Judge(error_of(4.0), by_mean=True), [one.label for one in rows])
    assert pick.label == "mean"
    assert picks(rows, MEMORY, error_of(4.0))[MEMORY].label == "traded"


def test_of_ties_in_cpu_time_the_leanest_is_picked():
    """The same instructions: nothing between them can be predicted."""
    rows = [row(NOW, 100, 5000), row("fat", 150, 200), row("lean", 90, 200), row("slower", 50, 4000)]
    pick = picks(rows, CPU)[CPU]
    assert pick.label == "lean"
    assert pick.ties == ("fat",)


@given(st.lists(st.floats(1, 1000), min_size=1, max_size=8))
def test_every_gain_whose_range_reaches_the_pick_is_its_rival_or_its_tie(instructions):
    rows = [row(NOW, 100, 5000), *(row(f"a{i}", 100, one) for i, one in enumerate(instructions))]
    judge = Judge(no_error, {"": 1e9})
    pick = picks(rows, CPU)[CPU]
    changes = {one.label: judge.cpu(rows[0], one) for one in rows[1:]}
    best = changes[pick.best].percent
    reach = {label for label, cpu in changes.items() if cpu.low <= best and cpu.percent < -0.05}
    assert set(pick.group) >= reach
    assert len(pick.group) == len(set(pick.group))


def test_cpu_time_that_is_no_two_percent_of_the_program_changes_nothing():
    rows = [row(NOW, 100, 50), row("fast", 100, 5)]
    pick = picks(rows, CPU, cpu_ns=1e9)[CPU]
    assert pick.label == NOW
    assert "saves 0.9 % of CPU time, within the error of 2.8 %" in pick.why
    assert picks(rows, CPU, cpu_ns=1e8)[CPU].label == "fast"


def live(percent, low, high):
    return Live(NOW, 1e9, percent, low, high, 9)


def test_a_best_candidate_that_the_prediction_does_not_resolve_is_run_live():
    rows = [row(NOW, 100, 500), row("fast", 100, 250), row("slow", 100, 700)]
    pick = picks(rows, CPU, cpu_ns=1e9)[CPU]
    assert (pick.label, pick.best, pick.open) == (NOW, "fast", True)
    assert "whether fast is faster is not known (" in pick.why
    assert confirm.to_run(SimpleNamespace(today=NOW), pick) == "fast"
    sure = picks([row(NOW, 100, 5000), row("fast", 100, 200)], CPU)[CPU]
    assert confirm.to_run(SimpleNamespace(today=NOW), sure) == "fast"
    none = picks([row(NOW, 100, 500), row("slow", 100, 700)], CPU)[CPU]
    assert not confirm.to_run(SimpleNamespace(today=NOW), none)


@pytest.mark.parametrize(
    ("measured", "label", "why"),
    [
        ((-9, -11, -7), "fast", ""),
        ((-1, -2, 0.5), NOW, "saves 1.2 % of CPU time"),
        ((3, 2, 4), NOW, "none is faster"),
        ((-1, -25, 25), "fast", ""),  # the prediction says more than they do
        ((-9, -25, 9), "fast", ""),  # with a predicted gain
    ],
)
def test_live_runs_and_the_prediction_are_weighed(measured, label, why):
    rows = [row(NOW, 100, 500), replace(row("fast", 100, 250), live=live(*measured)), row("other", 100, 300)]
    judge = Judge(no_error, {"": 1e9}, measured=["fast"])
    (pick,) = decide(rows, NOW, CPU, judge, [one.label for one in rows])
    assert pick.label == label
    assert why in pick.why
    assert judge.cpu(rows[0], rows[1]).kind == "live"


def measured_live(percent, deviation=0.05, rounds=9, **more):
    return Live(NOW, 1e9, percent, math.nan, math.nan, rounds, deviation=deviation, freedom=30.0, **more)


def predicted_cpu(percent, reach):
    return Cpu(ESTIMATED, percent, percent - reach, percent + reach, 0.0, 0.0, 0.0)


@given(st.floats(-40, 40), st.floats(0.5, 60), st.one_of(st.none(), st.floats(-40, 40)), st.floats(0.5, 60))
def test_what_is_weighed_lies_between_both_and_is_narrower_than_each(measured, half, predicted, reach):
    made = measured_live(measured, half / 196)
    other = None if predicted is None else predicted_cpu(predicted, reach)
    found = weighed(made, other)
    ends = sorted((measured, predicted or 0.0))  # without a prediction most changes are small
    assert ends[0] - 1e-6 <= found.percent <= ends[1] + 1e-6
    assert math.log1p(found.high / 100) - math.log1p(found.low / 100) <= 2 * 2.05 * half / 196
    assert (found.chance > 0.5) == (found.percent < 0) or abs(found.percent) < 1e-6


def test_of_other_processes_nothing_is_predicted():
    made, other = measured_live(-6.0, replayed=False), predicted_cpu(-9.0, 3.0)
    assert weighed(made, other) == weighed(made, None)
    assert weighed(replace(made, replayed=True), other).percent < weighed(made, None).percent


@given(st.floats(-60, 60), st.floats(0.001, 0.3), st.integers(1, 9), st.one_of(st.none(), st.floats(-40, 40)))
def test_what_probably_gains_two_percent_is_named_however_wide_its_interval(percent, deviation, rounds, predicted):
    made = measured_live(percent, deviation, rounds)
    found = weighed(made, None if predicted is None else predicted_cpu(predicted, 10))
    assert found.named == (found.chance >= LIKELY)
    assert found.is_reason == (found.named and found.percent <= -2)
    if found.is_reason and found.high > 0:
        assert f"{100 * found.chance:.0f} % chance" in cpu_text(found)


def test_a_few_points_of_a_noisy_race_without_a_prediction_are_no_reason():
    """What allocators usually do to a program says more than such rounds."""
    assert not weighed(measured_live(-6.0, 0.15), None).is_reason
    assert weighed(measured_live(-6.0, 0.05), None).is_reason
    assert abs(math.log1p(weighed(measured_live(-6.0, USUAL), None).percent / 100)) < 0.04


@given(st.floats(-50, 50), st.floats(0, 30), st.floats(0, 30), st.floats(1, 900))
def test_live_runs_are_used_even_where_a_prediction_contradicts_them(percent, below, above, instructions):
    rows = [row(NOW, 100, 500), row("other", 100, instructions)]
    judge = Judge(no_error, {"": 1e9})
    predicted = judge.cpu(*rows)
    measured = live(percent, percent - below, percent + above)
    used = judge.cpu(rows[0], replace(rows[1], live=measured))
    if measured.high < predicted.low or measured.low > predicted.high:
        assert used.percent <= max(measured.percent, predicted.percent) + 1e-6
    assert used.kind == "live"


@given(st.lists(st.floats(1, 1000), min_size=1, max_size=8))
def test_finalists_are_at_most_two_of_those_that_may_be_a_reason_to_change(instructions):
    rows = [row(NOW, 100, 500), *(row(f"a{i}", 100, one) for i, one in enumerate(instructions))]
    judge = Judge(no_error, {"": 1e9})
    found = finalists(rows, rows[0], [one.label for one in rows], judge)
    able = [one for one in rows[1:] if judge.cpu(rows[0], one).low <= -2]
    assert len(found) == min(2, len(able))
    best = sorted(able, key=lambda one: judge.cpu(rows[0], one).ms)
    assert [judge.cpu(rows[0], one).ms for one in best[:2]] == [
        judge.cpu(rows[0], next(one for one in rows if one.label == label)).ms for label in found
    ]


@given(st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 1000)), min_size=2, max_size=9))
def test_the_best_in_each_aim_is_a_contender_and_so_is_todays(figures):
    rows = [row(NOW, *figures[0]), *(row(f"a{i}", *one) for i, one in enumerate(figures[1:]))]
    kept = contenders(rows, rows[0], Judge(no_error, {"": 1e9}))
    made = picks(rows)
    assert NOW in kept
    assert made[CPU].label in kept
    assert min(one.peak for one in rows) == min(one.peak for one in rows if one.label in kept)


def test_who_is_beaten_in_both_aims_is_no_contender():
    rows = [row(NOW, 100, 1000), row("lean", 50, 1500), row("fast", 60, 500), row("beaten", 70, 700)]
    rows += [row("near", 60, 590), row("slow", 120, 1300)]
    assert contenders(rows, rows[0], Judge(no_error, {"": 1e9})) == [NOW, "lean", "fast", "near"]


def test_a_finalist_stands_for_all_settings_of_its_allocator():
    rows = [row(NOW, 100, 5000), row("a", 100, 100), row("a:x", 100, 110), row("b", 100, 400), row("c", 100, 300)]
    assert finalists(rows, rows[0], ["a", "a:x", "b"], Judge(no_error, {"": 1e9})) == ["a", "b"]


@pytest.mark.parametrize(("calls_ms", "raced"), [(220, "a"), (180, "a"), (150, "a:x")])
def test_an_allocator_races_with_its_default_settings_unless_others_are_known_to_be_faster(calls_ms, raced):
    """Bare passes, each off by 20 ms, of which those of the default settings take 200."""
    rows = [row(NOW, 100, 9000), row("a", 100, 3000), row("a:x", 100, 3000)]
    for at, ms in enumerate((900, 200, calls_ms)):
        (counted,) = rows[at].counts[""]
        rows[at] = replace(rows[at], counts={"": [replace(counted, timed=Timed(ms * 1e6, 20e6, 0.0))]})
    assert racers(rows, rows[0], ["a", "a:x"], Judge(no_error, {"": 2e9})) == [raced]


def test_of_settings_that_are_equal_in_both_aims_the_default_ones_are_picked():
    rows = [row(NOW, 100, 5000), row("a:x", 90, 200), row("b", 95, 200), row("a", 90, 200)]
    pick = picks(rows, CPU)[CPU]
    assert (pick.label, set(pick.ties)) == ("a", {"a:x", "b"})


def test_a_group_names_each_allocator_once_and_settings_of_the_pick_alone():
    pick = Pick(CPU, "a:x", "a:x", ("a", "b:y"), ("c:z", "b", "c:w", "a:v"))
    assert pick.families == ("a:x", "b", "c:z")
    assert pick.other_rivals == ("c:z", "b")
    assert not Pick(CPU, "a", "a", rivals=("a:x",)).other_rivals


def test_a_tenth_of_a_mebibyte_changes_nothing():
    pick = picks([row(NOW, 1.0), row("lean", 0.9)], MEMORY)[MEMORY]
    assert (pick.label, pick.why) == (NOW, "the leanest, lean, saves 10.0 % of peak memory, less than 1 MiB")


def test_without_counts_there_is_no_advice_on_cpu_time():
    assert list(picks([row(NOW, 100), row("b", 60)])) == [MEMORY]


def test_what_is_not_kept_is_not_picked():
    rows = [row(NOW, 100, 1000), row("lean", 60, 1500), row("next", 80, 900)]
    assert picks(rows, MEMORY, kept=[NOW, "next"])[MEMORY].label == "next"
    assert picks(rows, MEMORY, kept=[NOW])[MEMORY].label == NOW


FIGURES = st.lists(st.tuples(st.floats(1, 1000), st.floats(1, 1000)), min_size=2, max_size=8)


@given(FIGURES, st.floats(0, 20))
def test_a_pick_is_better_than_todays_beyond_the_error(figures, error):
    rows = [row(NOW, *figures[0]), *(row(f"a{i}", *one) for i, one in enumerate(figures[1:]))]
    by_label = {one.label: one for one in rows}
    now, judge = by_label[NOW], Judge(error_of(error), {"": 1e9})
    for pick in decide(rows, NOW, BOTH, judge, list(by_label)):
        for label in (pick.label, *pick.ties):
            if label == NOW:
                assert pick.why
            elif pick.aim == MEMORY:
                assert by_label[label].peak < now.peak * (1 - error / 100) * (1 + 1e-9)
            else:
                change = judge.cpu(now, by_label[label])
                assert change.high < 0
                assert change.percent <= -2


@given(FIGURES)
def test_no_candidate_between_the_aims_is_beaten_in_both(figures):
    rows = [row(f"a{i}", *one) for i, one in enumerate(figures)]
    judge = Judge(no_error, {"": 1e9})
    for one in between(rows, rows[0], judge):
        time = judge.cpu(rows[0], one).ms
        assert not [other for other in rows if other.peak < one.peak and judge.cpu(rows[0], other).ms < time]


@given(st.lists(st.tuples(st.integers(1, 200), st.integers(1, 2000)), min_size=1, max_size=5))
def test_an_allocator_of_today_that_keeps_no_limit_is_replaced_by_the_best_that_does(figures):
    others = [row(f"other{i}", *one) for i, one in enumerate(figures)]
    made = picks([row(NOW, 10, 10), *others], kept=[one.label for one in others])
    peaks = {one.label: one.peak for one in others}
    assert made[CPU].label in peaks
    assert peaks[made[MEMORY].label] == min(peaks.values())


KNOWN = registry.load(default_home())


def tried(monkeypatch, threads, installed=()):
    found = [SimpleNamespace(record=SimpleNamespace(label=label)) for label in installed]
    monkeypatch.setattr(candidates.installed, "find_all", lambda folder: found)
    monkeypatch.setattr(candidates, "choose_all", lambda names, known: [choice(name) for name in names])
    return [one.label for one in candidates.candidates([], KNOWN, threads, None)]


def test_every_allocator_found_is_tried_with_its_main_variants_and_those_installed(monkeypatch):
    names = tried(monkeypatch, 1, ["x@1.0"])
    assert {"glibc", "glibc:trim-at-once", "x@1.0"} <= set(names)
    assert "glibc:one-arena" not in names
    assert len(names) == len(set(names))


def test_variants_for_threads_are_tried_where_there_are_several(monkeypatch):
    more = set(tried(monkeypatch, 2)) - set(tried(monkeypatch, 1))
    assert "glibc:one-arena" in more
    assert all(KNOWN[name.partition(":")[0]].variants[name.partition(":")[2]].advise == "threads" for name in more)


@pytest.mark.parametrize(("library", "label"), [("libc.so.6", "glibc"), ("libjemalloc.so.2", "jemalloc")])
def test_a_program_is_compared_with_what_it_was_recorded_on(library, label):
    choice, doubt = candidates.today(None, {"allocator": library}, KNOWN)
    assert (choice.label, doubt) == (label, "")


def test_another_version_of_glibc_is_not_silently_replaced_by_this_machines():
    info = {"allocator": "libc.so.6", "allocator_version": "2.5", "allocator_build_id": "00"}
    choice, doubt = candidates.today(None, info, KNOWN)
    assert choice.label == "glibc"
    assert doubt.startswith("recorded on glibc 2.5, which is not on this machine; the baseline is glibc 2.")
    assert candidates.recorded_on(info, KNOWN) is None


def test_an_installed_candidate_with_the_recordings_build_id_is_its_allocator(monkeypatch):
    found = SimpleNamespace(record=SimpleNamespace(label="x@1.0", build_id="ab"))
    monkeypatch.setattr(candidates.installed, "find_all", lambda folder: [found])
    monkeypatch.setattr(recorded, "choose", lambda label, known: choice(label))
    monkeypatch.setattr(recorded, "named", lambda label, known: KNOWN["glibc"])
    info = {"allocator": "libx.so", "allocator_build_id": "ab"}
    found, doubt = candidates.today(None, info, KNOWN)
    assert (found.label, doubt) == ("x@1.0", "")


@pytest.mark.parametrize("info", [{}, {"allocator": "own"}])
def test_what_is_assumed_is_reported(info):
    choice, doubt = candidates.today(None, info, KNOWN)
    assert choice.label == "glibc"
    assert info.get("allocator", "does not name its allocator") in doubt


def test_what_the_program_had_on_an_allocator_that_is_not_known_is_said():
    info = {"allocator": "own", "recorded": [[0, 1 << 20, 2 << 20], [9, 75 << 20, 80 << 20], [20, 3 << 20, 80 << 20]]}
    assert candidates.today(None, info, KNOWN)[1].endswith("on it the program peaked at 75.0 MiB")


def choice(label, **settings):
    name, _, variant = label.partition(":")
    preload = "" if name == NOW else f"/lib/{name}.so"
    return Choice(name, variant or "default", Path(preload or "/lib/libc.so.6"), preload, settings)


def advice(rows, judge, objective=BOTH, refused=(), live=(), linked=""):
    kept = [one.label for one in rows if one.label not in refused]
    choices = {one.label: choice(one.label, A="b c") for one in rows}
    picks = decide(rows, NOW, objective, judge, kept)
    said = ["What could change it."]
    race = "heaptape advise --budget 2m -- x"
    return Advice(
        "p: 1 call.", NOW, rows, picks, judge, choices, "", dict(refused), said, live, race=race, linked=linked
    )


def text(*arguments, **settings):
    return render(screen(advice(*arguments, **settings), "/c.so"))


def said(*arguments, **settings):
    return " ".join(text(*arguments, **settings).split())


@given(
    st.lists(st.tuples(st.floats(1, 1000), st.one_of(st.none(), st.floats(0, 1000))), min_size=1, max_size=12),
    st.floats(0, 20),
    st.one_of(st.none(), st.floats(1e6, 1e10)),
    st.lists(st.text(st.characters(min_codepoint=32), max_size=300), max_size=5),
)
def test_at_most_a_screen_whatever_was_found(figures, error, cpu_ns, reasons):
    rows = [row(NOW, *figures[0]), *(row(f"a{i}", *one) for i, one in enumerate(figures[1:]))]
    refused = {f"a{i}": why for i, why in enumerate(reasons) if i + 1 < len(rows)}
    made = text(rows, Judge(error_of(error), {"": cpu_ns}), refused=refused, live=("Live 1", "Live 2")).splitlines()
    assert 3 <= len(made) <= 24
    assert not [line for line in made if "nan" in line.split()]


def test_the_line_to_set_is_what_a_shell_takes():
    made = text([row(NOW, 100), row("x:one", 50)], Judge(no_error), MEMORY)
    assert "  LD_PRELOAD=/lib/x.so A='b c'\n" in made
    assert "Use x:one  peak memory  100 -> 50.0 MiB (-50 %)  replayed" in made


def test_going_back_to_the_c_library_preloads_it():
    made = SimpleNamespace(choices={NOW: choice(NOW), "a": choice(f"{NOW}:a", A="1")}, today="jemalloc", linked="")
    assert Advice.environment(made, NOW, "/c.so") == {"LD_PRELOAD": "/c.so"}
    made.today = NOW
    assert Advice.environment(made, "a", "/c.so") == {"A": "1"}


def test_an_allocator_that_is_in_the_program_is_replaced_by_linking_not_by_preload():
    rows = [row(NOW, 100), row("x:one", 50)]
    made = said(rows, Judge(no_error), MEMORY, linked=NOW)
    assert "LD_PRELOAD=" not in made
    assert "Link it with x (A=b c) instead of glibc, which is in the program: LD_PRELOAD has no effect" in made


def test_staying_is_said_with_the_reason():
    made = said([row(NOW, 100, 10), row("x", 120, 500)], Judge(no_error, {"": 1e9}))
    assert "No reason to change from glibc: none needs less memory; none is faster." in made


def test_an_allocator_that_is_not_known_is_said_before_the_advice():
    found = replace(advice([row(NOW, 100, 10), row("x", 120, 500)], Judge(no_error, {"": 1e9})), doubt="it is its own")
    made = " ".join(render(screen(found, "/c.so")).split())
    assert made.index("Compared with glibc: it is its own.") < made.index("No reason to change from glibc")


def test_cpu_time_is_in_percent_where_the_programs_is_known():
    rows = [row(NOW, 100, 1000), row("x", 100, 500)]
    known = said(rows, Judge(no_error, {"": 1e9}), CPU)
    assert "CPU time ≈ -10 % estimated" in known
    assert "Why: 50 % fewer instructions in malloc and free." in known
    unknown = said(rows, Judge(no_error, {"": None}), CPU)
    assert "x saves 100.0 ms of CPU time, a reason to change only if the program takes less than 2 s of it" in unknown


def test_what_lies_between_the_aims_is_named():
    rows = [row(NOW, 100, 1000)]
    for label, peak, instructions, change in (("lean", 50, 900, -2), ("mid", 70, 500, -10), ("fast", 90, 100, -18)):
        rows.append(replace(row(label, peak, instructions), live=Live(NOW, 1e9, change, change - 1, change + 1, 9)))
    made = said(rows, Judge(no_error, {"": 1e9}))
    assert "For memory use lean peak memory 100 -> 50.0 MiB (-50 %)" in made
    assert "For CPU time use fast peak memory 100 -> 90.0 MiB (-10 %)" in made
    assert "Or mid: peak memory -30 %, CPU time -10 % (-11 to -9.0)." in made


def test_a_reason_that_several_share_is_said_once():
    rows = [row(NOW, 100), row("x", 50), row("x:a", 50), row("y", 60)]
    made = said(rows, Judge(no_error), MEMORY, refused={"x": "op 1 is wrong", "x:a": "op 1 is wrong"})
    assert "Not advised: x, x:a: op 1 is wrong." in made


@pytest.mark.parametrize(
    ("predicted", "low", "high", "verdict"),
    [
        (-5.1, -8.3, -2.4, "confirmed"),
        (-7.0, -20.0, -16.0, "larger than predicted"),
        (-9.0, -8.3, -2.4, "smaller than predicted"),
        (-5.0, -6.0, 1.0, "not resolved"),
        (-5.0, 2.0, 4.0, "the opposite of the prediction"),
        (float("nan"), -4.0, -2.0, "confirmed"),
    ],
)
def test_a_live_check_says_how_prediction_and_measurement_agree(predicted, low, high, verdict):
    assert confirm._verdict(predicted, low, high) == verdict


def test_a_race_that_decides_nothing_alone_says_what_the_pick_was_weighed_with():
    found, predicted = measured_live(-6.0), predicted_cpu(-9.0, 3.0)
    assert confirm._with_prediction(found, predicted) == (
        f" by them alone, with the prediction {cpu_text(weighed(found, predicted))}"
    )
    assert confirm._with_prediction(replace(found, replayed=False), predicted) == " by them alone"
    assert confirm._with_prediction(found, None) == " by them alone"


@pytest.mark.parametrize(("upper", "kept"), [(104, True), (107, False)])
def test_a_limit_of_a_peak_that_is_a_range_holds_at_both_ends(upper, kept):
    def tried(label, peak, upper):
        choice = Choice(label, "default", Path(), "", {})
        return candidates.Tried(choice, peak * MIB, peak * MIB, upper * MIB, {})

    limit = parse("rss-peak<=1.05*today", ("today",))
    refused = _beyond_limits([tried("glibc", 100, 100), tried("other", 90, upper)], "glibc", [limit])
    assert ("other" not in refused) == kept


def test_of_candidates_that_are_not_told_apart_none_is_picked():
    rows = [row(NOW, 100, 1000), row("a", 100, 500), row("b", 102, 490), row("c", 106, 480)]
    made = text(rows, Judge(no_error, {"": 1e9}), CPU)
    flat = " ".join(made.split())
    assert "For CPU time c, b or a CPU time ≈ -10 to -10 % estimated" in flat
    assert "LD_PRELOAD" not in made
    assert "a race decides: heaptape advise --budget 2m -- x." in flat
    assert "(peak memory +6.0 %)" in flat


def test_after_an_open_race_the_tie_is_said():
    def raced(label, percent, standing):
        return replace(row(label, 100, 500), live=Live(NOW, 1e9, percent, percent - 6, percent + 6, 8, standing))

    rows = [row(NOW, 100, 1000), raced("a", -14, race.LEADS), raced("b", -12, race.OPEN), row("c", 100, 900)]
    flat = said(rows, Judge(no_error, {"": 1e9}, ["a", "b"]), CPU)
    assert "Use a" in flat
    assert "LD_PRELOAD" in flat
    assert "Not told apart in 8 rounds of a race: a (peak memory 0 %) or b (peak memory 0 %)" in flat
    assert "a longer --budget decides." in flat
    assert "live runs decide" not in flat


@pytest.mark.parametrize("label", ["a", "b", "c"])
def test_what_to_set_is_told_for_every_allocator_but_todays(label):
    advice = SimpleNamespace(today="b", environment=lambda label, library: {"LD_PRELOAD": label})
    told = _pick_json(advice, Pick("cpu", label, None))
    assert (told["use"], told["stay"], told["environment"]) == (
        (label, True, {}) if label == "b" else (label, False, {"LD_PRELOAD": label})
    )
