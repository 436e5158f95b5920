# SPDX-License-Identifier: MIT
"""What `heaptape tune` and `gate` found, and which settings of an allocator change anything: tables and lines."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from heaptape.common.quantities import size
from heaptape.common.tables import MIB, MISSING, Cell, Table, rounded
from heaptape.results import margins
from heaptape.results.cells import signed

UNITS = {"rss-peak": (MIB, "MiB"), "rss-mean": (MIB, "MiB"), "vmsize-peak": (MIB, "MiB"), "cpu": (1e6, "ms")}
MILLIONS = {"instructions": (1e6, "M"), "misses": (1e6, "M")}
FEW_ON_FRONT = 20  # rows of the front that a terminal shows


def tune_tables(data: Mapping) -> list[Table]:
    """The front with the default and the variants, and the contribution of each tunable."""
    return [_front(data), _contributions(data)]


def _front(data: Mapping) -> Table:
    figures = _figures(data)
    workloads = list(data["search"]["workloads"])
    single = workloads[0] if len(workloads) == 1 else None
    columns = ["", "settings"]
    for name in figures:
        scale, unit = _unit(name)
        columns += [f"{name}, {unit}".removesuffix(", ")] * bool(single)
        columns += ["% of default" if single else f"{name}, % of default"]
    shown = [row for row in data["points"] if row.get("variants") or row.get("front")]
    ordered = sorted(shown, key=lambda row: row["ratios"][figures[0]] if "ratios" in row else float("inf"))
    front = [row for row in ordered if row.get("front")]
    left_out = front[FEW_ON_FRONT:]
    rows = [
        [Cell(_mark(row, data["winner"])), Cell(_name(row)), *_cells(row, figures, single)]
        for row in ordered
        if row not in left_out or row.get("variants")
    ]
    notes = [
        "w: winner (the best product of all objectives); f: on the Pareto front; x: breaks a limit; v: varies, and was "
        "not better each time it was replayed again."
    ]
    if left_out:
        notes.append(f"{len(left_out)} more points of the front are in the results file.")
    notes += _failures(data)
    title = f"{data['search']['allocator']['name']} — {', '.join(workloads)}, {len(data['points'])} settings tried"
    return Table(title, columns, rows, notes, 2)


def _failures(data: Mapping) -> list[str]:
    notes, points = [], data["points"]
    failed = [row for row in points if "error" in row]
    if failed:
        notes.append(f"{len(failed)} settings failed, the first with: {failed[0]['error']}")
    broken = sum(not row["limits_kept"] for row in points if "error" not in row)
    if broken:
        notes.append(f"{broken} of {len(points)} settings break a limit.")
    if data["variants_left_out"]:
        names = ", ".join(data["variants_left_out"])
        notes.append(f"Variants left out, as they are for diagnosis or not exact: {names}.")
    return notes


def _contributions(data: Mapping) -> Table:
    figures = list(data["search"]["objectives"])
    columns = ["tunable", "winner", "importance, %", "best alone"]
    columns += [f"{name}, change in %" for name in figures] + [f"{name} without it, change in %" for name in figures]
    rows = []
    best = data["winner"]
    for one in sorted(data["tunables"], key=lambda one: (one["winner"] is None, -(one["importance"] or 0))):
        share = one["importance"]
        alone, dropped = one["alone"], one["winner_without"]
        row = [Cell(one["name"]), Cell(one["winner"] or MISSING)]
        row += [Cell(rounded(100 * share)) if share is not None else Cell(MISSING)]
        row += [Cell(alone["value"] if alone else MISSING)]
        row += [_change(alone["ratios"][name]) if alone else Cell(MISSING) for name in figures]
        row += [
            _change(dropped["ratios"][name] / best["ratios"][name]) if dropped else Cell(MISSING) for name in figures
        ]
        rows.append(row)
    notes = [
        "importance: the share of the differences between settings that the tunable explains (PED-ANOVA). best alone: "
        "its best value, with all other tunables at their defaults. without it: the winner with this tunable at its "
        "default."
    ]
    return Table("What each tunable contributes", columns, rows, notes, 2)


def conclusion(data: Mapping) -> list[str]:
    """Lines: what to set, what it saves, and how sure that is."""
    best, figures = data["winner"], _figures(data)
    if best is None:
        return ["No settings keep all limits."]
    if not best["settings"]:
        by = " by the product of all objectives" if len(data["search"]["objectives"]) > 1 else ""
        return [f"Nothing tried is better than the default{by}.", *_varying(data)]
    changes = ", ".join(f"{name} {_change_in_words(best, name)}" for name in figures)
    lines = [f"Set: {environment_line(best['environment'])}", f"Against the default, in replays: {changes}."]
    if best["standing"] == "open":
        lines.append(
            "Not confirmed: the search ended before default and winner were replayed again. Use a larger --budget."
        )
    lines += _varying(data)
    lines += [line for name in figures for line in _margins(data, name)]
    for name in figures:
        error = data["error_percent"][name]
        if error is None:
            lines.append(f"Error of {name} against live programs: not certified.")
        else:
            gain = abs(100 * (_ratio(best, name) - 1))
            beyond = "the change is beyond it" if gain > error else "the change is not beyond it"
            lines.append(
                f"Error of {name} against live programs (90th percentile, docs/methods/FIDELITY.md): {rounded(error)} "
                f"%; {beyond}."
            )
    return lines


def _margins(data: Mapping, name: str) -> Iterator[str]:
    """For workloads that stand for another: is the change of this figure beyond its margin?"""
    ratio = _ratio(data["winner"], name)
    for workload, one in data.get("stand_ins", {}).items():
        what = f"{workload} is a {one['kind']}"
        if name not in one["expected"]:
            yield f"{what}; the error of its {name} is not known: the whole's may change differently."
        else:
            low, high = margins.widened(ratio, ratio, one["expected"][name])
            beyond = "not beyond" if low <= 1 <= high else "beyond"
            within = f"{name} is within {margins.percent_text(one['expected'][name])} of the whole's (95 %)"
            yield f"{what}: its {within}; the change is {beyond} that margin."


def _ratio(best: Mapping, name: str) -> float:
    """The winner's ratio to the default: by the replays after it was chosen, if there are any."""
    return best["ratios_again"].get(name, {}).get("ratio", best["ratios"][name])


