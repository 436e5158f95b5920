# SPDX-License-Identifier: MIT
"""Whole figures of results and of profiles, as the bytes of a file. What is drawn into each Axes is of show/figures."""

import io
import itertools
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from heaptape.commands.replaying import results_of
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.common.tables import MIB, screen_width
from heaptape.features import modules
from heaptape.features.profile import profile_plots
from heaptape.features.profile.data import Profile
from heaptape.passes import fragmentation
from heaptape.results.comparing.compare import allocator_order, choose_baseline, relative
from heaptape.results.comparing.rare_calls import often_called
from heaptape.results.comparing.variants import parse_corners
from heaptape.results.schema import Results
from heaptape.show.figures import axes as plots
from heaptape.show.figures import memory_plots
from heaptape.show.tables.corner_tables import corner_matrix, shown

matplotlib.use("Agg")

DPI = 150
PAPER = {False: ("#ffffff", "#222222"), True: ("#16181c", "#e8e8e8")}  # background, ink
NARROW_IN = 5.0  # below it, as in a paper's column: smaller letters, and axes one below the other
LETTERS: dict[bool, dict[str, Any]] = {False: {"figure.titlesize": 10},
           True: {"font.size": 7, "xtick.labelsize": 6, "legend.fontsize": 6.5, "figure.titlesize": 8}}  # fmt: skip
NAME_IN = 0.22  # of the height of a picture with names beside points, for each
LETTERS_PER_INCH = {False: 14, True: 17}  # of a title
MOST_CALLS = 4  # kinds of calls that are drawn
PER_CALL = {"instructions": "instructions/", "cycles": "calls/"}  # metrics
Source = Results | Profile
NO_TIMELINE = "no allocator has a time line: heaptape replay --passes memory"
OF_FEATURES = {module.KIND: module for module in modules("plot_kinds")}
CHARACTER_LINES, MARKERS = 22, "gjtmbxo+*"


@dataclass(frozen=True)
class Look:
    """How a picture is made: width in inches; a title, None: the workload's name; the allocators to draw, None: all;
    the baseline, None: chosen as `compare` does; the four allocators of `corners`.
    """

    width_in: float = 7.0
    title: str | None = None
    dark: bool = False
    allocators: list[str] | None = None
    baseline: str | None = None
    corners: str | None = None

    @property
    def narrow(self) -> bool:
        return self.width_in < NARROW_IN

    def wrapped(self, text: str) -> str:
        return textwrap.fill(text, int(LETTERS_PER_INCH[self.narrow] * self.width_in))

    def grid(self, figure: Figure, count: int) -> list[Axes]:
        """Axes for `count` parts, with a height for them."""
        across = 1 if self.narrow else min(count, 2)
        rows = -(-count // across)
        figure.set_size_inches(self.width_in, 0.5 + rows * max(0.28 * self.width_in, 1.4))
        grid = figure.subplots(rows, across, squeeze=False).ravel()
        for axes in grid[count:]:
            axes.remove()
        return list(grid[:count])


def results_in(path: str, home: Home, kinds: Sequence[str] = ()) -> Results:
    """The results in a file; a recording is replayed first, with the passes that these kinds need. Raises
    HeaptapeError.
    """
    files = results_of([path], [], home, [OF_FEATURES[kind].PASS for kind in kinds if kind in OF_FEATURES])
    if len(files) != 1:
        raise HeaptapeError(f"{path}: holds results of {len(files)} workloads; a picture is of one")
    return files[0]


def stem(path: str) -> str:
    """The name of pictures of this file, in the current folder."""
    return Path(path).name.removesuffix(".json").removesuffix(".results").removesuffix(".tape")


def drawn(source: Source, kind: str, look: Look, form: str) -> bytes:
    """The picture as "png", "svg" or "pdf". Raises HeaptapeError where the source lacks what it shows."""
    paper, ink = PAPER[look.dark]
    frozen = {"savefig.facecolor": paper, "svg.hashsalt": kind}
    with matplotlib.rc_context(plots.look(ink) | LETTERS[look.narrow] | frozen):
        figure = Figure(figsize=(look.width_in, max(look.width_in * 0.45, 2.2)), dpi=DPI, layout="constrained")
        KINDS[kind](figure, source, look)
        title = source.name if look.title is None else look.title
        figure.suptitle(look.wrapped(title), fontweight="bold")
        out = io.BytesIO()
        dated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form)  # the same bytes each time
        packed: dict[str, Any] = {"pil_kwargs": {"optimize": True}} if form == "png" else {}
        plots.saved(figure, out, format=form, dpi=DPI, metadata=dated, **packed)
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
            raise HeaptapeError(NO_TIMELINE)
        axes = figure.subplots()
        plots.memory_over_progress(axes, lines, column, file.workload.recorded or ())
        plots.key_below(figure, *axes.get_legend_handles_labels())

    return draw


