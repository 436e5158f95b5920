# SPDX-License-Identifier: MIT
"""Who holds the memory, beside another allocator or file, and what to try about it: the tables of the pass blame."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from heaptape.common.tables import MIB, MISSING, Cell, Table
from heaptape.features.blame import data as blame_data
from heaptape.features.blame import holders
from heaptape.features.blame.data import GROUP, UNHELD, Blame, position_at
from heaptape.passes import PassTable
from heaptape.results.schema import Results

MOST_ROWS = 12
NAME_LETTERS = 40
SIDES = ("one", "other")
# Below this, tables are in KiB.
SMALL_BYTES = 4 * MIB
WHERE = {
    "widest": "where RSS is most above live bytes",
    "peak": "where RSS is largest",
    "live-peak": "where live bytes are largest",
    "end": "at the end",
}
PINNERS_NOTE = (
    "empty share: the empty bytes of each OS page, shared equally among the objects in it. alone: memory that is freed "
    "if only this group is: OS pages without other objects. The last column is rounding and empty share."
)


@dataclass(frozen=True)
class Unit:
    name: str
    size_bytes: int

    def text(self, value: float, sign: str = "") -> str:
        return f"{value / self.size_bytes:{sign},.{2 if self.size_bytes == MIB else 1}f}"

    def cell(self, value: float | None, sign: str = "") -> Cell:
        return Cell(MISSING) if value is None or pd.isna(value) else Cell(self.text(value, sign), float(value))


def unit_of(largest_bytes: float) -> Unit:
    return Unit("MiB", MIB) if largest_bytes >= SMALL_BYTES else Unit("KiB", 1024)


def where_text(where: str, position: int) -> str:
    """A position in words: its op, and the name by which the user gave it."""
    asked = WHERE.get(where, "" if where.isdecimal() else f"at mark {where}")
    return f"op {position:,}" + (f", {asked}" if asked else "")


def pinners(found: Blame, label: str, where: str, position: int, grouping: str) -> Table:
    """The groups that hold most, all other groups in one row, and memory without a holder."""
    rows = holders.at_position(found, label, position, grouping)
    at = found.positions[found.positions["position"] == position].iloc[0]
    groups, unheld = rows[rows["kind"] != UNHELD], rows[(rows["kind"] == UNHELD) & (rows["held_bytes"] != 0)]
    named = groups[groups["kind"] == GROUP]
    shown = named[
        (named["share"] >= holders.LEAST_SHOWN) | (named["live_bytes"] >= holders.LEAST_SHOWN * at["rss_anon_bytes"])
    ]
    shown = shown.head(MOST_ROWS)
    rest = groups.drop(shown.index)
    unit = unit_of(at["rss_anon_bytes"])
    lines = [_pinner(unit, _numbered(grouping, row), row) for _, row in shown.iterrows()]
    if len(rest):
        lines.append(_pinner(unit, "all others", rest.sum(numeric_only=True).drop("alone_bytes"), muted=True))
    lines += [
        _pinner(unit, row["group"], row.drop(["objects", "alone_bytes"]), muted=True) for _, row in unheld.iterrows()
    ]
    rss, live = unit.text(at["rss_anon_bytes"]), unit.text(at["live_resident_bytes"])
    place = where_text(where, position)
    title = f"{label}: by {grouping}, at {place}: RSS {rss} {unit.name}, live {live} {unit.name}"
    columns = [grouping, "objects", f"live, {unit.name}", "rounding", "empty share", "alone", "% of RSS − live"]
    return Table(title, columns, lines, [PINNERS_NOTE])


def _numbered(grouping: str, row: pd.Series) -> str:
    """A group's name; of a site with the number for use in commands, as two sites may have one name."""
    name = str(row["group"])
    return _cut(f"#{row['number']} {name}" if grouping == "site" else name)


def _cut(name: str, letters: int = NAME_LETTERS) -> str:
    return name if len(name) <= letters else name[: letters - 1] + "…"


def _pinner(unit: Unit, name: str, row: pd.Series, muted: bool = False) -> list[Cell]:
    figures = [unit.cell(row.get(key)) for key in ("live_bytes", "rounding_bytes", "empty_bytes", "alone_bytes")]
    objects = row.get("objects")
    count = Cell(MISSING) if objects is None else Cell(f"{objects:,.0f}", float(objects))
    share = row["share"]
    percent = Cell(MISSING) if pd.isna(share) else Cell(f"{100 * share:,.1f}", 100 * float(share))
    return [Cell(name, muted=muted), count, *figures, percent]


