# SPDX-License-Identifier: MIT
"""The pass `blame`: who holds resident memory, decoded, and as one tidy table (docs/use/BLAME.md defines the terms).

The objects live in an OS page share its empty bytes; an OS page without live objects has no holder. So the rows of one
position and grouping add up to RSS, and their rounding and empty bytes to RSS less live bytes, to the byte: a file in
which they don't is refused.
"""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from heaptape.common.errors import HeaptapeError
from heaptape.results import structs
from heaptape.results.schema import Results
from heaptape.results.structs import Run
from heaptape.tape.embedded import inflated
from heaptape.tape.stack_names import Frame

GROUPINGS = ("site", "function", "thread", "size", "phase", "age")
# Figures of each group, as the pass writes them; the first four are sums, os_pages is a number.
FIGURES = (
    "objects", "live_bytes", "rounding_bytes", "empty_bytes", "os_pages", "alone_bytes", "alone_empty_bytes",
)  # fmt: skip
ROWS = ("at", "grouping", "group", "groups", *FIGURES)
# Resident memory without an object: its number among the groups, column of the position, name.
OTHERS, BEYOND = -1, -2
NOBODY = {
    -3: ("empty_bytes", "empty pages not returned"),
    -4: ("never_used_bytes", "pages never used"),
    -5: ("beside_table_bytes", "metadata and other"),
}
PLACES = (
    "position", "rss_anon_bytes", "live_bytes", "live_objects", "live_resident_bytes", "rounding_bytes",
    "beside_live_bytes", "empty_bytes", "never_used_bytes", "beside_table_bytes",
)  # fmt: skip
COLUMNS = (
    "allocator", "position", "grouping", "group", "number", "kind", "objects", "live_bytes", "rounding_bytes",
    "empty_bytes", "alone_bytes", "os_pages", "alone_empty_bytes",
)  # fmt: skip
# Kinds of a row of the tidy table.
GROUP, REST, UNHELD = "group", "others", "nobody"
# The engine's own RSS is subtracted, and before Linux 6.17 the kernel's figure lags: both may be below 0.
SIGNED = ("rss_anon_bytes", "beside_table_bytes")
LEFT_AT_EXIT, LONGEST_EXIT = 0.05, 0.1
MAX_RAW_BYTES = 1 << 29
LARGEST = 1 << 47


@dataclass(frozen=True)
class Site:
    """A call stack that acquired objects: its name, its frames, innermost first, the number of its function,
    and how many objects it acquired in the whole recording (None: not known).
    """

    name: str
    frames: tuple[Frame, ...]
    function: int = 0
    births: int | None = None


@dataclass(frozen=True)
class Blame:
    """A run's "blame", decoded. positions: a row per attributed position, columns PLACES (int64), `why` (words, joined
    by commas) and walk_STATE_bytes and so on for each state of `walk_states`. groups: columns ROWS, int64. `marks`:
    names, by position; `threads`: names of the threads that have one. `sampled`: ops that the program had made at even
    steps of the time in which it was recorded; empty where that is not known.
    """

    os_page_bytes: int
    lacks: tuple[str, ...]
    positions: pd.DataFrame
    groupings: tuple[str, ...]
    groups: pd.DataFrame
    sites: Mapping[int, Site]
    functions: Mapping[int, str]
    marks: tuple[tuple[int, str], ...]
    threads: Mapping[int, str]
    walk_states: tuple[str, ...]
    sampled: tuple[float, ...]

    def name(self, grouping: str, number: int) -> str:
        """A group's name, for people. Several groups may have the same name; numbers are unique."""
        if number in NOBODY:
            return NOBODY[number][1]
        if number < 0:
            return "others" if number == OTHERS else "beyond the pass's tables"
        return _NAMES[grouping](self, number)


def _site_name(found: Blame, number: int) -> str:
    return found.sites[number].name if number in found.sites else f"site {number}"


def _thread_name(found: Blame, number: int) -> str:
    return f"thread {number}" + (f" ({found.threads[number]})" if number in found.threads else "")


def size_last(number: int) -> int:
    """The largest request of the size group."""
    return number + (max(1 << (number.bit_length() - 3), 1) if number >= 4 else 1) - 1


def _size_name(found: Blame, number: int) -> str:
    last = size_last(number)
    return f"{number:,} bytes" if last == number else f"{number:,} to {last:,} bytes"


