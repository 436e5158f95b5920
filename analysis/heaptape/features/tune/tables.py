# SPDX-License-Identifier: MIT
"""What `heaptape tune` found: the answer on one screen, and all tables; and which settings of an allocator change
anything.
"""

from collections.abc import Mapping, Sequence

from heaptape.common.phrases import counted, figure_name, percent, serialising
from heaptape.common.tables import MIB, MISSING, Cell, Table, rounded
from heaptape.decide.worth import NO_REASON, is_known, measured, more_runs, why_not
from heaptape.features.tune.trials import Effect
from heaptape.results.cells import signed
from heaptape.results.fits import range_note
from heaptape.run.exact import PEAK, UPPER
from heaptape.run.live_command import CPU

UNITS = {"rss-peak": (MIB, "MiB"), "rss-mean": (MIB, "MiB"), "vmsize-peak": (MIB, "MiB"), "cpu": (1e6, "ms")}
MILLIONS = {"instructions": (1e6, "M"), "misses": (1e6, "M")}
FEW_ON_FRONT = 20  # rows of the front that a terminal shows
FEW_ROWS, FEW_TUNABLES = 9, 5  # of an answer


def tune_answer(data: Mapping) -> Table:
    """The settings that matter, best first: the winner, the default, the front and the variants. Changes are against
    the default.
    """
    figures, search = _figures(data)[:3], data["search"]
    workloads = list(search["workloads"])
    single = workloads[0] if len(workloads) == 1 else None
    good = [row for row in data["points"] if "ratios" in row]
    wanted = [row for row in good if _is_winner(row, data) or not row["settings"]]
    more = sorted((row for row in good if row["front"] or row["variants"]), key=lambda row: row["ratios"][figures[0]])
    wanted += [row for row in more if row not in wanted][: FEW_ROWS - len(wanted)]
    columns = [""]
    for name in figures:
        columns += [_words(name, data), "change"] if single else [_words(name, data)]
    rows = []
    for row in sorted(wanted, key=lambda row: (not _is_winner(row, data), row["ratios"][figures[0]])):
        cells = [Cell(_name(row))]
        for name in figures:
            if single:
                scale, unit = _unit(name)
                cells.append(Cell(f"{rounded(row['figures'][single][name] / scale)} {unit}".rstrip()))
            same = not row["settings"]
            cells.append(Cell("" if same else percent(100 * (row["ratios"][name] - 1))))
        rows.append([*cells, Cell(_word(row, data))])
    tried = f"{len(data['points'])} settings tried"
    title = f"{search['allocator']['name']} on {', '.join(workloads)}: {tried}, for least {_together(data)}."
    return Table(title, [*columns, ""], rows, kept=frozenset([len(columns)]))


def _word(row: Mapping, data: Mapping) -> str:
    if _is_winner(row, data):
        return "best" if row["settings"] else "best, default"
    words = ["default"] * (not row["settings"]) + ["breaks a limit"] * (not row["limits_kept"])
    return ", ".join(words + ["varies"] * row["refuted"])


def _is_winner(row: Mapping, data: Mapping) -> bool:
    return data["winner"] is not None and row["settings"] == data["winner"]["settings"]


def _words(figure: str, data: Mapping) -> str:
    return figure_name(figure, data.get("mean_over_calls", False))


def _together(data: Mapping) -> str:
    return " and ".join(_words(name, data) for name in data["search"]["objectives"])


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
        columns += [f"{_words(name, data)}, {unit}".removesuffix(", ")] * bool(single)
        columns += ["% of default" if single else f"{_words(name, data)}, % of default"]
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
        notes.append(f"{counted(len(failed), 'setting')} failed, the first with: {failed[0]['error']}")
    broken = sum(not row["limits_kept"] for row in points if "error" not in row)
    if broken:
        notes.append(f"{broken} of {len(points)} settings break a limit.")
    if data["variants_left_out"]:
        names = ", ".join(data["variants_left_out"])
        notes.append(f"Variants left out, as they are for diagnosis or not exact: {names}.")
    return notes


def _contributions(data: Mapping) -> Table:
    figures = list(data["search"]["objectives"])
    words = [_words(name, data) for name in figures]
    columns = ["tunable", "winner", "importance, %", "alone"]
    columns += [f"{name}, change in %" for name in words] + [f"{name} without it, change in %" for name in words]
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
        "importance: the share of the differences between settings that the tunable explains (PED-ANOVA). alone: "
        "its best value, with all other tunables at their defaults. without it: the winner with this tunable at its "
        "default."
    ]
    return Table("What each tunable contributes", columns, rows, notes, 2)


