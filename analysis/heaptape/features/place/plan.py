# SPDX-License-Identifier: MIT
"""Placement plans: which call sites of a program are served from which region (docs/use/PLACE.md has the format)."""

import json
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from heaptape.common.checked import read_toml
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.tape.trace import Trace

VERSION = 1
VARIABLE, LIBRARY = "HEAPTAPE_PLACE", "libheaptape-place.so"  # the plan's path, for the library
MOST_REGIONS, MOST_SITES, MOST_DEPTH, MOST_FRAMES, MOST_FIRST = 14, 512, 64, 4096, 128  # of place/*.[ch]
ORIGINS_JSON = struct.Struct("<Q")  # its bytes, at offset 48 (docs/formats/ORIGINS.md)
FRAME = re.compile(r"[0-9a-f]{2,128}\+0x[0-9a-f]{1,16}")


@dataclass(frozen=True)
class PlacedSite:
    """`frames`: innermost first, BUILDID+0xOFFSET. `function`: for people."""

    region: int
    frames: tuple[str, ...]
    function: str = ""


@dataclass(frozen=True)
class Plan:
    """`program`: the file name of the recorded executable. `predicted`: figures, for people."""

    sites: tuple[PlacedSite, ...]
    program: str = ""
    predicted: Mapping[str, str | int] = field(default_factory=dict)


def library(home: Home) -> Path:
    """Raises HeaptapeError if it is not built."""
    found = home.library(LIBRARY)
    if found is None:
        raise HeaptapeError(f"{LIBRARY} is missing: run 'make'")
    return found.resolve()


def write(plan: Plan) -> str:
    """The plan as TOML, as far as the library reads it."""
    lines = ["# heaptape run --place THIS -- CMD", f"version = {VERSION}", f"program = {_text(plan.program)}"]
    if plan.predicted:
        lines += ["", "[predicted]", *(f"{key} = {_value(value)}" for key, value in plan.predicted.items())]
    for site in plan.sites:
        lines += ["", "[[site]]", f"region = {site.region}", f"function = {_text(site.function)}", "frames = ["]
        lines += [*(f"  {_text(frame)}," for frame in site.frames), "]"]
    return "\n".join(lines) + "\n"


def read(path: Path) -> Plan:
    """Raises HeaptapeError that names the file and what is wrong."""
    table = read_toml(path)
    try:
        if table["version"] != VERSION:
            raise ValueError(f"version {table['version']} is not known")
        sites = tuple(_site(one) for one in table["site"])
        if not 0 < len(sites) <= MOST_SITES:
            raise ValueError("no site, or too many")
        return Plan(sites, str(table.get("program", "")), table.get("predicted", {}))
    except KeyError as error:
        raise HeaptapeError(f"{path}: is not a placement plan: {error} is missing") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise HeaptapeError(f"{path}: is not a placement plan: {error}") from None


def _site(table: Mapping) -> PlacedSite:
    frames = tuple(table["frames"])
    if not 0 < len(frames) <= MOST_DEPTH or not all(FRAME.fullmatch(frame) for frame in frames):
        raise ValueError(f"wrong frames {frames}")
    if table["region"] not in range(1, MOST_REGIONS + 1):
        raise ValueError(f"region {table['region']}")
    return PlacedSite(table["region"], frames, str(table.get("function", "")))


def _text(text: str) -> str:
    """A TOML string without escapes."""
    return '"' + "".join(letter if letter.isprintable() and letter not in '"\\' else "?" for letter in text) + '"'


def _value(value: str | int) -> str:
    return str(value) if isinstance(value, int) else _text(value)


# --- call sites of a recording ---


@dataclass(frozen=True)
class Site:
    """A call site of a recording. `frames`: as in a plan, innermost first, up to the first without a build id.
    `function`, `where`: of the function that names it.
    """

    number: int
    name: str
    function: int
    where: str
    births: int
    frames: tuple[str, ...]