def _phase_name(found: Blame, number: int) -> str:
    return "start" if number == 0 else found.marks[number - 1][1] if number <= len(found.marks) else f"phase {number}"


def _age_name(found: Blame, number: int) -> str:
    last = max(2 * number - 1, number)
    return f"{number:,} ops" if last == number else f"{number:,} to {last:,} ops"


_NAMES = {
    "site": _site_name,
    "function": lambda found, number: found.functions.get(number, f"function {number}"),
    "thread": _thread_name,
    "size": _size_name,
    "phase": _phase_name,
    "age": _age_name,
}


def of_allocators(file: Results) -> dict[str, Blame]:
    """By allocator (label): who holds the memory in its first run of the pass. Raises HeaptapeError for a malformed one
    or one that does not add up.
    """
    sampled = [row[0] for row in file.workload.recorded or []]
    return file.decoded("blame", lambda run: decode(run, sampled))


def holding(file: Results, by: str | None = None) -> pd.DataFrame:
    """Who holds the memory, one row per allocator, position, grouping (all, or `by`) and group: columns
    COLUMNS; bytes. For each allocator, position and grouping, rounding_bytes and empty_bytes add up to RSS less live
    bytes. Empty if no run had the pass. Raises like `of_allocators`.
    """
    groupings = (by,) if by else GROUPINGS
    frames = [tidy(found, name, groupings) for name, found in of_allocators(file).items()]
    return pd.concat(frames, ignore_index=True) if frames else nothing()


def largest(held: pd.DataFrame, most: int) -> list[int]:
    """Of one grouping's rows of `holding`: the numbers of the groups that hold most over all positions."""
    groups = held[held["kind"] == GROUP]
    sizes = groups[["live_bytes", "rounding_bytes", "empty_bytes"]].sum(axis=1).groupby(groups["number"]).sum()
    return [int(number) for number in sizes.sort_values(ascending=False, kind="stable").index[:most]]


def decode(run: Run, sampled: Sequence[float] = ()) -> Blame | None:
    """`sampled`: Blame's. None if the run has none. Raises HeaptapeError if it is malformed, or does not add up."""
    table = run.blame
    if table is None:
        return None
    try:
        positions = _positions(table.positions or [])
        lacks, sites, functions, marks, threads = _origins(table)
        groupings, groups = _groups(table, len(positions))
        found = Blame(
            _at_least_one(table.os_page_bytes), lacks, positions, groupings, groups, sites, functions, marks,
            threads, _walked(positions), tuple(sampled),
        )  # fmt: skip
        _check_sums(found)
        return found
    except (KeyError, TypeError, ValueError, OverflowError, zlib.error) as error:
        raise HeaptapeError(f"the blame of {run.allocator} can't be read: {error}") from error


def _positions(rows: list[dict]) -> pd.DataFrame:
    words = [",".join(map(str, row.get("why") or [])) for row in rows]
    keys = [*PLACES, *sorted({key for row in rows for key in row if key.startswith("walk_")})]
    values = {key: np.array([_whole(row[key], signed=key in SIGNED) for row in rows], np.int64) for key in keys}
    if (np.diff(values["position"]) <= 0).any():
        raise ValueError("its positions don't rise")
    return pd.DataFrame(values).assign(why=words)


def _whole(value: object, signed: bool = False) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not (-LARGEST if signed else 0) <= value <= LARGEST:
        raise ValueError(f"{value!r} is not a number of bytes, objects or ops")
    return value


def _at_least_one(value: object) -> int:
    if not _whole(value):
        raise ValueError("OS pages of no bytes")
    return int(str(value))


