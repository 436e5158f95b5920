# SPDX-License-Identifier: MIT
"""The distributions to draw from: the profile's tables (docs/formats/PROFILE_JSON.md), checked, as arrays.

Births are the calls that acquire a new object; moves are reallocs of live objects. The profile has sizes for the whole
run and bytes for each window, so births are distributed over windows such that both match (`spread`).
"""

from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np

from heaptape.common.checked import checked

ROUNDS = 30  # of fitting births to sizes and windows
STEEPEST = 20.0  # power of the size by which a window's sizes may differ from the whole run's
AGES = 64
REALLOCS = ("realloc", "reallocarray")
NonNegative = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
Rows = Annotated[list[Annotated[list[NonNegative], msgspec.Meta(min_length=3)]], msgspec.Meta(max_length=1 << 20)]


class _Witness(msgspec.Struct):
    live_at_end: NonNegative = 0
    live_bytes_at_end: NonNegative = 0


class _Reallocs(msgspec.Struct):
    calls: NonNegative = 0
    chains: Rows = []


class _Profile(msgspec.Struct):
    """The parts of a profile that are read. `line_sharing`, sites and lifetimes in ns are not used."""

    ops: Annotated[int, msgspec.Meta(ge=1, lt=1 << 62)]
    windows: Annotated[list[Annotated[list[NonNegative], msgspec.Meta(min_length=8)]], msgspec.Meta(min_length=1)]
    sizes: dict[str, Rows]
    lifetimes_bytes: Rows
    program: str | None = None
    threads: Annotated[int, msgspec.Meta(ge=0, le=1 << 20)] = 1
    thread_pairs: Rows = []
    pairs_left_out: NonNegative = 0
    touched: Rows = []
    reallocs: _Reallocs = msgspec.field(default_factory=_Reallocs)
    witness: _Witness = msgspec.field(default_factory=_Witness)


@dataclass(frozen=True)
class Kinds:
    """Births of one call and size bucket, by index: call's number in `calls`, mean size in bytes, number of births."""

    calls: tuple[str, ...]
    call: np.ndarray
    size_bytes: np.ndarray
    births: np.ndarray


@dataclass(frozen=True)
class Windows:
    """Parts of the progress: births of each kind (a matrix, windows by kinds), calls without an object, and live
    objects and bytes after each.
    """

    births: np.ndarray
    others: np.ndarray
    live_objects: np.ndarray
    live_bytes: np.ndarray


@dataclass(frozen=True)
class Distributions:
    """`ages`: kinds by age buckets, the share of each kind's births that are released at that age; the rest up to 1 is
    not released. `chains`: rows of moves, share of births, first bytes, last bytes. `pairs`: rows of acquiring thread,
    releasing thread, objects. `touched`: rows of least size, touched OS pages per byte. `born_share`: share of births
    in all allocated bytes; needed as ages also count the bytes of moves.
    """

    program: str | None
    ops: int
    threads: int
    kinds: Kinds
    windows: Windows
    ages: np.ndarray
    chains: np.ndarray
    pairs: np.ndarray
    touched: np.ndarray
    born_share: float
    lacks: tuple[str, ...]


def distributions(path: str, data: object) -> Distributions:
    """The distributions of a profile's JSON; `path`: its name in errors. Raises HeaptapeError if it isn't a profile."""
    profile = checked(path, data, _Profile)
    kinds = _kinds(profile)
    births = max(float(kinds.births.sum()), 1.0)
    chains = [
        [moves, objects / births, first / objects, last / objects] for moves, objects, first, last in _chains(profile)
    ]
    pairs = np.array([row[:3] for row in profile.thread_pairs if row[2]], np.int64).reshape(-1, 3)
    return Distributions(
        profile.program or None,
        profile.ops,
        max(profile.threads, 1),
        kinds,
        _windows(profile, kinds),
        _ages(profile, kinds),
        np.array(chains, float).reshape(-1, 4),
        pairs if len(pairs) else np.array([[0, 0, 1]]),
        _touched(profile),
        _born_share(profile, kinds),
        _lacks(profile),
    )


def _chains(profile: _Profile) -> list[list[int]]:
    return [row[:4] for row in profile.reallocs.chains if len(row) > 3 and row[0] and row[1]]


def _kinds(profile: _Profile) -> Kinds:
    """Kinds of births. Reallocs of live objects are not births: they are subtracted evenly from realloc's sizes."""
    reallocs = sum(row[1] for name in REALLOCS for row in profile.sizes.get(name, []))
    born = 1 - min(profile.reallocs.calls / reallocs, 1.0) if reallocs else 1.0
    calls = tuple(profile.sizes)
    rows = [
        (number, row[2] / row[1], row[1] * (born if name in REALLOCS else 1.0))
        for number, name in enumerate(calls)
        for row in profile.sizes[name]
        if row[1]
    ]
    call, size, births = np.array(rows, float).reshape(-1, 3).T
    kept = births >= 0.5
    return Kinds(calls, call[kept].astype(int), np.rint(size[kept]).astype(np.int64), births[kept])