def by_state(found: Mapping[str, Blame], positions: Mapping[str, int]) -> Table:
    """Where resident memory that is not live is, a pair of columns per allocator."""
    frames = {
        label: holders.states(blame, positions[label]).set_index("state")["bytes"] for label, blame in found.items()
    }
    names = list(dict.fromkeys(name for states in frames.values() for name in states.index))
    # Each allocator's states in their own order, with those of a walk at their places.
    names.sort(key=_state_place)
    unit = unit_of(max(states.sum() for states in frames.values()))
    rows = []
    for name in names:
        values = [(states.get(name), states.sum()) for states in frames.values()]
        rows.append([Cell(name), *(cell for value, whole in values for cell in _state(unit, value, whole))])
    sums = [states.sum() for states in frames.values()]
    whole = [cell for value in sums for cell in (unit.cell(value), Cell("100" if value else MISSING))]
    columns = ["RSS − live, by state", *(text for label in frames for text in (f"{label}, {unit.name}", "%"))]
    return Table("What is resident and not live", columns, [*rows, [Cell("all"), *whole]])


def _state_place(name: str) -> int:
    order = ("rounding", "in partly", "in empty", "in OS pages never", "metadata")
    return next(place for place, beginning in enumerate(order) if name.startswith(beginning))


def _state(unit: Unit, value: float | None, whole: float) -> list[Cell]:
    if value is None:
        return [Cell(MISSING), Cell(MISSING)]
    percent = Cell(MISSING) if not whole else Cell(f"{100 * value / whole:,.1f}", 100 * value / whole)
    return [unit.cell(value), percent]


def over_time(found: Blame, label: str, grouping: str) -> Table:
    """A row per position: RSS, live bytes, memory without a holder, and who holds most besides live bytes."""
    frame = holders.over_time(found, grouping)
    unit = unit_of(frame["rss_anon_bytes"].max())
    rows = [
        [
            Cell(f"{row['position']:,}", row["position"]),
            *(unit.cell(row[key]) for key in ("rss_anon_bytes", "live_bytes", "beside_live_bytes", "empty_bytes")),
            Cell("; ".join(_held(unit, grouping, *held) for held in row["holders"]) or MISSING),
        ]
        for _, row in frame.iterrows()
    ]
    columns = [
        "op",
        f"RSS, {unit.name}",
        "live",
        "partly filled",
        "empty",
        f"who holds most that is not live, by {grouping}",
    ]
    return Table(f"{label}: over time", columns, rows)


def _held(unit: Unit, grouping: str, number: int, name: str, value: float) -> str:
    """A group with its bytes; a site by its number and the innermost function that has a name."""
    if grouping != "site":
        return f"{name} {unit.text(value)}"
    functions = name.split(" < ")
    named = [function for function in functions if "+0x" not in function] or functions
    return f"#{number} {named[0]} {unit.text(value)}"


def side_by_side(frame: pd.DataFrame, one: str, other: str, grouping: str, title: str) -> Table:
    """A frame of `holders.difference` as a table: groups with their bytes on both sides, the largest changes first."""
    whole = max(frame[[f"{figure}_{side}" for figure in ("live_bytes", "held_bytes")]].sum().sum() for side in SIDES)
    unit = unit_of(whole)
    rows = []
    changed = frame[frame["change_bytes"].abs() > holders.LEAST_SHOWN / 10 * whole]
    for _, row in changed.head(MOST_ROWS).iterrows():
        pairs = [unit.cell(row[f"{figure}_{side}"]) for figure in ("live_bytes", "held_bytes") for side in SIDES]
        change = unit.cell(row["change_bytes"], "+")
        rows.append([Cell(_cut(str(row["group"]), 34), muted=row["kind"] != GROUP), *pairs, change])
    figures = [f"{what} {label}" for what in (f"live, {unit.name}:", "not live:") for label in (one, other)]
    columns = [grouping, *figures, "change"]
    total = float(frame["change_bytes"].sum())
    rest = int((frame["change_bytes"] != 0).sum()) - min(len(changed), MOST_ROWS)
    notes = [f"{rest:,} more differ by less."] if rest > 0 else []
    return Table(title, columns, [*rows, [Cell("all"), *[Cell("")] * 4, unit.cell(total, "+")]], notes)


NAMES = ("workload", "one", "other", "grouping")


@dataclass(frozen=True)
class Side:
    """A run's blame, its label here, and the position to show."""

    label: str
    found: Blame
    where: str

    def rows(self, grouping: str) -> pd.DataFrame:
        """`holders.at_position`."""
        return holders.at_position(self.found, self.label, position_at(self.found, self.where), grouping)


