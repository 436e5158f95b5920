# SPDX-License-Identifier: MIT
"""Conclusions from the pass `blame`: who holds the memory at a position, whether that is a leak, retention or
fragmentation, and how two positions, recordings or allocators differ. docs/use/BLAME.md, "The sentence", has the rule.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import pandas as pd

from heaptape.common.console import printable
from heaptape.common.errors import HeaptapeError
from heaptape.common.phrases import NO_STACKS, share, size
from heaptape.common.tables import cut
from heaptape.features.blame.data import GROUP, Blame, tidy

# Shares of live bytes at the end: by how much the lowest live bytes of each quarter of the run must exceed those of the
# quarter before, and those of the last quarter exceed those of the first.
LEAST_STEP, LEAST_RISE = 0.02, 0.1
# Share of RSS: less than this above live bytes needs no explanation.
LEAST_EXCESS = 0.1
WITHOUT_STACKS = ("thread", "size", "age")
# Share of RSS, or of its bytes that are not live: a smaller group is shown among "others".
LEAST_SHOWN = 0.005
# Share of the empty bytes on pages with live objects: a group that keeps less is not named as their cause.
LEAST_KEPT = 0.1
MANY_SITES = 12
OWN = "the allocator's own memory"
CALLED_BY = " < "
NAMELESS = re.compile(r"(?:(.+?\.so)[.0-9]*|(.+?))(\+0x[0-9a-f]+)$")
KEY = ["kind", "group"]
DIFFERENCE_FIGURES = ("objects", "live_bytes", "held_bytes", "alone_bytes")
DIFFERENCE_COLUMNS = (
    *KEY,
    *(f"{figure}_{side}" for side in ("one", "other") for figure in DIFFERENCE_FIGURES),
    "change_bytes",
)


@dataclass(frozen=True)
class Verdict:
    """`kind`: leak, retention, fragmentation, rounding, allocator (its own memory), or none."""

    kind: str
    sentence: str


def usual_groupings(found: Blame) -> tuple[str, ...]:
    """By site, and if there are many sites, also by function; without stacks by thread, size and age."""
    if without_stacks(found):
        return WITHOUT_STACKS
    sites = found.groups.loc[found.groups["grouping"] == "site", "group"].nunique()
    return ("site", "function") if sites > MANY_SITES else ("site",)


def first_grouping(found: Blame) -> str:
    """By call site; without call stacks by size."""
    return "size" if without_stacks(found) else "site"


def best_grouping(*found: Blame) -> str:
    """The most useful grouping for one table: by function, or by site if there are few; without stacks by size."""
    usual = [usual_groupings(one) for one in found]
    return "size" if WITHOUT_STACKS in usual else max(usual, key=len)[-1]


def without_stacks(found: Blame) -> bool:
    return "stacks" in found.lacks or set(found.groups.loc[found.groups["grouping"] == "site", "group"]) <= {0}


def require(found: Blame, grouping: str) -> None:
    """Raises HeaptapeError if the recording can't be grouped by `grouping`."""
    if grouping in ("site", "function") and without_stacks(found):
        raise HeaptapeError(f"--by {grouping}: {NO_STACKS[:1].lower()}{NO_STACKS[1:]}, or use --by thread, size or age")
    if grouping == "phase" and not found.marks:
        raise HeaptapeError("--by phase: the recording has no marks, so all of it is one phase")


def at_position(found: Blame, allocator: str, position: int, grouping: str) -> pd.DataFrame:
    """`tidy` rows of one position and grouping, with `held_bytes` (rounding and empty bytes) and `share` of RSS less
    live bytes (0 to 1; NaN if that is 0). The rows with most held bytes come first.
    """
    return _ranked(tidy(found, allocator, [grouping], position))


def _ranked(rows: pd.DataFrame) -> pd.DataFrame:
    held = rows["rounding_bytes"] + rows["empty_bytes"]
    excess = held.sum()
    rows = rows.assign(held_bytes=held, share=held / excess if excess else float("nan"))
    return rows.sort_values(["held_bytes", "live_bytes"], ascending=False, kind="stable").reset_index(drop=True)


def states(found: Blame, position: int) -> pd.DataFrame:
    """The parts of RSS that are not live at a position: columns state, bytes; they add up to RSS less live bytes. With
    a heap walk, the allocator's own states split the bytes beside live objects, and those of OS pages that objects
    left.
    """
    at = found.positions[found.positions["position"] == position].iloc[0]
    rows = [("rounding of live requests", at["rounding_bytes"])]
    for key, name in (("beside_live", "in partly filled OS pages"), ("empty", "in empty pages not returned")):
        whole, walked = at[f"{key}_bytes"], 0
        for state in found.walk_states[1:]:
            free = min(at[f"walk_{state}_{key}_bytes"], whole - walked)
            walked += free
            if free:
                rows.append((f"{name}: {state}", free))
        rest = f"{name}: headers and other" if found.walk_states[1:] else f"{name}: caches, bins, headers"
        rest = rest if key == "beside_live" else f"{name}: free and not returned"
        rows.append((rest, whole - walked))
    rows += [("in OS pages never used", at["never_used_bytes"]), ("metadata and other", at["beside_table_bytes"])]
    return pd.DataFrame(rows, columns=["state", "bytes"])