def conclusion(data: Mapping) -> list[str]:
    """Lines: what to set or why nothing, what it brings and costs, how sure that is, and which tunables matter."""
    best, figures = data["winner"], _figures(data)
    if best is None:
        return ["No settings keep all limits."]
    if not best["settings"]:
        by = " by the product of all objectives" if len(data["search"]["objectives"]) > 1 else ""
        return [f"{NO_REASON.capitalize()}: nothing tried is better than the default{by}.", *_varying(data)]
    changes = ", ".join(f"{_words(name, data)} {_change_in_words(best, name)}" for name in figures)
    reasons = {name: _why_not(data, name) for name in data["search"]["objectives"]}
    if _default_breaks_a_limit(data) or not all(reasons.values()):
        lines = [
            "Set:",
            f"  {environment_line(best['environment'])}",
            f"Against the default: {changes}{_errors(data)}.",
            *serialising("That", best["environment"]),
        ]
    else:
        found = [f"{_words(name, data)} {_change_in_words(best, name)}, {why}" for name, why in reasons.items()]
        lines = [f"{NO_REASON.capitalize()}: the best setting brings {'; '.join(found)}."]
    if best["standing"] == "open":
        lines.append(
            "Not confirmed: the search ended before default and winner were replayed again. Use a larger --budget."
        )
    return [*lines, *_varying(data), *_what_matters(data)]


def _why_not(data: Mapping, name: str) -> str:
    """Why the change of an objective is no reason to change the settings (decide/worth.py); empty: it is one."""
    best = data["winner"]
    gain = 100 * (1 - _ratio(best, name))
    saved = None
    if name in UNITS and name != "cpu" and len(best.get("figures", {})) == 1:
        (workload,) = best["figures"]
        default = next(row for row in data["points"] if not row["settings"])
        saved = (gain / 100) * default["figures"][workload][name]
    return why_not(gain, data["error_percent"][name] or 0.0, saved)


def _default_breaks_a_limit(data: Mapping) -> bool:
    return not next(row for row in data["points"] if not row["settings"]).get("limits_kept", True)


def _errors(data: Mapping) -> str:
    """The errors of replays against live programs, where they are certified."""
    known = [
        f"{_words(name, data)} {rounded(one)} %" for name in _figures(data) if (one := data["error_percent"][name])
    ]
    unknown = [_words(name, data) for name in _figures(data) if data["error_percent"][name] is None]
    parts = [f"error against live programs: {', '.join(known)}"] * bool(known)
    parts += [f"that of {', '.join(unknown)} is not certified"] * bool(unknown)
    return f" ({'; '.join(parts)})" if parts else ""


def _what_matters(data: Mapping) -> list[str]:
    """The tunables that explain most of the differences between settings."""
    known = [one for one in data.get("tunables", []) if (one["importance"] or 0) > 0.05]
    ranked = sorted(known, key=lambda one: -one["importance"])[:FEW_TUNABLES]
    shown = [f"{one['name']} {100 * one['importance']:.0f} %" for one in ranked]
    return [f"What makes the differences: {', '.join(shown)}."] if shown else []


def _ratio(best: Mapping, name: str) -> float:
    """The winner's ratio to the default: by the replays after it was chosen, if there are any."""
    return best["ratios_again"].get(name, {}).get("ratio", best["ratios"][name])


def _change_in_words(best: Mapping, name: str) -> str:
    text, again = percent(100 * (_ratio(best, name) - 1)), best["ratios_again"].get(name)
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
        varying += [f"{_words(name, data)} by {rounded(100 * most)} %"] * (most > 0)
    refuted = sum(row.get("refuted", False) for row in data["points"])
    lines = [f"Replayed again, the default's own figures vary: {', '.join(varying)}."] * bool(varying)
    if refuted:
        lines.append(f"Of the settings that seemed better, {refuted} did not hold each time they were replayed again.")
    return lines


def range_lines(data: Mapping) -> list[str]:
    """That peaks are ranges: of the default and the winner, on each workload."""
    shown = [row for row in data["points"] if "ratios" in row and (_is_winner(row, data) or not row["settings"])]
    peaks = {
        f"{row['label']} ({workload})": (values[PEAK], values.get(UPPER, values[PEAK]))
        for row in shown
        for workload, values in row["figures"].items()
        if PEAK in values
    }
    note = range_note(peaks, rule="gains and limits hold at both ends")
    return [note] * bool(note)


def live_lines(data: Mapping) -> list[str]:
    """The results of live runs, a line for each objective and limit."""
    lived = data.get("live")
    if lived is None:
        return []
    lines = [f"Live, {lived['runs']} runs of each, alternately: {' '.join(lived['command'])}"]
    known = []
    for one in lived["figures"]:
        change, *ends = (100 * (one[key] - 1) for key in ("ratio", "low", "high"))
        known.append(is_known(*ends))
        name = figure_name("cpu" if one["live"] == CPU else one["figure"])  # a live program has a clock
        wanted = "" if one["most"] in (None, 1) else f", limit {signed(100 * (one['most'] - 1))} %"
        verdict = f": {one['verdict']}" if one["verdict"] and (known[-1] or one["verdict"] != "undecided") else ""
        lines.append(f"  {name} {measured(change, *ends)}{wanted}{verdict}")
    if not all(known):
        lines.append(more_runs("--live-runs", lived["runs"]))
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
    names = [figure_name(figure) for figure in figures]
    return Table(f"Tunables — {allocator}", ["tunable", "value", *names, "largest in"], rows, notes, 2)


def _cell(one: Effect, figure: str) -> Cell:
    if one.error:
        return Cell("failed")
    change = one.changes.get(figure)
    return Cell(signed(change[0]), change[0]) if change else Cell(MISSING)


def _where(changes: Mapping[str, tuple[float, str]]) -> str:
    if not changes:
        return MISSING
    return max(changes.values(), key=lambda change: abs(change[0]))[1]
