# SPDX-License-Identifier: MIT
"""A trace's profile as one self-contained HTML page: what makes the workload hard in words, then plots, tables and the
flame graph. Style, sorting and zooming are the report's (report.css, report.js).
"""

import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from heaptape import features
from heaptape.common.phrases import calls_of, counted, size
from heaptape.common.tables import Table
from heaptape.common.version import __version__
from heaptape.features.profile import flame_graph, profile_plots
from heaptape.features.profile.data import Profile
from heaptape.features.profile.pictures import STYLE, WIDTH_IN, Picture, inline_svg
from heaptape.features.profile.text import MADE_UP_LIFETIMES, PART, hardness, tables
from heaptape.results.disturbance import doubts
from heaptape.show.pages import template
from heaptape.tape.stack_names import StackNames


@dataclass(frozen=True)
class Part:
    """A heading of the page, with its content."""

    id: str
    title: str
    about: str
    pictures: list[Picture] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)


def make(found: Profile, names: StackNames | None = None) -> str:
    """The page, as text. `names`: of the functions in the stacks, where there are stacks."""
    shown = tables(found, names.callers if names else lambda node: [])
    with matplotlib.rc_context(STYLE):
        parts = [part for part in _parts(found, shown) if part.pictures or part.tables]
    flame = flame_graph.of_profile(found, names.stack) if names and not found.sites.empty else ""
    return template("profile.html.j2", __package__).render(
        name=found.name, version=__version__, facts=_facts(found), summary=hardness(found), parts=parts, flame=flame,
        sites=[table for table in shown if table.title.startswith("Sites")],
        doubts=doubts(found.data.get("witness")),
        raw=base64.b64encode(json.dumps(found.data, separators=(",", ":")).encode()).decode(),
        file_name=re.sub(r"[^A-Za-z0-9._-]+", "-", found.name) + ".profile.json",
    )  # fmt: skip


def _facts(found: Profile) -> list[str]:
    data = found.data
    facts = [calls_of(data.get("ops", 0), data.get("witness")), counted(data.get("threads", 0), "thread")]
    facts.append(counted(found.acquired, "object"))
    facts.append(f"{size(data.get('allocated_bytes', 0))} requested")
    facts.append(f"peak live {size(found.peak_live_bytes)}")
    if data.get("duration_ns"):
        facts.append(f"{data['duration_ns'] / 1e9:,.2f} s")
    return facts


def _parts(found: Profile, shown: list[Table]) -> list[Part]:
    def of(*beginnings: str) -> list[Table]:
        return [table for table in shown if table.title.startswith(beginnings)]

    return [
        Part("sizes", "Request sizes", "Requests and requested bytes by size.",
             _sizes(found), of("Request sizes")),
        Part("lifetimes", "Lifetimes", f"{MADE_UP_LIFETIMES} " * found.lifetimes_are_made_up + "How old objects are "
             "when they are released: caches serve those released young. The line ends below 100 % where objects were "
             "never released.", _lifetimes(found), of("Lifetimes")),
        Part("rates", "Rates and live memory", "Calls per second, and live memory over progress.", _rates(found)),
        Part("threads", "Threads", "Which threads release whose objects. Off the diagonal are remote frees: memory "
             "moves from one thread's cache to another's.", _threads(found), of("Releases by")),
        *(feature.part(found, shown) for feature in features.modules(PART)),
        Part("reallocs", "Reallocs", "How often objects are reallocated, and how far they grow.", _chains(found),
             of("Reallocs")),
    ]  # fmt: skip


def _sizes(found: Profile) -> list[Picture]:
    if found.sizes.empty:
        return []

    def draw(axes: np.ndarray) -> None:
        profile_plots.sizes(axes[0, 0], found.sizes)
        profile_plots.sizes(axes[0, 1], found.sizes, "bytes")
        _legend_above(axes[0, 0])

    top = found.sizes.groupby("size_bytes")["calls"].sum().idxmax()
    words = f"The most frequent requests are of {top:,} bytes or little more"
    return [drawn("Request sizes", "sizes", 2.9, draw, "Left: % of requests; right: % of bytes.", words, columns=2)]


def _lifetimes(found: Profile) -> list[Picture]:
    if found.lifetimes_bytes.empty:
        return []

    def draw(axes: np.ndarray) -> None:
        profile_plots.lifetimes(axes[0, 0], found.lifetimes_bytes, found.acquired)
        profile_plots.lifetimes(axes[0, 1], found.lifetimes_ns, found.acquired, "ns")
        _legend_above(axes[0, 0])

    def by_size(axes: np.ndarray) -> None:
        profile_plots.size_and_age(axes[0, 0], found.lifetimes_bytes)
        profile_plots.size_and_age(axes[0, 1], found.lifetimes_ns, "ns")

    words = f"{found.released:,} of {found.acquired:,} objects were released"
    caption = "Left: age in bytes that the program requested meanwhile; right: in time."
    by_caption = "Objects by size and age; the darker, the more objects, on a logarithmic scale."
    return [
        drawn("Ages at release", "ages", 2.9, draw, caption, words, columns=2),
        drawn("Sizes and ages", "size-age", 3.1, by_size, by_caption, words, columns=2),
    ]


def _rates(found: Profile) -> list[Picture]:
    windows = found.windows
    if windows.empty:
        return []

    def draw(axes: np.ndarray) -> None:
        profile_plots.rates(axes[0, 0], windows, found.data.get("duration_ns"))
        profile_plots.live(axes[0, 1], windows)
        _legend_above(axes[0, 0])

    words = f"Live bytes reach {size(found.peak_live_bytes)}"
    caption = "Left: calls per second; right: live bytes and objects over progress."
    return [drawn("Rates", "rates", 2.9, draw, caption, words, columns=2)]


def _threads(found: Profile) -> list[Picture]:
    matrix = profile_plots.thread_matrix(found.pairs)
    if len(matrix) < 2:
        return []
    words = f"{len(found.pairs):,} pairs of an acquiring and a releasing thread"
    caption = (
        "Objects by acquiring and releasing thread, on a logarithmic scale; the 24 threads with the most remote frees."
    )
    return [drawn("Releases by acquiring thread", "threads", 4.2, lambda a: profile_plots.threads(a[0, 0], matrix),
                  caption, words)]  # fmt: skip


def _chains(found: Profile) -> list[Picture]:
    chains = found.chains
    if chains.empty:
        return []
    words = f"{chains['objects'].sum():,} objects were reallocated, up to {chains['reallocs'].max()} times"
    caption = "Objects by how often they were reallocated (bars), and by what factor they grew (line)."
    return [
        drawn("Reallocs of one object", "chains", 2.8, lambda a: profile_plots.chains(a[0, 0], chains), caption, words)
    ]


def drawn(
    title: str,
    salt: str,
    height_in: float,
    draw: Callable[[np.ndarray], None],
    caption: str,
    words: str,
    columns: int = 1,
) -> Picture:
    figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
    draw(figure.subplots(1, columns, squeeze=False))
    return Picture(title, inline_svg(figure, salt), caption, words)


def _legend_above(axes: Axes) -> None:
    if axes.get_legend_handles_labels()[0]:  # else matplotlib warns
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=4, fontsize=8, columnspacing=1.0, handlelength=1.4)
