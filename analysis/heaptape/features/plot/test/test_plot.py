# SPDX-License-Identifier: MIT
"""Pictures as files: every kind, the same bytes each time, and what can't be drawn is said."""

from pathlib import Path

import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import default_home
from heaptape.features.plot import pictures
from heaptape.features.plot.plot_command import OF_RECORDINGS, OF_RESULTS

from tests.support import CONVERT, HEAPTAPE_HERE, made_once, refused, succeed

TEXT = "# heaptape-text 1 clock=nanoseconds\n" + "".join(
    f"{i} 0 malloc({16 + i}) = {0x1000 * (i + 1):#x}\n{i} 0 free({0x1000 * (i + 1):#x})\n" for i in range(1, 200)
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(into: Path) -> None:
        into.mkdir()
        (into / "a.txt").write_text(TEXT)
        succeed(CONVERT, "convert", into / "a.txt", into / "$a_b.tape")
        passes = ("--passes", "memory,time", "-n", "1", "-a", "glibc", "-a", "jemalloc")
        succeed(HEAPTAPE_HERE, "replay", into / "$a_b.tape", *passes, "-o", into / "$a_b.results.json")

    return made_once(tmp_path_factory, "plot", make)


@pytest.mark.parametrize("kind", [*OF_RESULTS, *OF_RECORDINGS])
def test_every_kind_is_a_picture_and_the_same_bytes_again(folder: Path, kind: str) -> None:
    name = "$a_b.results.json" if kind in OF_RESULTS else "$a_b.tape"
    source = pictures.opened(str(folder / name), default_home())
    first, again = (pictures.drawn(source, kind, pictures.Look(), "svg") for _ in range(2))
    assert first == again
    assert b"<svg" in first
    assert pictures.drawn(source, kind, pictures.Look(width_in=3.5, dark=True), "png").startswith(b"\x89PNG")


def test_without_a_kind_memory_is_drawn_and_files_are_named_after_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert succeed(HEAPTAPE_HERE, "plot", folder / "$a_b.results.json").stdout.startswith("$a_b.memory.png: ")
    assert succeed(HEAPTAPE_HERE, "plot", folder / "$a_b.tape").stdout.startswith("$a_b.live.png: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["$a_b.live.png", "$a_b.memory.png"]


def test_only_the_named_allocators_are_drawn(folder: Path) -> None:
    source = pictures.opened(str(folder / "$a_b.results.json"), default_home())
    made = pictures.drawn(source, "memory", pictures.Look(allocators=["jemalloc"]), "svg")
    assert b"jemalloc" in made
    assert b"glibc" not in made
    with pytest.raises(HeaptapeError, match="nothere is not in the results: there are glibc, jemalloc"):
        pictures.drawn(source, "memory", pictures.Look(allocators=["nothere"]), "svg")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("mapp",), "unknown kind 'mapp': did you mean 'map'?"),
        (("sizes",), "plot: sizes needs a recording"),
        (("memory", "map", "-o", "x.png"), "plot -o: one KIND"),
        (("-o", "x.gif"), "x.gif ends in none of .png, .svg, .pdf"),
        (("--width", "0"), "plot --width: from 1 to 40 inches"),
    ],
)
def test_wrong_usage_is_one_line(folder: Path, words: tuple[str, ...], says: str) -> None:
    refused(HEAPTAPE_HERE, "plot", folder / "$a_b.results.json", *words, says=says, status=2)