def _map(figure: Figure, file: Results, look: Look) -> None:
    known = {name: found for name, found in file.memory_maps().items() if found.fullness.size}
    maps = {name: known[name] for name in _chosen(file, look) if name in known}
    if not maps:
        raise HeaptapeError("no allocator has a memory map: heaptape replay --passes memory")
    height = max(found.height_bytes for found in maps.values())
    ink = PAPER[look.dark][1]
    grid = look.grid(figure, len(maps))
    for axes, (name, found) in zip(grid, maps.items()):
        memory_plots.memory_map(axes, found, height, ink)
        axes.set_title(name)
    if look.narrow:
        for axes in grid[:-1]:
            axes.set_xlabel("")
    key = memory_plots.map_key(ink)
    plots.key_below(figure, key, [str(one.get_label()) for one in key])


def _calls(figure: Figure, file: Results, look: Look) -> None:
    baseline = choose_baseline([file], look.baseline)
    percents = relative(file.figures(), baseline)
    cost = plots.cost_of_calls(percents)
    names = [name for name in _chosen(file, look) if name != baseline]
    unit = cost.removeprefix("total_")
    known = set(percents["metric"])
    each = {f"{PER_CALL[unit]}{call}": f"{unit} per {call}" for call in often_called(file)[:MOST_CALLS]}
    shown = {cost: f"{unit} in all calls"} | {metric: name for metric, name in each.items() if metric in known}
    for axes, (metric, name) in zip(look.grid(figure, len(shown)), shown.items()):
        plots.against_baseline(axes, percents[percents["metric"] == metric], names)
        axes.set_xlabel(f"{name},\n% of {baseline}")  # in one line it is wider than a panel


def _scatter(figure: Figure, file: Results, look: Look) -> None:
    baseline = choose_baseline([file], look.baseline)
    percents = relative(file.figures(), baseline)
    percents = percents[~percents["workload"].str.endswith(" mean")]
    names = _chosen(file, look)
    figure.set_figheight(max(figure.get_figheight(), NAME_IN * len(names)))
    plots.time_against_memory(figure.subplots(), percents, names, baseline)


def _latency(figure: Figure, file: Results, look: Look) -> None:
    details = file.calls()
    details = details[details["allocator"].isin(_chosen(file, look))]
    if details.empty:
        raise HeaptapeError("no latencies were measured: heaptape replay --passes time")
    often = [call for call in often_called(file) if (details["call"] == call).any()][:MOST_CALLS]
    grid = look.grid(figure, len(often))
    for axes, call in zip(grid, often):
        plots.latencies(axes, details[details["call"] == call].drop_duplicates("allocator"), _chosen(file, look))
        axes.set_title(call)
    for mark in plots.key_below(figure, *grid[0].get_legend_handles_labels()).findobj(PathCollection):
        mark.set(color=PAPER[look.dark][1])  # of no allocator


