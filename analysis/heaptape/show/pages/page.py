# SPDX-License-Identifier: MIT
"""The report: results as one HTML file that needs neither network nor other files.

The answer first (decide/answer.py), then memory, CPU, holders and places of each workload, then, closed, how it was
measured, all tables, and the raw results, so that the page can be used as input again: `heaptape compare report.html`.
Time lines and scatter are drawn in the browser (`report.js`, uPlot) from plain numbers in the page.
"""

import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from heaptape import features, passes
from heaptape.common import process
from heaptape.common.errors import HeaptapeError
from heaptape.common.phrases import names_of_workloads, percent
from heaptape.common.tables import MIB, MISSING, Table
from heaptape.common.version import __version__
from heaptape.decide import answer as answers
from heaptape.decide.cpu import MILLISECONDS, RANGE
from heaptape.results.cells import grouped
from heaptape.results.comparing.compare import allocator_order
from heaptape.results.comparing.summary import VerdictTexts, is_timed, sentences, verdicts_in_words, warnings
from heaptape.results.model import time_model
from heaptape.results.model.time_model import prediction
from heaptape.results.schema import Results, figures
from heaptape.results.structs import LARGE, Machine, timeline_frame
from heaptape.show.drawing import thinned
from heaptape.show.pages import charts, methods, template
from heaptape.show.pages.maps import memory_maps
from heaptape.show.pages.sections import Section
from heaptape.show.pages.sections import sections as feature_sections
from heaptape.show.screen import answer_table
from heaptape.show.tables import time_table
from heaptape.show.tables.usual import comparison
from heaptape.tape.embedded import TYPE, in_script, pack

# Of a time line among the raw results: more than any figure draws.
KEPT_SAMPLES = 600


@dataclass(frozen=True)
class Shown:
    """An answer as the page shows it. `labels`: of the table's rows; `command`: a line that tries the choice;
    `scatter`: names of the axes (cost, size) and points.
    """

    table: Table
    labels: list[str]
    sentences: Sequence[str]
    notes: Sequence[str]
    command: str
    scatter: dict[str, Any]


@dataclass(frozen=True)
class Item:
    """One workload. `chart`: what the browser draws; `peak` and `time`: bars; `often` and `rare`: latencies by call;
    `parts`: of features; `maps`: the allocators whose address maps are shown first; `raw`: the results, packed.
    """

    number: int
    name: str
    baseline: str
    answer: Shown
    chart: dict[str, Any]
    peak: list[charts.Bar]
    time: list[charts.Bar]
    unit: str
    often: dict[str, list[charts.Latency]]
    rare: dict[str, list[charts.Latency]]
    parts: list[Section]
    maps: list[str]
    sizes: list[Table]
    tables: list[Table]
    raw: str

    @property
    def id(self) -> str:
        return f"w{self.number + 1}"


@dataclass(frozen=True)
class Worst:
    """Of several workloads, the largest change of peak memory that has maps: the allocator's, in words."""

    item: Item
    label: str
    change: str


@dataclass(frozen=True)
class HeatMap:
    """`groups`: (title, allocators); `cells`: by workload and group, for each allocator text and shade (-1 to 1)."""

    groups: list[tuple[str, list[str]]]
    cells: list[list[list[tuple[str, float]]]]


def make(
    files: Sequence[Results],
    baseline: str,
    on_progress: Callable[[str, float], None] = lambda name, share: None,
    whole: bool = False,
) -> str:
    """The page, as text. `on_progress(name, share)`: the last finished workload, and the share of all (0 to 1).

    `whole`: leave nothing out of the raw results. Raises HeaptapeError if there are no figures, or a part of the
    results is malformed.
    """
    if figures(files).empty:
        raise HeaptapeError("the results hold no figures to report")
    labels = allocator_order(files)
    overall = answers.answer(files, baseline)

    verdicts = verdicts_in_words(files, baseline)

    def part(number: int) -> tuple[Item, answers.Answer] | list[Table]:
        return (
            _item(number, files[number], baseline, verdicts, whole) if number < len(files) else _means(files, baseline)
        )

    items, found, means = [], [], []
    on_progress(files[0].name, 0)
    for made in process.in_order(part, len(files) + (len(files) > 1)):
        if isinstance(made, list):
            means = made
            continue
        items.append(made[0])
        found.append(made[1])
        on_progress(files[len(items) - 1].name, len(items) / len(files))
    shown = items[0].answer if len(items) == 1 else _shown(overall, files)
    colours = charts.colours(labels)
    data = {
        "colours": colours,
        "all": shown.scatter,
        "workloads": [item.chart | item.answer.scatter for item in items],
    }
    doubts = warnings(files)
    return template("report.html.j2").render(
        title=names_of_workloads(file.name for file in files),
        head=_head(overall, files, labels), baseline=baseline, items=items, overall=shown,
        heat=_heat_map(found, labels, baseline) if len(items) > 1 else None,
        worst=_worst(items, found) if len(items) > 1 else None,
        doubts=doubts, labels=labels, checks=_checks(files), recordings=methods.of_recordings(files),
        methods=methods.methods(files), allocators=methods.allocators(files), means=means, raw_type=TYPE,
        left_out=not whole, version=__version__, colours=colours, data=in_script(data),
    )  # fmt: skip


