# SPDX-License-Identifier: MIT
"""What an instruction, a miss, a page fault and a system call cost on a machine, each as a range in ns.

From the measurement of heaptape-machine. The low end is of independent chains of loads, the high end of dependent ones,
less the time of a hit in the first level. A program's loads are between them, so the middle is their geometric mean.
Misses in OS pages that were just used have a separate range, from the same chains within few OS pages at a time; so
have misses in order of address: from a walk in that order to independent chains. Chains over more memory than a program
touches are not used for its misses. A page fault costs at least its first touch, at most also giving the OS page back.
"""

import json
import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from heaptape.common.errors import HeaptapeError
from heaptape.results.model.costs import Costs, Described, Kernel, Loading, Quantiles, Strings, WorkingSet
from heaptape.results.structs import SYSTEM_CALLS  # any other costs between the cheapest and the most expensive of them

Row = TypeVar("Row")
Part = TypeVar("Part")
_Column = Callable[[WorkingSet], Quantiles]

# The caches and TLBs of a machine, fitted to the simulator.
#
# The simulator needs a power of two of sets. A size for which the machine's ways don't give one keeps its bytes (or
# entries) and gets the nearest number of ways that does.
LINE_BYTES = 64
CACHE_FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")
ODD_LIMIT = 128  # ways that a simulated cache may have beyond a power of two


@dataclass(frozen=True)
class Level:
    """A cache of `capacity` bytes, or a TLB of `capacity` entries."""

    capacity: int
    ways: int

    def __str__(self) -> str:
        return f"{self.capacity}:{self.ways}"


# The simulator's own levels, which it also has if a machine's sizes are not known.
SIMULATED_CACHES = (Level(32 << 10, 8), Level(256 << 10, 8), Level(1 << 20, 16), Level(32 << 20, 16))
SIMULATED_TLBS = (Level(64, 64), Level(1536, 12))


@dataclass(frozen=True)
class Geometry:
    """Levels from the first outwards, each larger than the one before; `caches` hold data."""

    caches: tuple[Level, ...] = SIMULATED_CACHES
    tlbs: tuple[Level, ...] = SIMULATED_TLBS

    @property
    def texts(self) -> tuple[str, str]:
        return ",".join(map(str, self.caches)), ",".join(map(str, self.tlbs))

    @property
    def options(self) -> list[str]:
        """The geometry as options of `heaptape-replay` and `heaptape-observe --simulate`."""
        caches, tlbs = self.texts
        return ["--caches", caches, "--tlbs", tlbs]


def machine_geometry(tlbs: Sequence[Level] = (), folder: Path = CACHE_FOLDER) -> Geometry:
    """The machine's own sizes, from sysfs, else from getconf, fitted to the simulator. `tlbs`: from CPUID
    (heaptape-machine reads them). Unknown levels are the simulator's own. A last level that processors share counts
    whole.
    """
    found = rising(from_sysfs(folder) or from_getconf())
    known = rising([fitted(level, 1) for level in tlbs])
    caches = tuple(fitted(level, LINE_BYTES) for level in found)
    return Geometry(caches if len(caches) > 1 else SIMULATED_CACHES, known if len(known) > 1 else SIMULATED_TLBS)