def _change_in_words(best: Mapping, name: str) -> str:
    text, again = f"{signed(100 * (_ratio(best, name) - 1))} %", best["ratios_again"].get(name)
    if not again or again["least"] == again["most"]:
        return text
    return f"{text} ({signed(100 * (again['least'] - 1))} to {signed(100 * (again['most'] - 1))})"


def _varying(data: Mapping) -> list[str]:
    """What further replays showed."""
    default = next(row for row in data["points"] if not row["settings"])
    runs = [default["figures"], *(one["figures"] for one in default["again"] if "figures" in one)]
    varying = []
    for name in _figures(data):
        values = [[run[workload][name] for run in runs] for workload in default["figures"]]
        most = max((max(one) / min(one) - 1 if min(one) > 0 else 0.0) for one in values)
        varying += [f"{name} by {rounded(100 * most)} %"] * (most > 0)
    refuted = sum(row.get("refuted", False) for row in data["points"])
    lines = [f"Replayed again, the default's own figures vary: {', '.join(varying)}."] * bool(varying)
    if refuted:
        lines.append(
            f"Of the settings that seemed better, {refuted} were not better each time they were replayed again."
        )
    return lines


def live_lines(data: Mapping) -> list[str]:
    """The results of live runs, a line for each objective and limit."""
    lived = data.get("live")
    if lived is None:
        return []
    lines = [f"Live, {lived['runs']} runs of each, alternately: {' '.join(lived['command'])}"]
    for one in lived["figures"]:
        change, low, high = (signed(100 * (one[key] - 1)) for key in ("ratio", "low", "high"))
        wanted = "" if one["most"] in (None, 1) else f" (limit {signed(100 * (one['most'] - 1))} %)"
        ends = f": {one['verdict']}" if one["verdict"] else ""
        lines.append(f"  {one['figure']}, by {one['live']}: {change} % ({low} to {high}){wanted}{ends}")
    return lines


