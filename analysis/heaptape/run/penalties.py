# SPDX-License-Identifier: MIT
"""The costs of misses, faults and instructions on this machine: measured once by heaptape-machine, and kept."""

import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.common.output import write_text
from heaptape.results.model.geometry import Geometry, Level, machine_geometry
from heaptape.results.model.penalties import cache_file, geometry_of, kept, penalties, plan
from heaptape.run import machine

ROUNDS = 30
TIMEOUT_S = 600


def known() -> dict[str, Any] | None:
    """The kept measurement of this processor model, if there is one."""
    return kept(str(machine.describe()["cpu"] or "") or None)


def measure(home: Home, rounds: int = ROUNDS, path: Path | None = None) -> dict[str, Any]:
    """Measures this machine and keeps the result in `path` (default: the user's cache). Returns it. It is not an error
    if `path` can't be written. Raises HeaptapeError if the program fails or a figure is missing.
    """
    program = home.program("machine")
    geometry = machine_geometry(_tlbs(program))
    sets, pages = plan([Geometry(), geometry])
    arguments = ["--working-sets", ",".join(map(str, sets)), "--os-pages", ",".join(map(str, pages))]
    before = machine.describe()
    measured = _run([str(program), *arguments, "--rounds", str(rounds)])
    measured |= {
        "cpu": before["cpu"],
        "kernel_release": before["kernel"],
        "cores": before["cores"],
        "load_before": before["load_before"],
        "created_unix_s": round(time.time()),
        "geometry": {
            "caches": [{"bytes": level.capacity, "ways": level.ways} for level in geometry.caches],
            "tlbs": [{"entries": level.capacity, "ways": level.ways} for level in geometry.tlbs],
        },
    }
    penalties(measured)
    place = path or cache_file()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_text(str(place), json.dumps(measured, indent=1) + "\n")
    except (OSError, HeaptapeError):
        pass
    return measured


def of_this_machine(home: Home) -> dict[str, Any]:
    """The kept measurement, else a new one, which takes a few seconds."""
    return known() or measure(home)


def for_passes(passes: Sequence[str], home: Home) -> dict[str, Any] | None:
    """The measurement that results of these passes carry: for the pass misses this machine's, made if none is kept; for
    the pass instructions only a kept one; for other passes None. None also if this machine can't be measured.
    """
    if "misses" not in passes and "instructions" not in passes:
        return None
    try:
        return of_this_machine(home) if "misses" in passes else known()
    except HeaptapeError:
        return None


def measured_geometry() -> Geometry | None:
    """This machine's caches and TLBs, if it was measured."""
    measured = known()
    return geometry_of(measured) if measured else None


def own_geometry(home: Home) -> Geometry:
    """This machine's caches and TLBs, fitted to the simulator."""
    return machine_geometry(_tlbs(home.program("machine")))


def _tlbs(program: Path) -> list[Level]:
    """TLBs from CPUID; none on a processor that does not report them."""
    found = _run([str(program), "--sizes"])
    return [Level(int(one["entries"]), int(one["ways"])) for one in found.get("tlbs", [])]


def _run(command: list[str]) -> dict[str, Any]:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise HeaptapeError(f"measuring this machine took more than {TIMEOUT_S} s") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise HeaptapeError(lines[-1] if lines else f"heaptape-machine: status {done.returncode}")
    try:
        found = json.loads(done.stdout)
    except ValueError as error:
        raise HeaptapeError(f"heaptape-machine gave no JSON: {error}") from error
    if not isinstance(found, dict):
        raise HeaptapeError("heaptape-machine gave no JSON object")
    return found
