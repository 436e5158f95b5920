# SPDX-License-Identifier: MIT
"""Pictures as files: every kind, the same bytes each time, and what can't be drawn is said."""

import itertools
import re
from pathlib import Path

import matplotlib
import pandas as pd
import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import default_home
from heaptape.features.plot import pictures
from heaptape.features.plot.plot_command import OF_RECORDINGS, OF_RESULTS
from heaptape.features.profile.data import Profile, profile
from heaptape.show.figures import axes as plots
from matplotlib.figure import Figure

from tests.support import CONVERT, HEAPTAPE_HERE, made_once, refused, succeed

TEXT = "# heaptape-text 1 clock=nanoseconds\n" + "".join(
    f"{i} 0 malloc({16 + i**3}) = {0x1000000 * (i + 1):#x}\n{i} 0 free({0x1000000 * (i + 1):#x})\n"
    for i in range(1, 200)
)
# Thread 1 reuses what it freed of thread 0's objects: they share cache lines.
TEXT += "".join(f"{200 + i} 0 malloc(16) = {0x5000 + 32 * i:#x}\n" for i in range(64))
TEXT += "".join(f"{300 + i} 1 free({0x5000 + 64 * i:#x})\n" for i in range(32))
TEXT += "".join(f"{400 + i} 1 malloc(16) = {0x5000 + 64 * i:#x}\n" for i in range(32))

FOUR = ("glibc", "jemalloc", "reference", "magazine")
PASSES = [
    "memory",
    "time",
    *(name for name in ("blame", "sharing") if (Path(pictures.__file__).parents[1] / name).is_dir()),
]


def opened(path: Path) -> pictures.Source:
    return profile(path, default_home()) if path.suffix == ".tape" else pictures.results_in(str(path), default_home())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(into: Path) -> None:
        into.mkdir()
        (into / "a.txt").write_text(TEXT)
        succeed(CONVERT, "convert", into / "a.txt", into / "$a_b.tape")
        passes = ("--passes", ",".join(PASSES), "-n", "1", *(word for name in FOUR for word in ("-a", name)))
        succeed(HEAPTAPE_HERE, "replay", into / "$a_b.tape", *passes, "-o", into / "$a_b.results.json")

    return made_once(tmp_path_factory, "plot", make)


@pytest.mark.parametrize("kind", [*OF_RESULTS, *OF_RECORDINGS])
def test_every_kind_is_a_picture_and_the_same_bytes_again(folder: Path, kind: str) -> None:
    name = "$a_b.results.json" if kind in OF_RESULTS else "$a_b.tape"
    source = opened(folder / name)
    first, again = (pictures.drawn(source, kind, pictures.Look(corners=",".join(FOUR)), "svg") for _ in range(2))
    assert first == again
    assert b"<svg" in first
    assert pictures.drawn(
        source, kind, pictures.Look(width_in=3.5, dark=True, corners=",".join(FOUR)), "png"
    ).startswith(b"\x89PNG")


