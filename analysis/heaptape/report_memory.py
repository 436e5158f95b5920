"""The report's figures of memory: by address, what RSS consists of, OS pages by fill. Each with a caption, and words
for those who can't see it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from matplotlib.figure import Figure

from heaptape import fragmentation
from heaptape.memory_figures import PAGE, figure_decomposition, figure_memory, figure_occupancy, height_bytes_of
from heaptape.memory_map import Folded
from heaptape.memory_plots import MIB, size_text
from heaptape.results_file import Results


@dataclass(frozen=True)
class Drawn:
    """A figure and what is said of it."""

    title: str
    figure: Figure
    caption: str
    words: str


def by_address(file: Results, maps: dict[str, Folded]) -> Iterator[Drawn]:
    """One memory-usage graph per allocator (label), all with one scale."""
    height = height_bytes_of(maps.values())
    for label, folded in maps.items():
        if folded.fullness.size == 0:  # nothing was ever live: an empty picture says less than none
            continue
        stretches = len(folded.starts)
        caption = (
            f"{size_text(folded.height_bytes)} of addresses were used, in {stretches} "
            f"stretch{'es' * (stretches != 1)}; one cell is {size_text(folded.region_bytes)}."
        )
        full = folded.fullness[folded.fullness > 0]
        words = f"On average a used region is {100 * full.mean() if len(full) else 0:.0f} % full"
        figure = figure_memory(file, label, theme=PAGE, height_bytes=height)
        if figure is not None:
            yield Drawn(label, figure, caption, words)


def consists_of(file: Results) -> Iterator[Drawn]:
    """What RSS consists of, all allocators in one figure; nothing where the results don't say."""
    figure = figure_decomposition(file, file.labels, theme=PAGE)
    if figure is None:
        return
    caption = (
        "The parts add up to the measured RSS. Caches and bins: what is free in OS pages in which something lives, "
        "object headers included except where the allocator itself tells them apart (reference). Empty: OS pages that "
        "held objects and hold none. Metadata and other: what is left, mostly tables of the allocator."
    )
    peak = fragmentation.at_peak(file)
    words = "At the peak: " + "; ".join(
        f"{row.allocator} {row.rss_anon_bytes / MIB:,.1f} MiB, "
        + ", ".join(f"{getattr(row, part) / MIB:,.1f} {name}" for part, name in fragmentation.PARTS.items())
        for row in peak.itertuples()
    )
    yield Drawn("What RSS consists of", figure, caption, words)


def os_pages(file: Results) -> Iterator[Drawn]:
    """Resident OS pages by fill, all allocators in one figure; nothing where the results don't say."""
    figure = figure_occupancy(file, file.labels, theme=PAGE)
    if figure is None:
        return
    sums = fragmentation.occupancy(file).groupby("allocator", sort=False)[list(fragmentation.FILLS)].sum()
    shares = 100 * sums["os_pages_0"] / sums.sum(axis=1).clip(lower=1)
    words = "Without anything live, on average: " + ", ".join(
        f"{label} {share:.0f} %" for label, share in shares.items()
    )
    caption = "Resident OS pages by how much of each is live requests."
    yield Drawn("OS pages by fill", figure, caption, words)
