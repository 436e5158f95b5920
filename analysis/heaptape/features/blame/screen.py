# SPDX-License-Identifier: MIT
"""Who holds the memory of one allocator at one position, as a screen: what it is, who keeps it, what to try."""

import shlex
from dataclasses import dataclass

import pandas as pd

from heaptape.common.console import printable
from heaptape.common.phrases import NO_STACKS, change_of_size, choice, counted, size
from heaptape.common.tables import MISSING, Cell, Table, screen_width
from heaptape.features.blame import holders
from heaptape.features.blame.data import GROUP, UNHELD, Blame
from heaptape.features.blame.proposals import BETTER, LEAST_SAVING
from heaptape.features.blame.settings import Setting
from heaptape.show.screen import Screen

MOST_GROUPS = 5
FIGURES_WIDTH = 40  # columns of the table that names can't take
PLACES = {
    "widest": "at its widest gap",
    "peak": "at its peak",
    "live-peak": "at the peak of live memory",
    "end": "at the end",
}
HEADS = {"site": "call site", "size": "request size"}
ACTIONS = {
    "segregate": "give {} pages of their own",
    "remove": "remove {}, which only grow",
    "early": "allocate {} early",
    "late": "allocate {} late",
}


@dataclass(frozen=True)
class Remedies:
    """What could be done, of one allocator at the position. `promised`: from `proposals.promising`; `setting`: the
    best; `disproof`: why none of it is to be trusted (results/judged.py).
    """

    promised: pd.DataFrame
    setting: Setting | None = None
    disproof: str = ""


def screen(
    found: Blame,
    about: tuple[str, str, str],
    where: tuple[str, int],
    grouping: str,
    remedies: Remedies,
    source: str,
    given: str = "",
) -> Screen:
    """`about`: name of the workload, allocator, its calls in words. `where`: position by name and by number.
    `source`: the file as the user named it; `given`: the options that he gave.
    """
    name, label, calls = about
    rows = holders.at_position(found, label, where[1], grouping)
    at = found.positions[found.positions["position"] == where[1]].iloc[0]
    resident, live = size(at["rss_anon_bytes"]), size(at["live_resident_bytes"])
    place = PLACES.get(where[0], "" if where[0].isdecimal() else f'at mark "{where[0]}"')
    text = f"{name} on {label}{' ' + place if place else ''}, after {where[1]:,} of {calls}: "
    verdict = holders.verdict(found, where[1])
    sentence = printable(verdict.sentence)
    merged = found.groups[(found.groups["grouping"] == grouping) & (found.groups["group"] < 0)]
    merged = merged[found.positions["position"].to_numpy()[merged["at"]] == where[1]]
    table = _table(found, rows, grouping, int(merged["groups"].sum()))
    caveats = [f"{NO_STACKS}."] * holders.without_stacks(found)
    if grouping in ("site", "function"):
        caveats += _nameless(rows[rows["kind"] == GROUP].head(MOST_GROUPS)["group"], source)
    said = [f"{sentence[:1].upper()}{sentence[1:]}."]
    source = shlex.quote(source)
    more: list[tuple[str, ...]] = []
    if not remedies.disproof:
        more += [("Settings", f"heaptape advise --objective memory {source}")] * (verdict.kind not in ("leak", "none"))
        lines, tries = _to_try(remedies)
        said += lines
        more += [("Try it", f"heaptape blame {source}{given} --try 1")] * tries
        if remedies.promised.empty:
            caveats.append(f"No change to one group of objects is expected to save {100 * LEAST_SAVING:.0f} % or more.")
    more.append(("More", *choice(f"heaptape blame {source}{given} --table", ("groups", "states", "time", "all"))))
    flame = "" if holders.without_stacks(found) else " --flame FILE.svg"
    more.append(("More", *choice(f"heaptape blame {source}{given} --by", ("thread", "size", "age"), flame)))
    text = " ".join(filter(None, [remedies.disproof, f"{text}{resident} resident, {live} live."]))
    return Screen(text, table, said, caveats, more)