def test_without_a_kind_memory_is_drawn_and_files_are_named_after_it(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert succeed(HEAPTAPE_HERE, "plot", folder / "$a_b.results.json").stdout.startswith("$a_b.memory.png: ")
    assert succeed(HEAPTAPE_HERE, "plot", folder / "$a_b.tape").stdout.startswith("$a_b.live.png: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["$a_b.live.png", "$a_b.memory.png"]


def test_of_a_recording_kinds_of_results_are_drawn_after_a_replay_whose_results_are_kept(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = succeed(HEAPTAPE_HERE, "plot", folder / "$a_b.tape", "peak", "sizes", "-a", "glibc")
    assert "the results will be in $a_b.results.json" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "$a_b.peak.png", "$a_b.results.json", "$a_b.sizes.png"
    ]  # fmt: skip


def test_results_beside_it_of_this_build_are_used_again_and_no_others(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made, tape = tmp_path / "$a_b.results.json", folder / "$a_b.tape"
    succeed(HEAPTAPE_HERE, "replay", tape)
    kept = made.read_bytes()
    done = succeed(HEAPTAPE_HERE, "plot", tape, "memory")
    assert "its results by this build are in $a_b.results.json" in done.stderr
    assert not Path("$a_b.2.results.json").exists()
    other_machine = '"memory_bytes":', '"memory_bytes":1'
    options, no_list = ('"options":{}', '"options":{"touch":"all"}'), ('"seed":', '"left_out":3,"seed":')
    for change in options, no_list, ('"version":"', '"version":"0'), other_machine:
        assert kept.decode().count(change[0])
        made.write_text(kept.decode().replace(*change, 1))
        assert "the results will be in $a_b.2.results.json" in succeed(HEAPTAPE_HERE, "plot", tape, "memory").stderr
        Path("$a_b.2.results.json").unlink()


@pytest.mark.skipif("sharing" not in PASSES, reason="a feature that was taken out")
def test_a_kind_of_a_feature_needs_no_replay_by_hand(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "sharing.png" in succeed(HEAPTAPE_HERE, "plot", folder / "$a_b.tape", "sharing").stdout


@pytest.mark.parametrize("name", ["$a_b.results.json", "$a_b.tape"])
def test_memory_in_characters_is_as_wide_as_the_terminal_and_has_its_highest_value(folder, name, monkeypatch):
    pytest.importorskip("plotext")
    monkeypatch.setenv("COLUMNS", "70")
    source = opened(folder / name)
    lines = pictures.characters(source, pictures.Look()).splitlines()
    assert max(map(len, lines)) == 70
    highest = source.windows["live_bytes"].max() if isinstance(source, Profile) else max(
        frame[["rss_anon_bytes", "live_bytes"]].to_numpy().max() for frame in source.timelines().values()
    )  # fmt: skip
    assert not re.search(r"[0-9]\.[0-9]", lines[-2])  # of ops there are no fractions
    assert float(lines[1].split("┤")[0]) == pytest.approx(highest / (1 << 20), abs=0.06)


@pytest.mark.parametrize("width_in", [3.5, 5.0, 8.0])
@pytest.mark.parametrize("kind", [*OF_RESULTS, *OF_RECORDINGS])
def test_legends_titles_and_labels_of_ticks_are_within_the_picture_and_cover_no_other(
    folder, kind, width_in, monkeypatch
):
    kept: list[Figure] = []
    made = pictures.Figure
    monkeypatch.setattr(pictures, "Figure", lambda *words, **named: kept.append(made(*words, **named)) or kept[-1])
    name = "$a_b.results.json" if kind in OF_RESULTS else "$a_b.tape"
    pictures.drawn(opened(folder / name), kind, pictures.Look(width_in, corners=",".join(FOUR)), "png")
    (figure,) = kept
    figure.canvas.draw()
    whole = figure.bbox
    legends = [one for one in (*figure.legends, *(axes.get_legend() for axes in figure.axes)) if one]
    texts = [axes.xaxis.label for axes in figure.axes] + [text for legend in legends for text in legend.get_texts()]
    boxes = [text.get_window_extent() for text in texts if text.get_text()]
    assert not [box for box in boxes if box.x0 < whole.x0 - 1 or box.x1 > whole.x1 + 1]
    for axes in figure.axes:
        shown = [text.get_window_extent() for text in axes.get_xticklabels() if text.get_text() and text.get_visible()]
        seen = sorted((box for box in shown if axes.bbox.x0 - 1 <= (box.x0 + box.x1) / 2 <= axes.bbox.x1 + 1),
                      key=lambda box: box.x0)  # fmt: skip
        assert not [one for one, after in itertools.pairwise(seen) if one.x1 > after.x0 - 1]


@pytest.mark.parametrize(
    "names",
    [
        ["glibc", "jemalloc", "tcmalloc", "mimalloc", "tbbmalloc"],
        ["glibc", *(f"glibc:no-tcache-{number}" for number in range(15))],
    ],
    ids=len,
)
def test_names_beside_points_cover_neither_each_other_nor_a_point(names: list[str]) -> None:
    """Allocators within a percent, also at the same places, in a paper's column."""
    steps = {"total_instructions": 0.1, "peak_rss": 0.3}
    rows = [("w", name, metric, 100.0 + number % 5 * step, float("nan"), float("nan"), "")
            for number, name in enumerate(names) for metric, step in steps.items()]  # fmt: skip
    percents = pd.DataFrame(rows, columns=["workload", "allocator", "metric", "percent", "low", "high", "reason"])
    figure = Figure(figsize=(3.5, max(2.2, pictures.NAME_IN * len(names))), layout="constrained")
    axes = figure.subplots()
    with matplotlib.rc_context(pictures.LETTERS[True]):
        plots.time_against_memory(axes, percents, names, "glibc")
    figure.canvas.draw()
    for text in axes.texts:
        text.arrowprops = text.arrow_patch = None  # the box of the words alone
    boxes = [text.get_window_extent() for text in axes.texts]
    assert len(boxes) == len(names)
    assert not [one for one, other in itertools.combinations(boxes, 2) if one.overlaps(other)]
    values = percents.pivot_table(index="allocator", columns="metric", values="percent")
    points = axes.transData.transform(values[["total_instructions", "peak_rss"]])
    assert not [point for box in boxes for point in points if box.contains(*point)]


def test_only_the_named_allocators_are_drawn(folder: Path) -> None:
    source = opened(folder / "$a_b.results.json")
    made = pictures.drawn(source, "memory", pictures.Look(allocators=["jemalloc"]), "svg")
    assert b"jemalloc" in made
    assert b"glibc" not in made
    with pytest.raises(
        HeaptapeError, match="nothere is not in the results: there are glibc, jemalloc, reference, magazine"
    ):
        pictures.drawn(source, "memory", pictures.Look(allocators=["nothere"]), "svg")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("mapp",), "unknown kind 'mapp': did you mean 'map'?"),
        (("sizes",), "plot: sizes needs a recording"),
        (("map", "--show"), "plot --show: memory or live"),
        (("memory", "map", "-o", "x.png"), "plot -o: one KIND"),
        (("-o", "x.gif"), "x.gif ends in none of .png, .svg, .pdf"),
        (("--width", "0"), "plot --width: from 1 to 40 inches"),
    ],
)
def test_wrong_usage_is_one_line(folder: Path, words: tuple[str, ...], says: str) -> None:
    refused(HEAPTAPE_HERE, "plot", folder / "$a_b.results.json", *words, says=says, status=2)
