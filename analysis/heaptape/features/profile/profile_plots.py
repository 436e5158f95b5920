# SPDX-License-Identifier: MIT
"""Plots of a trace's profile. Each draws into an Axes that it is given (axes.py has the styles), from a DataFrame of
data.Profile; if there is nothing to draw, it writes that.
"""

import numpy as np
import pandas as pd
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, NullFormatter

from heaptape.common.tables import MIB
from heaptape.show.drawing import INK, OKABE_ITO
from heaptape.show.figures.axes import MAP_COLOURS, size_label

ACQUIRED, RELEASED = OKABE_ITO[0], OKABE_ITO[1]


def sizes(axes: Axes, frame: pd.DataFrame, weight: str = "calls", most_calls: int = 4) -> None:
    """Requests (`weight` "calls") or bytes ("bytes") by size, in percent, stacked by call. `frame`:
    Profile.sizes.
    """
    if frame.empty:
        return _nothing(axes, "no requests")
    total = max(frame[weight].sum(), 1)
    order = list(frame.groupby("call")[weight].sum().sort_values(ascending=False, kind="stable").index)
    named = {call: call if number < most_calls else "others" for number, call in enumerate(order)}
    table = frame.assign(call=frame["call"].map(named)).pivot_table(
        index="size_bytes", columns="call", values=weight, aggfunc="sum", fill_value=0
    )
    left = np.maximum(table.index.to_numpy(float), 0.5)
    width = np.array([_bucket_end(size) for size in table.index]) - left
    base = np.zeros(len(table))
    for number, call in enumerate(dict.fromkeys(named[call] for call in order)):
        share = 100 * table[call].to_numpy(float) / total
        axes.bar(left, share, width, bottom=base, align="edge", color=OKABE_ITO[number], linewidth=0, label=call)
        base += share
    axes.set_ylim(0, 1.05 * max(base))
    axes.set_ylabel("% of requests" if weight == "calls" else "% of bytes requested")
    axes.set_xlabel("size of a request")
    _size_axis(axes)
    return None


def lifetimes(axes: Axes, frame: pd.DataFrame, acquired: int, unit: str = "bytes") -> None:
    """The age of objects at their release: bars in percent of all `acquired`, and a line for those of this age
    or younger; the rest to 100 % was never freed. `frame`: Profile.lifetimes_bytes (unit "bytes") or
    lifetimes_ns (unit "ns").
    """
    if frame.empty:
        return _nothing(axes, "no object was released")
    ages = frame.groupby("age")["objects"].sum().sort_index()
    left = np.maximum(ages.index.to_numpy(float), 0.5)
    right = np.where(ages.index == 0, 1, 2 * ages.index.to_numpy(float))
    share = 100 * ages.to_numpy(float) / max(acquired, 1)
    axes.bar(
        left, share, right - left, align="edge", color=ACQUIRED, alpha=0.75, linewidth=0, label="released at that age"
    )
    axes.step(
        np.append(left[:1], right),
        np.append(0, share.cumsum()),
        where="post",
        color=RELEASED,
        linewidth=1.4,
        label="released up to that age",
    )
    axes.set_ylim(0, 100)
    axes.set_ylabel("% of objects")
    if unit == "bytes":
        axes.set_xlabel("age: bytes that the program allocated meanwhile")
        _size_axis(axes)
    else:
        axes.set_xlabel("age; at the left: within one tick of the recording's clock")
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _time(value)))
        axes.xaxis.set_minor_formatter(NullFormatter())
    return None


def size_and_age(axes: Axes, frame: pd.DataFrame, unit: str = "bytes") -> None:
    """Objects by size and age: darker squares have more objects (logarithmic). `frame`: as of `lifetimes`."""
    if frame.empty:
        return _nothing(axes, "no object was released")
    sizes_log = np.floor(np.log2(np.maximum(frame["size_bytes"], 1))).astype(int)
    ages_log = np.where(frame["age"] > 0, np.log2(np.maximum(frame["age"], 1)) + 1, 0).astype(int)
    table = np.zeros((int(ages_log.max()) + 1, int(sizes_log.max()) + 1))
    np.add.at(table, (ages_log, sizes_log), frame["objects"].to_numpy(float))
    shown = np.ma.masked_where(table == 0, np.log10(np.maximum(table, 1)))
    drawn = axes.pcolormesh(shown, cmap=f"{MAP_COLOURS}_r", linewidth=0)
    axes.set_xlabel("size of a request")
    axes.set_ylabel("age: bytes allocated meanwhile" if unit == "bytes" else "age")
    columns, rows = range(0, table.shape[1], 4), range(0, table.shape[0], 5)
    axes.set_xticks([c + 0.0 for c in columns], [size_label(2.0**c) for c in columns])
    label = size_label if unit == "bytes" else _time
    axes.set_yticks([float(r) for r in rows], [label(2.0 ** (r - 1)) if r else "0" for r in rows])
    bar = axes.figure.colorbar(drawn, ax=axes)
    bar.set_label("objects", color=INK)
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{10**value:,.0f}"))
    bar.outline.set_visible(False)
    return None


