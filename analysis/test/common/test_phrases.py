# SPDX-License-Identifier: MIT
"""Figures and sentences that several commands have in common: they read back as what was said, and say it exactly."""

import math

import pytest
from heaptape.common import phrases
from heaptape.common.checked import checked, read_named
from heaptape.common.errors import FormatError, HeaptapeError, unknown
from heaptape.common.tables import listing, rounded, significant, wrapped
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from tests.examples import examples

UNITS = {"byte": 1, "bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "": 1, "k": 1e3, "M": 1e6, "G": 1e9}
UNITS |= {"s": 1e9, "ms": 1e6}


def read(text: str) -> float:
    number, _, unit = text.partition(" ")
    return float(number.replace(",", "")) * UNITS[unit]


@examples(120)
@given(st.floats(0, 1e14))
def test_a_size_a_count_and_a_time_read_back_to_their_three_digits(value):
    for said in (phrases.size(value), phrases.count(value), phrases.seconds(value)):
        assert read(said) == pytest.approx(value, rel=0.00501, abs=500 if said.endswith("ms") else 0.5)
        assert len(said.partition(" ")[0].replace(",", "").replace(".", "").lstrip("0")) <= 6
    above = phrases.size_above(value)
    assert value <= above <= value * 1.0101 + 1
    assert read(phrases.size(above)) == pytest.approx(above, abs=0.51 if above < 1 << 10 else 1e-3 * above**0.5)
    assert read(rounded(value)) == pytest.approx(value, rel=0.0051, abs=0.0051 if value >= 0.1 else 1e-4)
    assert read(significant(value, 3)) == pytest.approx(value, rel=0.00501)


@examples(60)
@given(st.integers(0, 1 << 50))
def test_a_capacity_is_exact(value):
    assert read(phrases.capacity(value)) == value


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (phrases.size(0), "0 bytes"),
        (phrases.size(1), "1 byte"),
        (phrases.size(83.25 * (1 << 20)), "83.2 MiB"),
        (phrases.size(-2048), "-2.00 KiB"),
        (phrases.capacity(3 << 19), "1,536 KiB"),
        (phrases.capacity(32 << 20), "32 MiB"),
        (phrases.capacity(1000), "1,000 bytes"),
        (phrases.count(999), "999"),
        (phrases.count(113_400_000), "113 M"),
        (phrases.counted(1, "thread"), "1 thread"),
        (phrases.counted(2000, "thread"), "2,000 threads"),
        (phrases.counted(2, "entry", "entries"), "2 entries"),
        (phrases.seconds(999_000_000), "999 ms"),
        (phrases.seconds(1e9), "1 s"),
        (phrases.percent(8.52), "+8.5 %"),
        (phrases.percent(-12.4), "-12 %"),
        (phrases.percent(0.0499), "0 %"),
        (phrases.percent(-0.05), "-0.1 %"),
        (phrases.percent(math.nan), "–"),
        (phrases.signed(9.94), "+9.9"),
        (phrases.signed(9.95), "+10"),
        (phrases.signed(-1234.5), "-1,234"),
        (phrases.any_of(["a"], 3), "a"),
        (phrases.any_of(["a", "b"], 3), "a or b"),
        (phrases.any_of(["a", "b", "c"], 3), "a, b or c"),
        (phrases.any_of(["a", "b", "c", "d", "e"], 3), "a, b, c or 2 more"),
        (phrases.share(1, 3), "33 %"),
        (phrases.share(0, 0), "0 %"),
        (phrases.change_of_size(25.5 * (1 << 20), 24.1 * (1 << 20)), "25.5 -> 24.1 MiB"),
        (phrases.change_of_size(512, 2048), "512 bytes -> 2.00 KiB"),
        (phrases.about_workload("jq", 1_620_442, 1, ["x"]), "jq: 1,620,442 calls, 1 thread, x."),
        (phrases.about_workload("jq", 90, 1, [], {"events": 100}), "jq: 90 of 100 calls, 1 thread."),
        (phrases.about_workload("jq", 90, 1, [], {"events": 90}), "jq: 90 calls, 1 thread."),
        (phrases.about_workload("jq", 9, 1, [], {"events": 9, "double_frees": 1, "overlapping_acquires": 1200}),
         "jq: 9 calls, 1 thread. Calls are missing: 1 object released twice, 1,200 handed out twice."),
        (phrases.calls_replayed(90, {"events": 100}), "90 replayed calls"),
        (phrases.calls_replayed(90, None), "90 calls"),
        (phrases.about_workload("jq", None, 2, []), "jq: 2 threads."),
        (phrases.about_workload("jq", None, None, ["x"]), "jq."),
        (phrases.idle(None), ""),
        (phrases.idle(50), ""),
        (phrases.idle(50.6), "It idles for 51 % of its time."),
        (phrases.upgrade("glibc 2.41", -3.0, 0.01), "Upgrade to glibc 2.41: malloc and free take 3.0 % fewer "
         "instructions. No variable sets it."),
        (phrases.upgrade("x", 12.0, -5.0), "Upgrade to x: malloc and free take 12 % more instructions, peak memory "
         "-5.0 %. No variable sets it."),
        (phrases.upgrade("x", None, -1.0), "Upgrade to x: peak memory -1.0 %. No variable sets it."),
        (phrases.upgrade("x", None, 1.0), ""),
        (phrases.upgrade("x", 0.0, 0.0), ""),
        (phrases.without_cache_effects(math.nan, 1.0, "C"), "CPU time is estimated from counts without cache effects. "
         "Smaller gains need them: C."),
        (phrases.without_cache_effects(-7.6, 3.2, "C", timed=True), "CPU time is estimated from timed calls without "
         "cache effects, which move it by -8 to +3 points (95 % range). Smaller gains need them: C."),
        (phrases.too_small_gain("fastest", "a", "1 %", "less than 2 %"), "the fastest, a, saves 1 %, less than 2 %"),
        (phrases.recorded_elsewhere("a", "b"), "recorded on a, which is not on this machine; the baseline is b"),
    ],
)  # fmt: skip
def test_figures_and_sentences_are_said_so(said, text):
    assert said == text