def _to_try(remedies: Remedies) -> tuple[list[str], bool]:
    """What promises most, a setting before a change of the code; and whether the latter is among it."""
    setting = remedies.setting
    code = None if remedies.promised.empty else remedies.promised.iloc[0]
    if setting is None:
        return ([_promise(code)], True) if code is not None else ([], False)
    variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in setting.environment.items())
    by = f"{setting.label} ({variables}) leaves {change_of_size(setting.before, setting.after)}, replayed"
    first = f"To try: the setting {by}."
    if code is None or setting.saving_bytes >= code["saving_bytes"]:
        return [first], False
    if BETTER * setting.saving_bytes >= code["saving_bytes"]:
        return [first, _promise(code)], True
    return [_promise(code), f"Without a change of the code, the setting {by}."], True


def _promise(row: pd.Series) -> str:
    action, group = str(row["action"]), holders.short_site(str(row["name"]))
    what = ACTIONS.get(action, "pool {}").format(f"the objects of {group}")
    after = max(row["rss_bytes"] - row["saving_bytes"], 0)
    return f"To try: {what}; expected {change_of_size(row['rss_bytes'], after)}."


def _table(found: Blame, rows: pd.DataFrame, grouping: str, merged: int) -> Table:
    """`merged`: how many groups the pass has put together as "others"."""
    groups = rows[rows["kind"] == GROUP]
    shown = groups.head(MOST_GROUPS if len(groups) + merged > MOST_GROUPS + 1 else None)
    rest = rows[(rows["kind"] != UNHELD)].drop(shown.index)
    names = _names(found, shown)
    lines = [_row(*name, row) for name, (_, row) in zip(names, shown.iterrows())]
    head = HEADS.get(grouping, grouping)
    if len(rest):
        sums = rest[["objects", "live_bytes", "held_bytes"]].sum()
        other = f"other ({counted(len(groups) - len(shown) + merged, head)})"
        lines.append(_row(other, other, sums))
    least = holders.LEAST_SHOWN * rows[["live_bytes", "held_bytes"]].to_numpy().sum()
    for _, row in rows[(rows["kind"] == UNHELD) & (rows["held_bytes"].abs() >= least)].iterrows():
        lines.append([Cell(str(row["group"])), Cell(MISSING), Cell(MISSING), _size(row["held_bytes"]), Cell("")])
    columns = [head, "objects", "live", "keeps", "alone\nreturns"]
    if not shown["alone_bytes"].any():
        columns, lines = columns[:-1], [line[:-1] for line in lines]
    return Table("", columns, lines)


def _names(found: Blame, shown: pd.DataFrame) -> list[tuple[str, str]]:
    """Of each group a name as long as there is room for, and a short one; neither is that of another group."""
    frames = [holders.site_frames(printable(str(name))) for name in shown["group"]]
    shortest = [holders.CALLED_BY.join([*stack[:1], *["…"] * (len(stack) > 1)]) for stack in frames]
    numbers = [int(number) for number in shown["number"]]
    told = holders.names_within(found, numbers, list(map(str, shown["group"])), screen_width() - FIGURES_WIDTH)
    return list(zip(told, holders.told_apart(found, numbers, shortest)))


def _row(name: str, short: str, row: pd.Series) -> list[Cell]:
    return [
        Cell(name, short=short),
        Cell(f"{row['objects']:,.0f}", float(row["objects"])),
        _size(row["live_bytes"]),
        _size(row["held_bytes"]),
        _size(row["alone_bytes"]) if "alone_bytes" in row else Cell(""),
    ]


def _size(value: float) -> Cell:
    return Cell("0" if value == 0 else size(value), float(value))


def _nameless(sites: pd.Series, source: str) -> list[str]:
    """A line on debug information, where most of the sites have frames without a name."""
    modules = [frame.partition("+0x")[0] for site in sites for frame in site.split(holders.CALLED_BY) if "+0x" in frame]
    if 2 * sites.str.contains("+0x", regex=False).sum() <= len(sites) or not modules:
        return []
    most = max(dict.fromkeys(modules), key=modules.count)
    return [f"{most} lacks names: install its debug package, or heaptape blame {shlex.quote(source)} --debuginfod."]
