# SPDX-License-Identifier: MIT
"""Which experiments of `heaptape whatif` promise to save resident memory, by the figures of the blame pass. Nothing is
replayed here: `heaptape blame --try` runs experiments, and `tried` compares them with the estimates.

Groups: functions, or one of a function's call stacks that alone has 90 % of its alone_empty_bytes; without call stacks
size groups, threads and phases. What an action saves at each attributed position, in bytes; live: the group's live and
rounding bytes, s: its objects now as a share of the most there have been (isolated heap), or of those born (pools):

- segregate: alone_empty_bytes + live - what the isolated heap needs: the most live bytes there have been
  x (1 - (1 - s)^k), k objects in a run of 64 KiB; 8 bytes of rounding for each object (half an OS page from 16 KiB on);
  and two OS pages.
- pool=65536: the same, of all objects born until then (k: objects in a chunk), and half a chunk. For objects of at most
  16 KiB, if births are known.
- early: alone_empty_bytes - requests of all births + live, if births are known.
- late: alone_empty_bytes x the share of objects that were live at the last mark, if there are marks.
- remove: alone_empty_bytes + live. Only where the sentence says leak: the group's live bytes grow too, by the same
  rule, and it has a quarter of the growth in the second half.

Order: each group's best action by its saving, then the other actions; in both, removal comes last. Segregation is a
group's best action unless another saves a tenth more.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from heaptape.features.blame import data as blame_data
from heaptape.features.blame import holders
from heaptape.features.blame.data import FIGURES, Blame, size_last
from heaptape.results.comparing.compare import absolute
from heaptape.results.schema import Results, figures

# Share of RSS at the position: an experiment that promises less is not proposed.
LEAST_SAVING = 0.01
# The same for experiments that are estimated at all: under another allocator they may save more.
LEAST_TOLD = 0.001
# Share of live objects or bytes, over all positions: a larger group is the whole program. A function of it may still be
# a leak; other such groups are none.
MOST_OF_PROGRAM = 0.95
# Share of what a function's objects promise: a call stack that promises this much is proposed instead.
ENOUGH_OF_FUNCTION = 0.9
# Another action than segregation has to promise this many times as much to be a group's first.
BETTER = 1.1
# Share of the growth of live bytes in the second half of a leak: a group with less is not its cause.
LEAST_OF_LEAK = 0.25
ROUNDING_BYTES = 8  # requests rounded up to 16 bytes, on average
RUN_BYTES = 64 << 10  # memory apart gives back memory in units of this
POOL_BYTES = 64 << 10
MOST_POOLED_BYTES = POOL_BYTES // 4
SMALL_BYTES = 16 << 10  # larger objects take whole OS pages of memory apart
WITHOUT_STACKS = ("size", "thread", "phase")
COLUMNS = (
    "allocator", "position", "experiment", "group", "action", "name", "first", "rss_bytes", "saving_bytes",
    "peak_saving_bytes", "mean_saving_bytes",
)  # fmt: skip
METRICS = ("peak_rss", "mean_rss", "total_instructions")
FOUND = (
    "found_saving_bytes",
    "found_left_bytes",
    "found_peak_saving_bytes",
    "found_mean_saving_bytes",
    "instructions_percent",
)


@dataclass(frozen=True)
class Group:
    """A group of objects over the attributed positions: arrays, one value per position; 0 where it was too small to be
    listed. `births`: objects it ever had; None: not known.
    """

    expression: str
    name: str
    objects: np.ndarray
    live: np.ndarray  # requests and rounding, resident
    empty: np.ndarray  # in OS pages that hold no other objects
    births: int | None

    @property
    def mean_bytes(self) -> np.ndarray:
        """Bytes per object; 1 where there is none."""
        return np.maximum(self.live / np.maximum(self.objects, 1), 1)


def estimates(found: Blame, allocator: str, position: int) -> pd.DataFrame:
    """What each experiment promises to save of RSS at the position, of its peak, and of its mean over the positions, in
    bytes (negative: cost). Columns COLUMNS. Each group's best action (`first`) comes before all other actions; within
    both, the largest saving at the position comes first.
    """
    at = int(np.flatnonzero(found.positions["position"] == position)[0])
    rss = found.positions["rss_anon_bytes"].to_numpy()
    leaks = holders.verdict(found, position).kind == "leak"
    rows = []
    for group in _groups(found, at):
        savings = {} if _is_whole(found, group) else dict(_savings(found, group))
        if leaks and _leaks(found, group):
            savings["remove"] = group.empty + group.live
        best = _best({action: float(saving[at]) for action, saving in savings.items()}, LEAST_SAVING * rss[at])
        rows += [
            (allocator, position, f"{group.expression}={action}", group.expression, action, group.name, action == best,
             int(rss[at]), *(round(value) for value in (saving[at], rss.max() - (rss - saving).max(), saving.mean())))
            for action, saving in savings.items()
        ]  # fmt: skip
    return _in_order(pd.DataFrame(rows, columns=list(COLUMNS)))


def _in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """Each group's best action first, removal after actions that keep the objects, then by saving."""
    kept = frame.assign(kept=frame["action"] != "remove")
    order = kept.sort_values(["first", "kept", "saving_bytes"], ascending=False, kind="stable").index
    return frame.loc[order].reset_index(drop=True)