def _groups(table: structs.Blame, positions: int) -> tuple[tuple[str, ...], pd.DataFrame]:
    """The known groupings, and their rows."""
    columns, groupings = table.columns or [], table.groupings or []
    if table.encoding != "zlib+base64" or not set(ROWS) <= set(columns) or len(set(columns)) != len(columns):
        raise ValueError("unknown encoding or columns")
    if len(set(groupings)) != len(groupings):
        raise ValueError("a grouping named twice")
    raw = inflated(table.values or "", MAX_RAW_BYTES)
    if len(raw) != 8 * len(columns) * _whole(table.rows):
        raise ValueError("not as many values as announced")
    values = np.frombuffer(raw, "<i8").reshape(len(columns), -1)
    frame = pd.DataFrame(dict(zip(columns, values)))[list(ROWS)]
    figures = frame[[*FIGURES, "groups"]]
    if ((figures < 0) | (figures > LARGEST)).any(axis=None) or not frame["group"].between(BEYOND, LARGEST).all():
        raise ValueError("a figure is out of range")
    if not frame["at"].between(0, positions - 1).all() or not frame["grouping"].between(0, len(groupings) - 1).all():
        raise ValueError("a row of no position or grouping")
    if frame.duplicated(["at", "grouping", "group"]).any():
        raise ValueError("a group is there twice")
    frame["grouping"] = [groupings[number] for number in frame["grouping"]]
    known = tuple(name for name in GROUPINGS if name in groupings)
    return known, frame[frame["grouping"].isin(known)].reset_index(drop=True)


def _origins(table: structs.Blame) -> tuple:
    """lacks, sites, functions, marks, threads."""
    frames = [
        Frame(one.function, one.file, _whole(one.line or 0), one.module, int(one.offset or "0", 16))
        for one in table.frames or []
    ]
    sites = {_number(number): _site(site, frames) for number, site in (table.sites or {}).items()}
    functions = {_number(number): name for number, name in (table.functions or {}).items()}
    marks = tuple((_whole(mark.position), _named(mark.name)) for mark in table.marks or [])
    threads = {_whole(thread.thread): _named(thread.name) for thread in table.threads or []}
    return tuple(table.lacks or []), sites, functions, marks, threads


def _site(site: structs.BlameSite, frames: Sequence[Frame]) -> Site:
    stack = tuple(_at(frames, index) for index in site.frames or [])
    return Site(_named(site.name), stack, _whole(site.function), None if site.births is None else _whole(site.births))


def _named(name: str | None) -> str:
    if name is None:
        raise ValueError("a name is missing")
    return name


def _at(frames: Sequence[Frame], index: object) -> Frame:
    number = _whole(index)
    if number >= len(frames):
        raise ValueError("a frame that is not there")
    return frames[number]


def _number(key: str) -> int:
    return _whole(int(key))


def _walked(positions: pd.DataFrame) -> tuple[str, ...]:
    ending = "_beside_live_bytes"
    return tuple(
        name.removeprefix("walk_").removesuffix(ending)
        for name in positions.columns
        if name.startswith("walk_") and name.endswith(ending)
    )


def _check_sums(found: Blame) -> None:
    places = found.positions
    whole = places[["live_resident_bytes", "rounding_bytes", "beside_live_bytes"]]
    unheld = places[[column for column, _ in NOBODY.values()]].sum(axis=1)
    if (whole.sum(axis=1) + unheld != places["rss_anon_bytes"]).any():
        raise ValueError("the parts of RSS don't add up to it")
    every = pd.MultiIndex.from_product([range(len(places)), found.groupings])
    figures = ["live_bytes", "rounding_bytes", "empty_bytes"]
    sums = found.groups.groupby(["at", "grouping"])[figures].sum().reindex(every, fill_value=0)
    held = np.repeat(whole.to_numpy(), len(found.groupings), axis=0)
    wrong = np.flatnonzero((sums.to_numpy() != held).any(axis=1))
    if len(wrong):
        at, grouping = every[int(wrong[0])]
        position = places["position"].iloc[at]
        raise ValueError(f"by {grouping}, at position {position}, groups don't add up to what is held")


def tidy(found: Blame, allocator: str, groupings: Iterable[str] = GROUPINGS, only: int | None = None) -> pd.DataFrame:
    """A row per position (or for the position `only`), grouping and group, columns COLUMNS. `kind`: "group"; "others":
    small groups together; "nobody": resident memory without an object, under `empty_bytes`. For each position and
    grouping, live, rounding and empty bytes add up to RSS, rounding and empty bytes to RSS less live bytes.
    """
    groupings = tuple(groupings)
    position = found.positions["position"].to_numpy()
    chosen = found.groups["grouping"].isin(groupings)
    if only is not None:
        chosen &= found.groups["at"] == int(np.searchsorted(position, only))
    wanted = found.groups[chosen]
    names = {
        key: found.name(*key)
        for key in wanted[["grouping", "group"]].drop_duplicates().itertuples(index=False, name=None)
    }
    rows = wanted.assign(
        position=position[wanted["at"].to_numpy()] if len(wanted) else [],
        number=wanted["group"],
        group=[names[key] for key in zip(wanted["grouping"], wanted["group"])],
        kind=np.where(wanted["group"] < 0, REST, GROUP),
    )
    there = pd.MultiIndex.from_product(
        [position if only is None else [only], [name for name in found.groupings if name in groupings]],
        names=["position", "grouping"],
    ).to_frame(index=False)
    whole = pd.concat([rows, _unheld(found, there)], ignore_index=True).assign(allocator=allocator)
    order = ["position", "grouping"]
    return whole.sort_values(order, kind="stable")[list(COLUMNS)].reset_index(drop=True)


