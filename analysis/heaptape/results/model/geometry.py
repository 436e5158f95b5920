# SPDX-License-Identifier: MIT
"""The caches and TLBs of a machine, fitted to the simulator.

The simulator needs a power of two of sets. A size for which the machine's ways don't give one keeps its bytes (or
entries) and gets the nearest number of ways that does.
"""

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

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
        """The geometry as options of `heaptape-replay --pass misses` and `heaptape-observe --simulate`."""
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