def over_time(found: Blame, grouping: str, most: int = 8, top: int = 3) -> pd.DataFrame:
    """At up to `most` positions: position, rss_anon_bytes, live_bytes (resident), beside_live_bytes, empty_bytes,
    and `holders`: a list of (number, group, bytes held besides live ones) of the `top` groups, most first, without
    groups below LEAST_SHOWN.
    """
    places = found.positions
    kept = sorted({round(number * (len(places) - 1) / max(most - 1, 1)) for number in range(min(most, len(places)))})
    of_position = dict(iter(tidy(found, "", [grouping]).groupby("position")))
    rows = []
    for number in kept:
        at = places.iloc[number]
        groups = _ranked(of_position[int(at["position"])])
        held = groups[(groups["kind"] == GROUP) & (groups["share"] >= LEAST_SHOWN)].head(top)
        rows.append({
            "position": int(at["position"]), "rss_anon_bytes": int(at["rss_anon_bytes"]),
            "live_bytes": int(at["live_resident_bytes"]), "beside_live_bytes": int(at["beside_live_bytes"]),
            "empty_bytes": int(at["empty_bytes"]),
            "holders": list(zip(held["number"], held["group"], held["held_bytes"])),
        })  # fmt: skip
    return pd.DataFrame(rows)


def difference(one: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Two frames of `at_position`, of two positions, recordings or allocators, side by side: group, kind, and for each
    of DIFFERENCE_FIGURES NAME_one, NAME_other; `change_bytes` of live and held bytes. Groups are the same if their
    names are. The largest changes come first.
    """
    sides = [frame.groupby(KEY, sort=False)[list(DIFFERENCE_FIGURES)].sum() for frame in (one, other)]
    both = sides[0].add_suffix("_one").join(sides[1].add_suffix("_other"), how="outer").fillna(0).astype("int64")
    whole = [both[f"live_bytes_{side}"] + both[f"held_bytes_{side}"] for side in ("one", "other")]
    both = both.assign(change_bytes=whole[1] - whole[0])
    order = both["change_bytes"].abs().sort_values(ascending=False, kind="stable").index
    return both.loc[order].reset_index()


def verdict(found: Blame, position: int) -> Verdict:
    """Leak, retention, fragmentation or none of them, with the figures that show it: the largest share of resident
    memory that could be given back, and a smaller leak beside it. `position`: of the tables.
    """
    at = found.positions[found.positions["position"] == position].iloc[0]
    rss, live = int(at["rss_anon_bytes"]), int(at["live_resident_bytes"])
    own = int(at["never_used_bytes"] + at["beside_table_bytes"])
    parts = {
        "fragmentation": int(at["beside_live_bytes"]),
        "retention": int(at["empty_bytes"]),
        "rounding": int(at["rounding_bytes"]),
        "allocator": own,
    }
    kind = max(parts, key=lambda name: parts[name])
    little = rss - live < LEAST_EXCESS * rss or rss == 0
    grown = _grown(found) if grows(found.positions["position"], found.positions["live_bytes"]) else 0
    if grown and (little or 2 * grown >= parts[kind]):
        beside = "" if little else f"; beside it, {kind.replace('allocator', OWN)}: {_REASONS[kind](found, at)}"
        return Verdict("leak", f"leak, or data that only grow: {_growth(found)}{_grower(found)}{beside}")
    if little:
        return Verdict("none", f"resident memory is mostly live: {size(live)} of {size(rss)} ({share(live, rss)})")
    beside = f"; beside it, {_growth(found)}" if grown else ""
    return Verdict(kind, f"{kind.replace('allocator', OWN)}: {_REASONS[kind](found, at)}{beside}")


def site_frames(name: str) -> list[str]:
    """The frames of a call site's name, innermost first. Of frames without a function, the module without its version,
    and only where the frame before has another one.
    """
    shown, before = [], ""
    for frame in name.split(CALLED_BY):
        found = NAMELESS.match(frame)
        module, offset = (found[1] or found[2], found[3]) if found else ("", frame)
        shown.append(offset if module == before else f"{module}{offset}")
        before = module
    return shown


def short_site(name: str) -> str:
    return CALLED_BY.join(site_frames(name))


def told_apart(found: Blame, numbers: Sequence[int], names: Sequence[str]) -> list[str]:
    """The names of groups, of which several may be equal: those get the nearest caller that only their site has, or
    two callers that only it has both of, else the number of the site.
    """
    return [
        name if names.count(name) == 1 else _with_caller(found, name, number, [n for n in numbers if n != number])
        for number, name in zip(numbers, names)
    ]


def names_within(found: Blame, numbers: Sequence[int], groups: Sequence[str], room: int) -> list[str]:
    """Of each group a name as long as `room` letters allow; none is that of another group."""
    names = []
    for stack in (site_frames(printable(group)) for group in groups):
        each = [CALLED_BY.join([*stack[:kept], *["…"] * (kept < len(stack))]) for kept in (3, 2, 1)]
        names.append(next((one for one in each if len(one) <= room), each[-1]))
    return [cut(name, room) for name in told_apart(found, numbers, names)]


def _with_caller(found: Blame, name: str, number: int, others: Sequence[int]) -> str:
    innermost = name.split(CALLED_BY)[0]
    own, *rest = (_stack_from(found, one, innermost) for one in (number, *others))
    for callers in (*combinations(enumerate(own), 1), *combinations(enumerate(own), 2)):
        if all(any(stack[at : at + 1] != [caller] for at, caller in callers) for stack in rest if stack):
            return " < … < ".join([innermost, *site_frames(CALLED_BY.join([own[0], *(one for _, one in callers)]))[1:]])
    return f"#{number} {name}"


def _stack_from(found: Blame, number: int, innermost: str) -> list[str]:
    """The site's frames, without those that its name leaves out before this one: a program's own malloc."""
    frames = [frame.name for frame in found.sites[number].frames] if number in found.sites else []
    begins = (at for at, frame in enumerate(frames) if short_site(frame) == innermost)
    return frames[next(begins, len(frames)) :]


def grows(positions: pd.Series, live_bytes: pd.Series) -> bool:
    """Do live bytes grow through the whole run? Both series have one length, in order of position."""
    live = live_bytes.iloc[-1]
    quarter = (4 * positions // (positions.iloc[-1] + 1)).clip(upper=3)
    lowest = live_bytes.groupby(quarter).min().tolist()
    steps = [after - before for before, after in zip(lowest, lowest[1:])]
    return len(lowest) == 4 and min(steps) >= LEAST_STEP * live and lowest[-1] - lowest[0] >= LEAST_RISE * live


def _middle(found: Blame) -> pd.Series:
    places = found.positions["position"]
    return found.positions.iloc[int((places - int(places.iloc[-1]) // 2).abs().to_numpy().argmin())]


def _grown(found: Blame) -> int:
    """Bytes by which live memory grew in the second half of the run: of a leak from the start on, half."""
    return int(found.positions["live_bytes"].iloc[-1] - _middle(found)["live_bytes"])


def _growth(found: Blame) -> str:
    middle, end = _middle(found), found.positions.iloc[-1]
    return (
        f"live memory grows in every quarter of the run, from {size(middle['live_bytes'])} in its middle to "
        f"{size(end['live_bytes'])} at its end ({share(_grown(found), int(end['rss_anon_bytes']))} of resident memory "
        "more)"
    )


def _grower(found: Blame) -> str:
    """The group that grew most in the second half, in words."""
    grouping = first_grouping(found)
    ends = (_middle(found), found.positions.iloc[-1])
    one, other = (at_position(found, "", int(where["position"]), grouping) for where in ends)
    change = difference(one, other)
    change = change.assign(grown=change["live_bytes_other"] - change["live_bytes_one"])
    most = change[change["kind"] == GROUP].nlargest(1, "grown")
    if most.empty:
        return ""
    return f"; {size(most['grown'].iloc[0])} of the growth belong to {_named(most['group'].iloc[0], grouping)}"


def _named(group: str, grouping: str) -> str:
    return f"objects of {group}" if grouping == "size" else short_site(group)


def _retained(found: Blame, at: pd.Series) -> str:
    rss, left = int(at["rss_anon_bytes"]), int(at["empty_bytes"])
    return f"{size(left)} ({share(left, rss)} of resident memory) are empty pages that the allocator has not returned"


def _thin(found: Blame, at: pd.Series) -> str:
    live, beside = int(at["live_resident_bytes"] + at["rounding_bytes"]), int(at["beside_live_bytes"])
    grouping = first_grouping(found)
    groups = at_position(found, "", int(at["position"]), grouping)
    groups, who = groups[groups["kind"] == GROUP], ""
    if len(groups):
        top = groups.iloc[0]
        part = int(top["empty_bytes"])
        who = (
            f"; {share(part, beside)} of it is kept by {_named(top['group'], grouping)}"
            if part >= LEAST_KEPT * beside
            else "; no group keeps much of it"
        )
    filled = share(live, live + beside)
    return f"{size(beside)} are empty space on pages that live objects fill to {filled}{who}"


def _rounded(found: Blame, at: pd.Series) -> str:
    rounding, rss = int(at["rounding_bytes"]), int(at["rss_anon_bytes"])
    return f"{size(rounding)} ({share(rounding, rss)} of resident memory) are added to requests to round them up"


def _own(found: Blame, at: pd.Series) -> str:
    own, rss = int(at["never_used_bytes"] + at["beside_table_bytes"]), int(at["rss_anon_bytes"])
    return f"{size(own)} ({share(own, rss)} of resident memory) are metadata, or pages that never held an object"


_REASONS = {"fragmentation": _thin, "retention": _retained, "rounding": _rounded, "allocator": _own}
