# SPDX-License-Identifier: MIT
"""Two versions of a program, by call site: profiles in, a DataFrame and a screen out.

A call site is the innermost FRAMES functions of a stack that no allocation wrapper hides (docs/use/BLAME.md), recursion
as one, by name: addresses and lines differ between builds.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import dropwhile, groupby
from pathlib import Path
from textwrap import wrap

import pandas as pd

from heaptape.common.console import printable
from heaptape.common.home import Home
from heaptape.common.phrases import NO_STACKS, count, counted, percent, size
from heaptape.common.tables import Cell, Table
from heaptape.features.profile.data import Profile, profile
from heaptape.results.cells import signed
from heaptape.show.screen import Screen
from heaptape.tape.stack_names import stack_names

FRAMES = 3
FIGURES = {
    "objects": "allocations",
    "bytes": "requested",
    "peak_bytes": "at the peak",
    "remote_objects": "freed by another thread",
    "mean_age_bytes": "mean lifetime",
}
TEXTS = {"objects": count, "bytes": size, "peak_bytes": size, "remote_objects": count, "mean_age_bytes": size}
SAID = ("peak_bytes", "bytes", "objects", "remote_objects", "mean_age_bytes")  # the order of sentences
OF_LIFETIMES = "A lifetime is counted in bytes that the program allocated meanwhile."
SUMS = [*list(FIGURES)[:-1], "released", "age_bytes"]  # what sites add up to; the mean is of the last two
TOTAL, UNKNOWN = "all", "no stack known"
LEAST_PERCENT = 1.0  # of the whole: smaller changes of a call site are in no sentence
MOST_ROWS = 6
NAMELESS = " (no symbols)"
WRAPPER = re.compile(r"(?i:alloc)|strn?dup|wcsdup|memdup|^(operator new|std::|__gnu_cxx::)")


@dataclass(frozen=True)
class Version:
    """The recordings of one version. `sites`: of each, FIGURES by call site, TOTAL included."""

    name: str
    sites: Sequence[pd.DataFrame]


def version(paths: Sequence[str], home: Home) -> Version:
    """Reads the recordings. Raises HeaptapeError."""
    found = []
    for path in paths:
        one = profile(path, home)
        found.append(_by_site(one, path, home))
    return Version(Path(paths[0]).name, found)


def _by_site(found: Profile, path: str, home: Home) -> pd.DataFrame:
    sites = found.sites.rename(columns={"bytes_at_peak": "peak_bytes", "lifetime_bytes": "age_bytes"})
    sites["released"] = sites["objects"] - sites["live_objects"]
    rows = sites[SUMS].groupby(_names(sites, path, home)).sum() if len(sites) else pd.DataFrame(columns=SUMS)
    whole = {"objects": found.acquired, "bytes": found.data["allocated_bytes"], "peak_bytes": found.peak_live_bytes}
    whole["remote_objects"] = found.pairs.query("acquirer != releaser")["objects"].sum()
    every = pd.concat([rows, pd.DataFrame([rows.sum().to_dict() | whole], index=[TOTAL])])
    every["mean_age_bytes"] = 0 if found.lifetimes_are_made_up else every["age_bytes"] / every["released"].clip(lower=1)
    return every[list(FIGURES)].astype(float)


def _names(sites: pd.DataFrame, path: str, home: Home) -> list[str]:
    names = stack_names(path, home)
    return [" < ".join(_site(names.callers(node))) or UNKNOWN for node in sites["node"]]


def _site(callers: Sequence[str]) -> list[str]:
    """Up to main: what calls that is the C library's."""
    names = [name for name, _ in groupby(map(_plain, callers))]
    names = names[: names.index("main") + 1 if "main" in names else None]
    return ([*dropwhile(WRAPPER.search, names)] or names)[:FRAMES]


def _plain(name: str) -> str:
    """Without what differs from build to build: compilers' clones of a function; the offset in a module and the version
    in that's name, where there are no symbols.
    """
    module = re.fullmatch(r"(.+)\+0x[0-9a-f]+", name)
    if module:
        return f"{re.sub(r'[-.]?[0-9][0-9.]*', '', module[1])}{NAMELESS}"
    return re.sub(r"\.(part|constprop|isra|cold)(\.\d+)?", "", name)


def compared(old: Version, new: Version) -> pd.DataFrame:
    """One row per call site and figure, the largest change first: site, figure (of FIGURES), old and new (means over
    the recordings), change (new - old), percent (of the old; NaN: from 0), share_percent (the change in percent of the
    old whole; of a mean: what the site's objects move it by), noise (the larger spread over a version's recordings;
    NaN: one recording of each), beyond_noise (the versions' ranges do not overlap; with one recording of each: they
    differ).
    """
    index = [site for one in (*old.sites, *new.sites) for site in one.index]
    sides = []
    for side in (old, new):
        every = pd.concat({at: one.reindex(dict.fromkeys(index), fill_value=0) for at, one in enumerate(side.sites)})
        by_site = every.groupby(level=1, sort=False)
        sides.append({how: getattr(by_site, how)().stack() for how in ("mean", "min", "max")})
    before, after = sides
    frame = pd.DataFrame({"old": before["mean"], "new": after["mean"]})
    frame["change"] = frame["new"] - frame["old"]
    frame["percent"] = 100 * frame["change"] / frame["old"].where(frame["old"] != 0)
    frame["noise"] = pd.concat([one["max"] - one["min"] for one in sides], axis=1).max(axis=1)
    frame["beyond_noise"] = (after["min"] > before["max"]) | (after["max"] < before["min"])
    if len(old.sites) == len(new.sites) == 1:
        frame["noise"] = float("nan")
    frame = frame.rename_axis(["site", "figure"]).reset_index()
    whole = frame[frame["site"] == TOTAL].set_index("figure")["old"].clip(lower=1)
    frame["share_percent"] = 100 * frame["change"] / frame["figure"].map(whole)
    objects = frame[frame["figure"] == "objects"].set_index("site")[["old", "new"]].max(axis=1)
    weight = frame["site"].map(objects / max(objects[TOTAL], 1)).clip(upper=1)
    frame["share_percent"] *= weight.where(frame["figure"] == "mean_age_bytes", 1)
    sums = frame["share_percent"].where(frame["figure"] != "mean_age_bytes", 0.0)
    order = sums.abs().groupby(frame["site"]).transform("max")
    return frame.assign(_order=order.where(frame["site"] != TOTAL, float("inf"))).sort_values(
        ["_order", "site"], ascending=[False, True], kind="stable", ignore_index=True
    )[["site", "figure", "old", "new", "change", "percent", "share_percent", "noise", "beyond_noise"]]  # fmt: skip


