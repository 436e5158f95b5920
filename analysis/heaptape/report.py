"""The report: results as one HTML file that needs nothing else, neither network nor other files.

Figures are inline SVG (memory maps as images within); their ink follows the page, light or dark. The raw results stand
in the page, compressed, so that it can always be asked again.
"""

import base64
import gzip
import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import jinja2
import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from heaptape import __version__, noise, plots
from heaptape.compare import allocator_order, relative
from heaptape.errors import HeaptapeError
from heaptape.memory_map import Folded, decode, fold
from heaptape.results_file import Results, call_details, figures, label_of
from heaptape.summary import engine_cost, sentences, warnings
from heaptape.tables import Cell, Table, comparison

matplotlib.use("Agg")

STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "heaptape",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": plots.INK,
    "axes.edgecolor": plots.INK,
    "axes.labelcolor": plots.INK,
    "axes.titlecolor": plots.INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": plots.INK,
    "ytick.color": plots.INK,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}
WIDTH_IN = 8.2


@dataclass(frozen=True)
class Picture:
    """A figure: SVG text and what it shows."""

    title: str
    svg: str
    caption: str


@dataclass(frozen=True)
class Section:
    """All of one workload."""

    name: str
    facts: list[tuple[str, str]]
    summary: list[str]
    tables: list[Table]
    pictures: list[Picture]
    maps: list[Picture]
    latencies: list[Picture]
    measured: list[tuple[str, str]]
    allocators: list[dict] = field(default_factory=list)
    raw: str = "{}"


def make(
    files: Sequence[Results], baseline: str, on_progress: Callable[[str, float], None] = lambda name, share: None
) -> str:
    """The page, as text. `on_progress(name, share)`: this workload's turn, and the share of all (0 to 1) that is done.
    Raises HeaptapeError if there are no figures, or a memory map is malformed."""
    if figures(files).empty:
        raise HeaptapeError("the results hold no figures to report")
    with matplotlib.rc_context(STYLE):
        sections = []
        for index, file in enumerate(files):
            on_progress(file.name, index / len(files))
            sections.append(_section(file, baseline))
    together = comparison(files, baseline) if len(files) > 1 else []
    means = [t for t in together if t.title.endswith(f"% of {baseline}")]
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("heaptape", "."), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.get_template("report.html.j2")
    return template.render(
        sections=sections, means=means, warnings=warnings(files), version=__version__, baseline=baseline,
        title=", ".join(dict.fromkeys(file.name for file in files)),
    )  # fmt: skip


def _section(file: Results, baseline: str) -> Section:
    order = allocator_order([file])
    here = baseline if baseline in order else order[0]
    runs = {label_of(run): run for run in reversed(file.runs) if run.get("timeline")}
    timelines = {label: plots.timeline_frame(runs[label]) for label in order if label in runs}
    tables = comparison([file], here)
    return Section(
        file.name, _facts(file), sentences(file, here), [*tables, *_latency_tables(file, order)],
        _pictures(file, order, here, timelines), _maps(file, order), _latency_pictures(file, order), _measured(file),
        _allocators(file), _raw(file),
    )  # fmt: skip


