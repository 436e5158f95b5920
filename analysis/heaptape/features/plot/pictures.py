# SPDX-License-Identifier: MIT
"""Whole figures of results and of profiles, as the bytes of a file. What is drawn into each Axes is of show/figures."""

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.profile.data import Profile, profile
from heaptape.results.comparing.compare import allocator_order, choose_baseline, relative
from heaptape.results.schema import Results, all_results
from heaptape.show.figures import axes as plots
from heaptape.show.figures import memory_plots, profile_plots

matplotlib.use("Agg")

DPI = 150
PAPER = {False: ("#ffffff", "#222222"), True: ("#16181c", "#e8e8e8")}  # background, ink
MOST_CALLS = 4  # kinds of calls whose latency is drawn
Source = Results | Profile


@dataclass(frozen=True)
class Look:
    """How a picture is made: width in inches; a title, None: the workload's name; the allocators to draw, None: all;
    the baseline, None: chosen as `compare` does.
    """

    width_in: float = 7.0
    title: str | None = None
    dark: bool = False
    allocators: list[str] | None = None
    baseline: str | None = None


def opened(path: str, home: Home) -> Source:
    """The results, or the profile of a recording. Raises HeaptapeError."""
    if path.endswith((".json", ".html")):
        files = all_results(path)
        if len(files) != 1:
            raise HeaptapeError(f"{path}: holds results of {len(files)} workloads; a picture is of one")
        return files[0]
    return profile(path, home)


def stem(path: str) -> str:
    """The name of pictures of this file, in the current folder."""
    return Path(path).name.removesuffix(".json").removesuffix(".results").removesuffix(".tape")


def drawn(source: Source, kind: str, look: Look, form: str) -> bytes:
    """The picture as "png", "svg" or "pdf". Raises HeaptapeError where the source lacks what it shows."""
    paper, ink = PAPER[look.dark]
    frozen = {"savefig.facecolor": paper, "svg.hashsalt": kind}
    with matplotlib.rc_context(plots.look(ink) | frozen):
        figure = Figure(figsize=(look.width_in, look.width_in * 0.45), layout="constrained")
        KINDS[kind](figure, source, look)
        title = source.name if look.title is None else look.title
        figure.suptitle(title.replace("$", r"\$"), fontsize=10)  # no formula
        out = io.BytesIO()
        dated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form)  # the same bytes each time
        figure.savefig(out, format=form, dpi=DPI, metadata=dated)
    return out.getvalue()


def _chosen(file: Results, look: Look) -> list[str]:
    known = allocator_order([file])
    if unknown := [name for name in look.allocators or [] if name not in known]:
        raise HeaptapeError(f"{unknown[0]} is not in the results: there are {', '.join(known)}")
    return look.allocators or known


def _over_progress(column: str) -> Callable[[Figure, Results, Look], None]:
    def draw(figure: Figure, file: Results, look: Look) -> None:
        known = file.timelines()
        lines = {name: known[name] for name in _chosen(file, look) if name in known}
        if not lines:
            raise HeaptapeError("no allocator has a time line: heaptape replay --passes memory")
        axes = figure.subplots()
        plots.memory_over_progress(axes, lines, column, file.workload.recorded or ())
        axes.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=8)

    return draw


def _map(figure: Figure, file: Results, look: Look) -> None:
    known = {name: found for name, found in file.memory_maps().items() if found.fullness.size}
    maps = {name: known[name] for name in _chosen(file, look) if name in known}
    if not maps:
        raise HeaptapeError("no allocator has a memory map: heaptape replay --passes memory")
    rows = -(-len(maps) // 2)
    figure.set_size_inches(look.width_in, look.width_in * (0.12 + 0.28 * rows))
    height = max(found.height_bytes for found in maps.values())
    grid = figure.subplots(rows, min(len(maps), 2), squeeze=False).ravel()
    for axes, (name, found) in zip(grid, maps.items()):
        memory_plots.memory_map(axes, found, height, PAPER[look.dark][1])
        axes.set_title(name)
    for axes in grid[len(maps) :]:
        axes.remove()


def _calls(figure: Figure, file: Results, look: Look) -> None:
    baseline = choose_baseline([file], look.baseline)
    percents = relative(file.figures(), baseline)
    cost = plots.cost_of_calls(percents)
    names = [name for name in _chosen(file, look) if name != baseline]
    axes = figure.subplots()
    plots.against_baseline(axes, percents[percents["metric"] == cost], names)
    axes.set_xlabel(f"{cost.removeprefix('total_')} in malloc and free, % of {baseline}")


def _scatter(figure: Figure, file: Results, look: Look) -> None:
    baseline = choose_baseline([file], look.baseline)
    percents = relative(file.figures(), baseline)
    percents = percents[~percents["workload"].str.endswith(" mean")]
    plots.time_against_memory(figure.subplots(), percents, _chosen(file, look), baseline)


def _latency(figure: Figure, file: Results, look: Look) -> None:
    details = file.calls()
    details = details[details["allocator"].isin(_chosen(file, look))]
    if details.empty:
        raise HeaptapeError("no latencies were measured: heaptape replay --passes time")
    often = details.groupby("call")["count"].max().sort_values(ascending=False).index[:MOST_CALLS]
    figure.set_size_inches(look.width_in, look.width_in * 0.28 * -(-len(often) // 2) + 0.9)
    grid = figure.subplots(-(-len(often) // 2), min(len(often), 2), squeeze=False).ravel()
    for axes, call in zip(grid, often):
        plots.latencies(axes, details[details["call"] == call].drop_duplicates("allocator"), _chosen(file, look))
        axes.set_title(str(call))
    for axes in grid[len(often) :]:
        axes.remove()
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, ncols=len(labels), loc="outside lower center", fontsize=8)


def _sizes(figure: Figure, found: Profile, look: Look) -> None:
    left, right = figure.subplots(1, 2)
    profile_plots.sizes(left, found.sizes)
    profile_plots.sizes(right, found.sizes, "bytes")
    left.legend(fontsize=8)


def _lifetimes(figure: Figure, found: Profile, look: Look) -> None:
    axes = figure.subplots()
    profile_plots.lifetimes(axes, found.lifetimes_bytes, found.acquired)
    axes.legend(fontsize=8)
    if found.lifetimes_are_made_up:
        axes.set_title("ages are made up: the recording does not say which of several like objects was released")


def _live(figure: Figure, found: Profile, look: Look) -> None:
    profile_plots.live(figure.subplots(), found.windows)


KINDS: Mapping[str, Callable[..., None]] = {
    "memory": _over_progress("rss_anon_bytes"),
    "address-space": _over_progress("vm_size_bytes"),
    "map": _map,
    "calls": _calls,
    "scatter": _scatter,
    "latency": _latency,
    "sizes": _sizes,
    "lifetimes": _lifetimes,
    "live": _live,
}
