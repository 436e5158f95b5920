# SPDX-License-Identifier: MIT
"""Who holds the memory of one allocator at one position, as a screen: what it is, who keeps it, what to try."""

import pandas as pd

from heaptape.common.console import printable
from heaptape.common.tables import MISSING, Cell, Table
from heaptape.passes import holders
from heaptape.passes.blame_data import GROUP, UNHELD, Blame
from heaptape.passes.proposals import LEAST_SAVING
from heaptape.show.answer import memory_text
from heaptape.show.screen import Screen

MOST_GROUPS = 6
FRAMES = 3  # of a call site
UNNAMED_SHARE = 0.5  # of the shown sites' frames: from this on, a line says where names come from
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
NO_STACKS = "The recording has no call stacks: heaptape record --stacks names the call sites."
NO_NAMES = "Call sites without a name: install debug packages, or set DEBUGINFOD_URLS."


def screen(
    found: Blame,
    about: tuple[str, str, int],
    where: tuple[str, int],
    grouping: str,
    promised: pd.DataFrame,
    source: str,
) -> Screen:
    """`about`: name of the workload, allocator, its number of calls. `where`: position by name and by number.
    `promised`: of this allocator, from `proposals.promising`. `source`: the file as the user named it.
    """
    name, label, ops = about
    rows = holders.at_position(found, label, where[1], grouping)
    at = found.positions[found.positions["position"] == where[1]].iloc[0]
    resident, live = memory_text(at["rss_anon_bytes"]), memory_text(at["live_resident_bytes"])
    place = PLACES.get(where[0], "" if where[0].isdecimal() else f'at mark "{where[0]}"')
    text = f"{name} on {label}{' ' + place if place else ''}, after {where[1]:,} of {ops:,} calls: "
    sentence = printable(holders.verdict(found, where[1]).sentence)
    table = _table(rows, grouping)
    caveats = [NO_STACKS] * holders.without_stacks(found)
    names = [row[0].text for row in table.rows]
    unnamed = sum("+0x" in name for name in names)
    caveats += [NO_NAMES] * (grouping in ("site", "function") and unnamed > UNNAMED_SHARE * len(names))
    said = [f"{sentence[:1].upper()}{sentence[1:]}."]
    more = []
    if promised.empty:
        caveats.append(f"No change to a group of objects promises to save {100 * LEAST_SAVING:.0f} %.")
    else:
        said.append(_promise(promised.iloc[0]))
        more.append(("Try it", f"heaptape blame {source} --try 1"))
    more.append(("More", f"heaptape blame {source} --by thread|size|age --table groups|states|time|all"))
    more.append(("More", f"heaptape blame {source} --graph FILE.svg --flame FILE.svg"))
    return Screen(f"{text}{resident} resident, {live} live.", table, said, caveats, more)


def first_grouping(found: Blame) -> str:
    """By call site; without call stacks by size."""
    return "size" if holders.without_stacks(found) else "site"


def _promise(row: pd.Series) -> str:
    action, group = str(row["action"]), short_site(str(row["name"]))
    what = ACTIONS.get(action, "pool {}").format(f"the objects of {group}")
    before, after = memory_text(row["rss_bytes"]), memory_text(max(row["rss_bytes"] - row["saving_bytes"], 0))
    return f"To try: {what}; expected {before} -> {after}."


def _table(rows: pd.DataFrame, grouping: str) -> Table:
    groups = rows[rows["kind"] == GROUP]
    shown = groups.head(MOST_GROUPS)
    rest = rows[(rows["kind"] != UNHELD)].drop(shown.index)
    lines = [_row(short_site(str(row["group"])), row) for _, row in shown.iterrows()]
    if len(rest):
        sums = rest[["objects", "live_bytes", "held_bytes"]].sum()
        lines.append(_row(f"other ({len(rest):,} groups)", sums))
    for _, row in rows[(rows["kind"] == UNHELD) & (rows["held_bytes"] != 0)].iterrows():
        lines.append([Cell(str(row["group"])), Cell(MISSING), Cell(MISSING), _size(row["held_bytes"]), Cell("")])
    return Table("", [HEADS.get(grouping, grouping), "objects", "live", "keeps", "alone\nreturns"], lines)


def _row(name: str, row: pd.Series) -> list[Cell]:
    alone = _size(row["alone_bytes"]) if "alone_bytes" in row else Cell("")
    return [
        Cell(printable(name)),
        Cell(f"{row['objects']:,.0f}", float(row["objects"])),
        _size(row["live_bytes"]),
        _size(row["held_bytes"]),
        alone,
    ]


def _size(value: float) -> Cell:
    return Cell("0" if value == 0 else memory_text(value), float(value))


def short_site(name: str) -> str:
    """The innermost frames of a call site."""
    frames = name.split(" < ")
    return " < ".join(frames[:FRAMES]) + (" < …" if len(frames) > FRAMES else "")