def experiments(file: Results, where: str = "peak") -> pd.DataFrame:
    """Like `frame`: each experiment of `heaptape whatif` beside its original, each at its own position `where`. A
    position by number is the trace's, mapped to the experiment's.
    """
    there, parts = blame_data.of_allocators(file), []
    for about in file.parsed.whatif or []:
        mapped = {str(place): str(other) for place, other in about.positions}
        for original, label in about.labels.items():
            if original in there and label in there:
                one = Side(original, there[original], where)
                other = Side(label, there[label], mapped.get(where, where))
                parts.append(_difference(file.name, one, other))
    return _joined(parts)


def frame(files: Sequence[Results], baseline: str) -> pd.DataFrame:
    """Columns NAMES and those of `holders.difference`: for each file's experiments beside their originals, its other
    allocators beside the baseline; and if there are two files, for each allocator that is in both. In bytes, where RSS
    is largest. Empty if no run had the pass blame.
    """
    return _joined([*map(experiments, files), *(_difference(*pair) for pair in _pairs(files, baseline))])


def _pairs(files: Sequence[Results], baseline: str) -> Iterator[tuple[str, Side, Side]]:
    for file in files:
        there = blame_data.of_allocators(file)
        others = [label for label in there if label not in {baseline, *file.experiment_labels}]
        for label in others if baseline in there else []:
            yield file.name, Side(baseline, there[baseline], "peak"), Side(label, there[label], "peak")
    if len(files) == 2:
        one, other = map(blame_data.of_allocators, files)
        for label in [label for label in one if label in other]:
            sides = [Side(f"{file.path}, {label}", held[label], "peak") for file, held in zip(files, (one, other))]
            yield files[0].name, sides[0], sides[1]


def _difference(workload: str, one: Side, other: Side) -> pd.DataFrame:
    grouping = holders.best_grouping(one.found, other.found)
    found = holders.difference(one.rows(grouping), other.rows(grouping))
    return found.assign(workload=workload, one=one.label, other=other.label, grouping=grouping)


def _joined(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    if not parts:
        return pd.DataFrame(columns=[*NAMES, *holders.DIFFERENCE_COLUMNS])
    return pd.concat(parts, ignore_index=True)[[*NAMES, *holders.DIFFERENCE_COLUMNS]]


def tables(found: pd.DataFrame, where: str = "peak") -> list[Table]:
    place = WHERE.get(where, f"at op {where}" if where.isdecimal() else f"at mark {where}")
    out = []
    for (_, one, other, grouping), rows in found.groupby(list(NAMES), sort=False):
        title = f"Who holds the memory {place}: from {one} to {other}"
        out.append(side_by_side(rows, "before", "after", grouping, title))
    return out


NOTE = (
    "expected: from figures of the blame pass (docs/use/BLAME.md). left empty: additional empty pages that "
    "the allocator has not returned; together with the saving they were expected to be freed."
)


def ranking(tried: pd.DataFrame) -> Table:
    """A table of `proposals.tried`: what was expected and found, the best first."""
    unit = unit_of(tried["rss_bytes"].max())
    columns = ["allocator", "experiment", f"saved, {unit.name}: expected", "found", "left empty"]
    for what in ("of peak:", "of mean:"):
        columns += [f"{what} expected", "found"]
    return Table(
        "What the experiments saved, the best first",
        [*columns, "instr., %"],
        [_row(unit, row) for _, row in tried.iterrows()],
        [_places(tried), NOTE],
        2,
    )


def _row(unit: Unit, row: pd.Series) -> list[Cell]:
    figures = [
        unit.cell(row[key])
        for key in (
            "saving_bytes", "found_saving_bytes", "found_left_bytes", "peak_saving_bytes", "found_peak_saving_bytes",
            "mean_saving_bytes", "found_mean_saving_bytes",
        )
    ]  # fmt: skip
    percent = row["instructions_percent"]
    instructions = Cell(MISSING) if pd.isna(percent) else Cell(f"{percent:+.2f}", float(percent))
    return [Cell(row["allocator"]), Cell(row["experiment"]), *figures, instructions]


def _places(tried: pd.DataFrame) -> str:
    places = tried.drop_duplicates("allocator").sort_values("allocator")
    return f"saved: of RSS at op {', '.join(f'{row.position:,} ({row.allocator})' for row in places.itertuples())}."


TABLE = PassTable(frame, lambda found, _: tables(found), report=lambda file: tables(experiments(file)), in_all=False)
