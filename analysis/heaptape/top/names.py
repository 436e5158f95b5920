# SPDX-License-Identifier: MIT
"""Names of sites: each frame is looked up once, by `heaptape-convert names`, when it is first seen."""

import json
import re
import subprocess
from typing import Any

from heaptape.common.home import Home
from heaptape.top.recording import Counts, Recording

CALLERS = 3  # functions in a site's name
PARAMETERS = re.compile(r"(?<!^)(?<!:)(?<!operator)\((?!anonymous namespace\)).*$")  # of a C++ function's name


class Names:
    """Names of frames by process, as far as they were looked up."""

    def __init__(self, home: Home, recording: Recording) -> None:
        self._home, self._recording = home, recording
        self._frames: dict[int, dict[int, list[dict[str, Any]]]] = {}

    def of_sites(self, process: Counts) -> dict[int, str]:
        """Node -> name, for the sites of a reading."""
        known = self._frames.setdefault(process["pid"], {})
        sites = process.get("sites", [])
        unknown = sorted({frame for site in sites for frame in site["frames"]} - known.keys())
        if unknown:
            modules = self._recording.modules(process["pid"])
            known.update(zip(unknown, look_up(self._home, modules, unknown), strict=True))
        return {site["node"]: site_name([known[frame] for frame in site["frames"]]) for site in sites}


def look_up(home: Home, modules: list[dict[str, Any]], instructions: list[int]) -> list[list[dict[str, Any]]]:
    """The functions of each instruction, innermost first; empty where they can't be looked up."""
    done = subprocess.run(
        [str(home.program("convert")), "names", "-"],
        input=json.dumps({"modules": modules, "instructions": instructions}),
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        return [[] for _ in instructions]
    names: list[list[dict[str, Any]]] = json.loads(done.stdout)["names"]
    return names


def site_name(frames: list[list[dict[str, Any]]]) -> str:
    """The function that requested memory and its callers; wrappers, which only return what they allocate, are left out
    unless there are only wrappers.
    """
    functions = [function for frame in frames for function in frame if function.get("function") or "module" in function]
    while len(functions) > 1 and functions[0].get("wrapper"):
        functions = functions[1:]
    return " < ".join(_called(function) for function in functions[:CALLERS])


def _called(function: dict[str, Any]) -> str:
    name = function.get("function")
    if not name:
        return f"{function['module']}+{function.get('offset', '0x0')}"
    return PARAMETERS.sub("", str(name))