def fitted(level: Level, block: int) -> Level:
    """The same capacity with ways that make a power of two of sets; if that would take more than ODD_LIMIT ways, the
    power of two below the capacity. `block`: units of capacity in a line or entry.
    """
    blocks = level.capacity // block
    odd = blocks // (blocks & -blocks)
    if odd > ODD_LIMIT:
        blocks, odd = 1 << (blocks.bit_length() - 1), 1
    ways = [odd << shift for shift in range((blocks // odd).bit_length())]
    wanted = math.log(max(level.ways, 1))
    return Level(blocks * block, min(ways, key=lambda count: abs(math.log(count) - wanted)))


def rising(levels: Sequence[Level]) -> tuple[Level, ...]:
    """The levels sorted by capacity, one for each capacity."""
    return tuple({level.capacity: level for level in sorted(levels, key=lambda level: level.capacity)}.values())


def from_sysfs(folder: Path) -> list[Level]:
    """Data and unified caches of the first processor; none if sysfs does not have them."""
    found = []
    for index in sorted(folder.glob("index*")):
        kind, size, ways = (_text(index / name) for name in ("type", "size", "ways_of_associativity"))
        match = re.fullmatch(r"(\d+)([KM]?)", size)
        if kind in ("Data", "Unified") and match and int(match[1]):
            capacity = int(match[1]) << {"": 0, "K": 10, "M": 20}[match[2]]
            # 0 or nothing means fully associative, but large caches are not.
            found.append(Level(capacity, int(ways) if ways.isdigit() and int(ways) else 16))
    return found


def from_getconf() -> list[Level]:
    """The same from sysconf, which has 0 for unknown values."""
    found = []
    for name in ("LEVEL1_DCACHE", "LEVEL2_CACHE", "LEVEL3_CACHE"):
        try:
            size, ways = os.sysconf(f"SC_{name}_SIZE"), os.sysconf(f"SC_{name}_ASSOC")
        except (ValueError, OSError):
            continue
        if size > 0:
            found.append(Level(size, ways if ways > 0 else 16))
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


SCHEMA = 6
LEAST_NS = 0.001  # a smaller penalty is noise of two nearly equal figures


@dataclass(frozen=True)
class Penalty:
    """Nanoseconds for one event: at least, in the middle, at most."""

    low: float
    middle: float
    high: float

    @staticmethod
    def between(low: float, high: float) -> "Penalty":
        """The range between the two, in either order, with their geometric mean."""
        low, high = sorted((max(low, LEAST_NS), max(high, LEAST_NS)))
        return Penalty(low, math.sqrt(low * high), high)


@dataclass(frozen=True)
class StartUp:
    """While a process starts, code and data are touched for the first time: of an instruction, a page fault, and a
    system call (most map files).
    """

    instruction: Penalty
    page_fault: Penalty
    system_call: Penalty


@dataclass(frozen=True)
class Penalties:
    """`measured`: the raw measurement, with its quantiles. `touched_bytes`: memory that the program touches; larger
    working sets are not used for its misses.
    """

    program_instruction: Penalty
    allocator_instruction: Penalty
    page_fault: Penalty
    system_calls: dict[str, Penalty]
    other_system_call: Penalty
    measured: Costs = field(repr=False)
    string_instruction: Penalty | None = None  # of one line; this and the next: None if measured by an earlier version
    string_byte: Penalty | None = None
    start_up: "StartUp | None" = None
    huge_page: Penalty | None = None  # the fault that the kernel answers with one
    touched_bytes: float = math.inf

    def of_program(self, touched_bytes: float) -> "Penalties":
        """The penalties for a program that touches this many bytes."""
        return replace(self, touched_bytes=touched_bytes)

    def cache_miss(self, inner_bytes: int, outer_bytes: int | None) -> Penalty:
        """For an access that misses a cache of `inner_bytes` and hits the next, of `outer_bytes`; None: memory."""
        return self._miss(inner_bytes, outer_bytes, lambda row: row.independent_ns, lambda row: row.dependent_ns)

    def near_miss(self, inner_bytes: int, outer_bytes: int | None) -> Penalty:
        """The same for an access to an OS page that was just used: prefetchers that watch OS pages may have fetched the
        line. Never more than elsewhere.
        """
        anywhere = self.cache_miss(inner_bytes, outer_bytes)
        near = self._miss(
            inner_bytes, outer_bytes, lambda row: row.near_independent_ns, lambda row: row.near_dependent_ns
        )
        return Penalty.between(min(near.low, anywhere.low), min(near.high, anywhere.high))

    def _miss(self, inner_bytes: int, outer_bytes: int | None, least: _Column, highest: _Column) -> Penalty:
        most = max(self.touched_bytes, 2 * inner_bytes)
        small, large = (min(one, most) for one in working_sets_between(inner_bytes, outer_bytes))
        sets, size = self.measured.working_sets, attrgetter("bytes")
        first = min(sets, key=size)
        low = least(_nearest(sets, size, small)).quarter - least(first).median
        high = highest(_nearest(sets, size, large)).three_quarters - highest(first).median
        return Penalty.between(low, high)

    def sequential_miss(self, inner_bytes: int, outer_bytes: int | None) -> Penalty:
        """The same for an access that continues a stream of lines. The low end is the cost of a line in a walk in order
        of address, where prefetchers leave only the bandwidth; the high end is the least cost of another access, as a
        miss that prefetchers foresee never costs more than one that they don't.
        """
        low = self._miss(inner_bytes, outer_bytes, lambda row: row.stream_ns, lambda row: row.stream_ns).low
        high = self.near_miss(inner_bytes, outer_bytes).low
        return Penalty.between(min(low, high), high)

    def tlb_miss(self, inner_entries: int, outer_entries: int | None) -> Penalty:
        """For an access that misses a TLB of `inner_entries` and hits the next, of `outer_entries`; None: page walk."""
        wanted = os_pages_between(inner_entries, outer_entries)
        row = _nearest(self.measured.os_page_sets, attrgetter("os_pages"), wanted)
        apart, dense = row.one_per_os_page, row.side_by_side
        low = apart.independent_ns.quarter - dense.independent_ns.median
        high = apart.dependent_ns.three_quarters - dense.dependent_ns.median
        return Penalty.between(low, high)

    def cache_steps(self, capacities: Sequence[int]) -> list[Penalty]:
        """For each level (capacities in bytes): the cost of a miss beyond a hit there, if the next level hits. With
        steps, a miss of an outer level can't be cheaper than a hit there, as it could with one range for each level.
        """
        return _steps([self.cache_miss(*pair) for pair in levels(capacities)])

    def near_steps(self, capacities: Sequence[int]) -> list[Penalty]:
        """The same for accesses to OS pages that were just used."""
        return _steps([self.near_miss(*pair) for pair in levels(capacities)])

    def sequential_steps(self, capacities: Sequence[int]) -> list[Penalty]:
        """The same for accesses that continue a stream of lines."""
        return _steps([self.sequential_miss(*pair) for pair in levels(capacities)])

    def tlb_steps(self, entries: Sequence[int]) -> list[Penalty]:
        return _steps([self.tlb_miss(*pair) for pair in levels(entries)])


def _steps(whole: Sequence[Penalty]) -> list[Penalty]:
    inner = [Penalty(0, 0, 0), *whole]
    return [Penalty.between(one.low - less.low, one.high - less.high) for one, less in zip(whole, inner)]


def working_sets_between(inner_bytes: int, outer_bytes: int | None) -> tuple[int, int]:
    """A small and a large working set, in bytes, that miss the inner cache and hit the outer."""
    if outer_bytes is None:
        return 4 * inner_bytes, 4 * inner_bytes
    far = max(outer_bytes // 2, 2 * inner_bytes)
    return min(4 * inner_bytes, far), far


def os_pages_between(inner_entries: int, outer_entries: int | None) -> int:
    """The number of OS pages that miss the inner TLB and hit the outer."""
    if outer_entries is None:
        return 2 * inner_entries
    return round(math.sqrt(inner_entries * outer_entries))


def plan(geometries: Sequence[Geometry]) -> tuple[list[int], list[int]]:
    """What to measure for these geometries: working sets in bytes, and numbers of OS pages."""
    sets, pages = set(), set()
    for geometry in geometries:
        sets.add(geometry.caches[0].capacity // 2)
        for inner, outer in levels([level.capacity for level in geometry.caches]):
            sets |= set(working_sets_between(inner, outer))
        for inner, outer in levels([level.capacity for level in geometry.tlbs]):
            pages.add(os_pages_between(inner, outer))
    return sorted(sets), sorted(pages)


def levels(capacities: Sequence[int]) -> list[tuple[int, int | None]]:
    """Each level with the next outer one; None for the last."""
    return list(zip(capacities, [*capacities[1:], None]))


def checked(measured: object, kind: type[Part]) -> Part:
    """The JSON object of heaptape-machine, or that part of it. Raises HeaptapeError if a needed figure is missing."""
    try:
        return msgspec.convert(measured, kind)
    except msgspec.ValidationError as error:
        raise HeaptapeError(f"the measured costs of a machine lack a figure that the model needs ({error})") from error


def penalties(measured: object) -> Penalties:
    """From the JSON object of heaptape-machine. Raises HeaptapeError if a needed figure is missing."""
    costs = checked(measured, Costs)
    code, kernel = costs.code, costs.kernel
    fast, slow, own = (one.instruction_ns for one in (code.arithmetic, code.interpreter, code.allocator))
    ranges = {name: _quartiles(getattr(kernel, f"{name}_ns")) for name in SYSTEM_CALLS}
    touch, unmapped = kernel.first_touch_ns, kernel.unmapped_page_ns
    return Penalties(
        Penalty.between(fast.quarter, slow.three_quarters),
        Penalty.between(own.quarter, slow.three_quarters),
        Penalty.between(touch.quarter, touch.median + unmapped.median),
        ranges,
        Penalty.between(kernel.getppid_ns.quarter, max(one.high for one in ranges.values())),
        costs,
        *_string_costs(costs.strings),
        _start_up_costs(costs.loading, kernel),
        _quartiles(kernel.huge_touch_ns) if kernel.huge_touch_ns else None,
    )


def _quartiles(of: Quantiles) -> Penalty:
    return Penalty.between(of.quarter, of.three_quarters)


def _string_costs(strings: Strings | None) -> tuple[Penalty | None, Penalty | None]:
    """Of a repeated string instruction, and of each of its bytes: from the cheaper of fill and copy to the other."""
    if not strings:
        return None, None
    start, byte = (
        Penalty.between(min(one.quarter for one in pair), max(one.three_quarters for one in pair))
        for pair in (
            (strings.fill.line_ns, strings.copy.line_ns),
            (strings.fill.byte_ns, strings.copy.byte_ns),
        )
    )
    return start, byte


def _start_up_costs(loading: Loading | None, kernel: Kernel) -> StartUp | None:
    """From loading a library again just after it was unloaded to loading it when it is in no cache: symbol lookups for
    instructions; the rest, less its page faults, for system calls. Of a page fault: from a fresh OS page to a copied
    one, given back at the end.
    """
    if not loading or not kernel.copied_page_ns:
        return None
    faults_ns = loading.faults * kernel.first_touch_ns.median
    warm, cold = loading.mapping_warm_ns.quarter, loading.mapping_cold_ns.three_quarters
    copied = kernel.copied_page_ns.three_quarters + kernel.unmapped_page_ns.median
    return StartUp(
        Penalty.between(loading.warm_ns.quarter, loading.cold_ns.three_quarters),
        Penalty.between(kernel.first_touch_ns.quarter, copied),
        Penalty.between(*((ns - faults_ns) / max(loading.calls, 1) for ns in (warm, cold))),
    )


def geometry_of(machine: Described) -> Geometry | None:
    """The machine's own caches and TLBs, as they were when it was measured."""
    if machine.geometry is None:
        return None
    caches = tuple(Level(one.bytes, one.ways) for one in machine.geometry.caches)
    tlbs = tuple(Level(one.entries, one.ways) for one in machine.geometry.tlbs)
    return Geometry(caches or SIMULATED_CACHES, tlbs or SIMULATED_TLBS)


def cache_file() -> Path:
    folder = os.environ.get("XDG_CACHE_HOME")
    return (Path(folder) if folder else Path.home() / ".cache") / "heaptape" / "machine.json"


def kept(cpu: str | None, path: Path | None = None) -> dict[str, Any] | None:
    """The kept measurement, if it is of that processor model and can be read."""
    try:
        measured = json.loads((path or cache_file()).read_text())
    except (OSError, ValueError, RuntimeError):
        return None
    fits = isinstance(measured, dict) and measured.get("schema") == SCHEMA and cpu and measured.get("cpu") == cpu
    return measured if fits else None


def _nearest(rows: Sequence[Row], size: Callable[[Row], int], wanted: float) -> Row:
    return min(rows, key=lambda row: abs(math.log(size(row) / wanted)))
