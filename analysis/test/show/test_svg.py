# SPDX-License-Identifier: MIT
"""The writer of SVG: the content of an Axes is where matplotlib would put it."""

import base64
import io
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from heaptape.show.figures.axes import INK
from heaptape.show.pages.svg import DPI, svg, with_one_style
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from PIL import Image

from tests.examples import examples

NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)")


def axes_of(width=6.0, height=3.0):
    axes = Figure(figsize=(width, height), dpi=DPI).add_axes((0.1, 0.2, 0.8, 0.7))
    axes.set(xlim=(0, 100), ylim=(0, 10))
    return axes


def drawn(axes):
    return ElementTree.fromstring(svg(axes.figure, "f0"))


def on_page(axes, points):
    """Places of data in the SVG."""
    found = axes.transData.transform(points)
    return np.column_stack([found[:, 0], axes.figure.get_size_inches()[1] * DPI - found[:, 1]])


def points_of(path):
    """The points of the first lines of a path."""
    at, found = np.zeros(2), []
    for command, rest in re.findall(r"([A-Za-z])([^A-Za-z]*)", path):
        if command == "M" and found:
            break
        numbers = [float(number) for number in NUMBER.findall(rest)]
        moved = {"h": lambda n: (n[0], 0), "v": lambda n: (0, n[0])}.get(command, tuple)(numbers)
        at = np.array(moved) if command == "M" else at + moved
        found.append(at)
    return np.array(found)


def paths_with(root, *styles):
    rules = dict(re.findall(r"\.(s\w+)\{([^}]*)\}", root.find("style").text))
    return [path for path in root.iter("path") if all(style in rules[path.get("class")] for style in styles)]


def distance(points, line):
    """The largest distance of the points from a polyline."""
    begin, along = line[:-1], np.diff(line, axis=0)
    length = np.maximum((along**2).sum(axis=1), 1e-12)
    share = np.clip(((points[:, None] - begin) * along).sum(axis=2) / length, 0, 1)
    return np.sqrt((((begin + share[..., None] * along) - points[:, None]) ** 2).sum(axis=2)).min(axis=1).max()


@examples(60)
@given(st.lists(st.floats(0, 10), min_size=2, max_size=300), st.booleans())
def test_a_line_passes_within_half_a_point_of_its_data(values, steps):
    axes = axes_of()
    x = np.linspace(0, 100, len(values))
    axes.plot(x, values, color="#123456", drawstyle="steps-post" if steps else "default")
    (path,) = paths_with(drawn(axes), "stroke:#123456")
    shown = points_of(path.get("d"))
    data = on_page(axes, axes.lines[0].get_path().vertices)
    # A tenth by rounding, a fifth by moves that are left out, and matplotlib's own simplification.
    assert distance(data, shown) < 0.5


def test_marks_and_labels_stand_at_their_numbers():
    axes = axes_of()
    root = drawn(axes)
    texts = {text.text: text for text in root.iter("text")}
    for number in range(0, 101, 20):
        x, _ = on_page(axes, [(number, 0)])[0]
        assert any(float(text.get("x")) == pytest.approx(x, abs=0.06) for text in root.iter("text"))
        assert any(f"M{x:.2f}".rstrip("0").rstrip(".") in path.get("d") for path in root.iter("path"))
    assert {"0", "20", "100", "2", "10"} <= set(texts)


def test_labels_of_axes_powers_and_factors_are_written():
    axes = axes_of()
    axes.set(xlabel="a < b", ylabel="up", title="titled", xscale="log", xlim=(1, 1e6), ylim=(0, 5e9))
    root = drawn(axes)
    texts = ["".join(text.itertext()) for text in root.iter("text")]
    assert {"a < b", "up", "titled", "102", "1e9"} <= set(texts)
    assert [text for text in root.iter("tspan") if text.text == "2"]


def test_what_reaches_beyond_the_axes_is_clipped_and_nothing_else():
    axes = axes_of()
    axes.plot([10, 90], [1, 9], color="#111111")
    axes.plot([10, 190], [1, 9], color="#222222")
    root = drawn(axes)
    (inside,), (beyond,) = paths_with(root, "#111111"), paths_with(root, "#222222")
    assert inside.get("clip-path") is None
    name = re.fullmatch(r"url\(#(.*)\)", beyond.get("clip-path"))[1]
    assert [clip.get("id") for clip in root.iter("clipPath")] == [name]


def test_an_image_has_its_lowest_row_at_the_bottom():
    axes = axes_of()
    axes.imshow(np.array([[[255, 0, 0, 255]], [[0, 0, 255, 255]]], np.uint8), origin="lower", extent=(0, 100, 0, 5),
                aspect="auto", interpolation="none")  # fmt: skip
    (image,) = drawn(axes).iter("image")
    assert [image.get("width"), image.get("height")] == ["345.6", "75.6"]
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(image.get("href").split(",")[1]))).convert("RGB"))
    assert pixels[0, 0].tolist() == [0, 0, 255]
    assert pixels[-1, 0].tolist() == [255, 0, 0]


@pytest.mark.parametrize("top", [0, 5])
def test_areas_below_the_rasterization_order_are_one_picture_where_they_are(top):
    axes = axes_of()
    axes.set_rasterization_zorder(1)
    axes.fill_between([20, 60], [0, 0], [top, top], color="#00ff00", zorder=0.5, linewidth=0)
    images = list(drawn(axes).iter("image"))
    assert len(images) == (top > 0)
    for image in images:
        (left, low), (right, high) = on_page(axes, [(20, 0), (60, 5)])
        place = [float(image.get(name)) for name in ("x", "y", "width", "height")]
        assert place == pytest.approx([left, high, right - left, low - high], abs=1.5)


def test_ink_follows_the_page_and_hatches_are_patterns():
    axes = axes_of()
    axes.bar([50], [5], hatch="//", color="#ffb52e", edgecolor=INK)
    text = svg(axes.figure, "f0")
    assert "currentColor" in text
    assert INK not in text
    assert re.search(r'<pattern id="(f0-\d+)"', text)[1] in re.findall(r"fill:url\(#([^)]*)\)", text)


def test_figures_that_are_laid_out_when_drawn_are_drawn_too():
    figure = Figure(figsize=(6, 3), layout="constrained")
    axes = figure.subplots()
    figure.colorbar(axes.pcolormesh(np.arange(6).reshape(2, 3)), label="how many")
    root = ElementTree.fromstring(svg(figure, "f1"))
    assert "how many" in [text.text for text in root.iter("text")]
    assert len(list(root.iter("path"))) > 6


def test_the_rules_of_all_figures_become_one_style():
    one, two = axes_of(), axes_of()
    two.plot([1, 2], [3, 4])
    page = f"<html><head></head><body>{svg(one.figure, 'f1')}{svg(two.figure, 'f2')}</body></html>"
    joined = with_one_style(page)
    assert joined.count("<style>") == 1
    rules = re.findall(r"\.s\w+\{[^}]*\}", joined)
    assert len(rules) == len(set(rules))
    assert set(rules) == set(re.findall(r"\.s\w+\{[^}]*\}", page))
