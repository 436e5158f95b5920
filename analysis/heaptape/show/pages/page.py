# SPDX-License-Identifier: MIT
"""The report: results as one HTML file that needs neither network nor other files.

First a summary in words, then tables and figures, then how it was measured, then the raw results, compressed, so that
the page can be used as input again: `heaptape compare report.html`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import matplotlib

from heaptape.common import forked
from heaptape.common.errors import HeaptapeError
from heaptape.common.tables import Cell, Table
from heaptape.common.version import __version__
from heaptape.passes import contention, misses, sharing
from heaptape.results.cells import grouped
from heaptape.results.comparing.compare import allocator_order
from heaptape.results.comparing.summary import VerdictTexts, sentences, verdicts_in_words, warnings
from heaptape.results.model import time_model
from heaptape.results.model.time_model import prediction
from heaptape.results.schema import Results, call_details, figures
from heaptape.show.pages import holders
from heaptape.show.pages.figures import STYLE, Gallery, Picture, against_baseline, galleries
from heaptape.show.pages.methods import allocators, methods
from heaptape.show.pages.svg import with_one_style
from heaptape.show.pages.templates import template
from heaptape.show.tables import holders_table, time_table
from heaptape.show.tables.usual import comparison
from heaptape.show.tables.whatif_table import whatif_tables
from heaptape.tape.embedded import TYPE, map_bytes, pack, without_maps

matplotlib.use("Agg")

# Memory maps are by far the largest part of the raw results. If those of all workloads take more, they are left out,
# and page and results say so: nine workloads under eight allocators would make a page of about 30 MB.
MAP_BYTES_LIMIT = 8 << 20


@dataclass(frozen=True)
class Raw:
    """The raw results of a workload, packed for the page."""

    name: str
    packed: str


@dataclass(frozen=True)
class Section:
    name: str
    summary: list[str]
    tables: list[Table]
    latencies: list[Table]
    galleries: list[Gallery]


def make(
    files: Sequence[Results],
    baseline: str,
    on_progress: Callable[[str, float], None] = lambda name, share: None,
    whole: bool = False,
) -> str:
    """The page, as text. `on_progress(name, share)`: the last finished workload, and the share of all (0 to 1).

    `whole`: keep memory maps among the raw results even where they take more than MAP_BYTES_LIMIT. Raises
    HeaptapeError if there are no figures, or a memory map is malformed.
    """
    if figures(files).empty:
        raise HeaptapeError("the results hold no figures to report")
    order = allocator_order(files)
    verdicts = verdicts_in_words(files, baseline)
    with matplotlib.rc_context(STYLE):
        leave_out = not whole and sum(map_bytes(file.data) for file in files) > MAP_BYTES_LIMIT

        def part(index: int) -> tuple[Section, Raw]:
            return _section(files[index], baseline, verdicts), _raw(files[index], leave_out)

        parts = []
        on_progress(files[0].name, 0)
        for made in forked.in_order(part, len(files)):
            parts.append(made)
            on_progress(files[len(parts) - 1].name, len(parts) / len(files))
        overview = against_baseline(files, order, baseline) if len(files) > 1 else []
    sections, raw = zip(*parts)
    page = template("report.html.j2").render(
        sections=sections, overview=overview, verdicts=verdicts, means=_means(files, baseline),
        warnings=warnings(files), methods=methods(files), allocators=allocators(files), raw=raw, raw_type=TYPE,
        left_out=leave_out, version=__version__, baseline=baseline, title=_title(files), order=order,
    )  # fmt: skip
    return with_one_style(page)


def _title(files: Sequence[Results]) -> str:
    names = list(dict.fromkeys(file.name for file in files))
    return ", ".join(names) if len(names) < 4 else f"{', '.join(names[:2])} and {len(names) - 2} other workloads"


def _means(files: Sequence[Results], baseline: str) -> list[Table]:
    if len(files) < 2:
        return []
    return [table for table in comparison(files, baseline) if table.title.endswith(f"% of {baseline}")]


def _section(file: Results, baseline: str, verdicts: VerdictTexts) -> Section:
    order = allocator_order([file])
    here = baseline if baseline in order else order[0]
    predicted = prediction([file], here)
    time_sentences = time_model.sentences(predicted, [file], here)
    return Section(
        file.name,
        [*time_sentences, *sentences(file, baseline, verdicts), *contention.sentences([file])],
        [
            *time_table.usual(predicted, here, time_sentences),
            *misses.usual([file], here),
            *comparison([file], here),
            *(whatif_tables(file) if file.experiment_labels else []),
            *holders_table.tables(holders_table.experiments(file)),
            *sharing.tables(sharing.summary([file])),
            *contention.tables(contention.frame([file])),
        ],
        _latency_tables(file, order),
        _with_holders(galleries(file, order, here), holders.gallery(file, order)),
    )


def _with_holders(others: list[Gallery], held: Gallery) -> list[Gallery]:
    """All galleries, with the holders' first below the tables, where there is one."""
    leading = [gallery for gallery in others if gallery.leads]
    return [*leading, *[held] * bool(held.sentences), *(gallery for gallery in others if not gallery.leads)]


def _raw(file: Results, leave_out: bool) -> Raw:
    """The raw results as in the page, with or without their memory maps."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", file.name) + ".results.json"
    packed = pack(without_maps(file.data) if leave_out else file.data, name)
    return Raw(file.name, packed)


def _latency_tables(file: Results, order: list[str]) -> list[Table]:
    details = call_details([file])
    tables = []
    for call in details.groupby("call")["count"].sum().sort_values(ascending=False).index:
        rows = []
        by_label = details[details["call"] == call].set_index("allocator")
        for label in [label for label in order if label in by_label.index]:
            row = by_label.loc[label]
            keys = ("count", "mean", "p50", "p99", "p999", "max")
            rows.append([Cell(label), *[grouped(row[key]) for key in keys]])
        columns = ["allocator", "calls", "mean", "p50", "p99", "p99.9", "max"]
        tables.append(Table(f"Latency of {call}, cycles", columns, rows))
    return tables


__all__ = ["MAP_BYTES_LIMIT", "Picture", "make"]
