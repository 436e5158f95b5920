# SPDX-License-Identifier: MIT
"""Pictures look as they did: pixel by pixel, with a tolerance; and that comparison sees what an eye would."""

import pytest
from heaptape.features.plot import pictures
from heaptape.features.plot.plot_command import KINDS
from heaptape.features.plot.test import golden_pictures as golden
from heaptape.show.figures import axes as plots
from PIL import Image

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def sources() -> dict[str, pictures.Source]:
    return golden.sources()


def different(sources: dict[str, pictures.Source], kind: str) -> float:
    return golden.difference(Image.open(golden.FOLDER / f"{kind}.png"), golden.drawn(sources[kind], kind))


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_looks_as_it_did(sources: dict[str, pictures.Source], kind: str) -> None:
    found = different(sources, kind)
    assert found <= golden.MOST_PER_MILLE, f"{kind}: {found:.1f} per mille of the pixels; right? make golden"


def test_all_pictures_together_are_below_200_kb() -> None:
    assert sum(path.stat().st_size for path in golden.FOLDER.iterdir()) < 200_000


def test_a_label_that_moved_is_seen(sources: dict[str, pictures.Source], monkeypatch: pytest.MonkeyPatch) -> None:
    def moved(axes: plots.Axes, *words: object) -> None:
        axis(axes, *words)
        axes.set_xlabel(axes.get_xlabel(), loc="right")

    axis = plots.progress_axis
    monkeypatch.setattr(plots, "progress_axis", moved)
    assert different(sources, "memory") > golden.MOST_PER_MILLE


@pytest.mark.parametrize("number", range(len(golden.ALLOCATORS)))
def test_a_curve_that_is_gone_is_seen(sources, number, monkeypatch):
    width = plots.line_width
    monkeypatch.setattr(plots, "line_width", lambda at, count: 0.0 if at == number else width(at, count))
    assert different(sources, "memory") > golden.MOST_PER_MILLE