def _windows(profile: _Profile, kinds: Kinds) -> Windows:
    table = np.array([row[:8] for row in profile.windows], float)
    _, _, ops, acquires, releases, acquired_bytes, live_bytes, live_objects = table.T
    objects = np.append(live_objects[1:], profile.witness.live_at_end)
    bytes_ = np.append(live_bytes[1:], profile.witness.live_bytes_at_end)
    births = np.clip(releases + objects - live_objects, 0, acquires)
    reallocs = [row for name in REALLOCS for row in profile.sizes.get(name, [])]
    mean_move = sum(row[2] for row in reallocs) / max(sum(row[1] for row in reallocs), 1)
    born_bytes = np.maximum(acquired_bytes - (acquires - births) * mean_move, births)
    others = np.maximum(ops - acquires - releases, 0)
    return Windows(spread(kinds.births, kinds.size_bytes, births, born_bytes), others, objects, bytes_)


def spread(births: np.ndarray, sizes: np.ndarray, of_window: np.ndarray, bytes_of_window: np.ndarray) -> np.ndarray:
    """Births of each window and kind: sums over windows are `births`, over kinds about `of_window`, and bytes about
    `bytes_of_window`. Of all such tables the nearest to independence, with a power of the size per window.
    """
    if not len(births):
        return np.zeros((len(of_window), 0))
    logs = np.log(np.maximum(sizes, 1.0))
    logs -= logs.mean()
    table = np.outer(of_window, births) / max(births.sum(), 1.0)
    column = births / max(births.sum(), 1.0)
    for _ in range(ROUNDS):
        table = _tilted(column, logs, sizes, of_window, bytes_of_window)
        sums = table.sum(axis=0)
        column = column * np.where(sums > 0, births / np.where(sums > 0, sums, 1.0), 1.0)
    return table * (births / np.maximum(table.sum(axis=0), 1e-300))


def _tilted(
    column: np.ndarray, logs: np.ndarray, sizes: np.ndarray, of_window: np.ndarray, bytes_: np.ndarray
) -> np.ndarray:
    """Rows of `column` times the power of the size that gives each window its bytes; all by one bisection."""
    wanted = bytes_ / np.maximum(of_window, 1.0)
    low, high = np.full(len(of_window), -STEEPEST), np.full(len(of_window), STEEPEST)
    for _ in range(24):
        middle = (low + high) / 2
        weights = _weights(column, logs, middle)
        more = weights @ sizes < wanted
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return _weights(column, logs, (low + high) / 2) * of_window[:, None]


def _weights(column: np.ndarray, logs: np.ndarray, power: np.ndarray) -> np.ndarray:
    exponents = np.log(np.maximum(column, 1e-300)) + power[:, None] * logs
    weights = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def _ages(profile: _Profile, kinds: Kinds) -> np.ndarray:
    """Ages of each kind, from the released objects of the nearest size."""
    found: dict[int, np.ndarray] = {}
    for size, age, objects, *_ in profile.lifetimes_bytes:
        found.setdefault(size, np.zeros(AGES))[age.bit_length() if age < 1 << (AGES - 1) else AGES - 1] += objects
    shares = np.zeros((len(kinds.births), AGES))
    if not found:
        return shares
    lower = np.array(sorted(found))
    place = np.maximum(np.searchsorted(lower, kinds.size_bytes, "right") - 1, 0)
    born = np.bincount(place, kinds.births, len(lower))
    for kind, nearest in enumerate(place):
        released = found[int(lower[nearest])]
        shares[kind] = released / max(released.sum(), born[nearest])
    return shares


def _touched(profile: _Profile) -> np.ndarray:
    rows = [row[:4] for row in profile.touched if len(row) > 3 and row[2]]
    return np.array([[size, os_pages / bytes_] for size, _, bytes_, os_pages in sorted(rows)], float).reshape(-1, 2)


def _born_share(profile: _Profile, kinds: Kinds) -> float:
    allocated = sum(row[2] for rows in profile.sizes.values() for row in rows)
    return min(float(kinds.births @ kinds.size_bytes) / allocated, 1.0) if allocated else 1.0


def _lacks(profile: _Profile) -> tuple[str, ...]:
    """Properties that all profiles lack, and those that this one lacks."""
    lacks = ["order", "reuse", "alignments", "kinds of release", "failed calls and those of free(NULL) apart"]
    lacks += ["touched OS pages"] * (not profile.touched)
    lacks += ["times of threads"] * (profile.threads > 1)
    lacks += ["pairs of threads"] * bool(profile.pairs_left_out)
    lacks += ["live objects at the end"] * (profile.witness.live_at_end == 0 and profile.windows[-1][7] > 0)
    return tuple(lacks)
