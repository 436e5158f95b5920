# SPDX-License-Identifier: MIT
"""Who holds the memory: for `heaptape blame` as text, JSON and files."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from heaptape.common.errors import HeaptapeError
from heaptape.common.output import records, write_bytes
from heaptape.common.phrases import NO_STACKS, calls_replayed
from heaptape.common.tables import Table
from heaptape.features.blame import data as blame_data
from heaptape.features.blame import holders, proposals
from heaptape.features.blame import pass_table as blame
from heaptape.features.blame.data import UNHELD, Blame, exit_begins, position_at
from heaptape.features.profile import flame_graph
from heaptape.results.schema import Results
from heaptape.tape.stack_names import Frame

WEIGHTS: flame_graph.Weights = {
    "held": ("rounding and empty share", "held_bytes", "bytes"),
    "alone": ("freed if only this site were gone", "alone_bytes", "bytes"),
    "live": ("live", "live_bytes", "bytes"),
}


@dataclass(frozen=True)
class Holder:
    """One allocator's "blame" in one results file. `label`: its name in the output; `source`: the file's name; `calls`:
    how many, in words.
    """

    label: str
    allocator: str
    source: str
    found: Blame
    calls: str


@dataclass(frozen=True)
class View:
    """What is shown: one position, or two to be compared; empty `by`: the groupings that each recording allows."""

    holders: Sequence[Holder]
    places: Sequence[str]
    by: tuple[str, ...] = ()

    def groupings(self, holder: Holder) -> tuple[str, ...]:
        """Raises HeaptapeError for a grouping that the recording does not allow."""
        for grouping in self.by:
            holders.require(holder.found, grouping)
        return self.by or holders.usual_groupings(holder.found)


def of_results(file: Results, allocators: Sequence[str] | None = None, name: str | None = None) -> list[Holder]:
    """The holders of each allocator of the file, or of the named ones. `name`: the file's name among several files.
    Raises HeaptapeError if it has none.
    """
    there = blame_data.of_allocators(file)
    if not there:
        raise HeaptapeError(f"{file.path}: no run says who holds the memory: replay it with --passes blame")
    unknown = [label for label in allocators or () if label not in there]
    if unknown and not (set(allocators or ()) & set(there)):
        raise HeaptapeError(f"{file.path}: {unknown[0]} is not in it: there are {', '.join(there)}")
    wanted = [label for label in there if not allocators or label in allocators]
    calls = calls_replayed(file.workload.ops or 0, file.workload.witness)
    return [Holder(label, label, name or file.name, there[label], calls) for label in wanted]


def _several_sources(found: Sequence[Holder]) -> bool:
    return len({holder.source for holder in found}) > 1


def _named(found: Sequence[Holder]) -> list[Holder]:
    """The holders with the file in the label, where there are several files."""
    if not _several_sources(found):
        return list(found)
    return [dataclasses.replace(holder, label=f"{holder.source}, {holder.allocator}") for holder in found]


def sentences(view: View) -> list[str]:
    """A sentence per allocator, and one on recordings without call stacks."""
    out: list[str] = []
    exits: list[int] = []
    for holder in _named(view.holders):
        position = position_at(holder.found, view.places[-1])
        verdict = holders.verdict(holder.found, position).sentence
        out.append(f"{holder.label}, at {blame.where_text(view.places[-1], position)}: {verdict}.")
        begins = exit_begins(holder.found)
        if begins is not None and view.places[-1] == "widest":
            exits.append(begins)
    if exits:  # each is one of that allocator's positions
        later = "heaptape blame --at end shows what is left"
        out.append(f"From about op {min(exits):,} on the program only frees, as at its exit: {later}.")
    lacking = [holder.source for holder in view.holders if holders.without_stacks(holder.found)]
    if lacking and not view.by:
        names = f"{', '.join(dict.fromkeys(lacking))}: " if _several_sources(view.holders) else ""
        out.append(f"{names}{NO_STACKS}. By thread, size and age instead.")
    return out


def tables(view: View) -> dict[str, list[Table]]:
    """By kind: groups, states, time; change: between two positions, else from the first holder."""
    named = _named(view.holders)
    groups = [
        blame.pinners(holder.found, holder.label, where, position_at(holder.found, where), name)
        for holder in named
        for where in view.places
        for name in view.groupings(holder)
    ]
    groups = [dataclasses.replace(table, notes=[]) for table in groups[:-1]] + groups[-1:]
    positions = {holder.label: position_at(holder.found, view.places[-1]) for holder in named}
    return {
        "groups": groups,
        "states": [blame.by_state({holder.label: holder.found for holder in named}, positions)],
        "time": [blame.over_time(holder.found, holder.label, view.groupings(holder)[0]) for holder in named],
        "change": differences(view),
    }


def differences(view: View) -> list[Table]:
    """Changes between two positions; else between the two files, or the first allocator and each other one."""
    named = _named(view.holders)
    if len(view.places) == 2:
        pairs = [(holder, view.places[0], holder, view.places[1]) for holder in named]
    elif _several_sources(named):
        first = named[0].source
        left = {holder.allocator: holder for holder in named if holder.source == first}
        right = [holder for holder in named if holder.source != first and holder.allocator in left]
        pairs = [(left[holder.allocator], view.places[0], holder, view.places[0]) for holder in right]
    else:
        pairs = [(named[0], view.places[0], other, view.places[0]) for other in named[1:]]
    return [table for pair in pairs for table in _difference(view, *pair)]


def _difference(view: View, one: Holder, at_one: str, other: Holder, at_other: str) -> Iterable[Table]:
    groupings = [name for name in view.groupings(one) if name in view.groupings(other)]
    names = (at_one, at_other) if one is other else (one.label, other.label)
    title = f"{one.label}: from {at_one} to {at_other}" if one is other else f"From {names[0]} to {names[1]}"
    for grouping in groupings:
        sides = [
            holders.at_position(side.found, side.label, position_at(side.found, where), grouping)
            for side, where in ((one, at_one), (other, at_other))
        ]
        yield blame.side_by_side(holders.difference(*sides), *names, grouping, f"{title}, by {grouping}")


def estimates(view: View) -> pd.DataFrame:
    """`proposals.estimates` of all allocators at the (last) position."""
    parts = [
        proposals.estimates(holder.found, holder.allocator, position_at(holder.found, view.places[-1]))
        for holder in view.holders
    ]
    return pd.concat(parts, ignore_index=True)


def positions(view: View) -> dict[str, int]:
    """The (last) position, by allocator."""
    return {holder.allocator: position_at(holder.found, view.places[-1]) for holder in view.holders}


def promising(view: View, holder: Holder) -> pd.DataFrame:
    """`proposals.promising` of one allocator, at the (last) position."""
    position = position_at(holder.found, view.places[-1])
    return proposals.promising(proposals.estimates(holder.found, holder.allocator, position))


def as_json(view: View, tried: pd.DataFrame | None = None) -> dict:
    """The same figures for other programs: bytes, not rounded. `tried`: from `proposals.tried`."""
    out = []
    for holder in view.holders:
        place = position_at(holder.found, view.places[-1])
        verdict = holders.verdict(holder.found, place)
        rows = [
            holders.at_position(holder.found, holder.allocator, position_at(holder.found, where), grouping)
            for where in view.places
            for grouping in view.groupings(holder)
        ]
        out.append({
            "source": holder.source, "allocator": holder.allocator, "position": place, "kind": verdict.kind,
            "sentence": verdict.sentence, "lacks": list(holder.found.lacks),
            "groups": records(pd.concat(rows, ignore_index=True)),
            "states": records(holders.states(holder.found, place)),
            "over_time": records(holder.found.positions),
            "proposals": records(promising(view, holder)),
        })  # fmt: skip
    found = {"tried": records(tried)} if tried is not None else {}
    return {"holders": out} | found


def flame(found: Sequence[Holder], where: str, title: str) -> str:
    """A flame graph of what the call sites hold at a position, as SVG text; several allocators below one root. Raises
    HeaptapeError if no recording has call stacks.
    """
    trees = trees_of(found, where)
    if not trees:
        raise HeaptapeError(f"--flame: {NO_STACKS[:1].lower()}{NO_STACKS[1:]}")
    return rendered(trees, title)


def trees_of(found: Sequence[Holder], where: str) -> dict[str, flame_graph.Node]:
    """By allocator, for recordings that have call stacks."""
    return {holder.label: _tree(holder, where) for holder in found if not holders.without_stacks(holder.found)}


def rendered(trees: Mapping[str, flame_graph.Node], title: str) -> str:
    if len(trees) == 1:
        return flame_graph.render(next(iter(trees.values())), title, "held", WEIGHTS)
    top = flame_graph.Node("all")
    for label, tree in trees.items():
        top.add(tree.weights)
        tree.name = label
        top.below[label, ""] = tree
    return flame_graph.render(top, title, "held", WEIGHTS)


def _tree(holder: Holder, where: str) -> flame_graph.Node:
    rows = holders.at_position(holder.found, holder.label, position_at(holder.found, where), "site")
    sites = rows[rows["kind"] != UNHELD].rename(columns={"number": "node"})
    others = Frame("others", None, 0, None, 0)

    def stack(node: int) -> Iterable[Frame]:
        return [others] if node < 0 else holder.found.sites[node].frames if node in holder.found.sites else []

    return flame_graph.tree(sites, stack, "all", WEIGHTS)


def write_graph(files: Sequence[Results], found: Sequence[Holder], grouping: str, path: str) -> None:
    """Writes memory over progress, coloured by group; the file name's ending determines the format."""
    import io

    from heaptape.features.blame import figures as memory_figures  # with matplotlib: 0.4 s
    from heaptape.show.figures import axes as plots

    figure = memory_figures.figure_holders(files[0], [holder.allocator for holder in found], grouping)
    if figure is None:
        raise HeaptapeError("no memory was attributed, so there is nothing to draw")
    out = io.BytesIO()
    plots.saved(figure, out, format=path.rpartition(".")[2], dpi=150)
    write_bytes(path, out.getvalue())


def of_report(file: Results, order: Sequence[str]) -> View | None:
    """All allocators but those of experiments, at the widest gap."""
    there = blame_data.of_allocators(file)
    calls = calls_replayed(file.workload.ops or 0, file.workload.witness)
    known = [label for label in order if label in there and label not in file.experiment_labels]
    found = [Holder(label, label, file.name, there[label], calls) for label in known]
    return View(found, ["widest"]) if found else None


def inline(drawn: str) -> str:
    """Removes name spaces, which look like URLs: an SVG inside a page needs none."""
    return drawn.replace(' xmlns="http://www.w3.org/2000/svg"', "").replace(' xmlns="http://www.w3.org/1999/xhtml"', "")