def screen(old: Version, new: Version, frame: pd.DataFrame, more: Sequence[tuple[str, str]] = ()) -> Screen:
    """The whole first, then the call sites whose change is largest; a sentence for each that matters."""
    whole = frame[frame["site"] == TOTAL].set_index("figure")
    about = f"{printable(old.name)} -> {printable(new.name)}: " + ", ".join(
        f"{FIGURES[figure]} {TEXTS[figure](row.old)} -> {TEXTS[figure](row.new)}"
        for figure, row in whole.iterrows()
        if row.old or row.new
    )
    changed = frame[frame["beyond_noise"] & (frame["change"] != 0)]
    shown = [site for site in dict.fromkeys(changed["site"]) if site != TOTAL][:MOST_ROWS]
    rows = [_row(site, frame[frame["site"] == site].set_index("figure")) for site in (TOTAL, *shown)]
    used = [at for at in range(len(FIGURES) + 1) if at < 4 or any(row[at].text for row in rows)]
    columns = ["change at call site", *("\n".join(wrap(label, 12)) for label in FIGURES.values())]
    table = Table("", [columns[at] for at in used], [[row[at] for at in used] for row in rows])
    sentences = _sentences(changed)
    caveats = [OF_LIFETIMES] if any("lifetime" in text for text in sentences) or len(FIGURES) in used else []
    caveats += [] if frame["noise"].notna().any() else ["Noise is not known: --old and --new take more recordings."]
    if not set(frame["site"]) - {TOTAL, UNKNOWN}:
        caveats.append(f"{NO_STACKS}.")
    caveats += _lacks_names(old, new)
    left = len(set(changed["site"])) - 1 - len(shown)
    caveats += [f"{counted(left, 'more call site')} changed: --json."] * (left > 0)
    return Screen(f"{about}.", table, sentences, caveats, more)


def _lacks_names(old: Version, new: Version) -> list[str]:
    """The module without symbols that most allocations come through, and of which version, if not of both."""
    shares = pd.DataFrame({at: _nameless(one) for at, one in enumerate((old, new))}).fillna(0)
    if not len(shares) or shares.to_numpy().max() < LEAST_PERCENT:
        return []
    worst = shares.max(axis=1).idxmax()
    lacking = [one.name for one, share in zip((old, new), shares.loc[worst]) if share >= LEAST_PERCENT]
    what = f"{printable(worst)} has no symbols"
    if len(lacking) == 1:
        what += f" in {printable(lacking[0])}, so its call sites match none of the other's"
    else:
        what += ", so its call sites are told apart only by what calls it"
    return [f"{what}: record builds with symbols, or install its debug package."]


def _nameless(one: Version) -> pd.Series:
    """Percent of the allocations by module without symbols that is in their call site."""
    objects = pd.concat([sites["objects"] for sites in one.sites])
    rows = [
        (Path(name.removesuffix(NAMELESS)).name, made)
        for site, made in objects.items()
        for name in {part for part in str(site).split(" < ") if part.endswith(NAMELESS)}
    ]
    found = pd.DataFrame(rows, columns=["module", "objects"]).groupby("module")["objects"].sum()
    return 100 * found / max(objects[[TOTAL]].sum(), 1)


def _sentences(changed: pd.DataFrame) -> list[str]:
    """For each figure that changed as a whole, where; the peak first."""
    said = []
    for figure in SAID:
        here = changed[changed["figure"] == figure].sort_values("share_percent", key=abs, ascending=False)
        whole = here[here["site"] == TOTAL]
        sites = here[(here["site"] != TOTAL) & (here["share_percent"].abs() >= LEAST_PERCENT)]
        if whole.empty and sites.empty or (whole["share_percent"].abs() < LEAST_PERCENT).all() and sites.empty:
            continue
        text = f"{FIGURES[figure].capitalize()}: "
        if len(whole) and whole["old"].iloc[0]:
            text += percent(whole["share_percent"].iloc[0])
        else:
            text += f"{TEXTS[figure](whole['new'].iloc[0])}, was 0" if len(whole) else "the same in all"
        places = [f"{signed(row.change, TEXTS[figure])} at {printable(row.site)}" for row in sites.head(2).itertuples()]
        said.append("; ".join([text, *places]) + ".")
    return said or ["No change beyond noise, or of 1 % or more."]


def _row(site: str, here: pd.DataFrame) -> list[Cell]:
    cells = [Cell(printable(site))]
    for figure in FIGURES:
        row = here.loc[figure]
        small = not row["beyond_noise"] or abs(row["share_percent"]) < LEAST_PERCENT
        text = signed(row["change"], TEXTS[figure]) if row["beyond_noise"] and row["change"] else ""
        cells.append(Cell(text, row["change"] if text else None, good=None if small else row["change"] < 0))
    return cells
