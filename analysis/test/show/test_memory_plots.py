# SPDX-License-Identifier: MIT
"""The memory graphs: colours that have to be distinguished can be, by colour-blind readers and in grey; pictures show
the data.

Colour blindness is simulated with the matrices of Machado, Oliveira and Fernandes (2009), severity 1.0, in linear RGB;
distances are those of CIE L*a*b* (1976). 2.3 is a just noticeable difference; these must be visible at a glance.
"""

from itertools import combinations, pairwise

import numpy as np
import pytest
from heaptape.results.memory_map import gap_bytes, without_gaps
from heaptape.show import drawing
from matplotlib.colors import to_rgb
from planted_runs import map_of
from synthetic_results import encode_resident_map

EYES = {
    "normal": np.eye(3),
    "protanopia": np.array([
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ]),
    "deuteranopia": np.array([
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ]),
    "tritanopia": np.array([
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ]),
    "grey print": np.tile([0.2126, 0.7152, 0.0722], (3, 1)),
}  # fmt: skip
GLANCE, GLANCE_GREY = 15, 7
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = TO_XYZ.sum(axis=1)


def lab(colour, eyes):
    """CIE L*a*b* of a colour as these eyes see it."""
    channels = np.array(to_rgb(colour))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ np.clip(EYES[eyes] @ linear, 0, 1) / WHITE
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def distance(one, other, eyes):
    return float(np.linalg.norm(lab(one, eyes) - lab(other, eyes)))


def fullness(share):
    return drawing.fullness_colours()[int(share * (drawing.SHADES - 1)), :3]


def least(eyes):
    return GLANCE_GREY if eyes == "grey print" else GLANCE


def test_the_simulation_confuses_what_such_eyes_confuse():
    """Otherwise the tests below would prove nothing."""
    red, green = "#b05040", "#6f7a3a"
    assert distance(red, green, "normal") > 40
    assert distance(red, green, "deuteranopia") < 20
    assert distance("#ffffff", "#000000", "grey print") == pytest.approx(100, abs=0.1)


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("paper", ["#ffffff", "#16161a"])
def test_what_is_resident_but_empty_stands_out_from_paper_and_from_every_fullness(eyes, paper):
    empty = drawing.EMPTY_COLOUR
    assert distance(empty, paper, eyes) > 2 * least(eyes)
    for share in np.linspace(0, 1, 21):
        live = fullness(share)
        assert distance(live, paper, eyes) > least(eyes), share
        # In grey, nearly empty regions are nearly as light: hatching, where there is an area, distinguishes them.
        assert distance(live, empty, eyes) > (least(eyes) if eyes != "grey print" or share > 0.25 else 2.3), share


@pytest.mark.parametrize("eyes", EYES)
def test_fullness_gets_steadily_darker(eyes):
    lightness = [lab(fullness(share), eyes)[0] for share in np.linspace(0, 1, 11)]
    assert all(before - after > 2.3 for before, after in pairwise(lightness))


@pytest.mark.parametrize("eyes", EYES)
def test_parts_differ_from_their_neighbours(eyes):
    for one, other in pairwise(drawing.PART_COLOURS.values()):
        assert distance(one, other, eyes) > least(eyes), (one, other)


@pytest.mark.parametrize("eyes", [eyes for eyes in EYES if eyes != "grey print"])
def test_any_two_parts_are_distinguishable(eyes):
    for one, other in combinations(drawing.PART_COLOURS.values(), 2):
        assert distance(one, other, eyes) > GLANCE, (one, other)


def compact_map_of(cells, region_bytes=4096):
    return without_gaps(map_of(encode_resident_map(region_bytes, list(range(len(cells))), cells)))


def test_a_region_too_small_for_a_row_still_colours_it():
    """2,000 regions, of which every second is empty, in 100 rows: each row is half of either."""
    cells = [{region: (4096 * (region % 2), 4096) for region in range(2000)}] * 2
    image = drawing.map_image(compact_map_of(cells), rows=100, columns=2)
    full, empty = fullness(1.0), np.array(to_rgb(drawing.EMPTY_COLOUR))
    assert image.shape == (100, 2, 4)
    assert np.allclose(image[..., :3], (full + empty) / 2, atol=1e-6)
    assert (image[..., 3] == 1).all()


def test_uneven_positions_take_the_room_that_they_stand_for():
    cells = [{}, {7: (4096, 4096)}, {}]
    drawn = without_gaps(map_of(encode_resident_map(4096, [0, 10, 100], cells)))
    alpha = drawing.map_image(drawn, columns=100)[0, :, 3]
    assert alpha.tolist() == [0] * 10 + [1] * 90


def test_gaps_are_what_is_missing_between_the_stretches():
    cells = [{5: (1, 4096), 6: (1, 4096), 1000: (1, 4096), 5000: (1, 4096)}]
    assert gap_bytes(compact_map_of(cells)).tolist() == [993 * 4096, 3999 * 4096]
    assert [drawing.size_text(int(gap)) for gap in (993 * 4096, 1 << 43)] == ["3.9 MiB", "8 TiB"]