def _svg(figure: Figure, salt: str) -> str:
    """Inline SVG whose ink is the page's text colour; without declarations, metadata or references to elsewhere."""
    out = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": salt}):
        figure.savefig(
            out, format="svg", transparent=True, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type"))
        )
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(<svg [^>]*?)width="[^"]*" height="[^"]*"', r'\1role="img"', text, count=1)
    text = re.sub(r' (width|height)="[\d.]+pt"', "", text, count=2)
    # Ids of one figure must not be those of another.
    text = re.sub(r'(\bid="|url\(#|href="#)', lambda m: f"{m[1]}{salt}-", text)
    return text.replace(plots.INK, "currentColor")


def _draw(
    title: str,
    caption: str,
    salt: str,
    height_in: float,
    rows: int,
    draw: Callable,
    columns: int = 1,
    **options: object,
) -> Picture:
    figure = Figure(figsize=(WIDTH_IN, height_in))
    draw(figure.subplots(rows, columns, squeeze=False, **options))
    return Picture(title, _svg(figure, salt), caption)


def _salt(*words: object) -> str:
    return "f" + re.sub(r"[^A-Za-z0-9]+", "-", "-".join(map(str, words)))


def _pictures(file: Results, order: list[str], baseline: str, timelines: dict[str, pd.DataFrame]) -> list[Picture]:
    pictures = []
    percents = relative(figures([file]), baseline)
    percents = percents[~percents["workload"].str.endswith(" mean")]
    if {"total_cycles", "peak_rss"} <= set(percents["metric"]):

        def trade(axes: object) -> None:
            plots.time_against_memory(axes[0, 0], percents, order, baseline)

        caption = (
            f"Left is faster, down is smaller. Bars: 95 % intervals, cut at the edge. The lines cross at {baseline}."
        )
        pictures.append(_draw("Time against memory", caption, _salt(file.name, "trade"), 3.6, 1, trade))
    if timelines:
        recorded = file.workload.get("recorded")
        recorded = recorded if isinstance(recorded, list) else []

        def progress(axes: object) -> None:
            for row, column in enumerate(("rss_anon_bytes", "vm_size_bytes")):
                plots.memory_over_progress(axes[row, 0], timelines, column, recorded)
            axes[0, 0].set_xlabel("")
            axes[0, 0].legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=4)

        caption = (
            "The allocator's own RSS and VmSize (the engine's share taken off) against recorded progress. The grey "
            "area is what the program holds: all above it is overhead."
        )
        pictures.append(
            _draw("Memory over progress", caption, _salt(file.name, "progress"), 5.6, 2, progress, sharex=True)
        )
    sizes = file.workload.get("request_sizes")
    if isinstance(sizes, list) and sizes:

        def request(axes: object) -> None:
            plots.request_sizes(axes[0, 0], axes[0, 1], sizes)

        caption = "What the program asks for: how often which size, and how many bytes that makes."
        pictures.append(_draw("Request sizes", caption, _salt(file.name, "sizes"), 2.6, 1, request, columns=2))
    return pictures


def _maps(file: Results, order: list[str]) -> list[Picture]:
    """One memory-usage graph per allocator, all with one scale."""
    first = {label_of(run): run for run in reversed(file.runs) if run.get("memory_map") is not None}
    folded: dict[str, Folded] = {label: fold(decode(first[label])) for label in order if label in first}
    height = max((f.height_bytes for f in folded.values()), default=0)
    pictures = []
    for label, map_ in folded.items():
        if map_.fullness.size == 0:  # nothing was ever live: an empty picture says less than none
            continue

        def draw(axes: object, map_: Folded = map_) -> None:
            plots.memory_map(axes[0, 0], map_, height)

        stretches = len(map_.starts)
        caption = (
            f"{map_.height_bytes / plots.MIB:,.1f} MiB of addresses were used, in {stretches} "
            f"stretch{'es' * (stretches != 1)}; one cell is {map_.region_bytes / 1024:,.0f} KiB."
        )
        pictures.append(_draw(label, caption, _salt(file.name, "map", label), 3.4, 1, draw))
    return pictures


def _latency_pictures(file: Results, order: list[str]) -> list[Picture]:
    details = call_details([file]).dropna(subset=["p50", "p999"])
    pictures = []
    busiest = details.groupby("call")["count"].sum().sort_values(ascending=False).index[:6]
    for call in busiest:

        def draw(axes: object, call: str = call) -> None:
            plots.latencies(axes[0, 0], details[details["call"] == call], order)
            axes[0, 0].legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=5)

        rows = details["allocator"].nunique()
        pictures.append(_draw(str(call), "", _salt(file.name, "latency", call), 0.9 + 0.28 * rows, 1, draw))
    return pictures


def _latency_tables(file: Results, order: list[str]) -> list[Table]:
    details = call_details([file])
    tables = []
    for call in details.groupby("call")["count"].sum().sort_values(ascending=False).index:
        rows = []
        by_label = details[details["call"] == call].set_index("allocator")
        for label in [label for label in order if label in by_label.index]:
            row = by_label.loc[label]
            keys = ("count", "mean", "p50", "p99", "p999", "max")
            rows.append([Cell(label), *[_count(row[key]) for key in keys]])
        columns = ["allocator", "calls", "mean", "p50", "p99", "p99.9", "max"]
        tables.append(Table(f"Latency of {call}, cycles", columns, rows))
    return tables


def _count(value: float) -> Cell:
    return Cell("–") if pd.isna(value) else Cell(f"{value:,.0f}", value)


def _facts(file: Results) -> list[tuple[str, str]]:
    workload = file.workload
    facts = [("ops", _grouped(workload.get("ops"))), ("threads", _grouped(workload.get("threads")))]
    facts += [
        ("ideal RSS", _mib(workload.get("ideal_rss_bytes"))),
        ("ideal RSS, whole OS pages", _mib(workload.get("peak_live_os_page_bytes"))),
    ]
    facts += [("recorded program", workload.get("program")), ("its allocator", workload.get("allocator"))]
    facts += [("calls", ", ".join(f"{name} {count:,}" for name, count in _items(workload.get("calls"))))]
    facts += [("the source could not tell", ", ".join(map(str, workload.get("lacks") or [])))]
    facts += [("sha256", str(workload.get("sha256") or ""))]
    return [(name, str(value)) for name, value in facts if value not in (None, "", "–")]