def promising(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of `estimates` that promise LEAST_SAVING of RSS at the position."""
    return frame[frame["saving_bytes"] >= LEAST_SAVING * frame["rss_bytes"]].reset_index(drop=True)


def _best(savings: dict[str, float], least: float) -> str:
    """Segregation, unless another action promises BETTER times as much; removal if no other action promises `least`."""
    others = {action: saving for action, saving in savings.items() if action != "remove"}
    if not others or ("remove" in savings and max(others.values()) < least):
        return next((action for action in savings if action == "remove"), "")
    most = max(others, key=lambda action: others[action])
    return "segregate" if BETTER * others.get("segregate", 0) >= others[most] else most


def _groups(found: Blame, at: int) -> Iterator[Group]:
    """The groups that an experiment can be about, at a position: functions, or a call stack that has nearly all that
    its function promises; without call stacks, sizes, threads and phases. Of groups with the same objects, the first.
    """
    seen = set()
    for group in _others(found, at) if holders.without_stacks(found) else _functions(found, at):
        key = (group.objects[at], group.live[at], group.empty[at])
        if key in seen:
            continue
        if not _is_whole(found, group):
            seen.add(key)
        yield group


def _is_whole(found: Blame, group: Group) -> bool:
    places = found.positions
    shares = (
        (group.objects.sum(), places["live_objects"].sum()),
        (group.live.sum(), places["live_resident_bytes"].sum()),
    )
    return any(part > MOST_OF_PROGRAM * whole for part, whole in shares)


def _others(found: Blame, at: int) -> Iterator[Group]:
    for grouping in WITHOUT_STACKS:
        if grouping != "phase" or found.marks:
            groups = (_group(found, grouping, number) for number in _numbers(found, grouping, at))
            yield from (group for group in groups if not _is_whole(found, group))


def _functions(found: Blame, at: int) -> Iterator[Group]:
    sites = _numbers(found, "site", at)
    for number in _numbers(found, "function", at):
        if number == 0:
            continue
        group = _group(found, "function", number)
        own = [_group(found, "site", site) for site in sites if _function_of(found, site) == number]
        enough = [one for one in own if one.empty[at] >= ENOUGH_OF_FUNCTION * group.empty[at]]
        yield enough[0] if len(own) > 1 and enough else group


def _function_of(found: Blame, site: int) -> int:
    return found.sites[site].function if site in found.sites else 0


def _numbers(found: Blame, grouping: str, at: int) -> list[int]:
    """The numbers of groups that could save LEAST_TOLD of RSS at the position."""
    rows = found.groups[(found.groups["at"] == at) & (found.groups["grouping"] == grouping)]
    place = found.positions.iloc[at]
    leaks = holders.grows(found.positions["position"], found.positions["live_bytes"])
    most = rows["alone_empty_bytes"] + leaks * (rows["live_bytes"] + rows["rounding_bytes"])
    wanted = (most >= LEAST_TOLD * place["rss_anon_bytes"]) & (rows["group"] >= 0)
    return rows.loc[wanted, "group"].tolist()


def _group(found: Blame, grouping: str, number: int) -> Group:
    rows = found.groups[(found.groups["grouping"] == grouping) & (found.groups["group"] == number)]
    rows = rows.set_index("at")[list(FIGURES)].reindex(range(len(found.positions)), fill_value=0)
    return Group(
        f"{grouping}={_value(found, grouping, number)}",
        found.name(grouping, number),
        rows["objects"].to_numpy(float),
        (rows["live_bytes"] + rows["rounding_bytes"]).to_numpy(float),
        rows["alone_empty_bytes"].to_numpy(float),
        _births(found, grouping, number),
    )


def _value(found: Blame, grouping: str, number: int) -> str:
    """The group's value in a group expression, which has asterisks in place of a name's commas and ampersands."""
    if grouping == "function":
        return found.name(grouping, number).replace(",", "*").replace("&", "*")
    return f"{number}..{size_last(number)}" if grouping == "size" and size_last(number) > number else str(number)


def _births(found: Blame, grouping: str, number: int) -> int | None:
    """The group's births; for a function, those of its call stacks that were found at any position."""
    sites = [site for key, site in found.sites.items() if key == number or grouping == "function"]
    if grouping not in ("site", "function"):
        return None
    births = [site.births for site in sites if grouping == "site" or site.function == number]
    return None if None in births or not births else sum(one or 0 for one in births)


def _savings(found: Blame, group: Group) -> Iterator[tuple[str, np.ndarray]]:
    """For each action that makes sense, except removal, the bytes that it saves at each position."""
    os_page = found.os_page_bytes
    now = group.empty + group.live
    most = np.maximum.accumulate(group.objects)
    there = group.objects > 0
    each = np.where(group.mean_bytes <= SMALL_BYTES, ROUNDING_BYTES, os_page / 2)
    yield "segregate", now - there * (_kept(group, most, RUN_BYTES) + each * group.objects + 2 * os_page)
    if group.births is not None:
        progress = found.positions["position"].to_numpy() / max(int(found.positions["position"].iloc[-1]), 1)
        born = np.maximum(most, group.births * progress)
        if group.mean_bytes.max() <= MOST_POOLED_BYTES:
            yield f"pool={POOL_BYTES}", now - there * (_kept(group, born, POOL_BYTES) + POOL_BYTES / 2)
        whole = group.births * group.mean_bytes[int(group.live.argmax())]
        yield "early", group.empty - np.maximum(whole - group.live, 0)
    if found.marks:
        yield "late", group.empty * _before_last_mark(found, group)


def _kept(group: Group, ever: np.ndarray, unit_bytes: int) -> np.ndarray:
    """Bytes that memory keeps if it is given back in units, and today's objects are a random selection of the `ever`
    objects that it had: the units that hold at least one of them.
    """
    share = group.objects / np.maximum(ever, 1)
    units = np.maximum(unit_bytes / group.mean_bytes, 1)
    return ever * group.mean_bytes * (1 - (1 - np.minimum(share, 1)) ** units)


def _before_last_mark(found: Blame, group: Group) -> np.ndarray:
    """The share of the group's objects that can have been born before the last mark, to which `late` delays them."""
    position = found.positions["position"].to_numpy()
    marks = np.array([place for place, _ in found.marks])
    passed = np.searchsorted(marks, position, side="right")
    last = np.searchsorted(position, marks[np.maximum(passed - 1, 0)], side="right") - 1
    before = np.where((passed > 0) & (last >= 0), group.objects[np.maximum(last, 0)], 0)
    return np.minimum(before / np.maximum(group.objects, 1), 1)


def _leaks(found: Blame, group: Group) -> bool:
    """Is this the cause of a leak? Of a run that the sentence calls one: the group has to grow in the same way,
    and be a large part of the growth.
    """
    places = found.positions["position"]
    if not holders.grows(places, found.positions["live_bytes"]):
        return False
    middle = int((places - places.iloc[-1] // 2).abs().to_numpy().argmin())
    whole = found.positions["live_bytes"].iloc[-1] - found.positions["live_bytes"].iloc[middle]
    return holders.grows(places, pd.Series(group.live)) and group.live[-1] - group.live[middle] >= LEAST_OF_LEAK * whole


def best(promising: pd.DataFrame, count: int) -> list[str]:
    """The experiments that promise most over all allocators; each group's first action before other actions."""
    by = promising.groupby("experiment", sort=False, as_index=False)
    sums = by.agg(first=("first", "any"), action=("action", "first"), saving_bytes=("saving_bytes", "sum"))
    return _in_order(sums)["experiment"].head(count).tolist()


def tried(file: Results, promised: pd.DataFrame, positions: Mapping[str, int]) -> pd.DataFrame:
    """The experiments in the results of whatif beside what was promised (`estimates` of all allocators), at each
    allocator's position: a row per allocator and experiment, the largest saving there first. Columns: COLUMNS,
    found_saving_bytes, found_peak_saving_bytes, found_mean_saving_bytes; found_left_bytes: additional bytes there in OS
    pages that objects left and the allocator keeps; instructions_percent: more than the original's. NaN: a run
    failed, or nothing was promised.
    """
    values = absolute(figures([file])).xs(file.name)
    values = values.reindex(columns=list(METRICS))
    there = blame_data.of_allocators(file)
    rows = []
    for about in file.parsed.whatif or []:
        for original, label in about.labels.items():
            row = promised[(promised["allocator"] == original) & (promised["experiment"] == about.name)]
            saved = values.reindex([original, label]).to_numpy(float)
            place = positions[original]
            before, after = _parts(there, original, place), _parts(there, label, dict(about.positions)[place])
            rows.append(
                (row.iloc[0].to_dict() if len(row) else {})
                | {
                    "allocator": original,
                    "experiment": about.name,
                    "position": place,
                    "rss_bytes": before["rss_anon_bytes"],
                    "found_saving_bytes": before["rss_anon_bytes"] - after["rss_anon_bytes"],
                    "found_left_bytes": after["empty_bytes"] - before["empty_bytes"],
                    "found_peak_saving_bytes": saved[0, 0] - saved[1, 0],
                    "found_mean_saving_bytes": saved[0, 1] - saved[1, 1],
                    "instructions_percent": 100 * (saved[1, 2] / saved[0, 2] - 1),
                }
            )
    frame = pd.DataFrame(rows, columns=[*COLUMNS, *FOUND])
    return frame.sort_values("found_saving_bytes", ascending=False, kind="stable").reset_index(drop=True)


def _parts(there: Mapping[str, Blame], label: str, position: int) -> pd.Series:
    """RSS at the position, and its bytes in OS pages that objects left; NaN if the run failed."""
    columns = ["rss_anon_bytes", "empty_bytes"]
    if label not in there:
        return pd.Series(float("nan"), columns)
    places = there[label].positions
    return places.loc[places["position"] == position, columns].astype(float).iloc[0]
