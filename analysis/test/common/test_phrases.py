# SPDX-License-Identifier: MIT
"""Figures and sentences that several commands have in common: they read back as what was said, and say it exactly."""

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