def _head(overall: answers.Answer, files: Sequence[Results], labels: Sequence[str]) -> list[str]:
    """What was measured, when, where and with which allocators."""
    created = {file.parsed.created_unix_s for file in files} - {None}
    days = sorted({time.strftime("%Y-%m-%d", time.gmtime(at)) for at in created if at and 0 <= at < 1 << 34})
    machines = {(file.parsed.machine or Machine()).cpu for file in files} - {None}
    found = [overall.about.removeprefix(f"{files[0].name}: ").rstrip(".")]
    found += [" to ".join(dict.fromkeys((days[0], days[-1])))] if days else []
    found += [str(next(iter(machines))) if len(machines) == 1 else f"{len(machines)} machines"] * bool(machines)
    return [*found, f"{len(labels)} allocators" if len(labels) > 8 else ", ".join(labels)]


def _checks(files: Sequence[Results]) -> list[str]:
    """Why there is nothing to doubt."""
    proved = [file for file in files if file.parsed.workload and file.parsed.workload.witness is not None]
    measured = sum(len(file.measured) for file in files)
    checks = ["No recording lost events, and each history was proved legal."] * (len(proved) == len(files))
    idle = (
        "The machine was not busy"
        if any(map(is_timed, files))
        else "No pass read a clock, which a busy machine disturbs"
    )
    return [*checks, f"{idle}; no allocator wrote an error.", f"None of {measured:,} runs failed."]


def _cost(found: answers.Answer) -> tuple[str, str]:
    """What the scatter's x axis shows, and the attribute of a row that has it."""
    kinds = {row.cpu.kind for row in found.rows if row.cpu}
    if kinds:
        return ("change of CPU time, ms" if MILLISECONDS in kinds else "change of CPU time, %"), "cpu"
    if any(row.instructions_percent is not None for row in found.rows):
        return "change of instructions in malloc and free, %", "instructions_percent"
    return "change of cycles in calls, %", "cycles_percent"


def _shown(found: answers.Answer, files: Sequence[Results]) -> Shown:
    scatter = {
        "cost": _cost(found)[0],
        "size": "peak memory, MiB" if found.workloads == 1 else "change of peak memory, %",
        "points": [point for row in found.rows if (point := _point(row, found))],
    }
    table, labels = answer_table(found, len(found.rows)), [row.label for row in found.rows]
    return Shown(table, labels, found.sentences, found.caveats, _command(found, files), scatter)


def _point(row: answers.Row, found: answers.Answer) -> dict | None:
    """Its place in the scatter. y: peak memory in MiB; of several workloads the change in percent."""
    title, attribute = _cost(found)
    x: float | None = None if attribute == "cpu" else getattr(row, attribute)
    ends = {}
    if row.label == found.baseline:
        x = 0.0
    elif attribute == "cpu" and row.cpu:
        x = row.cpu.ms if title.endswith("ms") else row.cpu.percent
        ends = {"low": row.cpu.low, "high": row.cpu.high} if row.cpu.kind == RANGE else {}
    y = row.peak_bytes / MIB if row.peak_bytes else row.peak_percent
    return None if x is None or y is None else {"label": row.label, "x": x, "y": y} | ends


def _command(found: answers.Answer, files: Sequence[Results]) -> str:
    """The line that runs the program under the choice: for CPU time, else for memory. Empty where nothing is better."""
    label = next((found.use[aim] for aim in ("cpu", "memory") if found.use.get(aim) not in (None, found.baseline)), "")
    if any(file.workload.linked for file in files):
        return ""  # LD_PRELOAD has no effect
    today = str(files[0].workload.recorded_on or "glibc").partition(":")[0]
    for one in [one for file in files for one in file.parsed.allocators or []]:
        name = one.name if one.variant in (None, "", "default") else f"{one.name}:{one.variant}"
        if label and name == label:
            settings = " ".join(f"{key}={value}" for key, value in (one.environment or {}).items())
            library = f"LD_PRELOAD={one.path}" if one.path and {one.name, today} != {"glibc"} else ""
            program = files[0].workload.program if len(files) == 1 else None
            return " ".join(part for part in (settings, library, str(program or "…")) if part)
    return ""