def rates(axes: Axes, frame: pd.DataFrame, duration_ns: float | None = None, bins: int = 120) -> None:
    """Acquires and releases per second over recorded time; if times are not known, per op over progress. `frame`:
    Profile.windows; `duration_ns`: of the whole recording, which is the end of the last window.
    """
    found = rates_frame(frame, duration_ns, bins)
    if found.empty:
        return _nothing(axes, "no ops")
    timed = bool(duration_ns)
    for column, colour, dash in (("acquires", ACQUIRED, "-"), ("releases", RELEASED, "--")):
        axes.step(
            found["begin"], found[column], where="post", color=colour, linestyle=dash, linewidth=1.2, label=column
        )
    axes.set_ylim(bottom=0)
    axes.margins(x=0)
    axes.set_ylabel("per second" if timed else "per op")
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlabel("recorded time, s" if timed else "progress, ops")
    if not timed:
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    return None


def rates_frame(frame: pd.DataFrame, duration_ns: float | None = None, bins: int = 120) -> pd.DataFrame:
    """Rates in `bins` equal parts of the recording: begin (s, or ops if `duration_ns` is not given), acquires and
    releases (per s, or per op). Calls are taken to be evenly spread within each of Profile.windows. The totals are
    those of `frame`.
    """
    columns = ["begin", "acquires", "releases"]
    if frame.empty:
        return pd.DataFrame(columns=columns, dtype=float)
    at = frame["time_ns"].to_numpy(float) / 1e9 if duration_ns else frame["position"].to_numpy(float)
    end = max(duration_ns / 1e9 if duration_ns else at[-1] + float(frame["ops"].iloc[-1]), at[-1])
    begin = min(at[0], end)
    if end <= begin:
        return pd.DataFrame(columns=columns, dtype=float)
    edges = np.linspace(begin, end, bins + 1)
    out = {"begin": edges[:-1]}
    places = np.append(at, end)
    for column in columns[1:]:
        done = np.append(0.0, frame[column].to_numpy(float).cumsum())
        # Where the clock did not move, the count jumps: np.interp takes the later value, but at the very beginning the
        # earlier one is right.
        passed = np.interp(edges, places, done)
        passed[0] = 0.0
        out[column] = np.diff(passed) / (edges[1] - edges[0])
    return pd.DataFrame(out)


def live(axes: Axes, frame: pd.DataFrame) -> None:
    """Live bytes and live objects over progress. `frame`: Profile.windows."""
    if frame.empty:
        return _nothing(axes, "no ops")
    axes.fill_between(frame["position"], frame["live_bytes"] / MIB, color=ACQUIRED, alpha=0.3, linewidth=0)
    axes.plot(frame["position"], frame["live_bytes"] / MIB, color=ACQUIRED, linewidth=1.2, label="live bytes")
    axes.set_ylim(bottom=0)
    axes.margins(x=0)
    axes.set_ylabel("live, MiB")
    axes.set_xlabel("progress, ops")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    other = axes.twinx()
    other.plot(
        frame["position"], frame["live_objects"], color=RELEASED, linewidth=1.1, linestyle="--", label="live objects"
    )
    other.margins(x=0)
    other.set_ylim(bottom=0)
    other.spines["right"].set_visible(True)
    other.set_ylabel("live objects")
    other.yaxis.set_major_formatter(EngFormatter(sep=""))
    lines = [*axes.get_lines(), *other.get_lines()]
    axes.legend(lines, [str(line.get_label()) for line in lines], loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2)
    return None


