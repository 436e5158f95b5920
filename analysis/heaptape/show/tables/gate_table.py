# SPDX-License-Identifier: MIT
"""The results of `heaptape gate` as tables for people."""

from collections.abc import Iterator, Mapping

from heaptape.common.quantities import size
from heaptape.common.tables import MISSING, Cell, Table
from heaptape.results.cells import signed

MARKS = {
    "worse": ("!", "!: beyond tolerance"),
    "noise": ("~", "~: beyond tolerance in some runs, but not in all: noise"),
}


def gate_tables(data: Mapping) -> list[Table]:
    """Changes in percent of the old allocator, with the figures that are worse. `data`: as in docs/use/GATE.md."""
    names = list(dict.fromkeys(name for workload in data["workloads"] for name in workload["figures"]))
    rows = [
        [Cell(workload["name"]), _promises(workload), *(_change(workload["figures"].get(name)) for name in names)]
        for workload in data["workloads"]
    ]
    title = f"{data['new']['name']} against {data['old']['name']}, change in percent"
    columns = ["workload", "promises", *names]
    return [Table(title, columns, rows, [*_legend(data), *_notes(data)], text_columns=2)]


def _promises(workload: Mapping) -> Cell:
    broken = workload["broken"]
    if not workload["workload"]:
        return Cell(MISSING)
    return Cell("kept" if not broken["new"] else "broken by both" if broken["old"] else "broken !")


def _change(figure: Mapping | None) -> Cell:
    if figure is None:
        return Cell(MISSING)
    change = figure["change_percent"]
    mark = MARKS.get(figure["verdict"], ("", ""))[0]
    text = "from 0" if change is None else signed(change)
    return Cell(f"{text} {mark}".rstrip(), change, muted=figure["verdict"] == "shown")


def _legend(data: Mapping) -> list[str]:
    seen = {figure["verdict"] for workload in data["workloads"] for figure in workload["figures"].values()}
    return [text for verdict, (_, text) in MARKS.items() if verdict in seen]


def _notes(data: Mapping) -> Iterator[str]:
    for workload in data["workloads"]:
        name = workload["name"]
        for which in ("new", "old"):
            if workload["broken"][which]:
                yield f"{name}: {data[which]['name']} breaks a promise: {workload['broken'][which]}"
        if one := workload["workload"].get("stand_in"):
            yield f"{one['sentence']} Worse: on this workload; other figures may still be worse on the whole."
        for error in workload["errors"]:
            yield f"{name}: {error}"
        for figure, found in workload["figures"].items():
            if found["verdict"] in MARKS:
                yield f"{name}: {_figure_note(figure, found)}"
    for one in data["minimised"]:
        share = one["minimised"]["events"], one["whole"]["events"]
        yield f"{one['workload']}, {one['figure']}: {share[0]:,} of {share[1]:,} events show it: {one['folder']}"
    for one in data["not_minimised"]:
        yield f"{one['workload']}, {one['figure']}: not made smaller: {one['why']}"


def _figure_note(name: str, found: Mapping) -> str:
    """ "rss-peak 12.0 MiB, was 10.0 MiB; ..."."""
    new, old = (min(found[which]) for which in ("new", "old"))
    shown = size if found["unit"] == "bytes" else "{:,.0f}".format
    text = f"{name} {shown(new)}, was {shown(old)}; beyond tolerance: {found['beyond']}"
    if found["span_percent"]:
        text += f"; not exact: differs by {found['span_percent']:.2g} % over {len(found['new'])} runs"
    return text