def _measured(file: Results) -> list[tuple[str, str]]:
    """Machine, settings, the engine's own cost: everything that says how far to trust a figure."""
    machine = file.data.get("machine") or {}
    rows = [(f"machine: {name.replace('_', ' ')}", _plain(value)) for name, value in machine.items()]
    rows += [
        (f"setting: {name.replace('_', ' ')}", str(value) if name == "seed" else _plain(value))
        for name, value in _items(file.data.get("settings"))
    ]
    cost = engine_cost(file)
    if cost is not None:
        rows.append(
            (
                "the engine's own cost",
                f"{cost:.1f} cycles per op, measured with the null allocator (included in the bare pass)",
            )
        )
    overheads = sorted(
        {
            run["counter_overhead_cycles"]
            for run in file.runs
            if isinstance(run.get("counter_overhead_cycles"), (int, float))
        }
    )
    if overheads:
        rows.append(
            ("reading the cycle counter", f"{overheads[0]:g} to {overheads[-1]:g} cycles, taken off each call's figure")
        )
    modes = sorted(
        {f"{run.get('pass', '?')}: order {run.get('order', '?')}, touch {run.get('touch', '?')}" for run in file.runs}
    )
    rows.append(("passes", "; ".join(modes)))
    rows += _counted_by(file)
    seen = noise.sentence(file.data.get("noise"))
    if seen:
        rows.append(("noise", seen))
    rows += [
        (f"workload: {name.replace('_', ' ')}", _plain(value)) for name, value in _items(file.workload.get("witness"))
    ]
    rows += [(f"heaptape {name}", _plain(value)) for name, value in _items(file.data.get("heaptape"))]
    elapsed = file.data.get("elapsed_s")
    return rows + ([("the whole replay took", f"{elapsed:,.1f} s")] if isinstance(elapsed, (int, float)) else [])


def _counted_by(file: Results) -> list[tuple[str, str]]:
    """Where instructions and misses come from, or why they are missing."""
    missing = sorted({str(run["counters_missing_because"]) for run in file.runs if run.get("counters_missing_because")})
    there = sorted({name for run in file.runs for name, _ in _items(run.get("counters")) if name != "task_clock_ns"})
    by_callgrind = any(run.get("instructions_counted_by") == "callgrind" for run in file.runs)
    parts = [f"{', '.join(there)}: by the processor, in the bare pass"] if there else []
    parts += [f"{'others' if there else 'none by the processor'}: {reason}" for reason in missing]
    if by_callgrind:
        parts.append("instructions per call: by callgrind")
    elif missing and "instructions" not in there:
        parts.append("--passes instructions counts them by callgrind, and was not asked for")
    return [("instructions and misses", "; ".join(parts))] if parts else []


def _allocators(file: Results) -> list[dict]:
    out = []
    for allocator in file.data.get("allocators") or []:
        if isinstance(allocator, dict):
            settings = " ".join(f"{k}={v}" for k, v in _items(allocator.get("environment")))
            out.append(
                {key: str(allocator.get(key) or "–") for key in ("name", "variant", "version", "path", "sha256")}
                | {"environment": settings or "–"}
            )
    return out


def _raw(file: Results) -> str:
    """A JSON object with the results, gzip and base64."""
    packed = gzip.compress(json.dumps(file.data, separators=(",", ":")).encode(), mtime=0)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", file.name) + ".results.json.gz"
    return json.dumps({"name": name, "encoding": "gzip+base64", "data": base64.b64encode(packed).decode()})


def _items(value: object) -> list[tuple[str, object]]:
    return list(value.items()) if isinstance(value, dict) else []


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k}: {_plain(v)}" for k, v in value.items())
    if isinstance(value, list):
        return ", ".join(map(_plain, value))
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "not known"}[value]
    if isinstance(value, float):
        return f"{value:,.2f}".rstrip("0").rstrip(".")
    return f"{value:,}" if isinstance(value, int) and value >= 10_000 else str(value)


def _grouped(value: object) -> str | None:
    return f"{value:,.0f}" if isinstance(value, (int, float)) else None


def _mib(value: object) -> str | None:
    return f"{value / plots.MIB:,.1f} MiB" if isinstance(value, (int, float)) else None