def sites_of(trace: Trace, origins: Path) -> dict[int, Site]:
    """The recording's call sites by number. `origins`: the file beside its workload. Raises HeaptapeError without call
    stacks.
    """
    with origins.open("rb") as file:
        file.seek(48)
        (length,) = ORIGINS_JSON.unpack(file.read(ORIGINS_JSON.size))
        file.seek(-length, 2)
        table = json.loads(file.read())
    nodes = trace.stacks()
    if nodes.empty:
        raise HeaptapeError(f"{trace.path}: has no call stacks: record with --stacks")
    frames, parents = _frames(nodes, trace.modules()), [0, *nodes["parent"].tolist()]
    names = table["functions"]
    found = {}
    for number, site in enumerate(table["sites"]):
        if site["stack"]:
            where = _where(names[site["function"]], [table["frames"][index] for index in site["frames"]])
            stack = _stack(site["stack"], parents, frames)
            found[number] = Site(number, site["name"], site["function"], where, site["births"], stack)
    return found


def _where(name: str, frames: Sequence[Mapping]) -> str:
    frame = next((one for one in frames if one.get("function") == name and one.get("file")), None)
    return f"{name} ({Path(frame['file']).name}:{frame.get('line', 0)})" if frame else name


def _frames(nodes: pd.DataFrame, modules: pd.DataFrame) -> list[str]:
    """The frame of each node; empty where its module has no build id. FORMAT.md, 4a, says which module is whose."""
    instruction, known = nodes["instruction"].to_numpy(np.uint64), nodes["modules"].to_numpy()
    of = np.full(len(nodes), -1)
    for at, module in enumerate(modules.itertuples()):
        inside = (instruction >= np.uint64(module.start)) & (instruction < np.uint64(module.end))
        of[inside & ((at < known) | (of < 0))] = at
    ids, bias = modules["build_id"].tolist(), modules["bias"].tolist()
    return [""] + [
        f"{ids[at]}+{int(address) - int(bias[at]):#x}" if at >= 0 and isinstance(ids[at], str) else ""
        for at, address in zip(of, instruction)
    ]


def _stack(node: int, parents: Sequence[int], frames: Sequence[str]) -> tuple[str, ...]:
    found: list[str] = []
    while node and frames[node] and len(found) < MOST_DEPTH:
        found.append(frames[node])
        node = parents[node]
    return tuple(found)


# --- from sites to a plan and back ---


def placed(sites: Mapping[int, Site], regions: Sequence[Iterable[int]]) -> tuple[tuple[PlacedSite, ...], list[int]]:
    """The sites of each region with as few frames as tell them from all other call sites; and the sites that can't be
    told apart, or are too many.
    """
    region_of = {number: region for region, numbers in enumerate(regions, 1) for number in numbers}
    seen: dict[tuple[str, ...], set[int]] = {}
    for number, site in sites.items():
        for depth in range(1, len(site.frames) + 1):
            seen.setdefault(site.frames[:depth], set()).add(region_of.get(number, 0))
    found: dict[tuple[str, ...], PlacedSite] = {}
    left_out, first, frames = [], set[str](), 0
    for number in sorted(region_of, key=lambda one: -sites[one].births):
        site = sites[number]
        depths = range(1, len(site.frames) + 1)
        prefix = next((site.frames[:d] for d in depths if seen[site.frames[:d]] == {region_of[number]}), None)
        if prefix in found:
            continue
        if (
            prefix is None
            or len(found) == MOST_SITES
            or frames + len(prefix) > MOST_FRAMES
            or len(first | {prefix[0]}) > MOST_FIRST
        ):
            left_out.append(number)
            continue
        first.add(prefix[0])
        frames += len(prefix)
        found[prefix] = PlacedSite(region_of[number], prefix, site.where)
    return tuple(found.values()), left_out


def regions_in(sites: Mapping[int, Site], plan: Sequence[PlacedSite]) -> list[list[int]]:
    """Which of a recording's sites the plan's regions serve; regions that serve none are left out."""
    region_of = {site.frames: site.region for site in plan}
    found: dict[int, list[int]] = {}
    for number, site in sites.items():
        prefixes = (site.frames[:depth] for depth in range(1, len(site.frames) + 1))
        region = next((region_of[prefix] for prefix in prefixes if prefix in region_of), 0)
        if region:
            found.setdefault(region, []).append(number)
    return [found[region] for region in sorted(found)]