@pytest.mark.parametrize("setting", ["glibc.malloc.arena_max=1", "narenas:1", "tcache:false,narenas:1"])
def test_settings_by_which_threads_wait_for_each_other_are_said(setting):
    (said,) = phrases.serialising("one-arena", {"A": "b", "X": setting})
    assert said == "one-arena makes all threads share one arena, and so wait for each other."
    assert phrases.serialising("x", {"X": f"{setting}0", "Y": "arena_max=2"}) == []


@examples(60)
@given(
    st.lists(st.sampled_from(["12 %", "3.5 MiB,", "≈ 5", "word", "longer-word", "1,000 calls"])), st.integers(12, 60)
)
def test_lines_break_between_words_and_never_before_a_unit(words, width):
    lines = wrapped(" ".join(words), width)
    assert " ".join(lines) == " ".join(words)
    assert all(len(line) <= width for line in lines)
    assert not [line for line in lines if line.startswith(("%", "MiB")) or line.endswith("≈")]


def test_a_listing_has_its_texts_in_one_column(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    lines = listing({"a": ["first words that need two lines"], "long\x1b": ["one", "two"]}).splitlines()
    assert [line[:10].rstrip() for line in lines] == ["a", "", "long\\x1b", ""]
    assert {line[:9] for line in lines[1::2]} == {" " * 9}
    assert [line[9:].strip() for line in lines] == ["first words that need", "two lines", "one", "two"]


class Named(Struct, forbid_unknown_fields=True):
    name: str
    path: str
    size: int = 0


def test_what_does_not_fit_is_said_by_file_and_place(tmp_path):
    with pytest.raises(HeaptapeError, match=r"^f: \[1\]\.size: Expected `int`, got `str`$"):
        checked("f", [{"name": "a", "path": ""}, {"name": "a", "path": "", "size": "x"}], list[Named])
    file = tmp_path / "one.toml"
    for text, says in (("size = 3", ""), ('name = "x"', "unknown field `name`"), ("size =", "Invalid value"),
                       ('size = "3"', "one.toml: size: Expected `int`")):  # fmt: skip
        file.write_text(text)
        if says:
            with pytest.raises(HeaptapeError, match=says) as caught:
                read_named(file, Named)
            assert str(caught.value).startswith(f"{file}: ")
        else:
            assert checked("f", {"name": "one", "path": "p", "size": 3}, Named) == Named("one", "p", 3)


def test_an_unknown_name_is_refused_with_the_nearest_or_with_all():
    assert str(unknown("pass", "mamory", ["memory", "time"])) == "unknown pass 'mamory': did you mean 'memory'?"
    said = str(unknown("pass", "zz", ["memory", "time"], "known are", ", or a path", " of x"))
    assert said == "unknown pass 'zz' of x: known are memory, time, or a path"
    error = FormatError("f", 7, "cut off")
    assert (str(error), str(FormatError("f", None, "empty"))) == ("f: offset 7: cut off", "f: empty")
    assert str(error.__reduce__()[0](*error.__reduce__()[1])) == str(error)
