# SPDX-License-Identifier: MIT
"""Whatever an archive contains, nothing is written outside the folder, and only a bounded amount in it."""

import io
import tarfile

import planted_crates as planted
import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.features.candidates import sources


def member(name, kind, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def unpacked(tmp_path, members):
    into = tmp_path / "into"
    into.mkdir()
    (tmp_path / "outside").write_text("untouched")
    sources.unpack("a.crate", io.BytesIO(planted.archive(members)), into)
    return into


@pytest.mark.parametrize(
    "members",
    [
        {"../outside": "x"},
        {"a/../../outside": "x"},
        {"/tmp/outside-of-heaptape": "x"},
        {"hard": member("hard", tarfile.LNKTYPE, "../outside")},
    ],
)
def test_paths_that_lead_out_are_refused(tmp_path, members):
    with pytest.raises(HeaptapeError, match="^a.crate: its path .* leads out of the folder$"):
        unpacked(tmp_path, members)
    assert (tmp_path / "outside").read_text() == "untouched"


@pytest.mark.parametrize("target", ["../outside", "..", "/etc/passwd"])
def test_links_that_lead_out_are_left_out_and_not_followed(tmp_path, target):
    into = unpacked(tmp_path, {"link": member("link", tarfile.SYMTYPE, target), "link/x": "x", "b": "y"})
    assert not (into / "link").is_symlink()
    assert (into / "b").read_text() == "y"
    assert (tmp_path / "outside").read_text() == "untouched"


def test_a_file_in_the_place_of_a_link_does_not_follow_it(tmp_path):
    into = unpacked(tmp_path, {"a": "first", "l": member("l", tarfile.SYMTYPE, "a"), "second": "s"})
    assert (into / "l").read_text() == "first"
    other = tmp_path / "other"
    other.mkdir()
    twice = planted.archive({"a": "first", "l": member("l", tarfile.SYMTYPE, "a")})
    sources.unpack("x", io.BytesIO(twice), other)
    sources.unpack("x", io.BytesIO(planted.archive({"l": "mine"})), other)
    assert (other / "a").read_text() == "first"


def test_devices_are_left_out_and_hard_links_copied(tmp_path):
    into = unpacked(tmp_path, {"a": "text", "h": member("h", tarfile.LNKTYPE, "a"), "d": member("d", tarfile.CHRTYPE)})
    assert sorted(path.name for path in into.iterdir()) == ["a", "h"]
    assert (into / "h").read_text() == "text"


def test_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "MOST_FILES", 2)
    with pytest.raises(HeaptapeError, match="a.crate: has more than "):
        unpacked(tmp_path, {"a": "x", "b": "y", "c": "z"})
    monkeypatch.setattr(sources, "MOST_BYTES", 3)
    into = tmp_path / "more"
    into.mkdir()
    with pytest.raises(HeaptapeError, match="a.crate: has more than "):
        sources.unpack("a.crate", io.BytesIO(planted.archive({"a": "four"})), into)


@pytest.mark.parametrize("cut", [0, 10, 40, 100])
def test_what_is_cut_or_no_archive_is_one_line(tmp_path, cut):
    whole = planted.archive({"a": "x" * 5000, "b": "".join(map(str, range(3000)))})
    for data in (whole[:cut], b"no archive at all" * 40, whole[:20] + b"\xff" * 50 + whole[70:]):
        into = tmp_path / str(abs(hash(data)))
        into.mkdir()
        with pytest.raises(HeaptapeError, match="^a.crate: can't be unpacked: "):
            sources.unpack("a.crate", io.BytesIO(data), into)