def nothing() -> pd.DataFrame:
    """An empty `tidy`: the columns, with their types, and no rows."""
    texts = ("allocator", "grouping", "group", "kind")
    return pd.DataFrame({name: pd.Series(dtype=object if name in texts else "int64") for name in COLUMNS})


def _unheld(found: Blame, there: pd.DataFrame) -> pd.DataFrame:
    """The rows of memory without a holder: for each entry of NOBODY, one for each position and grouping."""
    columns = [column for column, _ in NOBODY.values()]
    values = there.merge(found.positions[["position", *columns]], on="position")
    empty = values[columns].to_numpy().T.ravel()
    number = np.repeat(list(NOBODY), len(values))
    figures = dict.fromkeys(("objects", "live_bytes", "rounding_bytes", "alone_bytes", "alone_empty_bytes"), 0)
    return pd.DataFrame(
        {
            "position": np.tile(values["position"], len(NOBODY)),
            "grouping": np.tile(values["grouping"], len(NOBODY)),
            "empty_bytes": empty,
            "os_pages": np.where(number == min(NOBODY), 0, empty // found.os_page_bytes),
            "group": np.repeat([name for _, name in NOBODY.values()], len(values)),
            "number": number,
            "kind": UNHELD,
            **figures,
        }
    )


def exit_begins(found: Blame) -> int | None:
    """The position after which the program only releases, down to less than LEFT_AT_EXIT of its peak of live bytes,
    as a process does when it ends: within LONGEST_EXIT of its time, where that is known. None if it does not. Live
    bytes between two positions are not known.
    """
    live = found.positions["live_bytes"].to_numpy()
    if not len(live) or live[-1] >= LEFT_AT_EXIT * live.max():
        return None
    first = len(live) - 1
    while first > 0 and live[first - 1] > live[first]:
        first -= 1
    begins = int(found.positions["position"].iloc[first])
    stayed = sum(position > begins for position in found.sampled) > LONGEST_EXIT * len(found.sampled)
    return begins if first < len(live) - 1 and not stayed else None


def widest(found: Blame) -> int:
    """The (first) position at which RSS is most above live bytes, before the program's exit begins."""
    begins = exit_begins(found)
    places = found.positions if begins is None else found.positions[found.positions["position"] <= begins]
    excess = places["rss_anon_bytes"] - places["live_resident_bytes"]
    return int(places["position"].iloc[int(excess.to_numpy().argmax())])


def position_at(found: Blame, where: str) -> int:
    """The position that `where` names: widest (RSS is most above live bytes), peak, live-peak, end, a number, or a
    mark. Raises HeaptapeError if it was not attributed.
    """
    if found.positions.empty:
        raise HeaptapeError("nothing was attributed: no positions")
    if where == "widest":
        return widest(found)
    places = found.positions
    if where in ("peak", "live-peak", "end"):
        rows = places[[where.replace("-", "_") in words.split(",") for words in places["why"]]]
    elif where.isdecimal():
        rows = places[places["position"] == int(where)]
    else:
        marked = [position for position, name in found.marks if name == where]
        if not marked:
            raise HeaptapeError(f"no mark '{where}': {_known_marks(found)}")
        rows = places[places["position"] == marked[0]]
    if rows.empty:
        raise HeaptapeError(f"nothing was attributed at {where}: replay with --at {where}")
    return int(rows["position"].iloc[0])


def _known_marks(found: Blame) -> str:
    names = list(dict.fromkeys(name for _, name in found.marks))
    return f"there are {', '.join(names[:8])}" if names else "the recording has no marks"