def thread_matrix(frame: pd.DataFrame, threads: int = 24) -> pd.DataFrame:
    """Objects by allocating thread (rows) and freeing thread (columns), for the `threads` threads with most remote
    frees, then with most objects. `frame`: Profile.pairs. Thread numbers are index and columns.
    """
    remote = frame["acquirer"] != frame["releaser"]
    both = pd.concat([
        frame[["acquirer", "objects"]].set_axis(["thread", "objects"], axis=1).assign(remote=remote),
        frame[["releaser", "objects"]].set_axis(["thread", "objects"], axis=1).assign(remote=remote),
    ])  # fmt: skip
    busy = both.assign(foreign=both["objects"].where(both["remote"], 0)).groupby("thread")[["foreign", "objects"]].sum()
    shown = sorted(busy.sort_values(["foreign", "objects"], ascending=False, kind="stable").index[:threads])
    chosen = frame[frame["acquirer"].isin(shown) & frame["releaser"].isin(shown)]
    table = chosen.pivot_table(index="acquirer", columns="releaser", values="objects", aggfunc="sum", fill_value=0)
    return table.reindex(index=shown, columns=shown, fill_value=0)


def threads(axes: Axes, matrix: pd.DataFrame) -> None:
    """Who frees whose objects: darker squares are more objects (logarithmic); the diagonal is objects that
    threads free themselves. `matrix`: from `thread_matrix`.
    """
    values = matrix.to_numpy(float)
    if values.size == 0 or values.max() <= 0:
        return _nothing(axes, "nothing was freed")
    shown = np.ma.masked_where(values <= 0, np.log10(np.maximum(values, 1)))
    drawn = axes.pcolormesh(shown, cmap=f"{MAP_COLOURS}_r", linewidth=0)
    for axis, labels in ((axes.xaxis, matrix.columns), (axes.yaxis, matrix.index)):
        step = max(1, -(-len(labels) // 12))
        axis.set_ticks([number + 0.5 for number in range(0, len(labels), step)], [str(t) for t in labels[::step]])
    axes.set_xlabel("freed by thread")
    axes.set_ylabel("allocated by thread")
    axes.set_aspect("equal")
    axes.invert_yaxis()
    bar = axes.figure.colorbar(drawn, ax=axes, shrink=0.8)
    bar.set_label("objects", color=INK)
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{10**value:,.0f}"))
    bar.outline.set_visible(False)
    return None


def chains(axes: Axes, frame: pd.DataFrame) -> None:
    """Objects by the number of their reallocs (bars), and the factor by which they grew or shrank (line).
    `frame`: Profile.chains.
    """
    if frame.empty:
        return _nothing(axes, "nothing was reallocated")
    axes.bar(frame["reallocs"], frame["objects"], color=ACQUIRED, alpha=0.75, linewidth=0, label="objects")
    axes.set_yscale("log")
    axes.set_ylim(bottom=0.7)
    axes.set_ylabel("objects")
    axes.set_xlabel("reallocs of one object (64: or more)")
    grown = frame[frame["first_bytes"] > 0]
    other = axes.twinx()
    other.plot(
        grown["reallocs"],
        grown["last_bytes"] / grown["first_bytes"],
        "o-",
        color=RELEASED,
        markersize=3,
        linewidth=1.1,
        label="last size over first",
    )
    other.set_yscale("log", base=2)
    other.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    other.set_ylabel("last size over first, mean")
    return None


def _nothing(axes: Axes, why: str) -> None:
    axes.set_axis_off()
    axes.text(0.5, 0.5, why, ha="center", va="center", color=INK, transform=axes.transAxes)


def _bucket_end(lower: int) -> float:
    """The end of the bucket of sizes that begins at `lower`: four to a power of two, single sizes below 8."""
    return float(lower + (1 << max(int(lower).bit_length() - 3, 0))) if lower else 1.0


def _size_axis(axes: Axes) -> None:
    axes.set_xscale("log", base=2)
    names = axes.bbox.width / axes.figure.dpi / (0.055 * rcParams["font.size"])  # for which there is room
    axes.xaxis.set_major_locator(LogLocator(base=16, numticks=max(int(names), 3)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: size_label(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _time(value_ns: float) -> str:
    for unit, name in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if value_ns >= unit:
            return f"{value_ns / unit:,.3g} {name}"
    return f"{value_ns:,.3g} ns"