def _peak(figure: Figure, file: Results, look: Look) -> None:
    peak = fragmentation.at_peak(file)
    peak = peak[peak["allocator"].isin(_chosen(file, look))]
    if peak.empty:
        raise HeaptapeError("no allocator's peak was taken apart: heaptape replay --passes memory")
    figure.set_figheight(0.9 + 0.32 * len(peak))
    axes = figure.subplots()
    memory_plots.parts_at_peak(axes, peak)
    plots.key_below(figure, *axes.get_legend_handles_labels())


def _corners(figure: Figure, file: Results, look: Look) -> None:
    if look.corners is None:
        raise HeaptapeError("of which four allocators? --corners NEITHER,A,B,BOTH")
    corners = parse_corners(look.corners, allocator_order([file]))
    axes = figure.subplots()
    plots.corners(axes, corner_matrix([file], corners), corners.labels, shown)
    if any(text.get_rotation() for text in axes.get_xticklabels()):
        figure.set_figheight(figure.get_figheight() + 1.3)  # for the names
    plots.key_below(figure, *axes.get_legend_handles_labels(), most=4)


def _sizes(figure: Figure, found: Profile, look: Look) -> None:
    left, right = look.grid(figure, 2)
    profile_plots.sizes(left, found.sizes)
    profile_plots.sizes(right, found.sizes, "bytes")
    if not found.sizes.empty:
        plots.key_below(figure, *left.get_legend_handles_labels())


def _lifetimes(figure: Figure, found: Profile, look: Look) -> None:
    axes = figure.subplots()
    profile_plots.lifetimes(axes, found.lifetimes_bytes, found.acquired)
    if not found.lifetimes_bytes.empty:
        plots.key_below(figure, *axes.get_legend_handles_labels())
    if found.lifetimes_are_made_up:
        why = "ages are made up: the recording does not say which of several like objects was released"
        axes.set_title(look.wrapped(why))


def _live(figure: Figure, found: Profile, look: Look) -> None:
    profile_plots.live(figure.subplots(), found.windows)


def _of_feature(draw: Callable[[Figure, Results, list[str]], None]) -> Callable[..., None]:
    return lambda figure, file, look: draw(figure, file, _chosen(file, look))


KINDS: dict[str, Callable[..., None]] = {
    "memory": _over_progress("rss_anon_bytes"),
    "address-space": _over_progress("vm_size_bytes"),
    "map": _map,
    "calls": _calls,
    "scatter": _scatter,
    "latency": _latency,
    "peak": _peak,
    "corners": _corners,
    "sizes": _sizes,
    "lifetimes": _lifetimes,
    "live": _live,
}
KINDS |= {kind: _of_feature(module.draw) for kind, module in OF_FEATURES.items()}


def characters(source: Source, look: Look) -> str:
    """Memory over progress in characters, as wide as the terminal. Raises HeaptapeError without plotext."""
    try:
        import plotext
    except ImportError:
        raise HeaptapeError("--show needs plotext: pip install 'heaptape[show]'") from None
    if isinstance(source, Results):
        known = source.timelines()
        lines = {name: known[name] for name in _chosen(source, look) if name in known}
        series = {name: (found["position"], found["rss_anon_bytes"]) for name, found in lines.items()}
        longest = max(lines.values(), key=len, default=None)
        if longest is None:
            raise HeaptapeError(NO_TIMELINE)
        series["live bytes"] = longest["position"], longest["live_bytes"]
    else:
        series = {"live bytes": (source.windows["position"], source.windows["live_bytes"])}
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plotsize(screen_width(), CHARACTER_LINES)
    for (label, (position, values)), marker in zip(series.items(), itertools.cycle(MARKERS)):
        plotext.plot(position.tolist(), (values / MIB).tolist(), label=label, marker=marker)
    last = max(position.max() for position, _ in series.values())
    ticks = [place for place in MaxNLocator(5).tick_values(0, float(last)) if place <= last]
    plotext.xticks(ticks, [EngFormatter(sep="")(place) for place in ticks])
    plotext.xlabel("progress, ops")
    plotext.ylabel("RSS, MiB" if isinstance(source, Results) else "live, MiB")
    return plotext.uncolorize(plotext.build()) + "\n"
