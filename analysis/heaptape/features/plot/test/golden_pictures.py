# SPDX-License-Identifier: MIT
"""A small picture of each kind in golden/, of made-up results. Refresh them with `make golden`, then look at them."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from heaptape.common.home import default_home
from heaptape.features.plot import pictures
from heaptape.features.plot.plot_command import OF_RECORDINGS, OF_RESULTS
from heaptape.features.profile.data import Profile, profile
from heaptape.passes import fragmentation
from heaptape.results.schema import Results
from PIL import Image
from scipy.ndimage import maximum_filter, minimum_filter
from synthetic_blame import make_run, planted
from synthetic_results import ALLOCATORS, encode_fragmentation, make_results

from tests.support import CONVERT, succeed

FOLDER = Path(__file__).resolve().parent / "golden"
LOOK = pictures.Look(width_in=5.0, corners=",".join(ALLOCATORS[:4]))
DPI = 55
# Matplotlib's versions differ by a pixel here and there, and in how they smooth: each pixel is compared with those
# around it, and may be this much lighter or darker than all of them (of 255).
LEVELS = 60
MOST_PER_MILLE = 1.0  # of all pixels
SIZES = ((8, 6000), (24, 3000), (64, 1500), (1 << 10, 90), (1 << 16, 7))
TEXT = "# heaptape-text 1 clock=nanoseconds\n" + "".join(
    f"{size + i} 0 malloc({size}) = {(size << 24) + (i << 18):#x}\n"
    + (f"{size + i} 0 free({(size << 24) + ((i - 1) << 18):#x})\n" if i % 5 else "")
    for size, count in SIZES
    for i in range(count // 10)
)


def sources() -> dict[str, pictures.Source]:
    """Kind -> what is drawn."""
    whole = Results("synthetic.json", _results())
    layouts = {kind: planted(kind) for kind in ("leak", "retention", "fragmentation")}
    runs = [make_run(kind, there) for kind, there in layouts.items()]
    held = Results("held.json", {"workload": {"name": "held", "ops": 8000}, "runs": runs})
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.txt").write_text(TEXT)
        succeed(CONVERT, "convert", Path(folder) / "a.txt", Path(folder) / "recorded.tape")
        found: Profile = profile(Path(folder) / "recorded.tape", default_home())
    shown = dict.fromkeys(OF_RESULTS, whole) | dict.fromkeys(OF_RECORDINGS, found)
    return shown | {kind: held for kind in shown if kind == "holders"}


def _results() -> dict:
    data = make_results(repeats=2, allocators=ALLOCATORS)
    for number, run in enumerate(run for run in data["runs"] if run["pass"] == "memory" and run["repeat"] == 0):
        row = dict.fromkeys([*fragmentation.MEASURED, *fragmentation.FILLS], 0)
        row |= {"live_bytes": 19 << 20, "live_resident_bytes": 19 << 20, "rounding_bytes": number << 19,
                "beside_live_bytes": 1 << 20, "empty_bytes": (5 - number) << 20}  # fmt: skip
        row["rss_anon_bytes"] = sum(row[name] for name in fragmentation.MEASURED[2:]) + (2 << 20)
        run["fragmentation"] = encode_fragmentation([0], [row])
        lines = [[i * 10_000, (number + 1) * (i % 40), (number + 1) * i, 2000 + i, 0] for i in range(100)]
        run["line_sharing"] = {"progress": lines}
    return data


def drawn(source: pictures.Source, kind: str) -> Image.Image:
    """The picture at DPI, in few colours."""
    before, pictures.DPI = pictures.DPI, DPI
    try:
        with tempfile.NamedTemporaryFile(suffix=".png") as file:
            file.write(pictures.drawn(source, kind, LOOK, "png"))
            file.flush()
            return Image.open(file.name).convert("RGB").quantize(32, dither=Image.Dither.NONE)
    finally:
        pictures.DPI = before


def difference(one: Image.Image, other: Image.Image) -> float:
    """Per mille of the pixels of either that no pixel around the same place in the other resembles."""
    if one.size != other.size:
        return 1000.0
    first, second = (np.asarray(image.convert("RGB"), np.int16) for image in (one, other))
    far = [_far(first, second), _far(second, first)]
    return 1000.0 * float(np.maximum(*far).mean())


def _far(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    around = (3, 3, 1)
    low, high = minimum_filter(other, around), maximum_filter(other, around)
    return ((one < low - LEVELS) | (one > high + LEVELS)).any(axis=2)


def refresh(folder: Path, found: Mapping[str, pictures.Source]) -> None:
    folder.mkdir(exist_ok=True)
    for kind, source in found.items():
        drawn(source, kind).save(folder / f"{kind}.png", optimize=True)


if __name__ == "__main__":
    refresh(FOLDER, sources())