def _heat_map(found: Sequence[answers.Answer], labels: Sequence[str], baseline: str) -> HeatMap:
    """Allocator × workload: CPU time (else instructions, else cycles) and peak memory, changes in percent."""
    costs: dict[str, Callable[[answers.Row], float | None]] = {
        "CPU time": lambda row: row.cpu.percent if row.cpu and row.cpu.kind != MILLISECONDS else None,
        "instructions": lambda row: row.instructions_percent,
        "cycles": lambda row: row.cycles_percent,
    }
    rows = [row for one in found for row in one.rows if row.label != baseline]
    costs = {title: value for title, value in costs.items() if any(value(row) is not None for row in rows)}
    wanted = [*list(costs.items())[:1], ("peak memory", lambda row: row.peak_percent)]
    groups: list[tuple[str, list[str]]] = []
    cells: list[list[list[tuple[str, float]]]] = [[] for _ in found]
    for title, value in wanted:
        by_label = [{row.label: value(row) for row in one.rows} for one in found]
        shown = [label for label in labels if label != baseline and any(row.get(label) is not None for row in by_label)]
        if not shown:
            continue
        groups.append((title, shown))
        for number, row in enumerate(by_label):
            cells[number].append([_shaded(row.get(label)) for label in shown])
    return HeatMap(groups, cells)


def _worst(items: Sequence[Item], found: Sequence[answers.Answer]) -> Worst | None:
    changes = [
        (abs(row.peak_percent), Worst(item, row.label, percent(row.peak_percent)))
        for item, one in zip(items, found)
        for row in one.rows
        if row.peak_percent is not None
        and {row.label, item.baseline} <= item.chart["maps"].keys()
        and row.label != item.baseline
    ]
    return max(changes, key=lambda change: change[0], default=(0.0, None))[1]


def _shaded(change: float | None, strongest: float = 30.0) -> tuple[str, float]:
    if change is None or math.isnan(change):
        return MISSING, 0.0
    return percent(change).removesuffix(" %"), max(-1.0, min(1.0, change / strongest))


def _means(files: Sequence[Results], baseline: str) -> list[Table]:
    return [table for table in comparison(files, baseline) if table.title.endswith(f"% of {baseline}")]


def _item(
    number: int, file: Results, baseline: str, verdicts: VerdictTexts, whole: bool
) -> tuple[Item, answers.Answer]:
    order = allocator_order([file])
    here = baseline if baseline in order else order[0]
    predicted = prediction([file], here)
    found = answers.answer([file], here)
    often, rare = charts.latencies(file, order)
    unit, bars = charts.time_parts(predicted, order)
    parts = feature_sections(file, order)
    maps = memory_maps(file)
    chart: dict[str, Any] = {"memory": charts.memory(file, order), "maps": maps}
    chart["layers"] = [one.chart for one in parts]
    best = next((found.use[aim] for aim in ("cpu", "memory") if found.use.get(aim) in maps), None)
    first = [label for label in dict.fromkeys([here, best, *maps]) if label in maps][:2]
    item = Item(
        number=number, name=file.name, baseline=here, answer=_shown(found, [file]), chart=chart,
        peak=charts.peak_parts(file, order), time=bars, unit=unit,
        often=often, rare=rare, parts=parts, maps=first, sizes=_sizes(file),
        tables=_tables(file, here, sentences(file, baseline, verdicts), predicted), raw=_raw(file, whole),
    )  # fmt: skip
    return item, found


def _tables(file: Results, here: str, words: list[str], predicted: pd.DataFrame) -> list[Table]:
    return [
        Table("In words", [], [], words),
        *time_table.usual(predicted, here, time_model.sentences(predicted, [file], here)),
        *passes.usual([file], here, counted=True),
        *comparison([file], here),
        *(table for feature in features.modules("report_tables") for table in feature.tables(file)),
        *passes.report(file),
    ]


def _sizes(file: Results) -> list[Table]:
    """The program's requests by size."""
    rows = file.workload.request_sizes
    if not rows:
        return []
    cells = [[grouped(int(one)) for one in row[:3]] for row in rows]
    return [Table(f"Request sizes, {file.name}", ["bytes, at least", "requests", "bytes requested"], cells)]


def _raw(file: Results, whole: bool) -> str:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", file.name) + ".results.json"
    return pack(file.data if whole else _compact(file.data), name)


def _compact(data: dict) -> dict:
    """The results without memory maps, the largest part by far, and with what else is large only of the first run of
    each allocator that has it, as no figure shows that of later runs: time lines, which are thinned, and the rest of
    LARGE. Each run that lacks something lists it under "left_out".
    """
    runs, shown = [], set()
    for run in data["runs"]:
        dropped = ["memory_map"] if "memory_map" in run else []
        for key in LARGE:
            if any("sizes" in call for call in run.get("calls", {}).values()) if key == "sizes" else run.get(key):
                who = (key, run.get("allocator"), run.get("variant"))
                dropped += [key] if who in shown else []
                shown.add(who)
        if dropped:
            run = {key: value for key, value in run.items() if key not in dropped} | {"left_out": dropped}
        if "sizes" in dropped:
            run["calls"] = {name: _without(call, "sizes") for name, call in run["calls"].items()}
        if len(run.get("timeline") or []) > KEPT_SAMPLES:
            run = run | {"timeline": thinned(timeline_frame(run["timeline"]), KEPT_SAMPLES).to_numpy().tolist()}
        runs.append(run)
    return data | {"runs": runs}


def _without(value: dict, key: str) -> dict:
    return {name: inner for name, inner in value.items() if name != key}