def environment_line(environment: Mapping[str, str]) -> str:
    """The environment as a shell takes it before a command."""
    return " ".join(f"{name}={value}" for name, value in environment.items())


def _figures(data: Mapping) -> list[str]:
    return list(data["search"]["figures"])


def _unit(name: str) -> tuple[float, str]:
    return (UNITS | MILLIONS).get(name, (1, ""))


def _name(row: Mapping) -> str:
    names = ", ".join(row["variants"])
    return f"{names}: {row['label']}" if names and row["settings"] else names or row["label"]


def _mark(row: Mapping, winner: Mapping | None) -> str:
    if "error" in row:
        return "failed"
    best = winner is not None and row["settings"] == winner["settings"]
    return "w" * best + "f" * bool(row["front"]) + "x" * (not row["limits_kept"]) + "v" * row["refuted"]


def _cells(row: Mapping, figures: Sequence[str], single: str | None) -> list[Cell]:
    if "error" in row:
        return [Cell(MISSING)] * (len(figures) * (2 if single else 1))
    cells = []
    for name in figures:
        if single:
            value = row["figures"][single][name]
            cells.append(Cell(rounded(value / _unit(name)[0]), value))
        cells.append(Cell(f"{100 * row['ratios'][name]:.1f}", row["ratios"][name]))
    return cells


def _change(ratio: float) -> Cell:
    return Cell(signed(100 * (ratio - 1)), ratio)


class Effect(Protocol):
    """The effect of one value of a tunable. `changes`: figure -> (change in percent, workload where it is largest)."""

    @property
    def tunable(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def changes(self) -> Mapping[str, tuple[float, str]]: ...
    @property
    def error(self) -> str: ...


def effects_table(
    allocator: str, found: Sequence[Effect], figures: Sequence[str], workloads: Sequence[str], silent: Sequence[str]
) -> Table:
    """One row for each value; `silent`: tunables that changed nothing, which the notes name."""
    rows = [
        [Cell(one.tunable), Cell(one.value), *[_cell(one, figure) for figure in figures], Cell(_where(one.changes))]
        for one in found
    ]
    notes = [f"The largest change in percent among {', '.join(workloads)}; –: no change."]
    notes += [f"{one.tunable}={one.value} failed: {one.error}" for one in found if one.error]
    if silent:
        notes.append(f"Change nothing in any of these workloads: {', '.join(silent)}.")
    return Table(f"Tunables — {allocator}", ["tunable", "value", *figures, "largest in"], rows, notes, 2)


def _cell(one: Effect, figure: str) -> Cell:
    if one.error:
        return Cell("failed")
    change = one.changes.get(figure)
    return Cell(signed(change[0]), change[0]) if change else Cell(MISSING)


def _where(changes: Mapping[str, tuple[float, str]]) -> str:
    if not changes:
        return MISSING
    return max(changes.values(), key=lambda change: abs(change[0]))[1]


MARKS = {
    "worse": ("!", "!: beyond tolerance"),
    "noise": ("~", "~: beyond tolerance in some runs, but not in all: noise"),
}


def gate_tables(data: Mapping) -> list[Table]:
    """Changes in percent of the old allocator, with the figures that are worse. `data`: as in docs/use/GATE.md."""
    names = list(dict.fromkeys(name for workload in data["workloads"] for name in workload["figures"]))
    rows = [
        [Cell(workload["name"]), _promises(workload), *(_gate_change(workload["figures"].get(name)) for name in names)]
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
