# SPDX-License-Identifier: MIT
"""What `heaptape gate` found: lines, what to type next, and all figures."""

import shlex
from collections.abc import Iterator, Mapping

from heaptape.common.phrases import counted, figure_name, percent, size
from heaptape.common.tables import MISSING, Cell, Table, command_lines, paragraphs, screen_width, significant
from heaptape.results.cells import signed
from heaptape.results.fits import range_note
from heaptape.run.exact import PEAK, UPPER
from heaptape.show.screen import Screen, as_json

MOST_LINES = 20  # of an answer
MARKS = {
    "worse": ("!", "!: beyond tolerance"),
    "noise": ("~", "~: beyond tolerance in some runs, but not in all: noise"),
}


def gate_lines(data: Mapping, figures: bool = True) -> list[str]:
    """One line if the gate passes; else one for each figure beyond its tolerance, unless these are shown elsewhere, for
    each promise, failure and tape.
    """
    both, count = f"{data['new']['name']} against {data['old']['name']}", len(data["workloads"])
    failed = sum(workload["failed"] for workload in data["workloads"])
    which = counted(count, "workload")
    notes = list(_notes(data, figures))
    if not failed:
        return [f"{both}: no figure of {which} is beyond its tolerance.", *notes]
    lines = [f"{both}: {failed} of {which} {'fails' if failed == 1 else 'fail'}.", *notes]
    more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], f"… and {more} more lines: --table all"] if more > 0 else lines


def gate_next(data: Mapping, limits: str = "") -> str:
    """The command to type where the gate fails: the replay of the first minimised tape, or what minimises
    the first figure that is worse, with these options. Empty: nothing to look into.
    """
    for one in data["minimised"]:
        tape = shlex.quote(f"{one['folder']}/minimised.tape")
        return str(one["replay"].replace("minimised.tape", tape, 1))
    stuck = [(one["workload"], one["figure"]) for one in data["not_minimised"]]
    pair = " ".join(f"--{which} {shlex.quote(data[which]['name'])}" for which in ("old", "new"))
    for workload in data["workloads"]:
        conditions = [(name, one["beyond"]) for name, one in workload["figures"].items() if one["verdict"] == "worse"]
        conditions += [("broken", "broken>0")] * (bool(workload["broken"]["new"]) and not workload["broken"]["old"])
        for figure, condition in conditions:
            if (workload["name"], figure) not in stuck:
                source = shlex.quote(workload["source"])
                return f"heaptape minimise {source} {pair} --if {shlex.quote(condition)} {limits}".rstrip()
    return ""


def gate_said(data: Mapping, limits: str = "") -> dict:
    """For --json, as of every answer."""
    about, *said = gate_lines(data)
    return as_json(Screen(about, None, said, more=[("Next", one) for one in [gate_next(data, limits)] if one]))


def gate_text(data: Mapping, limits: str = "") -> str:
    """The lines, and the command below them."""
    command = gate_next(data, limits)
    below = ["", *command_lines(f"Next: {command}", screen_width(), " " * 8), ""] if command else []
    return paragraphs(gate_lines(data)) + "\n".join(below)


def gate_tables(data: Mapping) -> list[Table]:
    """Changes in percent of the old allocator, with the figures that are worse. `data`: as in docs/use/GATE.md."""
    names = list(dict.fromkeys(name for workload in data["workloads"] for name in workload["figures"]))
    rows = [
        [Cell(workload["name"]), _promises(workload), *(_gate_change(workload["figures"].get(name)) for name in names)]
        for workload in data["workloads"]
    ]
    title = f"{data['new']['name']} against {data['old']['name']}, change in percent"
    over_calls = all(workload["workload"].get("mean_over_calls", False) for workload in data["workloads"])
    columns = ["workload", "verification", *(figure_name(name, over_calls) for name in names)]
    return [Table(title, columns, rows, [*_legend(data), *_notes(data)], text_columns=2)]


def _promises(workload: Mapping) -> Cell:
    broken = workload["broken"]
    if not workload["workload"]:
        return Cell(MISSING)
    return Cell("passed" if not broken["new"] else "both failed" if broken["old"] else "failed !")


def _gate_change(figure: Mapping | None) -> Cell:
    if figure is None:
        return Cell(MISSING)
    change = figure["change_percent"]
    mark = MARKS.get(figure["verdict"], ("", ""))[0]
    text = "from 0" if change is None else signed(change)
    return Cell(f"{text} {mark}".rstrip(), change, muted=figure["verdict"] == "shown")


def _legend(data: Mapping) -> list[str]:
    seen = {figure["verdict"] for workload in data["workloads"] for figure in workload["figures"].values()}
    return [text for verdict, (_, text) in MARKS.items() if verdict in seen]


def _notes(data: Mapping, figures: bool = True) -> Iterator[str]:
    for workload in data["workloads"]:
        name = workload["name"]
        by_both = " (both do)" * bool(workload["broken"]["old"])
        for which in ("new", "old"):
            if workload["broken"][which]:
                yield f"{name}: {data[which]['name']} breaks a rule of malloc{by_both}: {workload['broken'][which]}"
        for error in workload["errors"]:
            yield f"{name}: {error}"
        if upper := workload["figures"].get(UPPER):
            peak = workload["figures"][PEAK]
            ends = {data[which]["name"]: (min(peak[which]), min(upper[which])) for which in ("old", "new")}
            if note := range_note(ends, f" of {name}", "both ends are compared"):
                yield note
        for figure, found in workload["figures"].items():
            if figures and found["verdict"] in MARKS:
                yield f"{name}: {_figure_note(name_in(workload, figure), found)}"
    for one in data["minimised"]:
        events, of = one["minimised"]["events"], one["whole"]["events"]
        start_up = "" if one["beyond_start_up"] or one["old"] is None else ", in start-up already"
        yield f"{one['workload']}, {one['figure']}: {events:,} of {of:,} events show it{start_up}: {one['folder']}"
    for one in data["not_minimised"]:
        yield f"{one['workload']}, {one['figure']}: not made smaller: {one['why']}"


def name_in(workload: Mapping, figure: str) -> str:
    return figure_name(figure, workload["workload"].get("mean_over_calls", False))


def _figure_note(name: str, found: Mapping) -> str:
    """ "peak memory is 12.0 MiB, was 10.0 MiB (+20 %): ..."."""
    new, old = (min(found[which]) for which in ("new", "old"))
    shown = size if found["unit"] == "bytes" else "{:,.0f}".format
    change = "" if found["change_percent"] is None else f" ({percent(found['change_percent'])})"
    often = " in some runs, not in all" * (found["verdict"] == "noise")
    text = f"{name} is {shown(new)}, was {shown(old)}{change}: beyond the tolerated {found['tolerated']}{often}"
    if found["span_percent"]:
        text += f"; not exact: differs by {significant(found['span_percent'])} % over {len(found['new'])} runs"
    return text
